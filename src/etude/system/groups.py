"""Where this process stands among the control groups of Linux, version 1 or 2."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

CONTROLLERS: Final = ("cpu", "memory")
PROC: Final = Path("/proc")
GROUPS: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Groups:
    """The groups that a process is in.

    Attributes:
        version: Of the control groups; 0 if there are none. In version 1 each controller has groups of its own, in
            version 2 all have the same.
        folders: Controller -> the folder of the group that the process is in, for those asked for that there are. A
            container may see only a part of the tree, whose root then is its group.
    """

    version: int
    folders: Mapping[str, Path] = field(default_factory=dict)


def groups_of(
    pid: int | str = "self",
    *,
    proc: Path = PROC,
    groups: Path = GROUPS,
    controllers: Sequence[str] = CONTROLLERS,
) -> Groups:
    """Return the groups that a process is in; what cannot be read is not there.

    Args:
        pid: The process.
        proc: Where /proc is.
        groups: Where control groups are mounted.
        controllers: Those that are asked for.
    """
    one = any((groups / name).exists() for name in controllers)
    version = 2 if (groups / "cgroup.controllers").exists() else 1 if one else 0
    if version == 0:
        return Groups(0)
    places: dict[str, PurePosixPath] = {}  # controllers, none in version 2 -> where the process is
    for line in text(proc / str(pid) / "cgroup").splitlines():
        _, names, group = line.split(":", 2)
        places |= dict.fromkeys(names.split(","), PurePosixPath("/", group))
    found = {}
    for name in controllers:
        place = places.get(name if version == 1 else "")
        root = groups / name if version == 1 else groups
        if place is not None and (folder := _nearest(root, place)) is not None:
            found[name] = folder
    return Groups(version, found)


def kills_for_memory(folder: Path) -> int:
    """Return how many processes the kernel has killed for memory in a group, of either version; 0 if nobody tells."""
    return counted(folder / "memory.events", "oom_kill") or counted(folder / "memory.oom_control", "oom_kill")


def counted(file: Path, name: str) -> int:
    """Return what a file of a group counts under a name; 0 if nobody tells."""
    for line in text(file).splitlines():
        said, _, count = line.partition(" ")
        if said == name and count.isdecimal():
            return int(count)
    return 0


def text(file: Path) -> str:
    """Return what a small file says, without blanks around it; nothing if it cannot be read."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return file.read_text().strip()
    return ""


def _nearest(root: Path, place: PurePosixPath) -> Path | None:
    """Return the folder of a group, or of the nearest around it."""
    around = (Path(f"{root}{group}") for group in (place, *place.parents))
    return next((folder for folder in around if folder.is_dir()), None)
