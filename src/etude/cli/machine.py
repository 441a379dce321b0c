"""Whether this machine can run studies: ``etude doctor``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import typer

from etude.cli.shell import AsJson, Code, print_json

OLDEST_PYTHON: Final = (3, 11)
OLDEST_SQLITE: Final = (3, 37, 0)
"""The first with STRICT tables."""

LEAST_DISK_GB: Final = 1.0
NEEDED: Final = ("cloudpickle", "msgspec", "numpy", "optuna", "rich", "threadpoolctl", "typer")
OPTIONAL: Final = ("torch", "scikit-learn", "pandas", "keras", "lightning", "transformers", "xgboost", "lightgbm")


@dataclass(frozen=True)
class Finding:
    """Something about this machine: what it is, and what is wrong with it if anything is."""

    title: str
    told: str
    problem: str = ""


def doctor(as_json: AsJson = False) -> None:
    """Check whether this machine can run studies."""
    found = [*_software(), *_hardware(), *_studies()]
    problems = [finding for finding in found if finding.problem]
    if as_json:
        print_json({"ok": not problems, "findings": [asdict(finding) for finding in found]})
    else:
        _print(found)
        print("\nStudies can run here." if not problems else f"\n{len(problems)} to mend: see above.")
    if problems:
        raise typer.Exit(Code.STUDY)


def _print(found: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for finding in found:
        mark = Text("problem", style="red") if finding.problem else Text("ok", style="green")
        table.add_row(mark, finding.title, Text(f"{finding.told} {finding.problem}".strip()))
    Console(soft_wrap=True).print(table)


def _software() -> Iterator[Finding]:
    import sqlite3

    from etude import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < OLDEST_PYTHON
    yield Finding("Python", python, "is too old: 3.11 or later is needed." if old else "")
    yield Finding("Étude", __version__)
    missing = [name for name in NEEDED if _version(name) is None]
    needed = ", ".join(f"{name} {_version(name)}" for name in NEEDED if name not in missing)
    yield Finding("packages", needed, f"missing: pip install {' '.join(missing)}" if missing else "")
    optional = [f"{name} {_version(name)}" for name in OPTIONAL if _version(name) is not None]
    yield Finding("frameworks", ", ".join(optional) or "none")
    old = sqlite3.sqlite_version_info < OLDEST_SQLITE
    yield Finding("SQLite", sqlite3.sqlite_version, "is too old: 3.37 or later is needed." if old else "")
    yield Finding("workers", *_worker())


def _worker() -> tuple[str, str]:
    """Return how attempts are started, and what keeps a worker from starting."""
    import subprocess

    how = "attempts are forked"
    if not hasattr(os, "fork") or sys.platform == "darwin":
        how = "attempts are spawned, which is slower than a fork"
    done = subprocess.run(
        [sys.executable, "-c", "import etude.worker.supervisor"], capture_output=True, text=True, check=False
    )
    last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    return how, f"but a worker cannot start: {last[0]}" if done.returncode else ""


def _hardware() -> Iterator[Finding]:
    from etude.store import provenance

    found: Any = provenance.collect()["hardware"]
    yield Finding("cores", f"{found['cores_available']} of {found['cores']}")
    yield Finding("memory", f"{found['memory_gb']} GB" if isinstance(found["memory_gb"], float) else "unknown")
    gpus = found["gpus"] if isinstance(found["gpus"], list) else []
    yield Finding("GPUs", ", ".join(f"{gpu['name']} ({gpu['memory']})" for gpu in gpus) or "none")


def _studies() -> Iterator[Finding]:
    import shutil

    from etude.results.finding import studies_folder
    from etude.store.filesystems import network_kind

    folder = studies_folder().absolute()
    there = next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
    mend = "Free it, or name another place with ETUDE_STUDIES=<folder>."
    yield Finding("studies", str(folder), "" if _is_writable(there) else f"cannot be written. {mend}")
    kind = network_kind(there)
    told = f"{kind}, on a network: journals are kept on this machine's disk and mirrored there" if kind else "local"
    yield Finding("file system", told)
    free_gb = shutil.disk_usage(there).free / 2**30
    yield Finding("free disk", f"{free_gb:.1f} GB", f"is little. {mend}" if free_gb < LEAST_DISK_GB else "")


def _is_writable(folder: Path) -> bool:
    import tempfile

    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=folder):
        return True
    return False


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
