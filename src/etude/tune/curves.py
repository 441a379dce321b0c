"""What stoppers remember of a study: how to look at each report once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from etude.core.plan import Report, Standing

S = TypeVar("S")


class Fold(Generic[S]):
    """Folds the reports of each trial, each once; all anew for an attempt that starts over.

    Args:
        start: What there is before the first report.
        add: Takes what there was, the next loss and its step, and returns what there is now.
    """

    def __init__(self, start: S, add: Callable[[S, float, int], S]) -> None:
        self._start = start
        self._add = add
        self._known: dict[int, tuple[int, S]] = {}

    def upto(self, report: Report, standing: Standing) -> S:
        """Return what the reports of a trial come to, this one included."""
        step, folded = self._known.get(report.trial, (0, self._start))
        if report.step == step + 1:
            folded = self._add(folded, standing.metrics.loss(report.value), report.step)
        else:  # the first look at it, the same look again, or an attempt that started over
            folded = self._start
            for nth, value in enumerate(standing.trials[report.trial].curve, start=1):
                folded = self._add(folded, standing.metrics.loss(value), nth)
        self._known[report.trial] = (report.step, folded)
        return folded

    def forget(self, trial: int) -> None:
        """Forget a trial that has ended."""
        self._known.pop(trial, None)
