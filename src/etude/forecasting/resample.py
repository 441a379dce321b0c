"""How the trials to come could be, given those that were measured: drawn again and again, and never twice the same.

From few trials one knows neither how long trials take on average, nor how much that differs, nor the longest there can
be. A plain bootstrap pretends to: no trial of it takes longer than the longest measured one, and with ten of them its
intervals hold the truth too seldom. So each resample

1. completes what was only begun: it goes on as a whole trial did that came at least as far, moved to where this one
   stood, and as much slower or faster as this one was up to there;
2. draws how far mean and spread of the logarithm of the times may be off, as for a sample of a normal distribution;
3. draws how often each measured trial comes (a Bayesian bootstrap), and trials by that; and blurs the time of each, by
   the bandwidth that suits so many of them, so that some take longer than any that was measured.

4. draws which share of the trials fails, and lets these go as the measured ones did that failed by themselves.

The second to the fourth make intervals grow as measured trials get fewer. What a trial reports
is blurred as well, towards another one or away from it: else copies of one trial would tie, and no rule stops at a tie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from etude.core.streams import stream_seed
from etude.engines.curves import Record, Step
from etude.forecasting.measured import Evidence, Failing, MeasuredTrial

SHORTEST_S: Final = 1e-6
"""A trial that took no time has no logarithm; it counts as this."""


@dataclass(frozen=True)
class Resample:
    """One of the ways in which trials could be.

    Attributes:
        wholes: The measured trials, each whole.
        failing: The measured trials that failed.
        centre: Mean of the logarithm of their times.
        shift: How far the true one is off.
        scale: How many times as much as measured such logarithms differ.
        blur: Standard deviation of what is added to the logarithm of the time of a trial that is drawn.
        seed: Of what is drawn from it.
    """

    wholes: tuple[Record, ...]
    centre: float
    shift: float
    scale: float
    blur: float
    seed: int
    failing: tuple[Failing, ...] = ()

    @classmethod
    def of(cls, evidence: Evidence, *, seed: int) -> Resample:
        """Draw one."""
        draws = np.random.default_rng(stream_seed(seed, "resample"))
        known = [trial for trial in evidence.trials if trial.whole]
        wholes = tuple(
            _record(trial) if trial.whole else continued(trial, known, nth=int(draws.integers(2**31)))
            for trial in evidence.trials
        )
        logs = np.array([math.log(length(whole)) for whole in wholes])
        n = len(logs)
        spread = float(logs.std(ddof=1))
        scale = math.sqrt((n - 1) / float(draws.chisquare(n - 1)))
        shift = spread * scale * float(draws.normal()) / math.sqrt(n)
        blur = bandwidth(n) * spread
        return cls(wholes, float(logs.mean()), shift, scale, blur, seed, evidence.failing)

    def trials(self, n: int) -> list[Record]:
        """Draw ``n`` trials, some of the measured ones more often than others, each with its own time."""
        draws = np.random.default_rng(stream_seed(self.seed, "trials"))
        weights = draws.dirichlet(np.ones(len(self.wholes)))
        picks = draws.choice(len(self.wholes), size=n, p=weights)
        noise = draws.normal(size=n) * self.blur
        # How far the mean may be off is in the shift already, so trials are seen from the mean of what is drawn from.
        middle = float(weights @ np.array([math.log(length(whole)) for whole in self.wholes]))
        of = len(self.wholes)
        narrower = math.sqrt(1.0 + bandwidth(of) ** 2)  # the blur leaves the spread as it is
        wider = math.sqrt((of + 1) / (of - 1))  # what weights, and a mean of one's own, take from it
        beside = draws.choice(of, size=n, p=weights)
        nearer = draws.normal(size=n) * bandwidth(of) / math.sqrt(2.0)  # two trials differ by twice the variance of one
        drawn = [
            self._lasting(self.wholes[pick], middle=middle, times=wider / narrower, more=more / narrower)
            for pick, more in zip(picks, map(float, noise), strict=True)
        ]
        others = (self.wholes[other] for other in beside)
        went = [towards(a, b, by=by) for a, b, by in zip(drawn, others, map(float, nearer), strict=True)]
        return self._some_failing(went) if self.failing else went

    def _some_failing(self, trials: list[Record]) -> list[Record]:
        draws = np.random.default_rng(stream_seed(self.seed, "failing"))
        of = len(self.failing)
        fails = draws.random(len(trials)) < draws.beta(of, len(self.wholes))
        like = draws.choice(of, size=len(trials), p=draws.dirichlet(np.ones(of)))
        return [self.failing[nth] if fail else trial for trial, fail, nth in zip(trials, fails, like, strict=True)]

    def measured_again(self) -> list[Record]:
        """Draw as many of the measured trials as there are, with replacement, for a sampler to find the nearest of."""
        draws = np.random.default_rng(stream_seed(self.seed, "records"))
        n = len(self.wholes)
        wider = math.sqrt(n / (n - 1))
        return [self._lasting(self.wholes[i], middle=self.centre, times=wider) for i in draws.integers(n, size=n)]

    def _lasting(self, whole: Record, *, middle: float, times: float, more: float = 0.0) -> Record:
        """Return a trial that takes as long as this resample has it.

        Args:
            whole: As it was measured.
            middle: The mean of the logarithm of the times that are drawn from.
            times: What its distance from the mean is multiplied with.
            more: What is added to that.
        """
        lasts = math.log(length(whole))
        off = (lasts - middle) * times + more
        stretch = math.exp(self.centre + self.shift + self.scale * off - lasts)
        return replace(whole, steps=tuple((seconds * stretch, metrics) for seconds, metrics in whole.steps))


def continued(begun: MeasuredTrial, known: Sequence[MeasuredTrial], *, nth: int) -> Record:
    """Return how a trial might have gone on of which only the beginning is known.

    It goes on as one of the whole trials did that came at least as far: by as much up or down from where it stood, and
    with the seconds per step that it had, compared with the other's up to there.

    Args:
        begun: The trial, with at least one step.
        known: Trials that are known whole, at least one.
        nth: Which of those that came as far, counted round and round; else the one that came farthest.
    """
    done = len(begun.steps)
    as_far = [trial for trial in known if len(trial.steps) > done]
    other = as_far[nth % len(as_far)] if as_far else max(known, key=lambda trial: len(trial.steps))
    done_by_other = min(done, len(other.steps) - 1)
    pace = _pace(begun.steps[:done_by_other], other.steps[:done_by_other])
    stood, other_stood = _last(begun.steps), _last(other.steps[:done_by_other])
    gap = {name: value - other_stood[name] for name, value in stood.items() if name in other_stood}
    rest = tuple(
        (seconds * pace, {name: value + gap[name] for name, value in metrics.items() if name in gap})
        for seconds, metrics in other.steps[done_by_other:]
    )
    returned = {
        name: value + gap[name] if name in gap and isinstance(value, float) else value
        for name, value in (other.returned or {}).items()
    }
    return Record(begun.params, (*begun.steps, *rest), returned)


def towards(record: Record, other: Record, *, by: float) -> Record:
    """Return a trial whose reports are moved towards those of another, by a part of how far they are apart there.

    So two trials that were drawn from one measured trial are no longer equal, which a stopper would take for a tie, and
    differ at each step by as much as trials do there. What is NaN in one of them stays as it is.
    """
    steps: list[Step] = []
    last: dict[str, Any] = {}
    for nth, (seconds, metrics) in enumerate(record.steps):
        if nth < len(other.steps):
            last.update(other.steps[nth][1])
        steps.append((seconds, {name: _between(value, last.get(name), by) for name, value in metrics.items()}))
    theirs = other.returned or {}
    returned = {name: _between(value, theirs.get(name), by) for name, value in (record.returned or {}).items()}
    return Record(record.params, tuple(steps), returned)


def _between(value: Any, other: Any, by: float) -> Any:
    if not isinstance(value, float) or not isinstance(other, float) or not math.isfinite(value - other):
        return value
    return value + by * (other - value)


def bandwidth(n: int) -> float:
    """Return how far ``n`` values are blurred, in their standard deviation: Silverman's rule."""
    return float((4.0 / (3.0 * n)) ** 0.2)


