"""What is made of a workload's record: times to the target on three clocks, against random weights, seed by seed.

Nothing is trained here: it takes what ``measured`` returns. Runs that missed the target count up to a horizon that all
starts share (``etude.fit.clocks``). Intervals are of 90 %, by a bootstrap over the seeds, which draws a seed's runs of
both starts together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np

from etude.fit.clocks import Curve, Target, shared_horizon, time_to
from etude.fit.costs import Charges, Clock, Cost

RANDOM: Final = "random"
AUTO: Final = "auto"
LEVEL: Final = 0.9
RESAMPLES: Final = 10_000
POINTS: Final = 100


@dataclass(frozen=True)
class Ran:
    """One final run.

    Attributes:
        curve: Its validation accuracies.
        charges: What its weights had cost.
        test: Its test accuracy after the epoch that was best by validation.
        last: The same after its last epoch.
    """

    curve: Curve
    charges: Charges
    test: float
    last: float


@dataclass(frozen=True)
class Estimate:
    """A number, and the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """What came of one start.

    Attributes:
        name: Of the start.
        steps: Mean steps to the target on each clock, those that missed counted up to the horizon.
        missed: How many runs did not reach the target before the horizon of the marginal clock.
        over_random: These steps on the marginal clock over those of random weights. On it fixed starts cost what their
            runs cost, and a start that was chosen what it cost to choose it as well.
        speed_up: On each clock, the steps of random weights over these.
        test: Test accuracy after the best epoch by validation, less that of random weights, in points.
        last: The same after the last epoch.
    """

    name: str
    steps: Mapping[str, float]
    missed: int
    over_random: Estimate
    speed_up: Mapping[str, Estimate]
    test: Estimate
    last: Estimate


def fixed(record: Mapping[str, Any]) -> dict[str, list[Ran]]:
    """Return the runs of a record, seed by seed, by the start that they had."""
    found = {}
    for name, start in record["starts"].items():
        cost = start["inherited"]
        charges = Charges(inherited=Cost(cost["epochs"], cost["steps"], math.nan if cost["epochs"] else 0.0))
        found[name] = [_ran(run, charges, record["steps_per_epoch"]) for run in start["runs"]]
    return found


def _ran(run: Mapping[str, Any], charges: Charges, steps_per_epoch: float) -> Ran:
    accuracies, tests = run["accuracy"], run["test"]
    return Ran(
        Curve.by_epoch(accuracies, steps=float(steps_per_epoch)),
        charges,
        tests[max(range(len(tests)), key=accuracies.__getitem__)],
        tests[-1],
    )


def auto(record: Mapping[str, Any], chosen: Mapping[int, tuple[str, float]]) -> list[Ran]:
    """Return the runs of starts that were chosen, seed by seed, without training anything again.

    A run from the same weights with the same seed is the same run, bit by bit. So what a chooser gives is the run of
    the start that it took, and what it spent to find that out comes before it: on the marginal clock, and the charged.

    Args:
        record: A workload's, with the runs from every start that could be chosen.
        chosen: Seed -> the start that was taken, and the steps that were spent to choose it; all seeds of the record.

    Raises:
        ValueError: A seed is missing or unknown, or a start is.
    """
    seeds, runs = record["seeds"], fixed(record)
    if set(chosen) != set(seeds):
        raise ValueError(f"chosen has the seeds {sorted(chosen)}, and the runs have {sorted(seeds)}. Choose for each.")
    found = []
    for nth, seed in enumerate(seeds):
        name, steps = chosen[seed]
        if name not in runs:
            raise ValueError(f"chosen[{seed}] is {name!r}, and there are runs from {', '.join(runs)}.")
        ran = runs[name][nth]
        probes = Cost(steps / record["steps_per_epoch"], float(steps), math.nan if steps else 0.0)
        found.append(Ran(ran.curve, Charges(probes, ran.charges.inherited), ran.test, ran.last))
    return found


def chosen_in(record: Mapping[str, Any]) -> dict[int, tuple[str, float]] | None:
    """Return what ``weights="auto"`` took in a record, as ``auto`` takes it; None if it has not chosen."""
    steps = record["steps_per_epoch"]
    return {
        one["seed"]: (one["start"], float(sum(round(portion * steps) for portion in one["portions"])))
        for one in record.get("auto", ())
    } or None


def rows(record: Mapping[str, Any], chosen: Mapping[int, tuple[str, float]] | None = None) -> list[Row]:
    """Return what came of each start, random weights first; and last of those that were chosen, if some were.

    Args:
        record: A workload's.
        chosen: As ``auto`` takes it.
    """
    runs = fixed(record)
    if chosen is not None:
        runs[AUTO] = auto(record, chosen)
    clocked = {clock: times(runs, Target(record["target"], "max"), clock) for clock in Clock}
    names = list(runs)
    random = runs[RANDOM]
    found = []
    for name in names:
        ours, missed = clocked[Clock.MARGINAL][name]
        found.append(
            Row(
                name,
                {clock.value: fmean(clocked[clock][name][0]) for clock in Clock},
                missed,
                ratio(ours, clocked[Clock.MARGINAL][RANDOM][0]),
                {clock.value: ratio(clocked[clock][RANDOM][0], clocked[clock][name][0]) for clock in Clock},
                _points([run.test for run in runs[name]], [run.test for run in random]),
                _points([run.last for run in runs[name]], [run.last for run in random]),
            )
        )
    return found


def times(runs: Mapping[str, Sequence[Ran]], target: Target, clock: Clock) -> dict[str, tuple[tuple[float, ...], int]]:
    """Return, for each start, the steps of its runs to the target on a clock, and how many missed it.

    Times end at the horizon that all starts share.
    """
    reached = {
        name: [time_to(target, run.curve, clock=clock, charges=run.charges) for run in of_it]
        for name, of_it in runs.items()
    }
    horizon = shared_horizon(reached.values(), unit="steps")
    return {
        name: (
            tuple(min(run.spent.steps, horizon) for run in of_it),
            sum(run.missed or run.spent.steps > horizon for run in of_it),
        )
        for name, of_it in reached.items()
    }


def best_fixed(found: Sequence[Row]) -> Row:
    """Return the start with the fewest steps on the marginal clock, among those that nobody chose."""
    return min((row for row in found if row.name != AUTO), key=lambda row: row.steps["marginal"])


def over_best_fixed(found: Sequence[Row], record: Mapping[str, Any]) -> Estimate:
    """Return the steps of auto, on the marginal clock, over those of the best of the starts that it chose from."""
    runs = fixed(record)
    offered = {name for one in record["auto"] for name in one["probes"]}
    best = best_fixed([row for row in found if row.name in offered]).name
    runs[AUTO] = auto(record, chosen_in(record) or {})
    reached = times(runs, Target(record["target"], "max"), Clock.MARGINAL)
    return ratio(reached[AUTO][0], reached[best][0])


def ratio(ours: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the mean of ours over that of the others, paired by their places."""
    one, other = np.array(ours), np.array(others)
    drawn = _draws(len(one))
    return _estimate(one.mean() / other.mean(), one[drawn].mean(1) / other[drawn].mean(1))


def _points(ours: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the mean difference of paired accuracies, in points."""
    differences = POINTS * (np.array(ours) - np.array(others))
    return _estimate(differences.mean(), differences[_draws(len(differences))].mean(1))


def _draws(many: int) -> Any:
    return np.random.default_rng(0).integers(0, many, (RESAMPLES, many))


def _estimate(value: Any, drawn: Any) -> Estimate:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))
