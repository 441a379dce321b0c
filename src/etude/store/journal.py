"""The journal: every fact of a study, in order, in one SQLite file.

There is one writer and there may be many readers. The writer appends what it drained from its queue
in one transaction, so the file always holds a prefix of what the driver saw, and a decision never
without the reports that it rests on. Nothing is pickled; any SQLite reads it:

    facts    seq, at, kind, trial, body       body is MessagePack, one map per fact
    reports  seq, metric, at, trial, attempt, step, value     one row per metric; NULL stands for NaN
    metrics  id, name
    meta     key, value (JSON)                what was recorded about the study
    lease    who may write

Facts and reports share one sequence of numbers without gaps. Beside an open journal lies its *mark*, a file with the
number of the last fact that was committed. It is no part of the record: a log whose end is torn looks to SQLite like
one that ends earlier, and the mark is how the next driver knows that there was more.

On a local disk it is in WAL mode with synchronous=NORMAL, and ``sync`` is called once a second: a
killed process loses nothing that was committed, a power cut at most the last second. WAL needs
shared memory, which network file systems do not give: there it is a rollback journal, synchronous=FULL.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from etude.core.events import AnyFact, Queued, Reported
from etude.core.exact import exact
from etude.store.journal_file import (
    APPLICATION_ID,
    FILE,
    SCHEMA_VERSION,
    connect_to_read,
    connect_to_write,
    damaged,
    look_before_touching,
    make_file,
    transaction,
    unusable,
)
from etude.store.lease import Lease
from etude.store.rows import Rows, read_rows, write_rows

__all__ = ["APPLICATION_ID", "FILE", "MARK", "SCHEMA_VERSION", "Journal", "transaction"]

MARK: Final = f"{FILE}-mark"
UNREADABLE: Final = (sqlite3.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError)
"""What reading bytes can raise that are not ours."""

_encode = msgspec.msgpack.Encoder().encode
_decode_any = msgspec.msgpack.Decoder(AnyFact).decode


class Journal:
    """The facts of a study on disk. Make one with ``create``, ``write`` or ``read``."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._connection = connection
        self.seq = self._last_seq()  # before the metrics: a writer may add to both in between
        self._metrics: dict[str, int] = dict(connection.execute("SELECT name, id FROM metrics").fetchall())
        self.lease = Lease(connection, lambda: self.seq)
        self.lost = ""
        """What to tell users if facts that were committed are gone; known once the lease is taken."""
        self._mark: int | None = None

    # --- opening ----------------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: Path, meta: Mapping[str, Any]) -> Self:
        """Make a new study folder with an empty journal.

        If somebody else made one meanwhile, that one is opened.

        Raises:
            JournalError: The folder cannot be written.
        """
        make_file(folder, meta)
        return cls.write(folder)

    @classmethod
    def write(cls, folder: Path) -> Self:
        """Open a journal to go on with it; the lease has still to be taken.

        Raises:
            NotAStudyError: The folder holds no journal.
            JournalError: It is foreign, damaged, from a later version of Étude, or cannot be written.
        """
        look_before_touching(folder)
        with contextlib.ExitStack() as on_error:
            try:
                connection = on_error.enter_context(contextlib.closing(connect_to_write(folder)))
                journal = cls(folder, connection)
            except sqlite3.Error as error:
                raise unusable(folder, error, "written") from error
            on_error.pop_all()
        return journal

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Open a journal to look at it; it is not changed.

        Raises:
            NotAStudyError: The folder holds no journal.
            JournalError: It is foreign, damaged, from a later version of Étude, or cannot be read.
        """
        look_before_touching(folder)
        with contextlib.ExitStack() as on_error:
            try:
                connection = on_error.enter_context(contextlib.closing(connect_to_read(folder)))
                journal = cls(folder, connection)
            except (sqlite3.Error, OSError) as error:
                raise unusable(folder, error, "read") from error
            on_error.pop_all()
        return journal

    def take(self, driver: str) -> int:
        """Take the lease, so that nobody else writes from now on; return the new epoch.

        Raises:
            StudyInUseError: Another driver holds it and is alive.
            JournalError: The disk is full, or the file cannot be written.
        """
        try:
            epoch = self.lease.take(driver)
            self.seq = self._last_seq()  # the last holder may have written until a moment ago
            self._metrics = dict(self._connection.execute("SELECT name, id FROM metrics").fetchall())
        except sqlite3.Error as error:
            raise unusable(self.folder, error, "written") from error
        self.lost = self._compare_with_mark()
        return epoch

    # --- writing ----------------------------------------------------------------------------------

    def append(self, facts: Iterable[AnyFact]) -> None:
        """Append facts in one transaction.

        Raises:
            StudyInUseError: Another driver has taken the study over; nothing was written.
            sqlite3.Error: The disk is full, or the file cannot be written; nothing was written.
        """
        seq = self.seq
        others: list[tuple[int, float, str, int | None, bytes]] = []
        reports: list[tuple[int, int, float, int, int, int, float | None]] = []
        new_metrics: list[tuple[int, str]] = []
        try:
            for fact in facts:
                seq += 1
                if type(fact) is Reported and fact.metrics:  # without any it has no row there, only a number
                    at, trial, attempt, step = fact.at, fact.trial, fact.attempt, fact.step
                    for name, value in fact.metrics.items():
                        metric = self._metrics.get(name)
                        if metric is None:
                            metric = self._metrics[name] = len(self._metrics)
                            new_metrics.append((metric, name))
                        # SQLite has no NaN; inf it has
                        stored = None if math.isnan(value) else value
                        reports.append((seq, metric, at, trial, attempt, step, stored))
                else:
                    kind = type(fact).__name__.lower()
                    others.append((seq, fact.at, kind, getattr(fact, "trial", None), _encode(fact)))
            with transaction(self._connection):
                self.lease.check()
                if new_metrics:
                    self._connection.executemany("INSERT INTO metrics VALUES (?, ?)", new_metrics)
                if reports:
                    self._connection.executemany("INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?, ?)", reports)
                if others:
                    self._connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?)", others)
        except BaseException:
            for _, name in new_metrics:
                del self._metrics[name]
            raise
        self.seq = seq
        self._set_mark()

    def record(self, key: str, value: Any) -> None:
        """Write down something about the study, under a name."""
        with transaction(self._connection):
            self.lease.check()
            self._connection.execute(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, msgspec.json.encode(value).decode()),
            )

    def put(self, rows: Rows, meta: Mapping[str, str]) -> None:
        """Append rows of another copy of this journal, and what was recorded with them, in one transaction.

        Raises:
            JournalError: They do not come next, or one of them is no fact.
            StudyInUseError: Another driver has taken the study over; nothing was written.
        """
        if rows.after != self.seq:
            raise damaged(self.folder, f"it ends with fact {self.seq}, and what is to be added begins after another")
        try:
            with transaction(self._connection):
                self.lease.check()
                write_rows(self._connection, rows)
                self._connection.executemany(
                    "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    list(meta.items()),
                )
        except UNREADABLE as error:
            raise unusable(self.folder, error, "written") from error
        self.seq = rows.upto

    def sync(self) -> None:
        """Have what was committed reach the disk itself. Any thread may call it; it may take a while.

        With a rollback journal every commit has waited for the disk, and there is nothing to do.
        """
        # Opened anew each time: nothing is shared with other threads, and it is the right file whatever
        # a checkpoint did to it. Closing it costs no lock, as the database file itself would (see
        # look_before_touching): SQLite holds none on this one.
        with contextlib.suppress(FileNotFoundError):
            wal = os.open(self.folder / f"{FILE}-wal", os.O_RDONLY)
            try:
                os.fsync(wal)
            finally:
                os.close(wal)

    def close(self) -> None:
        """Close the file; what was appended is in it."""
        if self._mark is not None:
            os.close(self._mark)
            self._mark = None
            with contextlib.suppress(OSError, sqlite3.Error):
                if self.lease.is_ours():  # else it is the mark of whoever took over
                    (self.folder / MARK).unlink()
        self._connection.close()

    # --- the mark ---------------------------------------------------------------------------------

    def _compare_with_mark(self) -> str:
        """Say what is gone since the mark was set, and set it anew."""
        path = self.folder / MARK
        try:
            before = int(path.read_text())
        except (OSError, ValueError):  # closed in order, or never opened
            before = 0
        with contextlib.suppress(OSError):
            self._mark = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        self._set_mark()
        if before <= self.seq:
            return ""
        return (
            f"The end of the journal {self.folder / FILE} is torn: it had {before} facts, and {self.seq} can be read. "
            "What the others said is lost; an attempt whose end was among them is run again, unless its outcome is "
            "in the spool."
        )

    def _set_mark(self) -> None:
        if self._mark is not None:
            with contextlib.suppress(OSError):  # it only serves to tell
                os.pwrite(self._mark, b"%020d" % self.seq, 0)

    # --- reading ----------------------------------------------------------------------------------

    def facts(self) -> Iterator[AnyFact]:
        """Yield every fact, in order.

        Raises:
            JournalError: Something in it cannot be read, or a fact is missing.
        """
        try:
            yield from self._facts(0)
        except UNREADABLE as error:
            raise unusable(self.folder, error, "read") from error

    def changes(self) -> int:
        """Return a number that is another one as soon as somebody else has committed anything to the file.

        Raises:
            JournalError: It cannot be read.
        """
        try:
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except UNREADABLE as error:
            raise unusable(self.folder, error, "read") from error

    def news(self) -> Iterator[AnyFact]:
        """Yield the facts that a driver has added since this was opened, or since it was asked for news last, in order.

        Raises:
            JournalError: Something in it cannot be read, or a fact is missing.
        """
        before = self.seq
        try:
            self.seq = self._last_seq()  # before the metrics, as in the beginning
            if self.seq > before:
                self._metrics = dict(self._connection.execute("SELECT name, id FROM metrics").fetchall())
                yield from self._facts(before)
        except UNREADABLE as error:
            raise unusable(self.folder, error, "read") from error

    def facts_but_reports(self) -> Iterator[AnyFact]:
        """Yield every fact that is no report, in order: most of a journal are reports.

        Raises:
            JournalError: Something in it cannot be read.
        """
        try:
            rows = self._connection.execute("SELECT body FROM facts WHERE seq <= ? ORDER BY seq", (self.seq,))
            yield from (_decode(body) for (body,) in rows)
        except UNREADABLE as error:
            raise unusable(self.folder, error, "read") from error

    def meta(self) -> dict[str, Any]:
        """Return what was recorded about the study."""
        try:
            rows = self._connection.execute("SELECT key, value FROM meta").fetchall()
            return {key: msgspec.json.decode(value) for key, value in rows}
        except UNREADABLE as error:
            raise unusable(self.folder, error, "read") from error

    def rows(self, after: int, most: int) -> Rows:
        """Return up to ``most`` rows with numbers above ``after``, those included that a driver has added since."""
        upto = min(after + most, self._last_seq())
        return read_rows(self._connection, after, max(after, upto))

    def recorded(self) -> dict[str, str]:
        """Return what was recorded about the study, as it is stored: key -> JSON."""
        return dict(self._connection.execute("SELECT key, value FROM meta").fetchall())

    def reports_of(self, trial: int) -> list[tuple[int, int, float, dict[str, float]]]:
        """Return all reports of a trial: (attempt, step, seconds of the driver's clock, metrics)."""
        try:
            return self._reports_of(trial)
        except UNREADABLE as error:
            raise unusable(self.folder, error, "read") from error

    def _reports_of(self, trial: int) -> list[tuple[int, int, float, dict[str, float]]]:
        rows = self._connection.execute(
            "SELECT seq, attempt, step, at, name, value FROM reports JOIN metrics ON metrics.id = metric "
            "WHERE trial = ? ORDER BY seq",
            (trial,),
        )
        found: dict[int, tuple[int, int, float, dict[str, float]]] = {}
        for seq, attempt, step, at, name, value in rows:
            found.setdefault(seq, (attempt, step, at, {}))[3][name] = math.nan if value is None else value
        return list(found.values())

    def _facts(self, seen: int) -> Iterator[AnyFact]:
        """Yield the facts after so many."""
        names = {number: name for name, number in self._metrics.items()}
        asked = (seen, self.seq)
        others = iter(
            self._connection.execute("SELECT seq, body FROM facts WHERE seq > ? AND seq <= ? ORDER BY seq", asked)
        )
        reports = iter(
            self._connection.execute(
                "SELECT seq, metric, at, trial, attempt, step, value FROM reports WHERE seq > ? AND seq <= ? "
                "ORDER BY seq",
                asked,
            )
        )
        other, report = next(others, None), next(reports, None)
        for seq in range(seen + 1, self.seq + 1):
            if other is not None and other[0] == seq:
                yield _decode(other[1])
                other = next(others, None)
            elif report is not None and report[0] == seq:
                _, _, at, trial, attempt, step, _ = report
                metrics: dict[str, float] = {}
                while report is not None and report[0] == seq:
                    metrics[names[report[1]]] = math.nan if report[6] is None else report[6]
                    report = next(reports, None)
                yield Reported(at=at, trial=trial, attempt=attempt, step=step, metrics=metrics)
            else:
                raise damaged(self.folder, f"fact {seq} of {self.seq} is missing")
        if other is not None or report is not None:
            raise damaged(self.folder, "two facts have the same number")

    def _last_seq(self) -> int:
        row = self._connection.execute(
            "SELECT max(coalesce((SELECT max(seq) FROM facts), 0), coalesce((SELECT max(seq) FROM reports), 0))"
        ).fetchone()
        return int(row[0])


def _decode(content: bytes) -> AnyFact:
    fact = _decode_any(content)
    return msgspec.structs.replace(fact, params=exact(fact.params)) if type(fact) is Queued else fact
