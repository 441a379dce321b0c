"""The median rule, in both of the forms that there are."""

from __future__ import annotations

import math
from array import array
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from etude.core.errors import ConfigError
from etude.core.history import Trial
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.core.text import count
from etude.tune.curves import Fold


@final
@dataclass
class MedianRule:
    """Stop a trial that is worse than the median of those that finished.

    At each report, the best value that the trial has reported so far is compared with the median over all finished
    trials: of the running average of their reports up to the same step, or, with ``best_so_far``, of their values at
    that very step. A trial that is strictly worse stops. NaN is worse than any number. A trial that finished with
    fewer reports counts with what its last one made it.

    While curves rise, an average lags behind the value at the step. So the running average is the easier bar: it
    spares fewer reports, and stops fewer trials that would have come up later.

    Args:
        first_after: How many trials have to finish before any is stopped.
        best_so_far: Compare with the others' values at that step, and not with their averages.
        metric: Which metric it watches, where there are several.

    Source:
        Golovin et al. 2017, "Google Vizier: A Service for Black-Box Optimization",
        doi:10.1145/3097983.3098043, section 3.2.1; with ``best_so_far`` the rule is that of
        ``optuna.pruners.MedianPruner``. ``first_after`` is our addition to the former. Optuna leaves out a trial that
        finished with fewer reports.
    """

    first_after: int = 4
    best_so_far: bool = False
    metric: str | None = None

    def __post_init__(self) -> None:
        if self.first_after < 1:
            raise ConfigError(
                f"first_after={self.first_after} is below 1: a median needs at least one finished trial. "
                "Pass 1 to let the rule work from the first one on."
            )
        self._seen = 0
        self._peers = 0
        self._bars: list[array[float]] = []
        """At index s - 1, sorted: what each finished trial counts with at step s, as a loss."""
        self._best: Fold[float] = Fold(math.inf, lambda best, loss, step: min(best, loss))

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that the trial stops if it is worse than the median of its finished peers."""
        self._take_in(standing)
        best = self._best.upto(report, standing)
        if self._peers < self.first_after:
            return GO_ON
        peers = self._bars[min(report.step, len(self._bars)) - 1]
        median = _median(peers)
        if best <= median:
            return GO_ON
        shown = standing.metrics.loss(median)  # twice turned round is as it was
        reason = f"worse than the median {shown:.4g} of {count(len(peers), 'trial')} at step {report.step}"
        return Decision(Act.STOP, reason)

    def _take_in(self, standing: Standing) -> None:
        """Add the trials that finished since the last look."""
        for trial in standing.finished[self._seen :]:
            self._best.forget(trial.number)
            if trial.curve and trial.same_as is None:
                self._peers += 1
                self._add(trial, standing)
        self._seen = len(standing.finished)

    def _add(self, trial: Trial, standing: Standing) -> None:
        while len(self._bars) < len(trial.curve):  # the others stand there with all they have
            self._bars.append(array("d", self._bars[-1]) if self._bars else array("d"))
        total, counts = 0.0, math.inf
        for step, bars in enumerate(self._bars, start=1):
            if step <= len(trial.curve):
                loss = standing.metrics.loss(trial.curve[step - 1])
                total += loss
                counts = loss if self.best_so_far else total / step
            insort(bars, math.inf if math.isnan(counts) else counts)  # of both infinities: nothing to go by


def _median(values: Sequence[float]) -> float:
    """Return the median of sorted values, of which none is NaN."""
    middle = len(values) // 2
    if len(values) % 2 or values[middle - 1] == values[middle]:
        return values[middle]
    if math.isinf(values[middle - 1]) and math.isinf(values[middle]):
        return math.inf  # half of them are worst, half of them best: nobody is stopped for that
    return values[middle - 1] / 2 + values[middle] / 2  # their sum might be too large for a float
