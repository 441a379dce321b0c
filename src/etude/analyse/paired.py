"""Numbers that come in pairs, and what can be told of their differences: intervals, tests, and what they could miss.

Two runs with the same seed are a pair. What both owe to the seed falls out of their difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Final

from etude.analyse.corrections import holm
from etude.analyse.flips import flip_p, least_flip_p
from etude.analyse.libraries import scipy_stats

LEVEL: Final = 0.95
"""Of the intervals."""

CLOSE: Final = 1e-6
"""How far an end may be from where a bisection would come to, in standard errors."""

ALIKE: Final = 1e-9
"""Differences that vary by no more do not vary: what is left is rounding."""


@dataclass(frozen=True)
class Paired:
    """How far some runs are from others, over pairs with the same seed.

    Attributes:
        difference: The mean of their values less those of the others.
        low: Lower end of its 95 % interval, by a bootstrap over the pairs.
        high: Upper end.
        p: Of the sign-flip test (``flips``), two-sided.
        p_holm: The same, corrected by Holm for all claims that are made together.
    """

    difference: float
    low: float
    high: float
    p: float
    p_holm: float = math.nan


def paired(values: Sequence[float], others: Sequence[float]) -> Paired:
    """Compare values with others, pair by pair.

    If a difference is no number, or infinite, nothing can be told: p is 1.

    Raises:
        ConfigError: scipy is missing.

    Source:
        ``scipy.stats.bootstrap`` (BCa).
    """
    import numpy as np

    stats = scipy_stats()
    differences = np.array(values) - np.array(others)
    mean, n = float(differences.mean()), len(differences)
    if n < 2 or not np.isfinite(differences).all():  # noqa: PLR2004
        return Paired(mean, mean, mean, 1.0)
    if np.ptp(differences) <= ALIKE:
        return Paired(mean, mean, mean, 1.0 if abs(mean) <= ALIKE else least_flip_p(n))
    generator = np.random.default_rng(0)
    interval = stats.bootstrap((differences,), np.mean, confidence_level=LEVEL, rng=generator).confidence_interval
    return Paired(mean, float(interval.low), float(interval.high), flip_p(differences))


def told(found: Paired) -> str:
    """Return it in words: the difference, its interval, and both p-values."""
    return (
        f"{found.difference:+.4g} ({found.low:+.4g} to {found.high:+.4g}), p = {found.p:.3g}, "
        f"{found.p_holm:.3g} corrected"
    )


def corrected(found: Sequence[Paired]) -> list[Paired]:
    """Return the same with Holm's correction."""
    return [replace(one, p_holm=p) for one, p in zip(found, holm([one.p for one in found]), strict=True)]


def same(values: Sequence[float], others: Sequence[float], *, margin: float) -> float:
    """Return the p-value for the claim that values differ from others by less than a margin.

    It is the larger one of two one-sided t-tests of pairs.

    Args:
        values: Of the runs, pair by pair.
        others: Of those that they are compared with.
        margin: In their unit, to be fixed beforehand.

    Source:
        Schuirmann 1987, "A Comparison of the Two One-Sided Tests Procedure and the Power Approach for Assessing the
        Equivalence of Average Bioavailability".
    """
    off = [a - b for a, b in zip(values, others, strict=True)]
    if not all(map(math.isfinite, off)):
        return 1.0
    if max(off) - min(off) <= ALIKE:
        return 0.0 if abs(fmean(off)) < margin else 1.0
    ttest = scipy_stats().ttest_1samp
    return max(
        float(ttest(off, -margin, alternative="greater").pvalue), float(ttest(off, margin, alternative="less").pvalue)
    )


def deviation(values: Sequence[float], others: Sequence[float]) -> float:
    """Return the standard deviation of the differences of pairs."""
    return stdev(a - b for a, b in zip(values, others, strict=True))


def smallest_seen(deviation: float, *, pairs: int, level: float, power: float = 0.8) -> float:
    """Return the smallest true difference that a two-sided t-test of pairs would find that often.

    Args:
        deviation: Of the differences of pairs.
        pairs: How many.
        level: Of the test.
        power: How often, as a share.
    """
    stats = scipy_stats()
    bar = stats.t.isf(level / 2, pairs - 1)
    low, high = 0.0, 20.0  # in standard errors
    while stats.nct.sf(bar, pairs - 1, high) < power:
        low, high = high, 2 * high
    while high - low > CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if stats.nct.sf(bar, pairs - 1, middle) >= power else (middle, high)
    return float(high * deviation / math.sqrt(pairs))
