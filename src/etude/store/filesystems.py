"""What kind of file system a folder lies on, and where on this machine we may keep things.

SQLite's write-ahead log wants shared memory, and its locks want a file system that keeps them. Network file systems
give neither reliably, so they are recognised: by the number that ``statfs`` has for each kind on Linux, and where that
says nothing (other systems, FUSE), by the kernel's list of mounts.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

NETWORK_KINDS: Final = {
    0x6969: "nfs",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x517B: "smb",
    0x0BD00BD0: "lustre",
    0x00C36400: "ceph",
    0x19830326: "beegfs",
    0x47504653: "gpfs",
    0x01021997: "9p",
    0x5346414F: "afs",
    0x6B414653: "kafs",
    0x73757245: "coda",
    0x7461636F: "ocfs2",
    0x01161970: "gfs2",
    0xAAD7AAEA: "panfs",
}
"""``f_type`` of statfs(2) -> name, for file systems that several machines may have mounted."""

MADE_UP_KINDS: Final = frozenset({0x9FA0, 0x62656572, 0x27E0EB, 0x63677270})
"""``f_type`` of /proc, /sys and control groups, where what looks like files is the kernel speaking."""

FUSE: Final = 0x65735546
"""Anything may be behind it; the list of mounts says what."""

NETWORK_MOUNTS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "beegfs", "ceph", "gpfs", "glusterfs", "9p", "afs"}
)

Statfs = Callable[[Path], int | None]


def network_kind(folder: Path, *, statfs: Statfs | None = None, mounts: str | None = None) -> str:
    """Return the kind of network file system that a folder lies on; empty if it is on a local one.

    Args:
        folder: The folder, which need not exist.
        statfs: Gives the kernel's number for the file system of an existing folder; None if it does not tell.
        mounts: The list of mounts, as ``/proc/mounts`` has it; None to read it there.
    """
    there = nearest_existing(folder)
    number = (statfs or _statfs)(there)
    if number is not None and number != FUSE:
        return NETWORK_KINDS.get(number, "")
    kind = mounted_as(folder, _mounts() if mounts is None else mounts)
    return kind if kind in NETWORK_MOUNTS or kind.startswith("fuse.") else ""


def is_made_up(folder: Path, *, statfs: Statfs | None = None) -> bool:
    """Say whether an existing folder is the kernel's own, such as /proc, and keeps no files."""
    return (statfs or _statfs)(folder) in MADE_UP_KINDS


def nearest_existing(folder: Path) -> Path:
    """Return the nearest thing above a path that exists, links followed; the path itself if it does."""
    there = folder.resolve()
    while not there.exists() and there != there.parent:
        there = there.parent
    return there


def mounted_as(folder: Path, mounts: str) -> str:
    """Return the kind of the mount that a folder is under, as the kernel's list has it; empty if it says nothing."""
    where = folder.resolve()
    kind, depth = "", 0
    for line in mounts.splitlines():
        _, point, this, *_ = line.split()
        place = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))
        if where.is_relative_to(place) and len(place.parts) >= depth:  # a later mount hides an earlier one
            kind, depth = this, len(place.parts)
    return kind


def cache_folder() -> Path:
    """Return where we may keep what can be lost: ``$XDG_CACHE_HOME/etude``, or ``~/.cache/etude``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "etude"


def place_name(place: str) -> str:
    """Return a name for what belongs to another place, such as a path or a URL: its end, and a hash of all of it.

    Example:
        >>> place_name("/home/ada/studies/digits")
        'digits-11b0683e5494'
    """
    end = re.sub(r"[^A-Za-z0-9._-]", "-", place.rstrip("/").rpartition("/")[2])
    return f"{end}-{hashlib.sha256(place.encode(errors='surrogateescape')).hexdigest()[:12]}"


def _statfs(folder: Path) -> int | None:
    if sys.platform != "linux":
        return None
    content = ctypes.create_string_buffer(512)  # struct statfs is 120 bytes; f_type is its first word
    try:
        if ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(folder), content) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return ctypes.c_ulong.from_buffer(content).value & 0xFFFFFFFF


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text(errors="surrogateescape")
    except OSError:
        return ""
