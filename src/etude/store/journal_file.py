"""The file that a journal is in: how it is made, looked at, opened, brought up to date, and refused.

Whatever is wrong with it is found here, before anything in it was touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from etude.core.errors import JournalError, NotAStudyError
from etude.store.filesystems import network_kind

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

OUT_OF_REACH: Final = frozenset(
    {
        sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH,
    }
)  # fmt: skip
"""SQLite's codes that speak of the place or the moment, and not of what the file holds."""


def make_file(folder: Path, meta: Mapping[str, Any]) -> None:
    """Make a file with an empty journal in a new study folder; leave it alone if there is one already.

    It is written aside and then gets its name, so that a journal is whole from its first moment on.

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


def connect_to_write(folder: Path) -> sqlite3.Connection:
    """Return a connection to go on with a journal of this version."""
    with contextlib.ExitStack() as on_error:
        connection = on_error.enter_context(contextlib.closing(_connect(folder, "rw")))
        mode = "DELETE" if network_kind(folder) else "WAL"
        (got,) = connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if got == 'wal' else 'FULL'}")
        _try_to_write(connection)
        _migrate(folder, connection)
        on_error.pop_all()
    return connection


def connect_to_read(folder: Path) -> sqlite3.Connection:
    """Return a connection to look at a journal, brought to this version in memory; the file is not changed."""
    with contextlib.ExitStack() as on_error:
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
        on_error.pop_all()
    return connection


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


def _try_to_write(connection: sqlite3.Connection) -> None:
    """Raise SQLite's error if a file cannot be written: it is opened all the same, and begins and commits nothing.

    What is written is what is there, and taken back.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"PRAGMA user_version = {_version(connection)}")
    finally:
        if connection.in_transaction:  # SQLite has ended it itself where the disk was full or failed
            connection.execute("ROLLBACK")


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


def look_before_touching(folder: Path) -> None:
    """Refuse a file that is not ours, from its header alone, and without leaving a trace beside it."""
    path = folder / FILE
    try:
        if not path.stat().st_size:
            raise damaged(folder, "it is empty")
        # By SQLite, and never by open(): closing a file drops all locks that this process holds on it, those of
        # a driver in this process as well. Another process would then believe that it is alone, and remove the
        # write-ahead log that the driver goes on writing to.
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            application, version = _number(connection, "application_id"), _version(connection)
    except (FileNotFoundError, NotADirectoryError):
        told = f"{folder} is not a study: it has no {FILE}" if folder.exists() else f"There is no study {folder}"
        raise NotAStudyError(f"{told}. `etude ls` lists the studies that there are.") from None
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and (folder / f"{FILE}-wal").exists() and _code(error) in TORN:
            return  # the rest of it is in the write-ahead log, which this look leaves out; opening it tells
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_NOTADB:
            error = sqlite3.DatabaseError("it is no SQLite file")
        raise unusable(folder, error, "read") from None
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


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary code for an error; 0 if it is none of SQLite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def unusable(folder: Path, error: BaseException, to_be: str) -> JournalError:
    """Return the error for a journal that cannot be used: out of reach, or else damaged."""
    if isinstance(error, OSError) or (isinstance(error, sqlite3.Error) and _code(error) in OUT_OF_REACH):
        return JournalError(
            f"The journal {folder / FILE} cannot be {to_be}: {error}. Nothing in it was changed. "
            "See to its permissions, to the space on its disk, and to who else has it open; then try again."
        )
    return damaged(folder, error)


def damaged(folder: Path, why: object) -> JournalError:
    """Return the error for a journal that is not whole."""
    return JournalError(
        f"The journal {folder / FILE} is damaged: {why}. It was not touched. Restore it from a copy; or, if the "
        "study may start over, move the folder away."
    )
