"""Who hardly has an effect: how probable one as planned is, by Bayes' rule, with normal noise.

How many of the components have one is estimated from all of them together. It decides who is given up, which costs
power, and no error, whatever the noise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from etude.analyse.libraries import scipy_stats
from etude.analyse.race_rules import FIRST

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

PRIOR: Final = 4.0
"""So many components' worth it weighs, beforehand, that half of them have an effect."""

ROUNDS: Final = 20
"""In so many rounds the share of components with an effect is found."""

MUCH: Final = 1e6
"""No effect is taken to be likelier, or less likely, than by that factor."""


def hopes(ratios: Array) -> Array:
    """Return for each component how probable an effect as planned is.

    Args:
        ratios: How much likelier than none such an effect is for each, by what was seen of it alone.
    """
    import numpy as np

    share = 0.5
    for _ in range(ROUNDS):
        odds = share * ratios
        found = odds / (odds + 1 - share)
        share = (float(found.sum()) + PRIOR / 2) / (len(found) + PRIOR)
    return np.asarray(found)


def likelier(row: Array, effect: float) -> float:
    """Return how much likelier differences are with an effect of that size, of either sign, than without one."""
    n = len(row)
    if n < FIRST:
        return 1.0
    spread = float(row.std(ddof=1))
    if spread <= 0:
        return MUCH if row.any() else 1 / MUCH
    return float(_likelier_by_t(n, effect)(abs(float(row.mean())) * math.sqrt(n) / spread))


@lru_cache(maxsize=256)
def _likelier_by_t(n: int, effect: float) -> Any:
    """Return what maps the t of so many differences to how much likelier it is with an effect than without."""
    import numpy as np

    stats = scipy_stats()
    ts, away = np.linspace(0, 8, 161), effect * math.sqrt(n)
    with np.errstate(all="ignore"):
        none = stats.t.pdf(ts, n - 1)
        some = (stats.nct.pdf(ts, n - 1, away) + stats.nct.pdf(-ts, n - 1, away)) / 2
        ratios = np.clip(np.nan_to_num(some / none, nan=MUCH), 1 / MUCH, MUCH)
    return lambda t: float(np.interp(t, ts, ratios))
