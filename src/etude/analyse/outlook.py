"""What a plan could find, in words, before anything of it is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev

from etude.analyse.power import POWER, check_level, least_corrected, least_seeds, power, seeds_for
from etude.core.errors import ConfigError
from etude.core.text import brief, count


@dataclass(frozen=True)
class Outlook:
    """What a plan could find: print it.

    Attributes:
        seeds: With how many seeds each arm is run.
        claims: How many components are judged together.
        level: Of all verdicts together.
        effect: The effect that is asked about, in standard deviations of the difference of a pair.
        unit: What such a deviation is in the metric's unit; None if that is not known.
        least_p: The least p-value that it can come to, corrected for all components.
        power: How often a component with that effect would be found, if no other had one.
        needed: With how many seeds it would be found four times out of five; None if with none.
        least_seeds: With how many seeds anything could be found.
    """

    seeds: int
    claims: int
    level: float
    effect: float
    unit: float | None
    least_p: float
    power: float
    needed: int | None
    least_seeds: int | None

    @property
    def decides(self) -> bool:
        """Whether it can find anything at all."""
        return self.least_p <= self.level

    def __str__(self) -> str:
        over = f"{count(self.seeds, 'seed')} and {count(self.claims, 'component')}"
        if not self.decides:
            return (
                f"Nothing can be decided: with {over} no p-value can be below {self.least_p:.3g}, corrected, and the "
                f"level is {self.level:g}. It takes {self.least_seeds} seeds or more, and {self._needed()}."
            )
        return (
            f"With {over} the least corrected p-value is {self.least_p:.3g}; {self._effect()} is found in "
            f"{self.power:.0%} of such studies, and {self._needed()}."
        )

    def _effect(self) -> str:
        in_unit = "" if self.unit is None else f" ({self.effect * self.unit:.3g} in the metric)"
        deviations = "1 deviation" if self.effect == 1 else f"{self.effect:.3g} deviations"
        return f"an effect of {deviations} of a pair's difference{in_unit}"

    def _needed(self) -> str:
        if self.needed is None:
            return f"no number of seeds finds it in {POWER:.0%}"
        finds = "" if self.decides else f" to find {self._effect()}"
        return f"{self.needed:,} seeds{finds} in {POWER:.0%}"


def outlook(
    seeds: int, claims: int, *, effect: float = 1.0, deviation: float | None = None, level: float = 0.05
) -> Outlook:
    """Return what a plan could find, by the sign-flip test and Holm.

    Args:
        seeds: With how many seeds each arm is run.
        claims: How many components are judged together.
        effect: The effect to be found, in standard deviations of the difference of a pair; in the metric's unit, if
            ``deviation`` is given.
        deviation: Of the difference of a pair, in the metric's unit.
        level: Of all verdicts together.

    Raises:
        ConfigError: A number cannot be, or scipy is missing.
    """
    for name, value in (("effect", effect), ("deviation", deviation)):
        fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
        if value is not None and not fits:
            raise ConfigError(f"{name}={brief(value)} cannot be. Pass a positive number.")
    check_level(level)
    in_deviations = effect if deviation is None else effect / deviation
    return Outlook(
        seeds=seeds,
        claims=claims,
        level=level,
        effect=in_deviations,
        unit=deviation,
        least_p=least_corrected(seeds, claims=max(1, claims)),
        power=power(seeds, effect=in_deviations, claims=max(1, claims), level=level),
        needed=seeds_for(effect=in_deviations, claims=max(1, claims), level=level),
        least_seeds=least_seeds(claims=max(1, claims), level=level),
    )


def deviation_of_pairs(runs: Sequence[float]) -> float | None:
    """Return about how much the difference of a pair will vary, from runs of the base with several seeds.

    It supposes that both arms vary alike and that the seed has nothing in common for them: what it has makes the
    difference vary less. None of fewer than three runs.
    """
    known = [value for value in runs if math.isfinite(value)]
    return math.sqrt(2) * stdev(known) if len(known) > 2 and max(known) > min(known) else None  # noqa: PLR2004
