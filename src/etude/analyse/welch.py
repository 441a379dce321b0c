"""Runs that are no pairs: which run is of which arm is dealt out anew, and Welch's t is looked at.

Studentised, the test holds also where the two arms do not vary alike, for many runs (Janssen 1997, "Studentized
permutation tests for non-i.i.d. hypotheses and the generalized Behrens-Fisher problem"); for few it is nearly so.
``scipy.stats.permutation_test`` does the same; here all deals of a size are kept, since an interval asks for hundreds
of p-values.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from etude.analyse.flips import DRAWN, ROUNDING, Side

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

COUNTED: Final = 20_000
"""Up to so many deals all are counted."""


def welch_p(ones: Array, others: Array, *, side: Side = "both") -> float:
    """Return the p-value of the claim that the mean of some runs is another than that of others.

    Args:
        ones: At least two runs, all finite.
        others: Likewise.
        side: ``"greater"`` if the claim is that ``ones`` have the larger mean, ``"less"`` for the smaller.
    """
    import numpy as np

    if side == "less":
        return welch_p(others, ones, side="greater")
    pooled, n = np.concatenate([ones, others]), len(ones)
    pooled = pooled - pooled.mean()
    dealt, whole = deals(n, len(others))
    found = _t((np.arange(len(pooled))[None] < n) * 1.0, pooled)[0]
    ts = _t(dealt, pooled)
    ts, found = (abs(ts), abs(found)) if side == "both" else (ts, found)
    far = (ts >= (found - ROUNDING * max(1.0, abs(found)) if math.isfinite(found) else found)).sum()
    return float(far / len(dealt)) if whole else float((1 + far) / (1 + len(dealt)))


def least_welch_p(ones: int, others: int, *, side: Side = "both") -> float:
    """Return the least p-value that so many runs can have."""
    if min(ones, others) < 2:  # noqa: PLR2004 # no arm of one run varies
        return 1.0
    ways = math.comb(ones + others, ones)
    twice = 2 if side == "both" and ones == others else 1
    return twice / ways if ways <= COUNTED else 1 / (DRAWN + 1)


@lru_cache(maxsize=8)
def deals(ones: int, others: int) -> tuple[Any, bool]:
    """Return which runs are of the first arm, one deal a row, and whether these are all the deals that there are."""
    import numpy as np

    n = ones + others
    if math.comb(n, ones) <= COUNTED:
        found = np.zeros((math.comb(n, ones), n))
        for row, chosen in zip(found, itertools.combinations(range(n), ones), strict=True):
            row[list(chosen)] = 1.0
        return found, True
    order = np.random.default_rng(0).random((DRAWN, n)).argsort(axis=1)
    return (order < ones).astype(np.float64), False


def _t(dealt: Any, pooled: Array) -> Array:
    """Return Welch's t of each deal; infinite where neither arm varies and their means differ."""
    import numpy as np

    n = dealt[0].sum()
    m = len(pooled) - n
    squares, total, all_squares = pooled**2, pooled.sum(), (pooled**2).sum()
    mine, mine_squares = dealt @ pooled, dealt @ squares
    theirs, theirs_squares = total - mine, all_squares - mine_squares
    spread = (mine_squares - mine**2 / n) / (n * (n - 1)) + (theirs_squares - theirs**2 / m) / (m * (m - 1))
    off = mine / n - theirs / m
    flat = spread <= ROUNDING**2 * max(all_squares, ROUNDING)
    safe = np.where(flat, 1.0, spread)
    beyond = np.where(abs(off) <= ROUNDING * math.sqrt(all_squares), 0.0, np.copysign(np.inf, off))
    found: Array = np.where(flat, beyond, off / np.sqrt(safe))
    return found
