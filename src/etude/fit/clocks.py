"""How long runs took to a target, on each of three clocks: ``costs`` says how those differ.

A run that ended before it reached its target is *censored*: all that is known is that it takes longer. To leave such
runs out would favour starts that often miss. They count up to a horizon instead, and are told as missed: the mean of
``min(time, horizon)`` is what Kaplan and Meier's curve gives as restricted mean, as long as every missed run was
followed up to the horizon, which is asked for here. So a run that was ended early because it went badly draws the
horizon down to its end: better follow it to where the others end.

A target that is chosen after the runs were seen can be chosen for its result. Fix it before, or show the whole curve
over targets (``over_targets``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from etude.core.errors import ConfigError
from etude.core.metrics import MODES, Mode
from etude.fit.costs import NOTHING, RANDOM, UNITS, Charges, Clock, Cost, Unit


@dataclass(frozen=True)
class Target:
    """The value of the metric that a run is to reach.

    Attributes:
        value: In the metric's unit. To reach it exactly is enough.
        mode: ``"max"`` if larger is better, ``"min"`` if smaller is.

    Raises:
        ConfigError: The value is not finite, or the mode is none.
    """

    value: float
    mode: Mode

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"mode={self.mode!r} says not which values are better. Pass mode='max' or mode='min'.")
        if not math.isfinite(self.value):
            raise ConfigError(f"target={self.value!r} is always reached or never. Pass a finite number.")

    def is_met_by(self, value: float) -> bool:
        """Say whether a value is as good as the target or better; NaN never is."""
        return value >= self.value if self.mode == "max" else value <= self.value


@dataclass(frozen=True)
class Curve:
    """What a run measured on its way.

    Attributes:
        values: Of the metric, each time it was measured.
        spent: What the run itself had cost by then, without anything that it inherited; never less than before.

    Raises:
        ConfigError: The two have not the same length, there is nothing in them, or costs go down.
    """

    values: tuple[float, ...]
    spent: tuple[Cost, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.spent) or not self.values:
            raise ConfigError(
                f"{len(self.values)} values and {len(self.spent)} costs make no curve. "
                "Pass one cost for each value, and at least one of both."
            )
        for before, after in pairwise(self.spent):
            if any(after.of(unit) < before.of(unit) for unit in UNITS):
                raise ConfigError(
                    f"{after} comes after {before}, which is more. Costs are those since the start of the run: "
                    "pass their running sum."
                )

    @classmethod
    def by_epoch(
        cls,
        values: Iterable[float],
        *,
        steps: float | Sequence[float] = math.nan,
        seconds: float | Sequence[float] = math.nan,
    ) -> Curve:
        """Return the curve of a run that measured after each epoch.

        Args:
            values: Of the metric, one for each epoch.
            steps: Of each epoch: one number for all, or one for each.
            seconds: Of each epoch, likewise; those of its validation are among them.

        Raises:
            ConfigError: There are no values, or not as many numbers as values.
        """
        measured = tuple(values)
        spent, total = [], NOTHING
        for each in zip(*(_each(cost, len(measured)) for cost in (steps, seconds)), strict=True):
            total += Cost(1.0, *each)
            spent.append(total)
        return cls(measured, tuple(spent))


@dataclass(frozen=True)
class Reached:
    """When a run reached its target.

    Attributes:
        spent: What stood on the clock then; or at the end of the run, if it missed.
        missed: Whether it ended before it reached the target.
    """

    spent: Cost
    missed: bool


def time_to(target: Target, curve: Curve, *, clock: Clock = Clock.SUNK, charges: Charges = RANDOM) -> Reached:
    """Return when a run first measured its target, on one of the clocks.

    Source:
        "The first epoch in which the model achieves at least" the target: Sheikholeslami et al. 2024, "Deep Neural
        Network Weight Initialization from Hyperparameter Tuning Trials", table 1. The two other clocks are ours.

    Example:
        >>> curve = Curve.by_epoch([0.5, 0.8, 0.9])
        >>> time_to(Target(0.8, "max"), curve).spent.epochs
        2.0
        >>> charges = Charges(inherited=Cost(epochs=5.0))
        >>> time_to(Target(0.8, "max"), curve, clock=Clock.CHARGED, charges=charges).spent.epochs
        7.0
    """
    first = next((at for at, value in enumerate(curve.values) if target.is_met_by(value)), None)
    return Reached(charges.on(clock) + curve.spent[-1 if first is None else first], missed=first is None)


@dataclass(frozen=True)
class RestrictedMean:
    """The mean time of some runs, none of which was left out.

    Attributes:
        mean: Of the lesser of time and horizon, in the unit that was asked for; NaN where that was not measured.
        runs: How many there are.
        missed: How many of them had not reached the target by the horizon.
        horizon: In the same unit; infinite if all reached the target, so that none was needed.
    """

    mean: float
    runs: int
    missed: int
    horizon: float


def shared_horizon(arms: Iterable[Sequence[Reached]], *, unit: Unit = "epochs") -> float:
    """Return how far all runs of all arms are known: the least end of those that missed, infinite if none did.

    Means of arms compare only with the same horizon.
    """
    return min((run.spent.of(unit) for runs in arms for run in runs if run.missed), default=math.inf)


def restricted_mean(runs: Sequence[Reached], *, unit: Unit = "epochs", horizon: float | None = None) -> RestrictedMean:
    """Return the mean time of runs, in which those that missed count up to the horizon.

    Args:
        runs: On one clock, at least one.
        unit: In which it is told.
        horizon: Where counting ends, in that unit. The default is the end of the first of these runs that missed;
            several arms need ``shared_horizon``.

    Raises:
        ConfigError: There are no runs, or the horizon is negative or beyond the end of a run that missed.

    Source:
        Royston and Parmar 2013, "Restricted mean survival time", doi:10.1186/1471-2288-13-152.

    Example:
        >>> runs = [Reached(Cost(epochs=3.0), missed=False), Reached(Cost(epochs=10.0), missed=True)]
        >>> restricted_mean(runs)
        RestrictedMean(mean=6.5, runs=2, missed=1, horizon=10.0)
    """
    if not runs:
        raise ConfigError("There is no mean of no runs. Pass at least one.")
    known = shared_horizon([runs], unit=unit)
    if horizon is None:
        horizon = known
    if horizon < 0:
        raise ConfigError(f"horizon={horizon:g} {unit} lies before the start of every run. Pass a number from 0.")
    if horizon > known:
        raise ConfigError(
            f"horizon={horizon:g} {unit} is beyond the end of a run that missed its target, at {known:g} {unit}: what "
            f"became of it later is not known. Pass horizon={known:g} or less, for all arms alike."
        )
    times = [run.spent.of(unit) for run in runs]
    if any(math.isnan(value) for value in (*times, horizon)):
        return RestrictedMean(math.nan, len(runs), sum(run.missed for run in runs), math.nan)
    late = sum(run.missed or time > horizon for run, time in zip(runs, times, strict=True))
    return RestrictedMean(fmean(min(time, horizon) for time in times), len(runs), late, horizon)


def over_targets(
    targets: Iterable[Target],
    arms: Sequence[tuple[Sequence[Curve], Charges]],
    *,
    clock: Clock = Clock.SUNK,
    unit: Unit = "epochs",
) -> tuple[tuple[Target, tuple[RestrictedMean, ...]], ...]:
    """Return, for each target, the restricted mean of each arm up to a horizon that all arms share.

    Args:
        targets: All that could have been chosen, so that no choice is made.
        arms: The runs of each start, and what that start had cost.
        clock: Who pays.
        unit: In which it is told.

    Raises:
        ConfigError: An arm has no runs.
    """
    found = []
    for target in targets:
        times = [[time_to(target, curve, clock=clock, charges=charges) for curve in curves] for curves, charges in arms]
        horizon = shared_horizon(times, unit=unit)
        found.append((target, tuple(restricted_mean(runs, unit=unit, horizon=horizon) for runs in times)))
    return tuple(found)


def _each(cost: float | Sequence[float], epochs: int) -> Sequence[float]:
    """Return one number for each epoch."""
    if isinstance(cost, int | float):
        return [cost] * epochs
    if len(cost) != epochs:
        raise ConfigError(
            f"{len(cost)} costs do not go with {epochs} values. Pass one number for all, or one for each."
        )
    return cost
