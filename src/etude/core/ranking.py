"""Which of the finished trials are better: the one order for results, summaries and progress."""

from __future__ import annotations

import math
from collections.abc import Iterable

from etude.core.history import Trial


def ranked(finished: Iterable[Trial], *, mode: str) -> list[Trial]:
    """Return finished trials, best first; NaN is worse than any number, the earliest of equals is first.

    Trials that share the result of an earlier one are left out.
    """
    return sorted(_own(finished), key=lambda trial: _rank(trial, mode))


def best_of(finished: Iterable[Trial], *, mode: str) -> Trial | None:
    """Return what ``ranked`` has first, without sorting the rest; None if it has nothing."""
    return min(_own(finished), key=lambda trial: _rank(trial, mode), default=None)


def _own(finished: Iterable[Trial]) -> Iterable[Trial]:
    return (trial for trial in finished if trial.same_as is None)


def _rank(trial: Trial, mode: str) -> tuple[bool, float, int]:
    value = trial.value
    if value is None or math.isnan(value):
        return (True, 0.0, trial.number)
    return (False, -value if mode == "max" else value, trial.number)
