"""The journal: every fact of a study, in order, in one SQLite file.

There is one writer and there may be many readers. The writer appends what it drained from its queue
in one transaction, so the file always holds a prefix of what the driver saw, and a decision never
without the reports that it rests on. Nothing is pickled; any SQLite reads it:

    facts    seq, at, kind, trial, body       body is MessagePack, one map per fact
    reports  seq, metric, at, trial, attempt, step, value     one row per metric; NULL stands for NaN
    metrics  id, name
    meta     key, value (JSON)                what was recorded about the study
    lease    who may write

Facts and reports share one sequence of numbers without gaps.

On a local disk it is in WAL mode with synchronous=NORMAL, and ``sync`` is called once a second: a
killed process loses nothing that was committed, a power cut at most the last second. WAL needs
shared memory, which network file systems do not give: there it is a rollback journal, synchronous=FULL.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from etude.core.errors import JournalError, NotAStudyError
from etude.core.events import AnyFact, Queued, Reported
from etude.core.exact import exact
from etude.store.lease import Lease

FILE: Final = "journal.sqlite"
APPLICATION_ID: Final = 0x45747564  # "Etud"
SCHEMA_VERSION: Final = 1
TORN: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR)
"""What SQLite says of a file that a checkpoint is half-way through, if it may not look into the log."""
BUSY_S: float = 1.0
"""Seconds to wait for somebody who holds the file; a driver hands nothing out meanwhile, and tries again."""

SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE facts (
    seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, trial INTEGER, body BLOB NOT NULL
) STRICT;
CREATE TABLE metrics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE reports (
    seq INTEGER NOT NULL, metric INTEGER NOT NULL, at REAL NOT NULL, trial INTEGER NOT NULL,
    attempt INTEGER NOT NULL, step INTEGER NOT NULL, value REAL, PRIMARY KEY (seq, metric)
) STRICT, WITHOUT ROWID;
CREATE TABLE lease (
    id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL, counter INTEGER NOT NULL,
    driver TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL
) STRICT;
INSERT INTO lease VALUES (1, 0, 0, '', '', 0, '');
"""

MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = {}
"""From version n to n + 1, inside the transaction that raises the version. None was needed yet."""

NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "beegfs", "ceph", "gpfs", "glusterfs", "9p", "afs"}
)

