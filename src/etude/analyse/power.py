"""What could be found, before anything is run: the least p-value, the power, and the seeds that it takes.

Effects are in standard deviations of the difference of a pair. Power is that of the t-test of pairs, by the noncentral
t distribution, less what the sign-flip test loses to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from etude.analyse.corrections import holm
from etude.analyse.libraries import scipy_stats
from etude.analyse.tests import CorrectedT, SignFlips, Test, WelchDealt
from etude.core.errors import ConfigError

POWER: Final = 0.8
"""The power that plans are made for."""

LOST: Final = 0.01
"""So much less power the permutation tests have than t-tests, at most, with normal noise: docs/verdicts.md."""

MOST: Final = 10_000
"""Nobody is told to run more seeds than that."""


def power(n: int, *, effect: float, claims: int = 1, level: float = 0.05, test: Test | None = None) -> float:
    """Return how often a true effect would be found, if all other components had none.

    Args:
        n: How many pairs; or how many runs of each arm, if they are no pairs.
        effect: In standard deviations of the difference of a pair; of a run, if they are no pairs.
        claims: How many components are tested together.
        level: Of all tests together.
        test: Which test; the sign flips if left out.

    Example:
        >>> round(power(20, effect=1.0, claims=20), 2)
        0.81
        >>> power(5, effect=1.0)
        0.0
    """
    test = test or SignFlips()
    if n < 2 or test.least(n, n) > level / claims:  # noqa: PLR2004
        return 0.0
    stats = scipy_stats()
    free, root = (2 * n - 2, math.sqrt(n / 2)) if isinstance(test, WelchDealt) else (n - 1, math.sqrt(n))
    if isinstance(test, CorrectedT):
        root /= math.sqrt(1 + n * test.overlap)
    bar = stats.t.isf(level / claims / 2, free)
    away = abs(effect) * root
    found = float(stats.nct.sf(bar, free, away) + stats.nct.cdf(-bar, free, away)) if away else level / claims
    if math.isnan(found):  # far out in the tail scipy gives up
        found = float(stats.norm.sf(bar - away))
    return found if isinstance(test, CorrectedT) else max(0.0, found - LOST)


def seeds_for(
    *, effect: float, claims: int = 1, level: float = 0.05, test: Test | None = None, reach: float = POWER
) -> int | None:
    """Return with how many seeds a true effect would be found that often; None if no number within reason does it.

    Example:
        >>> [seeds_for(effect=1.0, claims=n) for n in (1, 10, 20)]
        [11, 18, 20]
        >>> [seeds_for(effect=1.0, claims=n, test=CorrectedT()) for n in (1, 10, 20)]
        [10, 18, 20]
    """
    if not effect or not math.isfinite(effect):
        return None
    return _first(lambda n: power(n, effect=effect, claims=claims, level=level, test=test) >= reach)


def seeds_for_same(
    *, effect: float, margin: float, claims: int = 1, level: float = 0.05, test: Test | None = None
) -> int | None:
    """Return with how many seeds two arms would be found alike that often; None if no number within reason does it.

    Args:
        effect: How far they truly are apart, in standard deviations of the difference of a pair.
        margin: How far they may be, likewise.
        claims: How many components are tested together.
        level: Of all tests together.
        test: Which test.

    Source:
        The normal approximation of two one-sided tests; both of them count where the effect is small.
    """
    room, test = margin - abs(effect), test or SignFlips()
    if not room > 0:
        return None
    norm = scipy_stats().norm
    both = 2.0 if abs(effect) < margin / 4 else 1.0  # either of the two tests can miss it
    need = (norm.isf(level / claims) + norm.isf((1 - POWER) / both)) / room
    apart = math.sqrt(2) if isinstance(test, WelchDealt) else 1.0
    n = max(2, math.ceil((apart * need) ** 2) + 2)  # for a deviation that is not known
    return _first(lambda k: k >= n and test.least(k, k, side="greater") <= level / claims)


def least_seeds(*, claims: int = 1, level: float = 0.05, test: Test | None = None) -> int | None:
    """Return with how many seeds anything could be found at all; None if never.

    Example:
        >>> least_seeds(claims=20)
        10
    """
    test = test or SignFlips()
    return _first(lambda n: test.least(n, n) <= level / claims)


def least_corrected(n: int, *, claims: int = 1, test: Test | None = None) -> float:
    """Return the least p-value that one of so many claims can have after Holm's correction.

    Example:
        >>> least_corrected(5)
        0.0625
    """
    return holm([(test or SignFlips()).least(n, n), *[1.0] * (claims - 1)])[0]


def _first(holds: Callable[[int], bool]) -> int | None:
    """Return the least number, 2 or more, from which on something holds."""
    low, high = 1, 2
    while not holds(high):
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def check_level(level: float) -> float:
    """Return a level that was given.

    Raises:
        ConfigError: It is none.
    """
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise ConfigError(f"level={level!r} is no level. It says how often a claim may be wrong: pass 0.05.")
    return float(level)
