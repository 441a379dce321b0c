"""Files of attempts that go from machine to machine, in pieces."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from etude.core.events import PARTS, START
from etude.places.depot import Depot
from etude.wire.messages import Run
from etude.wire.node_messages import Piece
from etude.worker.attempt import make_folder

PIECE_B: Final = 1 << 18


def pieces_of(job: Run, depot: Depot, trials: str) -> Iterator[Piece]:
    """Yield the files that an attempt begins with, or may go on from; those that cannot be read are left out.

    Args:
        job: The attempt.
        depot: Where states lie. If workers reach it, none is to be brought.
        trials: The folder of all attempts.
    """
    if job.start is not None:
        with contextlib.suppress(OSError):
            yield from _pieces(Path(trials, f"{job.trial:05d}", START), job.trial, START)
    if depot.everywhere:
        return
    trial = job.trial if job.source is None else job.source
    for name in [point.name(part) for point in job.points for part in PARTS]:
        with contextlib.suppress(OSError), depot.opened(trial, name) as path:
            yield from _pieces(path, trial, name)


def _pieces(path: Path, trial: int, name: str) -> Iterator[Piece]:
    """Yield a file that has a name in the folder of a trial."""
    attempt, _, inner = name.partition("/")
    yield from cut(path, Piece(0, trial, int(attempt.removeprefix("attempt-")), inner, b"", True))


def cut(path: Path, like: Piece) -> Iterator[Piece]:
    """Yield a file in pieces; an empty one is a piece as well.

    Args:
        path: Of the file.
        like: What they have in common.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        first = True
        while (data := file.read(PIECE_B)) or first:
            yield msgspec.structs.replace(like, data=data, first=first)
            first = False


def keep(piece: Piece, trials: str) -> None:
    """Write a piece where its attempt's files are.

    Args:
        piece: Part of a file.
        trials: The folder of all attempts.

    Raises:
        OSError: It cannot be written, or its name leads elsewhere.
    """
    name = PurePosixPath(piece.path)
    if name.is_absolute() or os.pardir in name.parts or not name.name or "\0" in piece.path:
        raise OSError(f"{piece.path!r} is no name of a file in a folder")
    place = Path(make_folder(trials, piece.trial, piece.attempt), name)
    place.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if piece.first else os.O_APPEND)
    file = os.open(place, flags, 0o644)
    try:
        data = memoryview(piece.data)
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)