OUT_OF_REACH: Final = frozenset(
    {
        sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH,
    }
)  # fmt: skip
"""SQLite's codes that speak of the place or the moment, and not of what the file holds."""

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

    # --- opening ----------------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: Path, meta: Mapping[str, Any]) -> Self:
        """Make a new study folder with an empty journal.

        The file is written aside and then gets its name, so that a journal is whole from its first
        moment on. If somebody else made one meanwhile, that one is opened.

        Raises:
            JournalError: The folder cannot be written.
        """
        aside = folder / f"{FILE}.new-{os.urandom(8).hex()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(aside, isolation_level=None)) as connection:
                connection.executescript(
                    f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
                    f"BEGIN; {SCHEMA} COMMIT;"
                )
                rows = [(key, msgspec.json.encode(value).decode()) for key, value in meta.items()]
                connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            _give_name(aside, folder / FILE)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(
                f"The study folder {folder} cannot be written: {error}. "
                "Free some space or permissions, or name another place with ETUDE_STUDIES=<folder>."
            ) from None
        finally:
            for leftover in (aside, Path(f"{aside}-journal")):
                with contextlib.suppress(OSError):
                    leftover.unlink()
        return cls.write(folder)

    @classmethod
    def write(cls, folder: Path) -> Self:
        """Open a journal to go on with it; the lease has still to be taken.

        Raises:
            NotAStudyError: The folder holds no journal.
            JournalError: It is foreign, damaged, from a later version of Étude, or cannot be written.
        """
        _look_before_touching(folder)
        with contextlib.ExitStack() as on_error:
            try:
                connection = on_error.enter_context(contextlib.closing(_connect(folder, "rw")))
                mode = "DELETE" if on_network(folder) else "WAL"
                (got,) = connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()
                connection.execute(f"PRAGMA synchronous = {'NORMAL' if got == 'wal' else 'FULL'}")
                with transaction(connection):
                    pass  # a file that cannot be written is opened all the same, and says so only here
                _migrate(folder, connection)
                journal = cls(folder, connection)
            except sqlite3.Error as error:
                raise _unusable(folder, error, "written") from error
            on_error.pop_all()
        return journal

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Open a journal to look at it; it is not changed.

        Raises:
            NotAStudyError: The folder holds no journal.
            JournalError: It is foreign, damaged, from a later version of Étude, or cannot be read.
        """
        _look_before_touching(folder)
        with contextlib.ExitStack() as on_error:
            try:
                try:
                    connection = _connect(folder, "ro")
                except sqlite3.OperationalError as error:
                    if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                        raise
                    connection = _connect_where_nothing_can_be_written(folder)
                on_error.callback(connection.close)
                if _version(connection) < SCHEMA_VERSION:
                    with contextlib.closing(connection):
                        connection = _in_memory(connection)
                    on_error.callback(connection.close)
                _migrate(folder, connection)
                journal = cls(folder, connection)
            except (sqlite3.Error, OSError) as error:
                raise _unusable(folder, error, "read") from error
            on_error.pop_all()
        return journal

    def take(self, driver: str) -> int:
        """Take the lease, so that nobody else writes from now on; return the new epoch.

        Raises:
            StudyInUseError: Another driver holds it and is alive.
        """
        epoch = self.lease.take(driver)
        self.seq = self._last_seq()  # the last holder may have written until a moment ago
        self._metrics = dict(self._connection.execute("SELECT name, id FROM metrics").fetchall())
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

    def record(self, key: str, value: Any) -> None:
        """Write down something about the study, under a name."""
        with transaction(self._connection):
            self.lease.check()
            self._connection.execute(
                "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
                (key, msgspec.json.encode(value).decode()),
            )

    def sync(self) -> None:
        """Have what was committed reach the disk itself. Any thread may call it; it may take a while.

        With a rollback journal every commit has waited for the disk, and there is nothing to do.
        """
        # Opened anew each time: nothing is shared with other threads, and it is the right file whatever
        # a checkpoint did to it. Closing it costs no lock, as the database file itself would (see
        # _look_before_touching): SQLite holds none on this one.
        with contextlib.suppress(FileNotFoundError):
            wal = os.open(self.folder / f"{FILE}-wal", os.O_RDONLY)
            try:
                os.fsync(wal)
            finally:
                os.close(wal)

    def close(self) -> None:
        """Close the file; what was appended is in it."""
        self._connection.close()

    # --- reading ----------------------------------------------------------------------------------

    def facts(self) -> Iterator[AnyFact]:
        """Yield every fact, in order.

        Raises:
            JournalError: Something in it cannot be read, or a fact is missing.
        """
        try:
            yield from self._facts()
        except UNREADABLE as error:
            raise _unusable(self.folder, error, "read") from error

    def meta(self) -> dict[str, Any]:
        """Return what was recorded about the study."""
        try:
            rows = self._connection.execute("SELECT key, value FROM meta").fetchall()
            return {key: msgspec.json.decode(value) for key, value in rows}
        except UNREADABLE as error:
            raise _unusable(self.folder, error, "read") from error

    def reports_of(self, trial: int) -> list[tuple[int, int, float, dict[str, float]]]:
        """Return all reports of a trial: (attempt, step, seconds of the driver's clock, metrics)."""
        try:
            return self._reports_of(trial)
        except UNREADABLE as error:
            raise _unusable(self.folder, error, "read") from error

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

    def _facts(self) -> Iterator[AnyFact]:
        names = {number: name for name, number in self._metrics.items()}
        others = iter(self._connection.execute("SELECT seq, body FROM facts WHERE seq <= ? ORDER BY seq", (self.seq,)))
        reports = iter(
            self._connection.execute(
                "SELECT seq, metric, at, trial, attempt, step, value FROM reports WHERE seq <= ? ORDER BY seq",
                (self.seq,),
            )
        )
        other, report = next(others, None), next(reports, None)
        for seq in range(1, self.seq + 1):
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
                raise _damaged(self.folder, f"fact {seq} of {self.seq} is missing")
        if other is not None or report is not None:
            raise _damaged(self.folder, "two facts have the same number")

    def _last_seq(self) -> int:
        row = self._connection.execute(
            "SELECT max(coalesce((SELECT max(seq) FROM facts), 0), coalesce((SELECT max(seq) FROM reports), 0))"
        ).fetchone()
        return int(row[0])


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block in one write transaction: all of it is in the file afterwards, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")  # a full disk may show only now
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def on_network(folder: Path, mounts: str | None = None) -> bool:
    """Say whether a folder lies on a network file system, as far as the kernel's list of mounts tells.

    Args:
        folder: The folder, which need not exist.
        mounts: The list, as ``/proc/mounts`` has it; None to read it there.
    """
    where = folder.resolve()
    kind, depth = "", 0
    for line in (_mounts() if mounts is None else mounts).splitlines():
        _, point, this, *_ = line.split()
        place = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))
        if where.is_relative_to(place) and len(place.parts) >= depth:  # a later mount hides an earlier one
            kind, depth = this, len(place.parts)
    return kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse.")


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text(errors="surrogateescape")
    except OSError:
        return ""


