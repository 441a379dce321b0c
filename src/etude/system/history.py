"""The file in which a machine's tuning is remembered from study to study: one for each user, or for a project.

Nothing that is wrong with the file stops a training. What cannot be read, or is not ours, is told and left alone, and
what is learned is kept in memory until the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, final

import msgspec

from etude.core.errors import ConfigError
from etude.system.entries import Entry
from etude.system.history_file import MOVE, Opened, open_history, told
from etude.system.sqlite_file import Unusable, transaction

EXPORT: Final = {"etude": "system history", "version": 1}
"""First line of an export."""
NEWEST: Final = 1000
"""Entries of a machine and an objective that are looked at."""

Row = tuple[str, str, str, float, str]
INSERT: Final = "INSERT OR IGNORE INTO entries (digest, machine, objective, at_s, body) VALUES (?, ?, ?, ?, ?)"


@final
class History:
    """What is remembered of past runs.

    Made by ``History.open``. Several processes may have the same file open and write to it.

    Attributes:
        path: The file.
        trouble: What is wrong with it, why, and the mend, in one text; empty if nothing is. What is added then is kept
            until the end of this process.
    """

    def __init__(self, found: Opened) -> None:
        self.path = found.path
        self.trouble = found.trouble
        self._connection = found.connection
        self._salt = found.salt.encode()
        self._in_memory = bool(found.trouble)
        self._waiting: list[tuple[Entry, Row]] = []

    @classmethod
    def open(cls, path: Path | None = None) -> History:
        """Return the history in a file, which is made if there is none; it never raises.

        Args:
            path: The file; None for the user's: ``$XDG_DATA_HOME/etude/system.sqlite``, or that in ``~/.local/share``.
        """
        return cls(open_history(path))

    def digest(self, workload: str) -> str:
        """Return the digest of a workload: equal for equal texts within this file, and of no use outside it.

        Args:
            workload: What tells the workload from others, such as names of model and data. It is not kept. As the file
                has a salt of its own, nobody who has an export alone can find the names by trying.
        """
        return hashlib.blake2b(workload.encode(errors="surrogateescape"), key=self._salt, digest_size=16).hexdigest()

    def add(self, entry: Entry) -> None:
        """Remember an entry. If the file refuses, it waits in memory, and ``trouble`` says why.

        Raises:
            TypeError: A value of a setting is no plain one.
        """
        self._waiting.append((entry, _row(entry)))
        self._write_what_waits()

    def entries(self, *, machine: str, objective: str, newest: int = NEWEST) -> list[Entry]:
        """Return what is remembered of a machine for an objective, the oldest first; of others nothing.

        Args:
            machine: The digest of its hardware.
            objective: What costs are.
            newest: How many at most.
        """
        waiting = [one for one, _ in self._waiting if (one.hardware.digest, one.objective) == (machine, objective)]
        rows: Iterable[tuple[str]] = []
        with self._telling():
            rows = self._connection.execute(
                "SELECT body FROM entries WHERE machine = ? AND objective = ? ORDER BY at_s DESC, id DESC LIMIT ?",
                (machine, objective, newest),
            ).fetchall()
        written = [one for (body,) in rows if (one := self._read(body)) is not None]
        return [*reversed(written), *waiting][-newest:]

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how many entries there are, by digest of the machine and objective."""
        found = Counter((one.hardware.digest, one.objective) for one, _ in self._waiting)
        with self._telling():
            for machine, objective, n in self._connection.execute(
                "SELECT machine, objective, count(*) FROM entries GROUP BY machine, objective"
            ):
                found[machine, objective] += n
        return dict(found)

    def export_to(self, file: Path) -> int:
        """Write all entries into a new file, one in a line as JSON, and return how many.

        Raises:
            ConfigError: The file exists, or cannot be written.
        """
        self._write_what_waits()
        try:
            bodies = self._connection.execute("SELECT body FROM entries ORDER BY id").fetchall()
        except sqlite3.Error as error:
            raise ConfigError(told(self.path, error)) from None
        lines = [msgspec.json.encode(EXPORT).decode(), *(body for (body,) in bodies)]
        try:
            with file.open("x", encoding="utf-8") as out:
                out.write("".join(f"{line}\n" for line in lines))
        except FileExistsError:
            raise ConfigError(f"{file} exists, and is not overwritten. Name a new file.") from None
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error.strerror}. Name a file elsewhere.") from None
        return len(bodies)

    def import_from(self, file: Path) -> int:
        """Add the entries of an export, all or none, and return how many were new.

        Those of other machines are kept as theirs.

        Raises:
            ConfigError: The file is no export, or this history cannot be written.
        """
        rows = [_row(one) for one in _read_export(file)]
        return self._change(lambda: self._insert(rows))

    def forget(self, *, before_s: float | None = None, machine: str | None = None) -> int:
        """Remove entries, what they said included, and return how many; without conditions, all.

        Args:
            before_s: Only those that were learned before this time, in seconds since 1970.
            machine: Only those of the hardware with this digest.

        Raises:
            ConfigError: This history cannot be written.
        """
        where = "(:before IS NULL OR at_s < :before) AND (:machine IS NULL OR machine = :machine)"
        values = {"before": before_s, "machine": machine}
        command = f"DELETE FROM entries WHERE {where}"  # noqa: S608 - the condition is ours
        return self._change(lambda: self._connection.execute(command, values).rowcount)

    def close(self) -> None:
        """Write what still waits, and let go of the file."""
        self._write_what_waits()
        self._connection.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_what_waits(self) -> None:
        if not self._waiting:
            return
        with self._telling():
            with transaction(self._connection):
                self._insert([row for _, row in self._waiting])
            self._waiting = []
            if not self._in_memory:
                self.trouble = ""

    def _insert(self, rows: Iterable[Row]) -> int:
        before = self._connection.total_changes
        self._connection.executemany(INSERT, rows)
        return self._connection.total_changes - before

    def _change(self, work: Callable[[], int]) -> int:
        if self._in_memory:
            raise ConfigError(self.trouble)
        try:
            with transaction(self._connection):
                return work()
        except sqlite3.Error as error:
            raise ConfigError(told(self.path, error)) from None

    def _read(self, body: str) -> Entry | None:
        try:
            return msgspec.json.decode(body, type=Entry)
        except (msgspec.DecodeError, ConfigError) as error:
            self.trouble = told(self.path, Unusable(f"is damaged: an entry in it cannot be read ({error})", MOVE))
            return None

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self.trouble = told(self.path, error)


def _row(entry: Entry) -> Row:
    body = msgspec.json.encode(entry, order="sorted").decode()
    digest = hashlib.sha256(body.encode()).hexdigest()[:32]
    return digest, entry.hardware.digest, entry.objective, entry.at_s, body


def _read_export(file: Path) -> Iterator[Entry]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}. Name a file that an export has made.") from None
    head = lines[0] if lines else ""
    if head != msgspec.json.encode(EXPORT).decode():
        raise ConfigError(
            f"{file} is no export of a system history, or one of another version: its first line is {head[:60]!r}. "
            "Nothing was added. Name a file that an export has made."
        )
    for nth, line in enumerate(lines[1:], start=2):
        try:
            yield msgspec.json.decode(line, type=Entry)
        except (msgspec.DecodeError, ConfigError) as error:
            raise ConfigError(
                f"{file}, line {nth}, is no entry: {error}. Nothing was added. Remove the line, or export again."
            ) from None
