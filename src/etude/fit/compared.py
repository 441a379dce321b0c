"""Starts side by side: what each came to, how soon, and whether that can be told from random weights.

Runs with the same seed are a pair: they see the same batches, and differ in the weights that they begin with. So each
start is compared with random weights seed by seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from etude.analyse.paired import Paired, corrected, paired, told
from etude.core.metrics import Mode
from etude.core.text import count
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
from etude.fit.costs import UNITS, Charges, Clock, Unit


@dataclass(frozen=True)
class Arm:
    """The runs of one start.

    Attributes:
        name: What it begins with.
        curves: What its runs measured, seed by seed.
        charges: What its weights had cost.
    """

    name: str
    curves: tuple[Curve, ...]
    charges: Charges


@dataclass(frozen=True)
class Start:
    """What came of one start.

    Attributes:
        name: What it begins with.
        best: The best values of the metric that its runs reported, seed by seed.
        better: These against random weights; None for random weights themselves.
        times: Clock -> unit -> the mean time to the target, in which runs that missed it count up to a horizon that all
            starts share; empty without a target.
        sooner: Clock -> these times against those of random weights, in epochs: below 0 is sooner. Empty without a
            target, and for random weights.
    """

    name: str
    best: tuple[float, ...]
    better: Paired | None
    times: Mapping[Clock, Mapping[Unit, RestrictedMean]]
    sooner: Mapping[Clock, Paired]


def compare(arms: Sequence[Arm], *, mode: Mode, target: Target | None) -> list[Start]:
    """Return what came of each start, random weights first.

    Args:
        arms: Their runs, as many for each, in the order of the same seeds; the first begins with random weights.
        mode: Whether more of the metric is better.
        target: What the runs were to reach; None if that was not said beforehand.

    Raises:
        ConfigError: scipy is missing.

    Source:
        See ``analyse.paired``.
    """
    best = [tuple(_best(curve.values, mode) for curve in arm.curves) for arm in arms]
    better = corrected([paired(one, best[0]) for one in best[1:]])
    times = [_times(arms, clock, target) for clock in Clock] if target is not None else []
    sooner = [corrected([paired(one, clocked[0]) for one in clocked[1:]]) for clocked, _ in times]
    found = []
    for nth, arm in enumerate(arms):
        found.append(
            Start(
                arm.name,
                best[nth],
                better[nth - 1] if nth else None,
                {clock: means[nth] for clock, (_, means) in zip(Clock, times, strict=False)},
                {clock: pairs[nth - 1] for clock, pairs in zip(Clock, sooner, strict=False)} if nth else {},
            )
        )
    return found


def _best(values: Iterable[float], mode: Mode) -> float:
    return max(values, key=lambda v: -math.inf if math.isnan(v) else v if mode == "max" else -v)


def _times(
    arms: Sequence[Arm], clock: Clock, target: Target
) -> tuple[list[tuple[float, ...]], list[dict[Unit, RestrictedMean]]]:
    """Return the times in epochs of each arm's runs, up to a horizon that all share, and their means in each unit."""
    reached: list[list[Reached]] = [
        [time_to(target, curve, clock=clock, charges=arm.charges) for curve in arm.curves] for arm in arms
    ]
    horizons = {unit: shared_horizon(reached, unit=unit) for unit in UNITS}
    epochs = [tuple(min(run.spent.epochs, horizons["epochs"]) for run in runs) for runs in reached]
    means = [{unit: restricted_mean(runs, unit=unit, horizon=horizons[unit]) for unit in UNITS} for runs in reached]
    return epochs, means


@dataclass(frozen=True)
class Comparison:
    """What came of starting from several weights.

    Attributes:
        metric: What was measured.
        starts: What came of each, random weights first.
        target: What the runs were to reach; None if that was not said beforehand.
        fit: The study that ran them.
    """

    metric: str
    starts: tuple[Start, ...]
    target: Target | None
    arms: tuple[Arm, ...]
    fit: Any = None

    def over(self, targets: Iterable[float], *, clock: Clock | str = Clock.SUNK, unit: Unit = "epochs") -> Any:
        """Return, for each target, the mean time of each start: nothing is chosen after the runs were seen.

        Args:
            targets: Values of the metric.
            clock: ``"sunk"``, ``"marginal"`` or ``"charged"``.
            unit: ``"epochs"``, ``"steps"`` or ``"seconds"``.
        """
        mode = self.fit.metrics.modes[self.metric]
        arms = [(arm.curves, arm.charges) for arm in self.arms]
        found = over_targets([Target(value, mode) for value in targets], arms, clock=Clock(clock), unit=unit)
        names = [arm.name for arm in self.arms]
        return [(target.value, dict(zip(names, means, strict=True))) for target, means in found]

    def __str__(self) -> str:
        """Return it as lines of text."""
        seeds = len(self.starts[0].best)
        lines = [f"{count(len(self.starts), 'start')}, each with {count(seeds, 'seed')}; best {self.metric}:"]
        for start in self.starts:
            line = f"  {fmean(start.best):.4g}  {start.name}"
            if start.better is not None:
                line += f": {told(start.better)} against random"
            lines.append(line)
        if self.target is not None:
            lines.append(f"Epochs to {self.metric} {self.target.value:g}, by who pays for the weights:")
            for start in self.starts:
                means = {clock: by_unit["epochs"] for clock, by_unit in start.times.items()}
                shown = ", ".join(f"{clock.value} {_mean(mean)}" for clock, mean in means.items())
                lines.append(f"  {start.name}: {shown}")
                for clock, pairs in start.sooner.items():
                    lines.append(f"    {clock.value}: {told(pairs)} epochs against random")
        return "\n".join(lines)


def _mean(mean: RestrictedMean) -> str:
    missed = f" ({mean.missed} of {mean.runs} missed, counted up to {mean.horizon:g})" if mean.missed else ""
    return f"{mean.mean:.4g}{missed}"
