"""Which files of a project may be read at all, by their names and what is in them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from etude.mage.keys import holds_keys, is_named_like_keys

MOST_BYTES: Final = {
    ".py": 500_000,
    ".pyi": 500_000,
    ".yaml": 100_000,
    ".yml": 100_000,
    ".toml": 100_000,
    ".cfg": 100_000,
    ".ini": 100_000,
    ".sh": 100_000,
    ".md": 100_000,
    ".rst": 100_000,
    ".txt": 50_000,
    ".json": 20_000,
}
"""What is text that a program is made of, and how large it may be: beyond that it is data."""

CONFIGS: Final = (".yaml", ".yml", ".toml", ".json", ".cfg", ".ini")

FOLDERS: Final = {
    "__pycache__": "a cache",
    "node_modules": "packages",
    "site-packages": "packages",
    "venv": "a virtual environment",
    "env": "a virtual environment",
    "wandb": "results of runs",
    "mlruns": "results of runs",
    "lightning_logs": "results of runs",
}
"""Folders that hold nothing of the project's own; ``env`` counts if it looks like one."""

KEYS: Final = "may hold keys or passwords, by its name"


def why_not_folder(name: str, *, is_environment: bool) -> str:
    """Return why a folder is left out; empty if it is read.

    Args:
        name: Its name.
        is_environment: Whether it holds an interpreter.
    """
    if name.startswith("."):
        return "a hidden folder"
    if is_named_like_keys(name):
        return KEYS
    if is_environment:
        return "a virtual environment"
    if name.endswith(".egg-info"):
        return "packages"
    return FOLDERS.get(name, "") if name != "env" else ""


def why_not_name(path: str, size: int) -> str:
    """Return why a file is left out, by its name and size; empty if it may be read."""
    name = PurePosixPath(path).name
    suffix = PurePosixPath(path).suffix.lower()
    if is_named_like_keys(name):
        return KEYS
    if name.startswith("."):
        return "a hidden file"
    if suffix == ".ipynb":
        return "a notebook, which holds results"
    if suffix not in MOST_BYTES:
        return f"no text that a program is made of ({suffix or 'no ending'})"
    if size > MOST_BYTES[suffix]:
        return f"{size:,} bytes, more than the {MOST_BYTES[suffix]:,} of {suffix} files that are no data"
    return ""


def why_not_content(content: bytes) -> str:
    """Return why a file is left out, by what is in it; empty if it is read."""
    if b"\0" in content:
        return "no text: it has null bytes"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "no UTF-8"
    if holds_keys(content):
        return "holds what looks like a key"
    return ""
