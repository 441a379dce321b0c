"""Stoppers: after each report they say whether a trial is worth going on with."""

from __future__ import annotations

import math
from array import array
from bisect import insort
from collections.abc import Sequence
from typing import Final, Protocol, final

from etude.core.errors import ConfigError
from etude.core.history import Trial
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.core.text import brief, count


class Stopper(Protocol):
    """Decides, after each report, whether a running trial goes on.

    It is asked once per report, in order of arrival, from one thread. It sees values and never live
    trials, answers without waiting, and gives equal answers to equal reports and histories. It may
    keep what it has computed from ``standing.finished``, which only grows.
    """

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return what becomes of the trial that sent ``report``."""
        ...


@final
class NeverStop:
    """Let every trial run to its end."""

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that it goes on."""
        return GO_ON


@final
class MedianRule:
    """Stop a trial that is worse than the median of those that finished.

    At each report, the best value that the trial has reported so far is compared with the median, over
    all finished trials, of the running average of their reports up to the same step. A trial that is
    strictly worse stops. NaN is worse than any number. A trial that finished with fewer reports counts
    with the average of all it has.

    Args:
        mode: ``"max"`` if larger values of the metric are better, else ``"min"``.
        first_after: How many trials have to finish before any is stopped.

    Source:
        Golovin et al. 2017, "Google Vizier: A Service for Black-Box Optimization",
        doi:10.1145/3097983.3098043, section 3.2.1. ``first_after`` is our addition.
    """

    def __init__(self, mode: str, *, first_after: int = 4) -> None:
        if mode not in ("max", "min"):
            raise ConfigError(
                f"mode={mode!r} says neither that larger values are better nor that smaller ones are. "
                "Pass mode='max' or mode='min'."
            )
        if first_after < 1:
            raise ConfigError(
                f"first_after={first_after} is below 1: a median needs at least one finished trial. "
                "Pass 1 to let the rule work from the first one on."
            )
        self._sign = -1.0 if mode == "max" else 1.0
        self._first_after = first_after
        self._seen = 0
        self._peers = 0
        self._means: list[array[float]] = []
        """At index s - 1, sorted: the running average, as a loss, of each finished trial up to step s."""
        self._best: dict[int, tuple[int, float]] = {}
        """Running trial -> the step it was judged at last, and its lowest loss up to there."""

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that the trial stops if it is worse than the median of its finished peers."""
        self._take_in(standing)
        best = self._best_of(report, standing)
        if self._peers < self._first_after:
            return GO_ON
        peers = self._means[min(report.step, len(self._means)) - 1]
        median = _median(peers)
        if best <= median:
            return GO_ON
        shown = self._sign * median
        reason = f"worse than the median {shown:.4g} of {count(len(peers), 'trial')} at step {report.step}"
        return Decision(Act.STOP, reason)

    def _best_of(self, report: Report, standing: Standing) -> float:
        step, best = self._best.get(report.trial, (0, math.inf))
        if report.step == step + 1:
            best = min(best, self._loss(report.value))
        else:  # the first look at it, or an attempt that started over
            best = min(map(self._loss, standing.trials[report.trial].curve), default=math.inf)
        self._best[report.trial] = (report.step, best)
        return best

    def _take_in(self, standing: Standing) -> None:
        """Add the trials that finished since the last look."""
        for trial in standing.finished[self._seen :]:
            self._best.pop(trial.number, None)
            if trial.curve and trial.same_as is None:
                self._peers += 1
                self._add(trial)
        self._seen = len(standing.finished)

    def _add(self, trial: Trial) -> None:
        while len(self._means) < len(trial.curve):  # the others stand there with all they have
            self._means.append(array("d", self._means[-1]) if self._means else array("d"))
        total, mean = 0.0, math.inf
        for step, means in enumerate(self._means, start=1):
            if step <= len(trial.curve):
                total += self._loss(trial.curve[step - 1])
                mean = total / step
            insort(means, math.inf if math.isnan(mean) else mean)  # of both infinities: nothing to go by

    def _loss(self, value: float) -> float:
        return math.inf if math.isnan(value) else self._sign * value


def _median(values: Sequence[float]) -> float:
    """Return the median of sorted values, of which none is NaN."""
    middle = len(values) // 2
    if len(values) % 2 or values[middle - 1] == values[middle]:
        return values[middle]
    if math.isinf(values[middle - 1]) and math.isinf(values[middle]):
        return math.inf  # half of them are worst, half of them best: nobody is stopped for that
    return values[middle - 1] / 2 + values[middle] / 2  # their sum might be too large for a float


STOPPERS: Final = ("median", "none")


def make_stopper(stopper: str | Stopper, *, mode: str) -> Stopper:
    """Return the stopper of that name, or the object itself.

    Raises:
        ConfigError: There is no stopper of that name, or the object is none.
    """
    if not isinstance(stopper, str):
        if isinstance(stopper, type) or not callable(getattr(stopper, "decide", None)):
            raise ConfigError(
                f"stopper={brief(stopper)} is no stopper. Pass {' or '.join(map(repr, STOPPERS))}, or an object "
                "with a decide(report, standing) method."
            )
        return stopper
    if stopper == "median":
        return MedianRule(mode)
    if stopper == "none":
        return NeverStop()
    raise ConfigError(
        f"stopper={stopper!r} is not known. There are: {', '.join(map(repr, STOPPERS))}. "
        "An object with a decide(report, standing) method does as well."
    )
