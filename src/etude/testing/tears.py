"""Tears: what a process or a machine that dies in the middle of a write leaves at the end of a file.

``tear_tail`` puts half a transaction after the last commit of a journal's write-ahead log, as it lies there when a
driver dies while it commits. ``tear_commit`` damages the last commit itself, which no killed process does: a disk does,
or somebody who copies a study without its log. ``tear_spool`` leaves half an outcome at the end of a spool.

The format is SQLite's (https://www.sqlite.org/fileformat2.html#walformat): a header of 32 bytes, and frames of 24 bytes
and a page. A frame counts if it has the header's two salts and the running checksum; with the size of the database in
its second word it is a commit.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from etude.store.journal import FILE
from etude.wire.spool import HEADER, SUFFIX

WAL_HEADER: Final = struct.Struct(">8I")
FRAME_HEADER: Final = struct.Struct(">6I")
BIG_ENDIAN_SUMS: Final = 0x377F0683
LITTLE_ENDIAN_SUMS: Final = 0x377F0682


@dataclass(frozen=True)
class Log:
    """A write-ahead log as far as it counts.

    Attributes:
        path: Its file.
        page: Bytes of a page.
        salts: What every frame of it carries.
        commits: Where each commit ends, in bytes from the start; the last one is where the log ends for SQLite.
    """

    path: Path
    page: int
    salts: tuple[int, int]
    commits: tuple[int, ...]


def read_log(folder: Path) -> Log | None:
    """Read the write-ahead log of the study in ``folder``; None if there is none, or nothing in it."""
    path = folder / f"{FILE}-wal"
    content = path.read_bytes() if path.exists() else b""
    if len(content) < WAL_HEADER.size:
        return None
    magic, _, page, _, *salts, first, second = WAL_HEADER.unpack_from(content)
    words = {BIG_ENDIAN_SUMS: ">", LITTLE_ENDIAN_SUMS: "<"}.get(magic)
    if words is None:
        return None
    sums, at, commits = (first, second), WAL_HEADER.size, []
    while at + FRAME_HEADER.size + page <= len(content):
        _, size, *rest = FRAME_HEADER.unpack_from(content, at)
        end = at + FRAME_HEADER.size + page
        summed = content[at : at + 8] + content[at + FRAME_HEADER.size : end]
        sums = _sums(struct.unpack(f"{words}{len(summed) // 4}I", summed), sums)
        if [*salts, *sums] != rest:
            break
        at = end
        if size:
            commits.append(at)
    return Log(path, page, (salts[0], salts[1]), tuple(commits))


def tear_tail(folder: Path, rng: random.Random) -> str:
    """Put half a transaction after the last commit of a study's log, while nobody has it open.

    Returns:
        What was put there, or an empty text if there is no log.
    """
    log = read_log(folder)
    if log is None or not log.commits:
        return ""
    kind = rng.choice(("garbage", "half a frame", "a frame with a torn page"))
    frame = FRAME_HEADER.pack(1, 1, *log.salts, rng.getrandbits(32), rng.getrandbits(32)) + rng.randbytes(log.page)
    torn = {
        "garbage": rng.randbytes(rng.randrange(1, 2 * log.page)),
        "half a frame": frame[: rng.randrange(1, len(frame))],
        "a frame with a torn page": frame,
    }[kind]
    with log.path.open("r+b") as file:
        file.seek(log.commits[-1])
        file.write(torn)
        file.truncate()  # an earlier round of the log may reach further
    return kind


def tear_commit(folder: Path, commits: int = 1) -> int:
    """Damage the last commits of a study's log, while nobody has it open.

    Returns:
        How many were damaged; fewer than asked for, if the log has no more.
    """
    log = read_log(folder)
    if log is None or not log.commits:
        return 0
    starts = [WAL_HEADER.size, *log.commits[:-1]]
    commits = min(commits, len(starts))
    with log.path.open("r+b") as file:
        file.seek(starts[-commits] + FRAME_HEADER.size + log.page // 2)
        file.write(b"\xff" * (log.page // 2))
    return commits


def tear_spool(folder: Path, rng: random.Random) -> int:
    """Leave half an outcome at the end of each spool of the study in ``folder``; return how many there were."""
    paths = sorted((folder / "spool").glob(f"*{SUFFIX}"))
    for path in paths:
        content = rng.randbytes(rng.randrange(20, 200))
        with path.open("ab") as file:
            file.write(HEADER.pack(len(content) * 2, rng.getrandbits(32)) + content)
    return len(paths)


def _sums(words: tuple[int, ...], start: tuple[int, int]) -> tuple[int, int]:
    first, second = start
    for x, y in zip(words[::2], words[1::2], strict=True):
        first = (first + x + second) & 0xFFFFFFFF
        second = (second + y + first) & 0xFFFFFFFF
    return first, second
