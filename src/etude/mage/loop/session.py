"""Opening a study to prepare it: one writer, who shows that it is alive; readers at any time."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.clock import Clock, WallClock
from etude.core.events import AnyFact
from etude.mage.loop.book import Book, Record
from etude.mage.scrubbing import secrets_of
from etude.store.journal import FILE, Journal
from etude.store.lease import BEAT_S

PREPARING: Final = "preparing"
"""Is in the meta of a journal that began with variants and not with trials."""


@contextlib.contextmanager
def writing(
    folder: Path,
    *,
    clock: Clock | None = None,
    beat_s: float = BEAT_S,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Book]:
    """Open a study's journal, or make it, and hold its lease for the length of a block.

    Raises:
        StudyInUseError: Somebody else works on it.
        JournalError: It cannot be written.
    """
    meta = {"name": folder.name, PREPARING: True}
    journal = Journal.write(folder) if (folder / FILE).exists() else Journal.create(folder, meta)
    with contextlib.closing(journal):
        journal.take(f"mage:{platform.node()}:{os.getpid()}")
        held = _Held(journal, beat_s)
        try:
            yield Book(held, clock or WallClock(), secrets=secrets_of(environment))
        finally:
            held.stop()
            journal.sync()
            with contextlib.suppress(Exception):  # somebody has taken it over
                journal.lease.release()


def read(folder: Path) -> Record:
    """Return what was prepared in a folder, as far as it is written.

    Raises:
        NotAStudyError: The folder holds no journal.
    """
    with contextlib.closing(Journal.read(folder)) as journal:
        return Record.of(journal.facts_but_reports())


class _Held:
    """A journal whose lease a thread keeps alive while its owner waits for answers and programs.

    Beats and facts go over one connection, one after the other: a beat within a transaction would be part of it.
    """

    def __init__(self, journal: Journal, beat_s: float) -> None:
        self._journal = journal
        self._beat_s = beat_s
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live, name="etude-mage-lease", daemon=True)
        self._thread.start()

    def append(self, facts: Any) -> None:
        """Append facts in one transaction."""
        with self._lock:
            self._journal.append(facts)
            self._journal.sync()  # an answer that was paid for survives a power cut

    def facts_but_reports(self) -> Iterator[AnyFact]:
        """Yield what is in the journal."""
        with self._lock:
            facts = list(self._journal.facts_but_reports())
        yield from facts

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def _live(self) -> None:
        while not self._stopped.wait(self._beat_s):
            with self._lock, contextlib.suppress(Exception):  # the next one, or the next fact, tells what is wrong
                self._journal.lease.beat()
