"""How soon the runs of one final training reached a target, on each of the three clocks, in each unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from etude.fit.clocks import Curve, RestrictedMean, Target, restricted_mean, time_to
from etude.fit.costs import UNITS, Charges, Clock, Unit


@dataclass(frozen=True)
class Times:
    """How soon runs reached a target: print it.

    Attributes:
        target: What they were to reach.
        on: Clock (``"sunk"``, ``"marginal"``, ``"charged"``) and unit (``"epochs"``, ``"steps"``, ``"seconds"``) -> the
            mean time; runs that missed count up to the end of the first of them.
    """

    target: Target
    on: Mapping[tuple[str, Unit], RestrictedMean]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return self.on[Clock.SUNK.value, "epochs"].runs

    @property
    def missed(self) -> int:
        """How many of them did not reach it."""
        return self.on[Clock.SUNK.value, "epochs"].missed

    def __str__(self) -> str:
        """Say all of it, a line for each clock; what was not measured is ``-``."""
        reached = f"{self.target.value:g} was reached by {self.runs - self.missed} of {self.runs}"
        lines = [f"{reached:<28}{''.join(f'{unit:>12}' for unit in UNITS)}"]
        for clock in Clock:
            means = [self.on[clock.value, unit].mean for unit in UNITS]
            told = "".join(f"{'-' if math.isnan(mean) else f'{mean:,.4g}':>12}" for mean in means)
            lines.append(f"{clock.value:<28}{told}")
        return "\n".join(lines)


def times_to(target: Target, curves: Sequence[Curve], charges: Charges) -> Times:
    """Return how soon runs reached a target.

    Args:
        target: What they were to reach, fixed beforehand.
        curves: What each of them measured.
        charges: What their weights had cost.

    Raises:
        ConfigError: There are no runs.
    """
    return Times(
        target,
        {
            (clock.value, unit): restricted_mean(
                [time_to(target, curve, clock=clock, charges=charges) for curve in curves], unit=unit
            )
            for clock in Clock
            for unit in UNITS
        },
    )
