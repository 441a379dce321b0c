"""The sign-flip test: if two arms of a pair could as well be swapped, each difference could as well be its opposite.

It asks how many of the ``2 ** n`` ways to swap pairs give a mean difference as far from zero as the one that was
found. It supposes no distribution. It supposes that differences lie as far above as below what is tested, as they do
where both arms of a pair are draws of the same kind.

All ways are counted, and not drawn, up to ``EXACT`` pairs: the sums over one half of the pairs are sorted, and for
each sum over the other half it is looked up how many lead far enough (Horowitz and Sahni 1974). That is
``2 ** (n / 2)`` steps. ``scipy.stats.permutation_test`` counts the same, but all of them one by one, and draws from 14
pairs on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

Side = Literal["both", "greater", "less"]

EXACT: Final = 28
"""Up to so many pairs all ways to swap are counted."""

DRAWN: Final = 19_999
"""So many ways are drawn where there are more; what was found counts as one of them."""

ROUNDING: Final = 1e-9
"""Sums that differ by less than this share of what is summed are the same."""


def flip_p(differences: Array, *, side: Side = "both") -> float:
    """Return the p-value of the claim that differences do not lie around zero.

    Args:
        differences: One for each pair, all finite.
        side: ``"greater"`` if the claim is that they lie above, ``"less"`` for below.

    Example:
        >>> import numpy as np
        >>> flip_p(np.array([0.3, 0.1, 0.2, 0.5, 0.4, 0.3]))
        0.03125
    """
    if side == "less":
        return flip_p(-differences, side="greater")
    n = len(differences)
    if n == 0:
        return 1.0
    found = abs(differences.sum()) if side == "both" else differences.sum()
    bar = found - ROUNDING * abs(differences).sum()
    share = _share_counted(differences, bar) if n <= EXACT else _share_drawn(differences, bar)
    return min(1.0, 2 * share if side == "both" else share)


def least_flip_p(pairs: int, *, side: Side = "both") -> float:
    """Return the least p-value that so many pairs can have: it takes all of them to change sides, or none.

    Example:
        >>> least_flip_p(6)
        0.03125
    """
    share = max(0.5**pairs, 1 / (DRAWN + 1) if pairs > EXACT else 0.0)
    return min(1.0, 2 * share if side == "both" else share)


def _share_counted(differences: Array, bar: float) -> float:
    import numpy as np

    half = len(differences) // 2
    few, rest = np.sort(_signed_sums(differences[:half])), _signed_sums(differences[half:])
    short = np.searchsorted(few, bar - rest, side="left").sum()
    return 1.0 - float(short) / (len(few) * len(rest))


def _signed_sums(values: Array) -> Array:
    import numpy as np

    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _share_drawn(differences: Array, bar: float) -> float:
    sums = signs(len(differences), DRAWN) @ differences
    return float(1 + (sums >= bar).sum()) / (1 + DRAWN)


@lru_cache(maxsize=8)
def signs(pairs: int, draws: int) -> Array:
    """Return ways to swap pairs, one a row; the same ones at each call, so that a report says the same twice."""
    import numpy as np

    found: Array = np.random.default_rng(0).integers(0, 2, (draws, pairs)).astype(np.float64) * 2 - 1
    found.setflags(write=False)
    return found
