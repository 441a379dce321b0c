"""Where a change may lead: into the project's folder, and nowhere else on any system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from etude.mage.patch.invisible import is_invisible
from etude.mage.patch.refusals import refuse

DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}
)
"""Names that are no files on Windows, whatever their suffix."""
KEPT_BY_GIT: Final = ".git"
_ODD: Final = re.compile(r'[\x00-\x1f\x7f<>:"|?*]')


def why_outside(path: str, known: Iterable[str]) -> str:
    """Return why a path cannot be one of a tree; empty if it can.

    Args:
        path: The path, relative to the project's folder, with slashes.
        known: The paths that are in the tree, and others that are to be.
    """
    return _why_no_path(path) or _why_clash(path, known)


def inside(folder: Path, path: str) -> Path:
    """Return where a path of a tree is on disk.

    Raises:
        PatchRefused: It is no such path, or a symbolic link on the way to it leads elsewhere.
    """
    if why := _why_no_path(path):
        raise refuse(f"{path!r} {why}; nothing applied.", found=path)
    place = folder.resolve()
    for part in path.split("/"):
        place = place / part
        if place.is_symlink():
            raise refuse(
                f"{path!r} leads through the symbolic link {place.relative_to(folder.resolve())}; nothing applied.",
                claim="a change stays in the project's folder",
                found=path,
            )
    return place


def _why_no_path(path: str) -> str:
    parts = path.split("/")
    checks = (
        (not path, "is empty"),
        ("\0" in path, "holds a zero byte"),
        (path.startswith("/"), "is absolute"),
        (re.match(r"[A-Za-z]:", path), "names a drive"),
        ("\\" in path, "has a backslash; folders are parted by slashes"),
        (_ODD.search(path), "has a character that not every system allows in a path"),
        (any(map(is_invisible, path.replace(" ", ""))), "has a character that nobody sees"),
        (".." in parts, "leads out of the project's folder"),
        ("" in parts or "." in parts, "has an empty part, or one that is a dot"),
        (any(part.endswith((".", " ")) for part in parts), "has a part that ends in a dot or a blank"),
        (any(part.partition(".")[0].rstrip().lower() in DEVICES for part in parts), "is the name of a device"),
        (any(_folded(part) == KEPT_BY_GIT for part in parts), "is in the folder that git keeps for itself"),
    )
    return next((why for wrong, why in checks if wrong), "")


def _why_clash(path: str, known: Iterable[str]) -> str:
    """Say whether a system that ignores the case of names would take it for another one."""
    ways = set(_ways(path))
    folded = {_folded(way): way for way in ways}
    for other in known:
        if other == path:
            continue
        if other.startswith(f"{path}/"):
            return f"is a folder: there is {other}"
        for way in _ways(other):
            mine = folded.get(_folded(way))
            if mine is not None and mine != way:
                return f"differs from {way} in the case or the spelling of letters alone"
        if other in ways:
            return f"is in {other}, which is a file"
    return ""


def _ways(path: str) -> list[str]:
    """Return a path and the folders that it is in."""
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _folded(name: str) -> str:
    # What HFS+ and NTFS leave out or take as equal when they look a name up.
    return "".join(c for c in unicodedata.normalize("NFKC", name).casefold() if unicodedata.category(c) != "Cf")
