"""What would have been found with fewer trials: the best and the mean, and which value of a choice comes first.

Of trials that were drawn at random any smaller number of them is what a smaller search would have been; what that
comes to is counted, and not drawn. Of trials that a sampler chose for what it had seen, only the first ones are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

SIZES: Final = 24
"""How many points a curve has at most."""

HALVES: Final = 400
"""So many halves of the trials are looked at."""


@dataclass(frozen=True)
class BudgetCurve:
    """What so many trials would have come to, in the metric's unit.

    Attributes:
        sizes: Numbers of trials.
        best: The best of so many: its mean over all ways to take so many of the trials.
        best_low: In a twentieth of these ways it is worse than this, in the direction of the metric.
        best_high: In a twentieth it is better.
        mean: The mean of so many.
        mean_low: Of nine ways in ten, the lower end.
        mean_high: The upper end.
        random: Whether any of the trials could be the first; else the curve is that of their order, without spread.
    """

    sizes: tuple[int, ...]
    best: tuple[float, ...]
    best_low: tuple[float, ...]
    best_high: tuple[float, ...]
    mean: tuple[float, ...]
    mean_low: tuple[float, ...]
    mean_high: tuple[float, ...]
    random: bool = True


def budget_curve(values: Sequence[float], *, mode: str = "max", random: bool = True) -> BudgetCurve:
    """Return what the first so many of some trials would have come to.

    Args:
        values: What they came to, in their order, finite.
        mode: In which direction that is better.
        random: Whether they were drawn at random, so that any of them could have been the first ones.

    Source:
        ABLATOR's figure 3 (Fostiropoulos and Itti 2023) draws ten times; here all ways are counted.
    """
    import numpy as np

    sign = 1.0 if mode == "max" else -1.0
    found = sign * np.array(values, dtype=np.float64)
    n = len(found)
    sizes = sorted({round(x) for x in np.geomspace(1, n, min(SIZES, n))}) if n else []
    if not random:
        best = [sign * float(np.maximum.accumulate(found)[k - 1]) for k in sizes]
        mean = [sign * float(found[:k].mean()) for k in sizes]
        flat, level = tuple(best), tuple(mean)
        return BudgetCurve(tuple(sizes), flat, flat, flat, level, level, level, random=False)
    ordered = np.sort(found)
    curves: list[list[float]] = [[] for _ in range(6)]
    spread = float(ordered.std(ddof=1)) if n > 1 else 0.0
    for k in sizes:
        below = _below(n, k)
        share = np.diff(below, prepend=0.0)
        ends = [float(ordered[min(n - 1, int(np.searchsorted(below, q)))]) for q in (0.05, 0.95)]
        off = 1.645 * spread * math.sqrt(max(0.0, (1 - k / n) / k))
        middle = float(ordered.mean())
        points = [float(share @ ordered), *ends, middle, middle - off, middle + off]
        for curve, point in zip(curves, points, strict=True):
            curve.append(sign * point)
    best_, low, high, mean_, under, over = map(tuple, curves)
    if sign < 0:
        under, over = over, under
    return BudgetCurve(tuple(sizes), best_, low, high, mean_, under, over)


def _below(n: int, k: int) -> Array:
    """Return the chance that the best of ``k`` out of ``n`` is no better than the ``i``-th, for each ``i`` from 1."""
    import numpy as np

    whole = math.lgamma(n + 1) - math.lgamma(n - k + 1)
    return np.array(
        [math.exp(math.lgamma(i + 1) - math.lgamma(i - k + 1) - whole) if i >= k else 0.0 for i in range(1, n + 1)]
    )


@dataclass(frozen=True)
class Lead:
    """Which value of a choice comes first, and how often it would with half the trials.

    Attributes:
        winner: The value that comes first with all trials.
        held: In what share of halves of the trials it does.
    """

    winner: str
    held: float


def lead(groups: Mapping[str, Sequence[float]], *, mode: str, by: str) -> Lead | None:
    """Return which group comes first, and how sure that is; None of fewer than two groups with four values each.

    Args:
        groups: Name -> values.
        mode: In which direction they are better.
        by: "mean" or "best".
    """
    import numpy as np

    least = 4
    sign = 1.0 if mode == "max" else -1.0
    known = {name: sign * np.array(values, dtype=np.float64) for name, values in groups.items()}
    known = {name: values for name, values in known.items() if len(values) >= least}
    if len(known) < 2:  # noqa: PLR2004
        return None
    judge = np.mean if by == "mean" else np.max
    names = list(known)
    winner = names[int(np.argmax([judge(values) for values in known.values()]))]
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(HALVES):
        halves = [judge(values[rng.permutation(len(values))[: len(values) // 2]]) for values in known.values()]
        held += names[int(np.argmax(halves))] == winner
    return Lead(winner, held / HALVES)