def length(record: Record) -> float:
    """Return how long a trial takes."""
    return max(SHORTEST_S, sum(seconds for seconds, _ in record.steps))


def from_few(samples: Sequence[Sequence[Record]]) -> float:
    """Return which share of the uncertainty of the work to do comes from how few trials were measured.

    The rest is chance: which trials a study happens to have. By variances of the logarithm of all seconds of a study.

    Args:
        samples: The trials of each resample.
    """
    times = [np.array([length(record) for record in sample]) for sample in samples]
    logs = np.log([float(each.sum()) for each in times])
    chance = float(np.mean([len(each) * each.var() / each.sum() ** 2 for each in times]))
    in_all = float(logs.var(ddof=1)) if len(logs) > 1 else 0.0
    return min(1.0, max(0.0, 1.0 - chance / in_all)) if in_all else 0.0


def _record(trial: MeasuredTrial) -> Record:
    return Record(trial.params, trial.steps, trial.returned)


def _pace(steps: Sequence[Step], others: Sequence[Step]) -> float:
    """Return how many times as long one trial took for the same steps; the first, which sets up, only if alone."""
    first = 1 if len(steps) > 1 else 0
    mine, theirs = (sum(seconds for seconds, _ in each[first:]) for each in (steps, others))
    return mine / theirs if mine > 0.0 and theirs > 0.0 else 1.0


def _last(steps: Sequence[Step]) -> dict[str, Any]:
    last: dict[str, Any] = {}
    for _, metrics in steps:
        last.update(metrics)
    return last