def _give_name(aside: Path, path: Path) -> None:
    """Let a new file be called ``path``, unless there is one of that name; survives a power cut."""
    try:
        os.link(aside, path)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        if not path.exists():  # no hard links here, so two creators at the same instant are not told apart
            aside.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can
            os.fsync(folder)
    finally:
        os.close(folder)


def _connect(folder: Path, mode: str) -> sqlite3.Connection:
    uri = f"{(folder / FILE).resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_S, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM metrics").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_where_nothing_can_be_written(folder: Path) -> sqlite3.Connection:
    """Read a journal where there is no room for SQLite's shared memory, or for undoing half a transaction.

    What a killed driver left in the write-ahead log, or half done beside a rollback journal, is put in order
    in a copy: to read the file alone would silently miss the one, and take the other for true.
    """
    if not any((folder / f"{FILE}{end}").exists() for end in ("-wal", "-journal")):
        return _connect(folder, "ro&immutable=1")
    with tempfile.TemporaryDirectory() as place:
        for end in ("", "-wal", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(folder / f"{FILE}{end}", Path(place, f"{FILE}{end}"))
        with contextlib.closing(_connect(Path(place), "rw")) as connection:
            return _in_memory(connection)


def _in_memory(connection: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.backup(copy)
    return copy


def _look_before_touching(folder: Path) -> None:
    """Refuse a file that is not ours, from its header alone, and without leaving a trace beside it."""
    path = folder / FILE
    try:
        if not path.stat().st_size:
            raise _damaged(folder, "it is empty")
        # By SQLite, and never by open(): closing a file drops all locks that this process holds on it, those of
        # a driver in this process as well. Another process would then believe that it is alone, and remove the
        # write-ahead log that the driver goes on writing to.
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            application, version = _number(connection, "application_id"), _version(connection)
    except (FileNotFoundError, NotADirectoryError):
        raise NotAStudyError(
            f"{folder} is not a study: it has no {FILE}. `etude ls` lists the studies that there are."
        ) from None
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and (folder / f"{FILE}-wal").exists() and _code(error) in TORN:
            return  # the rest of it is in the write-ahead log, which this look leaves out; opening it tells
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_NOTADB:
            error = sqlite3.DatabaseError("it is no SQLite file")
        raise _unusable(folder, error, "read") from None
    if application != APPLICATION_ID:
        raise NotAStudyError(
            f"{path} is an SQLite file, but not one of Étude's: another program wrote it. It was not touched. "
            "Give another folder."
        )
    _refuse_later(folder, version)


def _migrate(folder: Path, connection: sqlite3.Connection) -> None:
    """Bring a journal to this version's schema, one step at a time."""
    while (version := _version(connection)) < SCHEMA_VERSION:
        with transaction(connection):
            if _version(connection) == version:  # nobody else was faster
                MIGRATIONS[version](connection)
                connection.execute(f"PRAGMA user_version = {version + 1}")
    _refuse_later(folder, version)


def _refuse_later(folder: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise JournalError(
            f"{folder / FILE} has schema version {version}, and this Étude knows versions up to {SCHEMA_VERSION}: "
            "a later Étude wrote it. It was not touched. Upgrade: pip install --upgrade etude."
        )


def _version(connection: sqlite3.Connection) -> int:
    return _number(connection, "user_version")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (value,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(value)


def _decode(content: bytes) -> AnyFact:
    fact = _decode_any(content)
    return msgspec.structs.replace(fact, params=exact(fact.params)) if type(fact) is Queued else fact


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary code for an error; 0 if it is none of SQLite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _unusable(folder: Path, error: BaseException, to_be: str) -> JournalError:
    """Return the error for a journal that cannot be used: out of reach, or else damaged."""
    if isinstance(error, OSError) or (isinstance(error, sqlite3.Error) and _code(error) in OUT_OF_REACH):
        return JournalError(
            f"The journal {folder / FILE} cannot be {to_be}: {error}. Nothing in it was changed. "
            "See to its permissions, to the space on its disk, and to who else has it open; then try again."
        )
    return _damaged(folder, error)


def _damaged(folder: Path, why: object) -> JournalError:
    return JournalError(
        f"The journal {folder / FILE} is damaged: {why}. It was not touched. Restore it from a copy; or, if the "
        "study may start over, move the folder away."
    )
