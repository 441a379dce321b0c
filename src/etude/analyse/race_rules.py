"""What a race goes by, fixed before it begins: how many take part, with how many seeds it ends, what it may spend."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from etude.analyse.power import seeds_for
from etude.core.errors import ConfigError
from etude.core.text import brief

WAYS: Final = 4_000
"""So many ways to swap pairs are looked at, the one that was found among them."""

FIRST: Final = 4
"""Pairs before the first look."""

UNPAID: Final = 5
"""Up to so many pairs no look may spend anything: nothing could be found."""

ROOM: Final = 1.15
"""By default a race has so many times the seeds that it takes without one."""


@dataclass(frozen=True)
class Rules:
    """What a race goes by, all of it fixed before it begins.

    Attributes:
        components: How many take part.
        most: With how many seeds it ends.
        effect: The effect worth finding, in standard deviations of the difference of a pair.
        level: How often one component or more may be found that has no effect.
        doubt: A component is given up if it has an effect of that size with no larger probability.
        margin: How small an effect is none, in the unit of the differences; None if nothing is to be found to be so
            small, and then components may be given up.
    """

    components: int
    most: int
    effect: float = 1.0
    level: float = 0.05
    doubt: float = 0.14
    margin: float | None = field(default=None, repr=False)  # so that a race without one is called as it always was

    def spent(self, pairs: int) -> float:
        """Return which share of the level may be spent by a number of pairs."""
        return min(1.0, max(0.0, (pairs - UNPAID) / (self.most - UNPAID)))


def rules_for(
    components: int,
    *,
    most: int | None = None,
    effect: float = 1.0,
    level: float = 0.05,
    margin: float | None = None,
) -> Rules:
    """Return the rules of a race.

    Raises:
        ConfigError: With so few seeds nothing can be found.
    """
    planned = seeds_for(effect=effect, claims=components, level=level)
    if most is None:
        if planned is None:
            raise ConfigError(f"effect={brief(effect)} is found with no number of seeds. Pass most=, or a larger one.")
        most = math.ceil(ROOM * planned)
    least = next(n for n in range(2, 64) if 0.5 ** (n - 1) <= level / components)
    if most < least:
        raise ConfigError(
            f"most={most} seeds can decide nothing for {components} components: the least p-value is "
            f"{min(1.0, components * 0.5 ** (most - 1)):.3g}, corrected, and the level is {level:g}. "
            f"Pass {least} or more."
        )
    if level / components * WAYS < 1:
        raise ConfigError(
            f"{components} components at a level of {level:g} are too many for a race, which tells shares of "
            f"{1 / WAYS:g} apart. Pass a number of seeds."
        )
    return Rules(components, most, effect=effect, level=level, margin=margin)
