"""Which test judges a difference: a written rule that goes by how the runs were made, and never by their values.

1. Arms whose runs are no pairs: a permutation of Welch's t.
2. Pairs from overlapping splits of the same data (``folds=``): the corrected t-test.
3. Other pairs: the sign-flip test; or the signed ranks, where they were asked for before anything was seen.

A test is a value: it gives p-values for any claimed difference, on either side, and the least that it can give.
Intervals and equivalence are made of these, so they never contradict the test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from etude.analyse.flips import Side, flip_p, least_flip_p
from etude.analyse.libraries import scipy_stats
from etude.analyse.welch import least_welch_p, welch_p

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

STEPS: Final = 40
"""An end of an interval is sought for in so many halvings."""


class Test(Protocol):
    """Judges how far the mean of the base is from that of an arm."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    @property
    def pairs(self) -> bool:
        """Whether runs are compared pair by pair."""
        ...

    def p(self, base: Array, arm: Array, *, at: float = 0.0, side: Side = "both") -> float:
        """Return the p-value of the claim that the mean of ``base - arm`` is not ``at``, or above it, or below."""
        ...

    def least(self, n: int, m: int, *, side: Side = "both") -> float:
        """Return the least p-value that ``n`` runs of the base and ``m`` of an arm can have."""
        ...


@final
@dataclass(frozen=True)
class SignFlips:
    """The sign-flip test of pairs."""

    name: str = "sign flips"
    pairs: bool = True

    def p(self, base: Array, arm: Array, *, at: float = 0.0, side: Side = "both") -> float:
        """See ``Test``."""
        return flip_p(base - arm - at, side=side)

    def least(self, n: int, m: int, *, side: Side = "both") -> float:
        """See ``Test``."""
        return least_flip_p(min(n, m), side=side)


@final
@dataclass(frozen=True)
class SignedRanks:
    """Wilcoxon's test of pairs, by ``scipy.stats.wilcoxon``: outliers count by their rank alone."""

    name: str = "signed ranks"
    pairs: bool = True

    def p(self, base: Array, arm: Array, *, at: float = 0.0, side: Side = "both") -> float:
        """See ``Test``. Differences of nothing share their ranks between both signs."""
        off = base - arm - at
        if len(off) == 0 or not off.any():
            return 1.0
        alternative = "two-sided" if side == "both" else side
        return float(scipy_stats().wilcoxon(off, zero_method="zsplit", alternative=alternative).pvalue)

    def least(self, n: int, m: int, *, side: Side = "both") -> float:
        """See ``Test``."""
        return min(1.0, (2 if side == "both" else 1) * 0.5 ** min(n, m))


@final
@dataclass(frozen=True)
class CorrectedT:
    """The t-test of pairs, whose variance is enlarged for what overlapping training parts have in common.

    Attributes:
        overlap: The size of a test part over that of a training part: 1 / (k - 1) for k folds; 0 if nothing overlaps.

    Source:
        Nadeau and Bengio 2003, "Inference for the Generalization Error", Machine Learning 52.
    """

    overlap: float = 0.0
    pairs: bool = True

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return "corrected t" if self.overlap else "t"

    def p(self, base: Array, arm: Array, *, at: float = 0.0, side: Side = "both") -> float:
        """See ``Test``."""
        off = base - arm - at
        n, mean = len(off), float(off.mean()) if len(off) else 0.0
        if n < 2:  # noqa: PLR2004
            return 1.0
        error = float(off.std(ddof=1)) * math.sqrt(1 / n + self.overlap)
        t = mean / error if error > 0 else (math.copysign(math.inf, mean) if mean else 0.0)
        cdf = scipy_stats().t.sf
        if side == "both":
            return float(2 * cdf(abs(t), n - 1)) if t else 1.0
        return float(cdf(t if side == "greater" else -t, n - 1))

    def least(self, n: int, m: int, *, side: Side = "both") -> float:
        """See ``Test``. It can be as small as you like, with two pairs or more."""
        return 0.0 if min(n, m) > 1 else 1.0


@final
@dataclass(frozen=True)
class WelchDealt:
    """The permutation test of Welch's t, for runs that are no pairs."""

    name: str = "permuted Welch t"
    pairs: bool = False

    def p(self, base: Array, arm: Array, *, at: float = 0.0, side: Side = "both") -> float:
        """See ``Test``."""
        return welch_p(base - at, arm, side=side) if min(len(base), len(arm)) > 1 else 1.0

    def least(self, n: int, m: int, *, side: Side = "both") -> float:
        """See ``Test``."""
        return least_welch_p(n, m, side=side)


def same_p(test: Test, base: Array, arm: Array, *, margin: float) -> float:
    """Return the p-value of the claim that the means differ by less than a margin: the larger of two one-sided ones.

    Source:
        Schuirmann 1987, "A Comparison of the Two One-Sided Tests Procedure and the Power Approach for Assessing the
        Equivalence of Average Bioavailability".
    """
    return max(test.p(base, arm, at=-margin, side="greater"), test.p(base, arm, at=margin, side="less"))


def interval(test: Test, base: Array, arm: Array, *, level: float) -> tuple[float, float]:
    """Return the differences that a test would not refuse at a level; infinite ends where it can refuse none.

    Args:
        test: The test.
        base: Runs of the base.
        arm: Runs of the arm; its pairs, in the same order, if the test goes by pairs.
        level: How often the interval misses the true difference, at most, where what the test supposes is so.
    """
    import numpy as np

    if test.least(len(base), len(arm), side="greater") > level / 2:
        return -math.inf, math.inf
    off = base - arm if test.pairs else np.subtract.outer(base, arm)
    middle, reach = float(base.mean() - arm.mean()), float(np.ptp(off)) or abs(float(off.mean())) * 1e-9
    return (
        _end(lambda at: test.p(base, arm, at=at, side="greater"), middle, -reach, level / 2),
        _end(lambda at: test.p(base, arm, at=at, side="less"), middle, reach, level / 2),
    )


def _end(p: Any, middle: float, reach: float, level: float) -> float:
    """Return where a one-sided p-value falls below a level, going from the middle outwards."""
    if reach == 0:
        return middle
    near, far, wider = 0.0, 1.0, 0
    while p(middle + far * reach) > level:
        near, far, wider = far, 2 * far, wider + 1
        if wider > STEPS:
            return math.copysign(math.inf, reach)
    while far - near > 1e-4 * far and wider < 2 * STEPS:
        half, wider = (near + far) / 2, wider + 1
        near, far = (near, half) if p(middle + half * reach) <= level else (half, far)
    return middle + far * reach
