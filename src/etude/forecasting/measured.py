"""What past studies have measured: the courses of their trials, and under which circumstances.

A trial that ran to its end is known whole. Of one that was stopped, or still runs, there is a beginning. Both count,
since leaving out what was stopped would leave out the trials that are worst, and often those that are slowest. So does
one that failed by itself, by an error or because it took too long: others will do so too. One whose process was lost
says nothing of trials to come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from etude.core.errors import ConfigError, StudyError
from etude.core.events import How, Joined, Opened, Params
from etude.core.metrics import Metrics
from etude.core.text import count
from etude.engines.curves import Record, Step, course_of, recorded, reported
from etude.results.search import Search, TrialResult
from etude.store.journal import Journal

FEWEST: Final = 5
"""Trials that have to be known whole: from fewer nobody can tell how much their times differ."""


BY_ITSELF: Final = (How.RAISED, How.UNUSABLE, How.TIMED_OUT, How.OUT_OF_MEMORY)
"""How a trial ends that would do so again."""


@dataclass(frozen=True)
class MeasuredTrial:
    """What is known of one trial.

    Attributes:
        params: Its configuration.
        steps: Its course: the seconds since the step before, and what was reported then.
        whole: Whether it ran to its end; else the course is a beginning.
        returned: What it returned; empty if that is not known.
    """

    params: Params
    steps: tuple[Step, ...]
    whole: bool = True
    returned: Mapping[str, Any] | None = None

    @property
    def seconds(self) -> float:
        """How long it ran, as far as that is known."""
        return sum(seconds for seconds, _ in self.steps)


@dataclass(frozen=True)
class Failing(Record):
    """The course of a trial up to where it failed by itself.

    Attributes:
        timed_out: Whether it was ended for the time that it took; else it raised there.
    """

    timed_out: bool = False


@dataclass(frozen=True)
class Evidence:
    """All that a forecast goes by.

    Attributes:
        trials: The measured trials.
        failing: Those that failed by themselves.
        metrics: What their studies measure.
        studies: Their names.
        meta: What was recorded about the first of the studies.
        at_a_time: How many trials ran beside each other, on average over the time that any did.
        startup_s: Seconds until the first worker was there.
        timeout_s: Seconds after which the first of the studies ended an attempt; None for no limit.
        failed: How many trials failed, by themselves or because they were lost too often.
        lost: Share of the attempts that was lost.
        going_on: Whether a study is not complete, so that trials that take long may be missing.
        simulated: Whether a study was simulated itself.
    """

    trials: tuple[MeasuredTrial, ...]
    metrics: Metrics
    studies: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    at_a_time: float = 1.0
    startup_s: float = 0.0
    failed: int = 0
    failing: tuple[Failing, ...] = ()
    timeout_s: float | None = None
    lost: float = 0.0
    going_on: bool = False
    simulated: bool = False

    @property
    def whole(self) -> int:
        """How many of the trials are known to their end."""
        return sum(trial.whole for trial in self.trials)

    @property
    def reports(self) -> bool:
        """Whether any trial reported the watched metric on its way."""
        return any(self.metrics.watched in metrics for trial in self.trials for _, metrics in trial.steps)

    def checked(self) -> Evidence:
        """Return this evidence if it is enough.

        Raises:
            StudyError: Too few trials ran to their end.
        """
        if self.whole < FEWEST:
            told = " and ".join(self.studies) or "the evidence"
            raise StudyError(
                f"{told} has {count(self.whole, 'trial')} that ran to the end, which is too little for a forecast: "
                f"at least {FEWEST} are needed to tell how much times differ. Run a few more, with stopper='none', "
                "or name further studies of the same experiment."
            )
        return self


def measured(searches: Sequence[Search]) -> Evidence:
    """Read what past studies have measured.

    Args:
        searches: The studies, at least one; they may still run.

    Raises:
        ConfigError: They do not go together, or one gave its trials budgets.
        StudyError: Too few of their trials ran to their end.
    """
    first = searches[0]
    for search in searches:
        if search.metrics.fidelity is not None:
            raise ConfigError(
                f"Study {search.name!r} gave its trials budgets by {search.metrics.fidelity.name!r}, and from small "
                "budgets nobody can tell how long large ones take. Give a study without fidelity=."
            )
        if search.metrics.modes != first.metrics.modes:
            raise ConfigError(
                f"Study {search.name!r} measures {search.metrics!r}, and {first.name!r} {first.metrics!r}. Forecast "
                "from studies of one experiment."
            )
    ran = [
        (search, trial)
        for search in searches
        for trial in search.trials
        if trial.same_as is None and trial.reused_from is None
    ]
    known = [found for _, trial in ran if (found := _measured(trial)) is not None]
    timeout_s = (first.meta.get("call") or {}).get("timeout_s")
    failing = tuple(fails for _, trial in ran if (fails := _failing(trial, timeout_s)) is not None)
    attempts = sum(trial.attempts for _, trial in ran)
    return Evidence(
        trials=tuple(known),
        metrics=first.metrics,
        studies=tuple(search.name for search in searches),
        meta=first.meta,
        at_a_time=at_a_time((t.started_at, t.ended_at) for _, t in ran if t.state in ("finished", "stopped")),
        startup_s=_startup_s(first),
        failing=failing,
        timeout_s=timeout_s,
        failed=sum(trial.state == "failed" for _, trial in ran),
        lost=sum(trial.losses for _, trial in ran) / attempts if attempts else 0.0,
        going_on=any(not search.complete for search in searches),
        simulated=any(search.simulated for search in searches),
    ).checked()


def at_a_time(spans: Iterable[tuple[float | None, float | None]]) -> float:
    """Return how many of these overlap, on average over the time in which any is there.

    Example:
        >>> at_a_time([(0.0, 4.0), (0.0, 2.0), (10.0, 12.0)])
        1.3333333333333333
    """
    known = sorted((start, end) for start, end in spans if start is not None and end is not None and end > start)
    covered, until = 0.0, float("-inf")
    for start, end in known:
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return sum(end - start for start, end in known) / covered if covered else 1.0


def _measured(trial: TrialResult) -> MeasuredTrial | None:
    if trial.started_at is None or trial.state in ("failed", "invalid"):
        return None
    if trial.state == "finished" and not trial.halted and trial.ended_at is not None:
        record = recorded(trial)
        return MeasuredTrial(record.params, record.steps, returned=record.returned)
    steps = reported(trial)
    return MeasuredTrial(dict(trial.params), steps, whole=False) if steps else None


def _failing(trial: TrialResult, timeout_s: float | None) -> Failing | None:
    by_itself = trial.state == "failed" and trial.how in BY_ITSELF
    if not by_itself or trial.started_at is None or trial.ended_at is None:
        return None
    timed_out = trial.how == How.TIMED_OUT and timeout_s is not None
    return Failing(dict(trial.params), course_of(trial), timed_out=timed_out)


def _startup_s(search: Search) -> float:
    """Return how long the first worker of a study's newest run took until it was there."""
    opened = took = None
    with contextlib.closing(Journal.read(search.folder)) as journal:
        for fact in journal.facts():
            if type(fact) is Opened:
                opened, took = fact.at, None
            elif type(fact) is Joined and opened is not None and took is None:
                took = max(0.0, fact.at - opened)
    return took or 0.0
