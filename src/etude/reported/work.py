"""Who did what when, from the journal's facts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from etude.analyse.report.facts import Presence, Span
from etude.core.events import AnyFact, Assigned, Closed, Joined, Left, Opened, Settled
from etude.core.lifecycle import Turn
from etude.store.journal import Journal

FAILED: Final = frozenset({"raised", "unusable", "timed out", "out of memory", "killed", "lost"})
"""Ways in which an attempt can end that nothing came of."""

RUNNING: Final = "running"
"""How an attempt stands that has not ended."""


@dataclass
class Work:
    """Who was there, and at what, in seconds since the study began.

    Attributes:
        began_at: When it began, by the driver's clock; None if nobody has.
        spans: Times at attempts.
        presences: Times that workers were there.
    """

    began_at: float | None = None
    spans: list[Span] = field(default_factory=list)
    presences: list[Presence] = field(default_factory=list)

    @property
    def busy_s(self) -> float:
        """Seconds that workers were at attempts."""
        return sum(span.end_s - span.start_s for span in self.spans)

    @property
    def there_s(self) -> float:
        """Seconds that workers were there."""
        return sum(one.end_s - one.start_s for one in self.presences)

    @property
    def wasted_s(self) -> float:
        """Seconds at attempts that nothing came of."""
        return sum(span.end_s - span.start_s for span in self.spans if span.how in FAILED)


def work_of(folder: Path) -> Work:
    """Return who did what when in the study in a folder."""
    with contextlib.closing(Journal.read(folder)) as journal:
        return work_in(journal.facts_but_reports())


def work_in(facts: Iterable[AnyFact]) -> Work:
    """Return who did what when, as facts tell it; what is open at their end goes on until then."""
    watched = Watched()
    for fact in facts:
        watched.take(fact)
    return watched.done()


class Watched:
    """Who does what, while facts come.

    Attributes:
        work: Who was there and at what; what is open is not in it yet. It only grows.
    """

    def __init__(self) -> None:
        self.work = Work()
        self._there: dict[str, float] = {}
        self._at: dict[int, tuple[str, int, float]] = {}  # trial -> worker, attempt, since
        self._now = 0.0

    def take(self, fact: AnyFact) -> None:
        """Note what a fact tells."""
        kind = type(fact)
        if kind is Opened and self.work.began_at is None:
            self.work.began_at = fact.at
        if kind is Opened:  # its predecessor ended without a word
            self._end_all("lost", self._now)
        self._now = fact.at - (self.work.began_at if self.work.began_at is not None else fact.at)
        if isinstance(fact, Joined):
            self._there.setdefault(fact.worker, self._now)
        elif isinstance(fact, Left):
            self._leave(fact.worker, fact.reason)
        elif isinstance(fact, Assigned):
            self._at[fact.trial] = (fact.worker, fact.attempt, self._now)
        elif isinstance(fact, Settled) and fact.trial in self._at:
            how = fact.outcome.how.value if fact.outcome is not None else _how(fact.turn)
            self._end(fact.trial, how, self._now)
        elif isinstance(fact, Closed):
            self._end_all("lost", self._now)

    def under_way(self) -> list[Span]:
        """Return who is at what now, until the last fact."""
        now = self._now
        return [
            Span(worker, trial, n, since, max(since, now), RUNNING) for trial, (worker, n, since) in self._at.items()
        ]

    def done(self) -> Work:
        """Return all of it; what is open goes on until the last fact."""
        self._end_all(RUNNING, self._now)
        return self.work

    def _leave(self, worker: str, reason: str) -> None:
        since = self._there.pop(worker, None)
        if since is not None:
            self.work.presences.append(Presence(worker, since, self._now, reason))

    def _end(self, trial: int, how: str, now: float) -> None:
        worker, attempt, since = self._at.pop(trial)
        self.work.spans.append(Span(worker, trial, attempt, since, max(since, now), how))

    def _end_all(self, how: str, now: float) -> None:
        for trial in list(self._at):
            self._end(trial, how, now)
        for worker in list(self._there):
            self._leave(worker, "")


def _how(turn: Turn) -> str:
    return {Turn.LOST: "lost", Turn.GIVEN_UP: "raised", Turn.PAUSED: "paused", Turn.FINISHED: "finished"}.get(
        turn, "stopped"
    )
