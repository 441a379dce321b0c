"""Which of the finished trials are better: the one order for results, summaries and progress."""

from __future__ import annotations

import math
from collections.abc import Iterable

from etude.core.history import Trial
from etude.core.metrics import Metrics


def ranked(finished: Iterable[Trial], metrics: Metrics) -> list[Trial]:
    """Return finished trials, best by the main metric first.

    NaN is worse than any number, and the earliest of equals is first. Trials that share the result of an earlier one
    are left out, and so are those with a smaller budget than another that finished: their values do not compare.
    """
    return sorted(_comparable(finished, metrics), key=lambda trial: _rank(trial, metrics))


def best_of(finished: Iterable[Trial], metrics: Metrics) -> Trial | None:
    """Return what ``ranked`` has first, without sorting the rest; None if it has nothing."""
    return min(_comparable(finished, metrics), key=lambda trial: _rank(trial, metrics), default=None)


def front(finished: Iterable[Trial], metrics: Metrics) -> list[Trial]:
    """Return the finished trials that no other is better than: the Pareto front, best by the main metric first.

    One trial is better than another if it is better by one metric and worse by none. Of equals all are kept. Trials
    with a metric that is NaN are left out, unless all are such.
    """
    candidates = ranked(finished, metrics)
    candidates = [trial for trial in candidates if not _has_nan(trial, metrics)] or candidates
    losses = {trial.number: metrics.losses(metrics.values(trial)) for trial in candidates}
    return [t for t in candidates if not any(_dominates(other, losses[t.number]) for other in losses.values())]


def _has_nan(trial: Trial, metrics: Metrics) -> bool:
    return any(math.isnan(value) for value in metrics.values(trial).values())


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _comparable(finished: Iterable[Trial], metrics: Metrics) -> list[Trial]:
    own = [trial for trial in finished if trial.same_as is None]
    if metrics.fidelity is None:
        return own
    rungs = [metrics.fidelity.rung(trial.params) for trial in own]
    top = max(rungs, default=-1)
    return [trial for trial, rung in zip(own, rungs, strict=True) if rung == top]


def _rank(trial: Trial, metrics: Metrics) -> tuple[bool, float, int]:
    return (*metrics.rank(trial.value), trial.number)
