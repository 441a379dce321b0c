"""The spool: outcomes on disk, from before anybody is told of them until the journal has them.

A child appends its outcome to a file that its template holds open: one write, no new file for each
attempt. A record is its length, its checksum and its content; a torn one was never whole and is left
out, and what others wrote after it is found by its checksum. Outcomes that the journal has already are
harmless, since attempts are told apart by number, so nobody need remove them one by one.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path
from typing import Final

import msgspec

from etude.wire.messages import Ended, unpack_outcome

HEADER: Final = struct.Struct(">II")
SUFFIX: Final = ".spool"


def open_spool(folder: str) -> tuple[int, str]:
    """Open a spool of this process's own in ``folder``; return its descriptor and its path."""
    path = os.path.join(folder, f"{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), path


def append(spool: int, content: bytes) -> None:
    """Append an encoded ``Ended``."""
    record = HEADER.pack(len(content), zlib.crc32(content)) + content
    with contextlib.suppress(OSError):  # a full disk: the outcome is told all the same, if nobody dies just now
        while record:
            record = record[os.write(spool, record) :]


def read(path: str | Path) -> list[Ended]:
    """Return the outcomes in a spool, in order; none if there is no such file."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    found, at = [], 0
    while at + HEADER.size <= len(content):
        size, checksum = HEADER.unpack_from(content, at)
        record = content[at + HEADER.size : at + HEADER.size + size] if size <= len(content) - at else b""
        if len(record) < size or zlib.crc32(record) != checksum:
            at += 1  # torn: whoever wrote it died in the middle, or the disk was full; others may have written after it
            continue
        with contextlib.suppress(msgspec.DecodeError):  # of another version of Étude: its attempt is run again
            found.append(unpack_outcome(record))
        at += HEADER.size + size
    return found


def find(path: str | Path, trial: int, attempt: int) -> Ended | None:
    """Return the outcome of one attempt, if it is there."""
    return next((e for e in read(path) if (e.trial, e.attempt) == (trial, attempt)), None)


def find_in(folder: str | Path, trial: int, attempt: int) -> Ended | None:
    """Return the outcome of one attempt, if it is in any spool of a folder."""
    return next((e for e in read_all(folder) if (e.trial, e.attempt) == (trial, attempt)), None)


def read_all(folder: str | Path) -> list[Ended]:
    """Return the outcomes in all spools of a folder."""
    return [ended for path in sorted(Path(folder).glob(f"*{SUFFIX}")) for ended in read(path)]


def clear(folder: str | Path) -> None:
    """Remove all spools of a folder: the journal has what is in them."""
    for path in Path(folder).glob(f"*{SUFFIX}"):
        path.unlink(missing_ok=True)
