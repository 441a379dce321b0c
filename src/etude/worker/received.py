"""Files of attempts that go from machine to machine, in pieces."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from etude.core.events import OPTIMIZERS, PARTS, START, Checkpoint
from etude.core.ranks import Rank
from etude.places.depot import Depot
from etude.wire.messages import Run
from etude.wire.node_messages import Piece
from etude.worker.attempt import folder_of, make_folder

PIECE_B: Final = 1 << 18


def pieces_of(job: Run, depot: Depot, trials: str) -> Iterator[Piece]:
    """Yield the files that an attempt begins with, or may go on from; those that cannot be read are left out.

    Args:
        job: The attempt.
        depot: Where states lie. If workers reach it, none is to be brought.
        trials: The folder of all attempts.
    """
    for trial, name in names_of(job):
        if name in (START, OPTIMIZERS):
            with contextlib.suppress(OSError):
                yield from _pieces(Path(trials, f"{trial:05d}", name), trial, name)
        elif not depot.everywhere:
            with contextlib.suppress(OSError), depot.opened(trial, name) as path:
                yield from _pieces(path, trial, name)


def names_of(job: Run) -> list[tuple[int, str]]:
    """Return the files that an attempt begins with, or may go on from: whose they are, and their names there."""
    trial = job.trial if job.source is None else job.source
    points = [(trial, point.name(part, _whose(point, job.rank))) for point in job.points for part in PARTS]
    if job.start is None:
        return points
    begins_with = [START, OPTIMIZERS] if job.start.optimizers else [START]
    return [*((job.start.holder, name) for name in begins_with), *points]


def _whose(point: Checkpoint, rank: Rank | None) -> int:
    """Return the rank whose files of a checkpoint a rank reads: its own, if each has some."""
    return rank.number if rank is not None and point.ranks > 1 else 0


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


def keep(piece: Piece, trials: str) -> Path:
    """Write a piece where its attempt's files are, and return where that is.

    Args:
        piece: Part of a file.
        trials: The folder of all attempts.

    Raises:
        OSError: It cannot be written, or its name leads elsewhere.
    """
    place = _place_of(piece, trials)
    make_folder(trials, piece.trial, piece.attempt)
    place.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if piece.first else os.O_APPEND)
    file = os.open(place, flags, 0o644)
    try:
        data = memoryview(piece.data)
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)
    return place


def _place_of(piece: Piece, trials: str) -> Path:
    name = PurePosixPath(piece.path)
    if name.is_absolute() or os.pardir in name.parts or not name.name or "\0" in piece.path:
        raise OSError(f"{piece.path!r} is no name of a file in a folder")
    return folder_of(trials, piece.trial, piece.attempt) / name


class Brought:
    """What was brought to a machine for attempts there, and goes with them.

    Args:
        trials: The folder of all attempts on it.
    """

    def __init__(self, trials: str) -> None:
        self._trials = trials
        self._arriving: set[Path] = set()  # for attempts that are not there yet
        self._spared: set[Path] = set()  # of these, what was there when its first piece came
        self._needed: dict[int, set[Path]] = {}  # who has an attempt -> what that needs

    def keep(self, piece: Piece) -> None:
        """Write a piece of a file; one that another attempt has here is there already, and may be being read.

        Raises:
            OSError: It cannot be written, or its name leads elsewhere.
        """
        place = _place_of(piece, self._trials)
        if piece.first:  # it holds for all pieces of the file, whatever becomes of that attempt meanwhile
            is_there = any(place in needed for needed in self._needed.values())
            (self._spared.add if is_there else self._spared.discard)(place)
        if place not in self._spared:
            keep(piece, self._trials)
        self._arriving.add(place)

    def begin(self, worker: int, job: Run) -> None:
        """Take in which attempt a worker has now."""
        self.end(worker)
        needed = {Path(self._trials, f"{trial:05d}", name) for trial, name in names_of(job)}
        if needed:
            self._needed[worker] = needed
            self._arriving -= needed

    def end(self, worker: int) -> None:
        """Take in that a worker has its attempt no more: what nobody else needs goes."""
        for path in self._needed.pop(worker, set()) - self._all():
            path.unlink(missing_ok=True)

    def forget(self, trial: int, attempt: int) -> None:
        """Remove the files of an attempt that is over, but for those that others are to begin with."""
        folder = folder_of(self._trials, trial, attempt)
        if not any(path.is_relative_to(folder) for path in self._all()):
            shutil.rmtree(folder, ignore_errors=True)
            return
        for path in [path for path in folder.rglob("*") if path.is_file() and path not in self._all()]:
            path.unlink(missing_ok=True)

    def _all(self) -> set[Path]:
        return self._arriving.union(*self._needed.values())
