"""An SQLite file of ours: made if there is none, and refused if it is somebody else's, damaged, or of a later version.

It has a rollback journal. A write-ahead log would let readers go on during a write, but it is not safe where home
folders often are, on a network; and here a write is a few kilobytes.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DAMAGED: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
"""Codes that speak of what the file holds, such as a table that is not there."""
BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
"""Codes that say that another process is at it."""


class Unusable(Exception):  # noqa: N818 - it becomes a text
    """The file is not ours to use.

    Attributes:
        mend: What to do, as a sentence.
    """

    def __init__(self, why: str, mend: str) -> None:
        super().__init__(why)
        self.mend = mend


@dataclass(frozen=True)
class Kind:
    """What kind of file it is.

    Attributes:
        application_id: Tells it from files of other programs.
        version: The one that is written, and the latest that can be read.
        schema: The commands that make an empty one.
        touch: A command that changes nothing; where nothing can be written, only a command says so.
    """

    application_id: int
    version: int
    schema: tuple[str, ...]
    touch: str


def opened(
    path: Path,
    kind: Kind,
    *,
    busy_s: float,
    wait_s: float = 0.0,
    fill: Callable[[sqlite3.Connection], object] = lambda _: None,
) -> sqlite3.Connection:
    """Return a connection to a file of a kind, which is made if there is none; its folder has to be there.

    Args:
        path: The file.
        kind: What kind of file it is.
        busy_s: Seconds for which SQLite waits for another process.
        wait_s: Seconds to wait until it can be looked at, as ``transaction`` does.
        fill: Puts into a new one what is in it from the start.

    Raises:
        Unusable: It is not ours.
        sqlite3.Error: It is damaged, or cannot be read or written.
    """
    if path.exists():
        _look_before_touching(path, kind, busy_s)
    with contextlib.ExitStack() as on_error:
        connection = on_error.enter_context(contextlib.closing(connected(path, "rwc", busy_s)))
        connection.execute("PRAGMA secure_delete = ON")
        made(connection, kind, fill, wait_s=wait_s)
        on_error.pop_all()
    return connection


def made(
    connection: sqlite3.Connection,
    kind: Kind,
    fill: Callable[[sqlite3.Connection], object] = lambda _: None,
    *,
    wait_s: float = 0.0,
) -> sqlite3.Connection:
    """Make an empty database one of a kind; leave one alone that is there."""
    with transaction(connection, wait_s=wait_s):
        if _refuse_others(connection, kind) == 0:
            for command in kind.schema:
                connection.execute(command)
            fill(connection)
            connection.execute(f"PRAGMA application_id = {kind.application_id}")
            connection.execute(f"PRAGMA user_version = {kind.version}")
        connection.execute(kind.touch)
    return connection


def memory() -> sqlite3.Connection:
    """Return an empty database in memory."""
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def connected(path: Path, mode: str, busy_s: float) -> sqlite3.Connection:
    """Return a connection to a file, whatever is in it."""
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=busy_s, check_same_thread=False)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, *, wait_s: float = 0.0) -> Iterator[None]:
    """Run a block in one write transaction: all of it is in the file afterwards, or nothing.

    Args:
        connection: To the file.
        wait_s: Seconds to try if others are at it. SQLite by itself looks less and less often while it waits, so that
            who has waited long loses to those who come: where many write, it is to wait shortly, and is asked again.
    """
    until_s = time.monotonic() + wait_s
    _patiently(connection, "BEGIN IMMEDIATE", until_s)
    try:
        yield
        _patiently(connection, "COMMIT", until_s)
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _patiently(connection: sqlite3.Connection, command: str, until_s: float) -> None:
    while True:
        try:
            connection.execute(command)
        except sqlite3.OperationalError as error:
            if code(error) not in BUSY or time.monotonic() >= until_s:
                raise
        else:
            return


def code(error: sqlite3.Error) -> int:
    """Return SQLite's primary code for an error; 0 if it is none of SQLite's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _look_before_touching(path: Path, kind: Kind, busy_s: float) -> None:
    """Refuse a file that is not ours from its header, without a lock and without a trace beside it."""
    with contextlib.closing(connected(path, "ro&immutable=1", busy_s)) as connection:
        try:
            _refuse_others(connection, kind)
        except sqlite3.Error as error:
            if code(error) == sqlite3.SQLITE_NOTADB:
                raise
            # Another process may be half-way through a write; opening it with locks tells.


def _refuse_others(connection: sqlite3.Connection, kind: Kind) -> int:
    """Return the version of a file of ours, 0 if it is empty; refuse what is none, or a later one."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != kind.application_id and (application or tables):
        raise Unusable("is an SQLite file of another program", "Name another file.")
    if version > kind.version:
        known = f"this one knows versions up to {kind.version}"
        raise Unusable(f"has version {version} by a later Étude, and {known}", "Upgrade: pip install --upgrade etude.")
    return int(version) if application else 0
