"""A stretch of a journal as it travels: its rows as they are, and a digest that tells two journals apart.

The digest runs over the rows in order, from the first, however they are cut into stretches. So two journals with the
same digest up to a number hold the same up to there.
"""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any

import msgspec

from etude.core.events import AnyFact

Report = tuple[int, str, float, int, int, int, float | None]
"""Number, metric, time, trial, attempt, step, value."""

encode = msgspec.msgpack.Encoder().encode
_fact = msgspec.msgpack.Decoder(AnyFact).decode


class Rows(msgspec.Struct, frozen=True, omit_defaults=True):
    """Consecutive rows of a journal.

    Attributes:
        after: The number of the fact before the first; 0 if there is none.
        upto: The number of the last.
        facts: All that are no reports: number and content.
        reports: One for each metric of a report.
    """

    after: int
    upto: int
    facts: list[tuple[int, bytes]] = []
    reports: list[Report] = []

    def until(self, upto: int) -> Rows:
        """Return those up to a number."""
        facts = [fact for fact in self.facts if fact[0] <= upto]
        return Rows(self.after, upto, facts, [report for report in self.reports if report[0] <= upto])

    def beyond(self, after: int) -> Rows:
        """Return those above a number."""
        facts = [fact for fact in self.facts if fact[0] > after]
        return Rows(after, self.upto, facts, [report for report in self.reports if report[0] > after])


class Digest:
    """A digest over the rows of a journal, from its first on."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.upto = 0
        """The last fact that it is about."""

    def feed(self, rows: Rows) -> str:
        """Take in the rows that come next, and return the digest over all so far."""
        assert rows.after == self.upto, f"rows after {rows.after} do not come next after {self.upto}"
        told: list[tuple[int, str, bytes]] = [(seq, "", body) for seq, body in rows.facts]
        told += [(report[0], report[1], encode(report)) for report in rows.reports]
        for seq, metric, body in sorted(told):
            self._hash.update(b"%d %d %d " % (seq, len(metric), len(body)))
            self._hash.update(body)
        self.upto = rows.upto
        return self.told

    def copy(self) -> Digest:
        """Return one that goes on from here for itself."""
        other = Digest()
        other._hash, other.upto = self._hash.copy(), self.upto
        return other

    @property
    def told(self) -> str:
        """The digest over all rows so far."""
        return self._hash.hexdigest()


def read_rows(connection: sqlite3.Connection, after: int, upto: int) -> Rows:
    """Return the rows with numbers above ``after``, ``upto`` the last."""
    facts = connection.execute("SELECT seq, body FROM facts WHERE seq > ? AND seq <= ? ORDER BY seq", (after, upto))
    reports = connection.execute(
        "SELECT seq, name, at, trial, attempt, step, value FROM reports JOIN metrics ON metrics.id = metric "
        "WHERE seq > ? AND seq <= ? ORDER BY seq, metric",
        (after, upto),
    )
    return Rows(after, upto, facts.fetchall(), reports.fetchall())


def write_rows(connection: sqlite3.Connection, rows: Rows) -> None:
    """Write rows into a journal, inside a transaction.

    Raises:
        msgspec.DecodeError: One of them is no fact.
    """
    known: dict[str, int] = dict(connection.execute("SELECT name, id FROM metrics").fetchall())
    for name in dict.fromkeys(report[1] for report in rows.reports):
        if name not in known:
            known[name] = len(known)
            connection.execute("INSERT INTO metrics VALUES (?, ?)", (known[name], name))
    connection.executemany(
        "INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(seq, known[name], *rest) for seq, name, *rest in rows.reports],
    )
    connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?)", [_columns(*fact) for fact in rows.facts])


def _columns(seq: int, body: bytes) -> tuple[Any, ...]:
    fact = _fact(body)
    return (seq, fact.at, type(fact).__name__.lower(), getattr(fact, "trial", None), body)
