"""Which files of a study may have changed since the last look: a folder of many trials is not walked each time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from etude.core.events import STATE, AnyFact, Assigned, Settled
from etude.store.rows import Rows

WORKERS_LOG: Final = "workers.log"
TRIALS: Final = "trials"
PART: Final = ".part"
LOG_TAIL: Final = "log.tail.txt"
"""The newest output of an attempt that runs and prints much; at its end it is in the log."""

_decode = msgspec.msgpack.Decoder(AnyFact).decode


class Looker:
    """Knows which files of a study may have changed: those of attempts that run, or ran until a moment ago.

    Args:
        folder: The study's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = True
        self._live: set[tuple[int, int]] = set()
        self._ended: set[tuple[int, int]] = set()  # their supervisor may still write the end of the log
        self._seen: set[tuple[int, int]] = set()
        self._looked_at_all = False

    def look(self, rows: Rows, *, look_at_all: bool) -> list[str]:
        """Return the paths of files to look at, after the facts in ``rows``.

        Args:
            rows: What was added to the journal since the last look.
            look_at_all: Whether to look at what runs, too, and not only at what ended.
        """
        self._looked_at_all = look_at_all
        ended: set[tuple[int, int]] = set()
        for _, body in rows.facts:
            match _decode(body):
                case Assigned(trial=trial, attempt=attempt):
                    self._live.add((trial, attempt))
                case Settled(trial=trial, attempt=int(attempt)):
                    self._live.discard((trial, attempt))
                    ended.add((trial, attempt))
        if not look_at_all:
            self._ended |= ended
            return [path for attempt in sorted(ended) for path in self._files_of(attempt)]
        wanted = self._live | self._ended | ended
        self._seen, self._ended = self._ended, self._ended | ended
        found = [WORKERS_LOG] if (self._folder / WORKERS_LOG).exists() else []
        if self._first:  # what earlier drivers left
            return found + list(self._files_in(self._folder / TRIALS))
        return found + [path for attempt in sorted(wanted) for path in self._files_of(attempt)]

    def look_at_everything(self) -> None:
        """Have the next look at all be one at all files that there are, as the first one is."""
        self._first = True

    def looked(self) -> None:
        """Take in that all files of the last look have been dealt with."""
        self._first = self._first and not self._looked_at_all
        self._ended -= self._seen
        self._seen = set()

    def _files_of(self, attempt: tuple[int, int]) -> Iterable[str]:
        return self._files_in(self._folder / TRIALS / f"{attempt[0]:05d}" / f"attempt-{attempt[1]}")

    def _files_in(self, folder: Path) -> Iterator[str]:
        for place, _, names in os.walk(folder):
            for name in sorted(names):
                path = Path(place, name)
                if STATE.fullmatch("/".join(path.parts[-2:])):  # it changes all the time, and is of use here alone
                    continue
                if path.is_file() and not path.is_symlink() and not name.endswith(PART) and name != LOG_TAIL:
                    yield path.relative_to(self._folder).as_posix()
