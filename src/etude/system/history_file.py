"""The file that a system history is in: how it is made, looked at, opened, and refused.

It is an SQLite file with a rollback journal. A write-ahead log would let readers go on during a write, but it is not
safe where home folders often are, on a network; and here a write is a few kilobytes once in a trial.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = "system.sqlite"
APPLICATION_ID: Final = 0x45745379  # "EtSy"
SCHEMA_VERSION: Final = 1
DAMAGED: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
"""Codes that speak of what the file holds, such as a table that is not there."""
BUSY_S: Final = 2.0
"""Seconds to wait for another process that writes; after that the entry waits for the next one."""
SCHEMA: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, machine TEXT NOT NULL, "
    "objective TEXT NOT NULL, at_s REAL NOT NULL, body TEXT NOT NULL) STRICT",
    "CREATE INDEX entries_of_a_machine ON entries (machine, objective, at_s)",
)


def default_path() -> Path:
    """Return where the user's history is: ``$XDG_DATA_HOME/etude/system.sqlite``, or below ``~/.local/share``."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "etude" / FILE


PERMIT: Final = "See to its permissions."
MOVE: Final = "Move it away, or restore it from a copy."


class Unusable(Exception):  # noqa: N818 - it becomes a text
    """The file is not ours to use.

    Attributes:
        mend: What to do, as a sentence.
    """

    def __init__(self, why: str, mend: str) -> None:
        super().__init__(why)
        self.mend = mend


@dataclass(frozen=True)
class Opened:
    """A history that can be read and written, be it in its file or in memory.

    Attributes:
        path: The file that was meant.
        connection: To the file, or to what stands in for it in memory.
        salt: What digests of workloads are made with.
        trouble: Why it is in memory; empty if it is in the file.
    """

    path: Path
    connection: sqlite3.Connection
    salt: str
    trouble: str = ""


def open_history(path: Path | None) -> Opened:
    """Return the history in a file, which is made if there is none; it never raises.

    One that can only be read is copied into memory. One that cannot be read, or is not ours, is left alone.
    """
    try:
        path = default_path() if path is None else path
        return _opened(path, _in_file(path))
    except (Unusable, OSError, sqlite3.Error, RuntimeError) as error:  # the last if the user has no home
        path = Path(FILE) if path is None else path
        if isinstance(error, sqlite3.Error) and code(error) == sqlite3.SQLITE_READONLY:
            with contextlib.suppress(Unusable, sqlite3.Error):
                return _opened(path, _copy(path), told(path, Unusable("can be read, but not written", PERMIT)))
        return _opened(path, _made(_memory()), told(path, error))


def _opened(path: Path, connection: sqlite3.Connection, trouble: str = "") -> Opened:
    try:
        found = connection.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()
        if found is None:
            raise Unusable("is damaged: it has no salt", MOVE)
    except BaseException:
        connection.close()
        raise
    return Opened(path, connection, found[0], trouble)


def _in_file(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        _look_before_touching(path)
    with contextlib.ExitStack() as on_error:
        connection = on_error.enter_context(contextlib.closing(_connected(path, "rwc")))
        connection.execute("PRAGMA secure_delete = ON")
        _made(connection)
        (whole,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if whole != "ok":
            raise Unusable(f"is damaged: {whole}", MOVE)
        on_error.pop_all()
    return connection


def _look_before_touching(path: Path) -> None:
    """Refuse a file that is not ours from its header, without a lock and without a trace beside it."""
    with contextlib.closing(_connected(path, "ro&immutable=1")) as connection:
        try:
            _refuse_others(connection)
        except sqlite3.Error as error:
            if code(error) == sqlite3.SQLITE_NOTADB:
                raise
            # Another process may be half-way through a write; opening it with locks tells.


def _made(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Put an empty history into an empty file; leave one alone that is there."""
    with transaction(connection):
        if _refuse_others(connection) == 0:
            for command in SCHEMA:
                connection.execute(command)
            connection.execute("INSERT INTO meta VALUES ('salt', ?)", (secrets.token_hex(16),))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("DELETE FROM meta WHERE false")  # where nothing can be written, only a command says so
    return connection


def _refuse_others(connection: sqlite3.Connection) -> int:
    """Return the version of a history, 0 if the file is empty; refuse what is no history, or a later one."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or tables):
        raise Unusable("is an SQLite file of another program", "Name another file.")
    if version > SCHEMA_VERSION:
        known = f"this one knows versions up to {SCHEMA_VERSION}"
        raise Unusable(f"has version {version} by a later Étude, and {known}", "Upgrade: pip install --upgrade etude.")
    return int(version) if application else 0


def _copy(path: Path) -> sqlite3.Connection:
    """Return what is in a file that can only be read."""
    with contextlib.ExitStack() as on_error:
        memory = on_error.enter_context(contextlib.closing(_memory()))
        with contextlib.closing(_connected(path, "ro")) as connection:
            connection.backup(memory)
        on_error.pop_all()
    return memory


def _memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_S, check_same_thread=False)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block in one write transaction: all of it is in the file afterwards, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def told(path: Path, error: BaseException) -> str:
    """Return what is wrong with a file, why, and the mend."""
    here = "It was not touched, and what is learned is kept in memory only."
    if isinstance(error, Unusable):
        return f"The system history {path} {error}. {here} {error.mend}"
    if isinstance(error, sqlite3.Error) and code(error) in DAMAGED:
        return f"The system history {path} is damaged, or another kind of file: {error}. {here} {MOVE}"
    return (
        f"The system history {path} cannot be used: {error}. {here} {PERMIT[:-1]}, to the space on its disk, and to "
        "who else has it open; or name another file."
    )


def code(error: sqlite3.Error) -> int:
    """Return SQLite's primary code for an error; 0 if it is none of SQLite's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
