"""Files that somebody edits while a study runs: attempts must not run one text first, and then another.

What a process has imported stays as it is, whatever becomes of the file. So it is only what imports late that has to
look: a template or a spawned child, for all files, and a forked child for those that its template had not imported.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path


def edited(files: Mapping[str, str], *, cwd: str) -> str:
    """Say which file was edited and what to do about it; empty if all are as they were.

    Args:
        files: The sha256 of each file that was read for the study's definition, by its absolute path.
        cwd: The study's working folder.
    """
    for path, sha256 in files.items():
        if is_as_it_was(path, sha256):
            continue
        shown = os.path.relpath(path, cwd) if Path(path).is_relative_to(cwd) else path
        return (
            f"{shown} was changed since the study started. Attempts would run other code than those before, and their "
            "results would not compare. Go back to the earlier text and run the script again, and this study goes on; "
            "or run it again as it is now, which starts a new study if the change matters."
        )
    return ""


def is_as_it_was(path: str, sha256: str) -> bool:
    """Say whether a file is there, byte by byte as it was read for the study's definition."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def not_imported(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files that this process has not imported."""
    if not files:
        return {}
    places = [getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())]
    imported = {os.path.abspath(place) for place in places if isinstance(place, str)}
    return {path: sha256 for path, sha256 in files.items() if path not in imported}
