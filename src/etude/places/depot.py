"""Where the files of checkpoints lie: a depot. Here the one in a study's folder, beside what else its attempts write.

    00007/attempt-1/checkpoints/0-00005.weights.safetensors

A depot takes whole files, gives them back, and removes them; what is kept is decided elsewhere (``core.shelf``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from etude.core.events import STATE
from etude.places.turns import Turn

T = TypeVar("T")


class Found(NamedTuple):
    """A file of a checkpoint, or what was to become one.

    Attributes:
        trial: Whose it is.
        name: What it is called there, as in ``Checkpoint.name``.
        size_b: Its size in bytes.
        whole: Whether it is one, and not a part of one, or a copy on its way.
        depot: Where it lies.
    """

    trial: int
    name: str
    size_b: int
    whole: bool
    depot: Depot

    def remove(self) -> None:
        """Remove it."""
        self.depot.remove(self.trial, self.name)


class Depot(Protocol):
    """Where the files of checkpoints lie. What goes wrong is raised as the place says it; most often as OSError."""

    @property
    def everywhere(self) -> bool:
        """Whether workers reach it from wherever they are, so that nobody has to bring them anything."""
        ...

    def put(self, trial: int, name: str, write: Callable[[Path], T]) -> T:
        """Have a file written, whole or not at all; return what ``write`` returns, given a path of this machine."""
        ...

    def turn(self) -> Turn:
        """Return how a process waits for its turn to write."""
        ...

    def opened(self, trial: int, name: str) -> AbstractContextManager[Path]:
        """Give a path of this machine at which a file can be read for now; if it is gone, reading says so."""
        ...

    def remove(self, trial: int, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def files(self) -> list[Found]:
        """Return all that is there."""
        ...

    def files_of(self, trial: int, attempt: int) -> list[Found]:
        """Return what is there of one attempt."""
        ...


class FolderDepot:
    """A depot in the folder of all attempts, where a training function may write other files.

    Args:
        trials: That folder.
        turns: The file by which writers wait for each other; None if they do not.
    """

    everywhere = False

    def __init__(self, trials: Path, turns: Path | None = None) -> None:
        self._trials = trials
        self._turns = turns

    def put(self, trial: int, name: str, write: Callable[[Path], T]) -> T:
        """Have a file written; ``write`` sees to it that it is whole."""
        return write(self.path(trial, name))

    def turn(self) -> Turn:
        """Return how a process waits for its turn to write."""
        return Turn(self._turns)

    @contextlib.contextmanager
    def opened(self, trial: int, name: str) -> Iterator[Path]:
        """Give the path of a file."""
        yield self.path(trial, name)

    def remove(self, trial: int, name: str) -> None:
        """Remove a file, if it is there."""
        self.path(trial, name).unlink(missing_ok=True)

    def files(self) -> list[Found]:
        """Return all that is there."""
        return self._found(self._trials.glob("*/attempt-*/checkpoints/*"))

    def files_of(self, trial: int, attempt: int) -> list[Found]:
        """Return what is there of one attempt."""
        folder = self.path(trial, f"attempt-{attempt}/checkpoints")
        try:
            return self._found(folder / name for name in os.listdir(folder))
        except OSError:  # it saved nothing
            return []

    def path(self, trial: int, name: str) -> Path:
        """Return where a file is."""
        return self._trials / f"{trial:05d}" / name

    def _found(self, paths: Iterable[Path]) -> list[Found]:
        found = []
        for path in paths:
            if (read := read_path("/".join(path.parts[-4:]))) is None:
                continue
            with contextlib.suppress(OSError):  # it was there a moment ago
                found.append(Found(*read, path.stat().st_size, is_whole(path.name), self))
        return found


def read_path(path: str) -> tuple[int, str] | None:
    """Return whose file it is that lies at a path within a depot, and what it is called; None if it is none of ours.

    Example:
        >>> read_path("00007/attempt-1/checkpoints/0-00005.rest.safetensors")
        (7, 'attempt-1/checkpoints/0-00005.rest.safetensors')
        >>> read_path("00007/attempt-1/checkpoints/mine.safetensors") is None
        True
    """
    trial, _, name = path.partition("/")
    return (int(trial), name) if trial.isdigit() and STATE.fullmatch(name.partition("/")[2]) else None


def is_whole(name: str) -> bool:
    """Say whether a file is whole, by its name."""
    return not name.startswith(".") and not name.endswith(".part")
