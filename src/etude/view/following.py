"""Follows a study: reads its journal as it grows, and keeps a board of it.

A follower is asked to look, by one thread at a time, and tells nobody by itself. What it follows may be deleted
meanwhile, and another study may take its place: then the *edition* of the board is another, and viewers begin anew.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from etude.core.errors import EtudeError
from etude.core.metrics import Metrics
from etude.core.totals import counts
from etude.results.finding import find, naming_the_nearest
from etude.results.listed import standing
from etude.results.reading import KINDS, UNNAMED, metrics_in
from etude.results.search import Search, Study, TrialResult
from etude.store import shared
from etude.store.journal import FILE, Journal
from etude.view.board import Board


class Known(NamedTuple):
    """What a viewer knows of a study: so many facts of an edition of its board."""

    edition: str = ""
    seq: int = 0

    @classmethod
    def read(cls, text: str) -> Known:
        """Return what ``text`` says; nothing is known if it says something else."""
        edition, _, seq = text.partition(".")
        return cls(edition, int(seq)) if seq.isascii() and seq.isdecimal() else cls()

    @property
    def text(self) -> str:
        """The same as text, which a browser gives back when it comes again."""
        return f"{self.edition}.{self.seq}"


class Follower:
    """Follows one study.

    Args:
        study: Its folder, its name, or its mirror.

    Attributes:
        edition: What tells the board from others of the same study; empty before there was any.
        trouble: What is wrong with the study, in a sentence; empty if nothing is.
    """

    def __init__(self, study: str | Path) -> None:
        self.study = study
        self.edition = ""
        self.trouble = ""
        self.board = Board(Metrics(UNNAMED))
        self._journal: Journal | None = None
        self._file: tuple[int, int] | None = None
        self._changes: int | None = None
        self._meta: Mapping[str, Any] = {}
        self._driver: tuple[str, int] | None = None

    @classmethod
    def begin(cls, study: str | Path) -> Self:
        """Follow a study that can be read, and has been when this returns.

        Raises:
            NotAStudyError: There is none; the message names the nearest.
            JournalError: Its journal is damaged or from a later version.
        """
        follower = cls(study)
        with naming_the_nearest(study):
            follower._read()
        return follower

    @property
    def folder(self) -> Path:
        """Where the study is, or was."""
        return self._journal.folder if self._journal is not None else Path(self.study)

    def look(self) -> bool:
        """Bring the board up to date, and say whether there was anything new.

        A study at which nothing happens costs next to nothing: its file tells that nobody has written to it.
        """
        before = self._standing
        try:
            self._read()
            self.trouble = ""
        except (EtudeError, OSError) as error:
            self._driver = None
            gone = self.edition and not (self.folder / FILE).exists()
            self.trouble = f"{self.folder} is no longer there. What is shown was read before." if gone else str(error)
            if not gone:  # half of it may have been folded in
                self.close()
        return self._standing != before

    def _read(self) -> None:
        folder = find(self.study)
        if self._journal is None or _file(folder) != self._file:
            self._begin(folder)
        assert self._journal is not None
        self._driver = self._journal.lease.held_by()  # first: of a driver that is gone then all has been written
        changes = self._journal.changes()  # before the news: what is written from here on is another change
        if changes != self._changes:
            for fact in self._journal.news():
                self.board.apply(fact)
            self._meta, self._changes = self._journal.meta(), changes

    @property
    def _standing(self) -> tuple[object, ...]:
        """All that the board and the head go by."""
        return self.edition, self._changes, self._driver, self.trouble

    def _begin(self, folder: Path) -> None:
        """Read a journal that was not followed before, from its first fact."""
        self.close()
        file = _file(folder)
        journal = Journal.read(folder)
        with contextlib.ExitStack() as on_error:
            on_error.callback(journal.close)
            board = Board(metrics_in(journal.meta()))
            for fact in journal.facts():
                board.apply(fact)
            on_error.pop_all()
        self._journal, self._file, self.board, self.edition = journal, file, board, secrets.token_hex(4)

    def close(self) -> None:
        """Let go of the journal."""
        if self._journal is not None:
            self._journal.close()
        self._journal = self._file = self._changes = None

    @property
    def ended(self) -> tuple[str, int]:
        """Edition, and how many trials have ended: verdicts are new if that is."""
        return self.edition, len(self.board.history.ended)

    def news(self, known: Known) -> tuple[Known, bytes | None]:
        """Return what somebody knows who is told of it, and what is new to whom ``known`` is known, as JSON.

        Returns:
            None for the latter if nothing is new. ``whole`` in it says that what was known before is of no use.
        """
        whole = known.edition != self.edition
        seq = 0 if whole else known.seq
        if not self.edition or (seq == self.board.seq and not whole):
            return known, None
        told = {"whole": whole, **self.board.since(seq)}
        return Known(self.edition, self.board.seq), msgspec.json.encode(told)

    @property
    def search(self) -> Search:
        """The study as results have it."""
        kind = KINDS.get(self.verb, Search)
        return kind(self.folder, self.board.history, meta=self._meta, driver=self._driver)

    def trial(self, number: int) -> TrialResult:
        """Return one of its trials as results have it."""
        return TrialResult(self.board.history.trials[number], Study(self.folder, self.board.history, None, self._meta))

    @property
    def verb(self) -> str:
        """What it was begun by: ``"tune"``, ``"ablate"``, ``"fit"``; empty while that is not known."""
        return str((self._meta.get("question") or {}).get("verb") or ("tune" if "question" in self._meta else ""))

    def head(self) -> dict[str, Any]:
        """Return what is to be said of the study as a whole, as plain data."""
        search, history, question = self.search, self.board.history, self._meta.get("question") or {}
        return {
            "name": search.name if self.edition else Path(self.study).name,
            "verb": self.verb,
            "standing": standing(search),
            "trouble": self.trouble,
            "says": search.headlines() if self.edition else [],
            "metrics": dict(history.metrics.modes),
            "watched": history.metrics.watched,
            "planned": question.get("trials"),
            "counts": counts(history),
            "simulated": "simulated" in self._meta,
            "driver": f"process {self._driver[1]} on {self._driver[0]}" if self._driver is not None else "",
            "folder": str(shared.home_of(self.folder)),
        }


def _file(folder: Path) -> tuple[int, int] | None:
    """Return what tells a journal from another one that has taken its place; None if there is none."""
    with contextlib.suppress(OSError):
        found = (folder / FILE).stat()
        return found.st_dev, found.st_ino
    return None
