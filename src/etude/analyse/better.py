"""How often the base is better than an arm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etude.analyse.libraries import scipy_stats

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


class Better(NamedTuple):
    """How often a run of the base is better than one of the arm; ties count half.

    Attributes:
        p: The share.
        low: Lower end of its interval.
        high: Upper end.
    """

    p: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.p:.0%} [{self.low:.0%}, {self.high:.0%}]"


NOTHING: Final = Better(math.nan, math.nan, math.nan)
"""Of arms without a run."""


def better(base: Array, arm: Array, *, paired: bool, level: float) -> Better:
    """Return how often the base is better, values being turned so that more is.

    The interval is that of Clopper and Pearson for so many pairs; of runs that are no pairs, for as many as the smaller
    arm has, since what is counted varies no more than that (Birnbaum and Klose 1957, "Bounds for the Variance of the
    Mann-Whitney Statistic").

    Source:
        Bouthillier et al. 2021, "Accounting for Variance in Machine Learning Benchmarks", MLSys.
    """
    import numpy as np

    off = base - arm if paired else np.subtract.outer(base, arm)
    share = float((off > 0).mean() + (off == 0).mean() / 2)
    n = min(len(base), len(arm))
    won = share * n
    beta = scipy_stats().beta
    low = float(beta.ppf(level / 2, won, n - won + 1)) if won > 0 else 0.0
    high = float(beta.isf(level / 2, won + 1, n - won)) if won < n else 1.0
    return Better(share, low, high)
