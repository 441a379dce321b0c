"""A study at work in a thread of its own, as other threads see it: the same whether it is real or simulated."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from etude.core.clock import Clock
from etude.core.errors import StudyInUseError
from etude.core.history import History
from etude.store.journal import Journal
from etude.studies.notes import Notes
from etude.tune.question import Question

LEASE_S: Final = 2.0
"""Seconds between two signs of life in the journal."""

STOP_FILE: Final = "stop-requested"
"""In a study's folder: somebody outside wants the study to wind down."""


class AtWork(ABC):
    """What the shells have in common: how a study is taken up, waited for, stopped and ended with an error.

    Args:
        journal: The study's journal, open for writing, without the lease.
        question: What the study is to find out.
        history: The study as it stands.
        driver_id: Marks the driver in the journal.
        clock: The clock that its times are by.
        workers: How many workers it is given, at most.
        thread: Names its thread.

    Attributes:
        folder: The study's folder.
        history: The study as it stands. Other threads may look.
        clock: The clock that its times are by.
        workers: How many workers it is given, at most.
        error: What ended the study, if it was no end of the plan's.
    """

    def __init__(
        self,
        journal: Journal,
        question: Question,
        history: History,
        *,
        driver_id: str,
        clock: Clock,
        workers: int,
        thread: str,
    ) -> None:
        self.folder = journal.folder
        self.history = history
        self.clock = clock
        self.workers = workers
        self._notes = Notes()
        self._meta: Mapping[str, Any] = {}
        self.error: BaseException | None = None
        self._journal = journal
        self._question = question
        self._driver_id = driver_id
        self._why_early = ""
        self._thread = threading.Thread(target=self._until_it_ends, name=thread, daemon=True)
        self._done = threading.Event()

    # --- for other threads ------------------------------------------------------------------------

    @property
    def notes(self) -> list[str]:
        """What users should be told of this run, once each."""
        return self._notes.texts

    @property
    def meta(self) -> Mapping[str, Any]:
        """What is recorded about the study by now."""
        return self._meta

    def unsaid(self) -> list[str]:
        """Return the notes that nobody has said yet; who asks says them, and asks again."""
        return self._notes.unsaid()

    def start(self, notes: Sequence[str] = ()) -> None:
        """Take the study up and let its thread work on.

        Args:
            notes: What users should be told first.

        Raises:
            StudyInUseError: Another driver works on it.
            JournalError: The journal is damaged.
        """
        try:
            epoch = self._journal.take(self._driver_id)
            self._meta = self._journal.meta()
            (self.folder / STOP_FILE).unlink(missing_ok=True)  # meant for a driver that is gone
            for note in notes:
                self._note(note)
            self._take_up()
            self._keep_notes(epoch)
        except BaseException:
            self._let_go()
            raise
        self._open(epoch)
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the study to end; return whether it has."""
        return self._done.wait(timeout_s)

    @property
    def over(self) -> bool:
        """Whether the study has ended, for this driver."""
        return self._done.is_set()

    @property
    def trials(self) -> int:
        """How many trials it will have, at most."""
        return self._question.trials

    def stop(self, reason: str = "stopped by hand") -> None:
        """Have the study wind down; it can go on later."""
        self._why_early = self._why_early or reason

    # --- what the shells fill in ------------------------------------------------------------------

    @abstractmethod
    def _take_up(self) -> None:
        """Fold in what the journal has, which is ours now, and get ready."""

    @abstractmethod
    def _open(self, epoch: int) -> None:
        """Prepare the event that opens the study."""

    @abstractmethod
    def _work(self) -> None:
        """Work until the study has ended. This is the thread."""

    # --- what they share --------------------------------------------------------------------------

    def _until_it_ends(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._done.set()

    def _let_go(self) -> None:
        """Leave a study free that could not be taken up."""
        with contextlib.suppress(sqlite3.Error):
            self._journal.lease.release()
        self._journal.close()

    def _note(self, text: str) -> None:
        """Tell users something, whatever they are shown."""
        self._notes.add(text)

    def _keep_notes(self, epoch: int) -> None:
        """Write down what users were told in this run, so that it can be read later as well."""
        if self.notes:
            with contextlib.suppress(sqlite3.Error, StudyInUseError):  # on a full disk: it has been said, at least
                self._record(f"notes {epoch}", self.notes)

    def _record(self, key: str, value: Any) -> None:
        """Write down something about the study, under a name."""
        self._journal.record(key, value)
        self._meta = {**self._meta, key: value}  # another one, since other threads may be reading this one

    def _wind_down(self, reason: str) -> None:
        """End before the plan does; it can go on later."""
        self._why_early = self._why_early or reason

    def _fail(self, error: BaseException) -> None:
        """End the study with an error; everything that was committed stays."""
        if self.error is None:
            self.error = error
        self._wind_down(str(error).strip().rpartition("\n")[2] or type(error).__name__)

    def _heed_a_stop_request(self) -> None:
        path = self.folder / STOP_FILE
        if path.exists():
            path.unlink(missing_ok=True)
            self._wind_down("stopped by `etude stop`")
