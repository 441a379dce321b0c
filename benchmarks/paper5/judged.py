"""What the raw runs show on three clocks, at every target, and after correction for the number of tests.

Seeds were not recorded, so nothing pairs the runs of two starts: all tests here are of unpaired samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from benchmarks.common import Result
from benchmarks.paper5.printed import FINAL, RANDOM, WORKLOADS, Workload
from benchmarks.paper5.runs import Run, arm
from etude.analyse.corrections import holm
from etude.fit.clocks import (
    Curve,
    Reached,
    RestrictedMean,
    Target,
    over_targets,
    restricted_mean,
    shared_horizon,
    time_to,
)
from etude.fit.costs import RANDOM as NO_CHARGES
from etude.fit.costs import VALIDATION_PRICE, Charges, Clock, Cost, inherited

PRICES: Final = (0.0, VALIDATION_PRICE, 1.0)
"""Of validating with an example over training with it: free, the forward pass alone, and as dear as training."""

LEVEL: Final = 0.05
RESAMPLES: Final = 9_999
MEASURES: Final = ("sunk", "charged", "best")
"""What is tested: time on two clocks, and the best accuracy. In epochs the marginal clock is the sunk one."""


def judged(runs: Sequence[Run]) -> list[Result]:
    """Return for each workload what each start takes and gives, with tests against random weights."""
    found = [_workload(workload, runs) for workload in WORKLOADS]
    for measure in MEASURES:
        _correct([arm_of(one, FINAL) for one in found], measure, "holm_final")
        _correct([each for one in found for each in one["arms"] if each["start"] != RANDOM], measure, "holm_all")
        for one in found:
            _correct([each for each in one["arms"] if each["start"] != RANDOM], measure, "holm_here")
    return found


def arm_of(workload: Result, start: str) -> dict[str, Any]:
    """Return what was found for one start."""
    arms: list[dict[str, Any]] = workload["arms"]
    return next(each for each in arms if each["start"] == start)


def wins(workload: Result, measure: str, corrected: str) -> list[str]:
    """Return the starts that are better than random weights, beyond what chance and the number of tests explain."""
    return [
        each["start"]
        for each in workload["arms"]
        if corrected in each.get(measure, {}) and each[measure]["gain"] > 0 and each[measure][corrected] <= LEVEL
    ]


def charges_of(workload: Workload, start: str, *, price: float = VALIDATION_PRICE) -> Charges:
    """Return what the weights of a start had cost, in epochs and steps; nobody wrote seconds down.

    The steps of a run are those of its tuning: the paper gives no other batch size. What saving took is not known
    either. It was neither an epoch nor a step.
    """
    if start == RANDOM:
        return NO_CHARGES
    tuning = workload.tuning
    epoch = Cost(1.0, steps_of(workload), math.nan)
    epochs = workload.inherits(start)
    made = inherited(epochs, share=tuning.share, validated=tuning.validated, validation_price=price, epoch=epoch)
    return Charges(kept=Cost(0.0, 0.0, math.nan), inherited=made)


def steps_of(workload: Workload) -> int:
    """Return the steps of one epoch over all training examples."""
    return math.ceil(workload.examples / workload.tuning.batch)


def _workload(workload: Workload, runs: Sequence[Run]) -> Result:
    target = Target(float(workload.target), "max")
    curves = {row.start: _curves(workload, arm(runs, workload.folder, row.start)) for row in workload.rows}
    times = {
        clock: {
            start: [time_to(target, curve, clock=clock, charges=charges_of(workload, start)) for curve in mine]
            for start, mine in curves.items()
        }
        for clock in Clock
    }
    best = {start: [max(curve.values) for curve in mine] for start, mine in curves.items()}
    arms = [_arm(workload, start, times, best, curves) for start in curves]
    return {
        "name": workload.name,
        "target": target.value,
        "runs": len(best[RANDOM]),
        "epochs": len(next(iter(curves[RANDOM])).values),
        "steps_of_an_epoch": steps_of(workload),
        "least_p": 2 / math.comb(2 * len(best[RANDOM]), len(best[RANDOM])),
        "arms": arms,
        "targets": _targets(workload, curves),
    }


def _curves(workload: Workload, runs: Sequence[Run]) -> list[Curve]:
    return [Curve.by_epoch(map(float, run.values), steps=steps_of(workload)) for run in runs]


def _arm(
    workload: Workload,
    start: str,
    times: Mapping[Clock, Mapping[str, Sequence[Reached]]],
    best: Mapping[str, Sequence[float]],
    curves: Mapping[str, Sequence[Curve]],
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "start": start,
        "inherited_epochs": workload.inherits(start),
        "best_of_runs": list(best[start]),
        "epochs_of_runs": [run.spent.epochs for run in times[Clock.SUNK][start]],
        "missed": sum(run.missed for run in times[Clock.SUNK][start]),
        "best_mean": fmean(best[start]),
        "first_mean": fmean(curve.values[0] for curve in curves[start]),
    }
    for clock in Clock:
        horizon = shared_horizon(times[clock].values())
        mine, theirs = ([min(run.spent.epochs, horizon) for run in times[clock][s]] for s in (start, RANDOM))
        steps = restricted_mean(times[clock][start], unit="steps", horizon=_in_steps(times[clock]))
        found[clock.value] = {"mean": fmean(mine), "steps": steps.mean, "horizon": _finite(horizon)}
        if start != RANDOM:
            found[clock.value] |= _against(mine, theirs, smaller_is_better=True)
    if start == RANDOM:
        return found
    found["best"] = _against(best[start], best[RANDOM], smaller_is_better=False)
    target = Target(float(workload.target), "max")
    found["charged_at"] = [_charged(target, workload, start, curves, price=price).mean for price in PRICES]
    saves = workload.tuning.trials * workload.tuning.epochs  # the paper kept every epoch of every trial
    found["a_save_may_cost_epochs"] = found[Clock.SUNK.value]["gain"] / saves
    return found


def _in_steps(times: Mapping[str, Sequence[Reached]]) -> float:
    return shared_horizon(times.values(), unit="steps")


def _finite(horizon: float) -> float | None:
    return horizon if math.isfinite(horizon) else None


def _charged(
    target: Target, workload: Workload, start: str, curves: Mapping[str, Sequence[Curve]], *, price: float
) -> RestrictedMean:
    """Return the mean on the charged clock, with validation at another price."""
    arms = {
        which: [
            time_to(target, curve, clock=Clock.CHARGED, charges=charges_of(workload, which, price=price))
            for curve in curves[which]
        ]
        for which in curves
    }
    return restricted_mean(arms[start], horizon=shared_horizon(arms.values()))


def _against(mine: Sequence[float], random: Sequence[float], *, smaller_is_better: bool) -> dict[str, float]:
    """Return how a start compares with random weights: what it gains, and a test.

    Of times the ratio of means is told as well, random over these. The test is Mann and Whitney's over all ways to deal
    the runs out to two arms, so that ties do no harm. Intervals are percentile bootstraps, which are too narrow for
    eight runs.
    """
    import numpy as np
    from scipy.stats import PermutationMethod, bootstrap, mannwhitneyu

    def compare(a: Any, b: Any, axis: int = -1) -> Any:
        means = np.mean(a, axis=axis), np.mean(b, axis=axis)
        return means[1] / means[0] if smaller_is_better else means[0] - means[1]

    dealt = PermutationMethod(n_resamples=100_000)  # more than there are, so that all of them are tried
    ends = bootstrap(
        (mine, random), compare, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    less = fmean(random) - fmean(mine)
    return {
        "gain": less if smaller_is_better else -less,
        **({"ratio": fmean(random) / fmean(mine)} if smaller_is_better else {}),
        "low": float(ends.low),
        "high": float(ends.high),
        "p": float(mannwhitneyu(mine, random, method=dealt).pvalue),
    }


def _correct(arms: Sequence[dict[str, Any]], measure: str, name: str) -> None:
    """Add to each test its p-value for all of them at once."""
    for each, p in zip(arms, holm([each[measure]["p"] for each in arms]), strict=True):
        each[measure][name] = p


def _targets(workload: Workload, curves: Mapping[str, Sequence[Curve]]) -> list[Result]:
    """Return the means of random weights and of the final ones, at each whole percent that any of these runs passed."""
    pair = [(curves[start], charges_of(workload, start)) for start in (RANDOM, FINAL)]
    values = [value for mine, _ in pair for curve in mine for value in curve.values]
    grid = [Target(float(percent), "max") for percent in range(math.ceil(min(values)), math.floor(max(values)) + 1)]
    found = []
    for (target, sunk), (_, charged) in zip(
        over_targets(grid, pair), over_targets(grid, pair, clock=Clock.CHARGED), strict=True
    ):
        random, final = sunk
        found.append(
            {
                "target": target.value,
                "random": random.mean,
                "final": final.mean,
                "random_missed": random.missed,
                "final_missed": final.missed,
                "sunk": random.mean / final.mean,
                "charged": charged[0].mean / charged[1].mean,
            }
        )
    return found
