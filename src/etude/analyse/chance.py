"""What the best of several would look like if it made no difference which of them it is.

If so, a run of one could as well be the run of another with the same seed. So within each seed all values are dealt out
anew, again and again, and the best of what comes out is looked at. That keeps what all share: the seeds, and the one
that all are measured by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

DEALS: Final = 19_999


@dataclass(frozen=True)
class Best:
    """How far the best is from what all are measured by, and how far chance would bring it.

    Attributes:
        gain: The lead of the best.
        by_chance: The median lead of the best of equal ones.
        bar: The lead that the best of equal ones has in one case of twenty.
        p: How often the best of equal ones leads by as much.
    """

    gain: float
    by_chance: float
    bar: float
    p: float


def best_of(values: Sequence[Sequence[float]], *, level: float = 0.05) -> Best:
    """Return how far the best of several is ahead, and how far chance would bring it.

    Args:
        values: A row for each, with a value for each seed; the first is what the others are measured by. More is
            better.
        level: How often the best of equal ones is beyond the bar.
    """
    import numpy as np

    table = np.array(values, dtype=np.float64)
    means = deal_out(table)
    most = (means[:, 1:] - means[:, :1]).max(axis=1)
    gain = float(table[1:].mean(axis=1).max() - table[0].mean())
    return Best(gain, float(np.median(most)), float(np.quantile(most, 1 - level)), share(most >= gain - 1e-9))


def deal_out(table: Array) -> Array:
    """Return the means of all rows, deal by deal, each column's values dealt out anew."""
    import numpy as np

    rng = np.random.default_rng(0)
    found: Array = np.zeros((DEALS, len(table)))
    for seed in table.T:
        found += rng.permuted(np.tile(seed, (DEALS, 1)), axis=1) / table.shape[1]
    return found


def share(extreme: Any) -> float:
    """Return a p-value, with the runs as they are counted among the deals."""
    return float((1 + extreme.sum()) / (1 + DEALS))
