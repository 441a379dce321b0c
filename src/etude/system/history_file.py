"""The file that a system history is in: where it is, and what stands in for it where it cannot be used."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from etude.system.sqlite_file import DAMAGED, Kind, Unusable, code, connected, made, memory, opened

FILE: Final = "system.sqlite"
BUSY_S: Final = 2.0
"""Seconds to wait for another process that writes; after that the entry waits for the next one."""
KIND: Final = Kind(
    application_id=0x45745379,  # "EtSy"
    version=1,
    schema=(
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
        "CREATE TABLE entries (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, machine TEXT NOT NULL, "
        "objective TEXT NOT NULL, at_s REAL NOT NULL, body TEXT NOT NULL) STRICT",
        "CREATE INDEX entries_of_a_machine ON entries (machine, objective, at_s)",
    ),
    touch="DELETE FROM meta WHERE false",
)


def default_path() -> Path:
    """Return where the user's history is: ``$XDG_DATA_HOME/etude/system.sqlite``, or below ``~/.local/share``."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "etude" / FILE


PERMIT: Final = "See to its permissions."
MOVE: Final = "Move it away, or restore it from a copy."


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
    except (Unusable, OSError, sqlite3.Error, RuntimeError, ValueError) as error:  # the last two: no home, no such name
        path = Path(FILE) if path is None else path
        if isinstance(error, sqlite3.Error) and code(error) == sqlite3.SQLITE_READONLY:
            with contextlib.suppress(Unusable, sqlite3.Error):
                return _opened(path, _copy(path), told(path, Unusable("can be read, but not written", PERMIT)))
        return _opened(path, made(memory(), KIND, _salt), told(path, error))


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
    with contextlib.ExitStack() as on_error:
        connection = on_error.enter_context(contextlib.closing(opened(path, KIND, busy_s=BUSY_S, fill=_salt)))
        (whole,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if whole != "ok":
            raise Unusable(f"is damaged: {whole}", MOVE)
        on_error.pop_all()
    return connection


def _salt(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO meta VALUES ('salt', ?)", (secrets.token_hex(16),))


def _copy(path: Path) -> sqlite3.Connection:
    """Return what is in a file that can only be read."""
    with contextlib.ExitStack() as on_error:
        copy = on_error.enter_context(contextlib.closing(memory()))
        with contextlib.closing(connected(path, "ro", BUSY_S)) as connection:
            connection.backup(copy)
        on_error.pop_all()
    return copy


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
