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
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from etude.core.errors import JournalError, NotAStudyError
from etude.core.events import AnyFact, Reported
from etude.store.lease import Lease

FILE: Final = "journal.sqlite"
APPLICATION_ID: Final = 0x45747564  # "Etud"
SCHEMA_VERSION: Final = 1
SQLITE_MAGIC: Final = b"SQLite format 3\0"

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

MIGRATIONS: Final[Mapping[int, Callable[[sqlite3.Connection], None]]] = {}
"""From version n to n + 1, inside the transaction that raises the version. None was needed yet."""

NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "beegfs", "ceph", "gpfs", "glusterfs", "9p", "afs"}
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnyFact).decode


class Journal:
    """The facts of a study on disk. Make one with ``create``, ``write`` or ``read``."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._connection = connection
        self._metrics: dict[str, int] = dict(connection.execute("SELECT name, id FROM metrics").fetchall())
        self.seq = self._last_seq()
        self.lease = Lease(connection)
        self._wal: int | None = None

    # --- opening ----------------------------------------------------------------------------------

    @classmethod
    def create(cls, folder: Path, meta: Mapping[str, Any]) -> Self:
        """Make a new study folder with an empty journal.

        The file is written aside and renamed, so that a journal is whole from its first moment on.

        Raises:
            JournalError: The folder cannot be written.
        """
        aside = folder / f"{FILE}.new-{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(aside, isolation_level=None)) as connection:
                connection.executescript(
                    f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
                    f"BEGIN; {SCHEMA} COMMIT;"
                )
                rows = [(key, msgspec.json.encode(value).decode()) for key, value in meta.items()]
                connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            os.link(aside, folder / FILE)  # refuses to replace one that somebody made meanwhile
        except FileExistsError:
            pass
        except (OSError, sqlite3.Error) as error:
            raise JournalError(
                f"The study folder {folder} cannot be written: {error}. "
                "Free some space or permissions, or name another place with ETUDE_STUDIES=<folder>."
            ) from None
        finally:
            with contextlib.suppress(OSError):
                aside.unlink()
        return cls.write(folder)

    @classmethod
    def write(cls, folder: Path) -> Self:
        """Open a journal to go on with it; the lease has still to be taken.

        Raises:
            NotAStudyError: The folder holds no journal.
            JournalError: It is foreign, damaged, or from a later version of Étude.
        """
        version = _look_before_touching(folder)
        try:
            connection = _connect(folder, "rw")
            mode = "DELETE" if on_network(folder) else "WAL"
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute(f"PRAGMA synchronous = {'FULL' if mode == 'DELETE' else 'NORMAL'}")
            for step in range(version, SCHEMA_VERSION):
                with transaction(connection):
                    MIGRATIONS[step](connection)
                    connection.execute(f"PRAGMA user_version = {step + 1}")
            return cls(folder, connection)
        except sqlite3.Error as error:
            raise _damaged(folder, error) from error

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Open a journal to look at it; it is not changed.

        Raises:
            NotAStudyError: The folder holds no journal.
            JournalError: It is foreign, damaged, or from another version of Étude.
        """
        _look_before_touching(folder)
        try:
            try:
                return cls(folder, _connect(folder, "ro"))
            except sqlite3.OperationalError:  # a read-only place has no room for WAL's shared memory
                return cls(folder, _connect(folder, "ro&immutable=1"))
        except sqlite3.Error as error:
            raise _damaged(folder, error) from error

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
        for fact in facts:
            seq += 1
            if type(fact) is Reported:
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
        try:
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
        """Have what was committed reach the disk itself. Any thread may call it; it may take a while."""
        if self._wal is None:
            with contextlib.suppress(FileNotFoundError):
                self._wal = os.open(self.folder / f"{FILE}-wal", os.O_RDONLY)
        if self._wal is not None:
            os.fsync(self._wal)

    def close(self) -> None:
        """Close the file; what was appended is in it."""
        if self._wal is not None:
            os.close(self._wal)
            self._wal = None
        self._connection.close()

    # --- reading ----------------------------------------------------------------------------------

    def facts(self) -> Iterator[AnyFact]:
        """Yield every fact, in order.

        Raises:
            JournalError: Something in it cannot be read, or a fact is missing.
        """
        try:
            yield from self._facts()
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise _damaged(self.folder, error) from error

    def meta(self) -> dict[str, Any]:
        """Return what was recorded about the study."""
        try:
            rows = self._connection.execute("SELECT key, value FROM meta").fetchall()
        except sqlite3.Error as error:
            raise _damaged(self.folder, error) from error
        return {key: msgspec.json.decode(value) for key, value in rows}

    def reports_of(self, trial: int) -> list[tuple[int, int, float, dict[str, float]]]:
        """Return all reports of a trial: (attempt, step, seconds of the driver's clock, metrics)."""
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
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def on_network(folder: Path) -> bool:
    """Say whether a folder lies on a network file system, as far as the kernel's list of mounts tells."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return False
    where = str(folder.resolve())
    inside = [(len(p), kind) for p, kind in mounts if where == p or where.startswith(p.rstrip("/") + "/")]
    kind = max(inside, default=(0, ""))[1]
    return kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse.")


def _connect(folder: Path, mode: str) -> sqlite3.Connection:
    uri = f"{(folder / FILE).resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM metrics")
    except BaseException:
        connection.close()
        raise
    return connection


def _look_before_touching(folder: Path) -> int:
    """Return the schema's version, read from the file's header alone."""
    path = folder / FILE
    try:
        with open(path, "rb") as file:
            header = file.read(100)
    except (FileNotFoundError, NotADirectoryError):
        raise NotAStudyError(
            f"{folder} is not a study: it has no {FILE}. `etude ls` lists the studies that there are."
        ) from None
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error}.") from None
    if len(header) < 100 or not header.startswith(SQLITE_MAGIC):  # noqa: PLR2004 - the size of SQLite's header
        raise _damaged(folder, "it is no SQLite file")
    application, version = (int.from_bytes(header[at : at + 4]) for at in (68, 60))
    if application != APPLICATION_ID:
        raise NotAStudyError(
            f"{path} is an SQLite file, but not one of Étude's: another program wrote it. It was not touched. "
            "Give another folder."
        )
    if version > SCHEMA_VERSION:
        raise JournalError(
            f"{path} has schema version {version}, and this Étude knows versions up to {SCHEMA_VERSION}: a later "
            "Étude wrote it. It was not touched. Upgrade: pip install --upgrade etude."
        )
    return version


def _damaged(folder: Path, why: object) -> JournalError:
    return JournalError(
        f"The journal {folder / FILE} is damaged: {why}. It was not touched. Restore it from a copy; or, if the "
        "study may start over, move the folder away."
    )
