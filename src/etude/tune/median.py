"""The median rule, in both of the forms that there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from etude.core.errors import ConfigError
from etude.core.history import Trial
from etude.core.metrics import check_watched
from etude.core.numbers import whole
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.core.text import brief, count
from etude.tune.curves import Fold
from etude.tune.ranks import Ranks


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

    Raises:
        ConfigError: ``first_after`` is below 1, or ``best_so_far`` neither True nor False.

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
        self.first_after = whole("first_after", self.first_after, 1, "a median needs at least one finished trial")
        if not isinstance(self.best_so_far, bool):
            raise ConfigError(
                f"best_so_far={brief(self.best_so_far)} is neither True nor False. Pass True to compare with the "
                "others' values at a step, False to compare with their averages up to it."
            )
        check_watched(self.metric)
        self._seen = 0
        self._looked_at = 0
        self._peers = 0
        self._bars: list[Ranks] = []
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
        for trial in standing.ended[self._looked_at :]:
            self._best.forget(trial.number)
        self._looked_at = len(standing.ended)
        for trial in standing.finished[self._seen :]:
            if trial.reports and trial.same_as is None:
                self._peers += 1
                self._add(trial, standing)
        self._seen = len(standing.finished)

    def _add(self, trial: Trial, standing: Standing) -> None:
        curve = trial.curve
        while len(self._bars) < len(curve):  # the others stand there with all they have
            self._bars.append(self._bars[-1].copy() if self._bars else Ranks())
        total, counts = 0.0, math.inf
        for step, bars in enumerate(self._bars, start=1):
            if step <= len(curve):
                loss = standing.metrics.loss(curve[step - 1])
                total += loss
                counts = loss if self.best_so_far else total / step
            bars.add(math.inf if math.isnan(counts) else counts)  # of both infinities: nothing to go by


def _median(values: Ranks) -> float:
    middle = len(values) // 2
    upper = values[middle]
    if len(values) % 2 or (lower := values[middle - 1]) == upper:
        return upper
    if math.isinf(lower) and math.isinf(upper):
        return math.inf  # half of them are worst, half of them best: nobody is stopped for that
    return lower / 2 + upper / 2  # their sum might be too large for a float
