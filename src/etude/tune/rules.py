"""Stoppers that look at one trial alone: it gets no better, it gets out of hand, or its time is up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from etude.core.errors import ConfigError
from etude.core.metrics import check_watched
from etude.core.numbers import is_number, whole
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.core.text import count, seconds
from etude.tune.curves import Fold


@final
@dataclass
class Plateau:
    """End a trial that gets no better. Its last report is its final value.

    Args:
        patience: After how many reports without an improvement.
        min_delta: By how much a report has to be better than the best before it to be an improvement.
        metric: Which metric it watches, where there are several.

    Raises:
        ConfigError: ``patience`` is below 1, or ``min_delta`` below 0.

    Source:
        Prechelt 1998, "Early Stopping - But When?", doi:10.1007/3-540-49430-8_3, the third of its criteria, on the
        metric of the study.
    """

    patience: int = 10
    min_delta: float = 0.0
    metric: str | None = None

    def __post_init__(self) -> None:
        whole("patience", self.patience, 1, "every trial would end with its first report")
        check_watched(self.metric)
        if not is_number(self.min_delta) or not self.min_delta >= 0:
            raise ConfigError(f"min_delta={self.min_delta!r} is no distance. Pass a number that is 0 or more.")
        self._best: Fold[tuple[float, int]] = Fold((math.inf, 0), self._add)
        """The loss of the last improvement, and its step."""

    def _add(self, best: tuple[float, int], loss: float, step: int) -> tuple[float, int]:
        return (loss, step) if step == 1 or loss < best[0] - self.min_delta else best

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that the trial has shown what it can, if it has not improved for so long."""
        loss, since = self._best.upto(report, standing)
        if report.step - since < self.patience:
            return GO_ON
        least = f" by more than {self.min_delta:g}" if self.min_delta else ""
        best = f"{standing.metrics.loss(loss):.4g} at step {since}" if loss < math.inf else f"step {since}"
        return Decision(Act.ENOUGH, f"no better than {best}{least} for {count(self.patience, 'report')}")


@final
@dataclass
class Divergence:
    """Stop a trial whose metric gets out of hand.

    That is: it is not finite; or, after ``warmup`` reports, it is worse than the best of this trial so far by more
    than ``factor`` times that best. It is made for losses: a metric that is best at 0 or goes through it has no
    factor, and then only what is not finite stops.

    Args:
        factor: How many times the best a report may be: 3 stops a loss of 0.61 after one of 0.2. Of a metric of which
            more is better, it may be as much worse: -0.81 after 0.4.
        warmup: How many reports a trial has before the factor counts.
        metric: Which metric it watches, where there are several.

    Raises:
        ConfigError: The factor is not above 1, or ``warmup`` below 0.
    """

    factor: float = 10.0
    warmup: int = 5
    metric: str | None = None

    def __post_init__(self) -> None:
        check_watched(self.metric)
        if not is_number(self.factor) or not self.factor > 1:
            raise ConfigError(f"factor={self.factor!r} would stop what gets no better. Pass a number above 1.")
        whole("warmup", self.warmup, 0, "0 already counts from the first report on")
        self._best: Fold[float] = Fold(math.inf, lambda best, loss, step: min(best, loss))

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that the trial stops if it diverged."""
        best = self._best.upto(report, standing)
        if not math.isfinite(report.value):
            return Decision(Act.STOP, f"diverged: {report.value:g} at step {report.step}")
        loss = standing.metrics.loss(report.value)
        limit = (self.factor - 1) * abs(best)
        if report.step <= self.warmup or limit == 0 or loss - best <= limit:
            return GO_ON
        shown = standing.metrics.loss(best)
        return Decision(
            Act.STOP,
            f"diverged: {report.value:.4g} at step {report.step}, worse by the factor {self.factor:g} than the best "
            f"so far, {shown:.4g}",
        )


@final
@dataclass
class WallTime:
    """End a trial whose time is up, at its next report, which is its final value.

    Args:
        limit_s: Seconds from the start of the attempt; what it ran in an earlier attempt does not count.

    Raises:
        ConfigError: There is no time, or it is no number.
    """

    limit_s: float = 3600.0

    def __post_init__(self) -> None:
        if not is_number(self.limit_s) or not self.limit_s > 0:
            raise ConfigError(f"limit_s={self.limit_s!r} leaves no time. Pass seconds above 0.")

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that the trial has shown what it can, if its time is up."""
        if report.elapsed_s < self.limit_s:
            return GO_ON
        return Decision(Act.ENOUGH, f"its time is up: {seconds(report.elapsed_s)}, limit {seconds(self.limit_s)}")
