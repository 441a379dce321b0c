"""Whether what became of trials hangs on how they were configured: a test for each parameter, corrected for all.

If it does not, then those of some fate could as well be any others: their ranks, or how many of them have each value,
are what they would be in a random draw. Nothing is supposed about values. It needs no library but numpy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from etude.analyse.corrections import holm
from etude.core.numbers import is_number
from etude.core.text import show

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

DRAWS: Final = 9_999
"""So many ways to hand out fates are drawn; what was found counts as one of them."""

MOST_DRAWN: Final = 200
"""Of more numbers the distribution of a sum of ranks is taken to be normal, if each side has ``FEWEST_SIDE``."""

FEWEST_SIDE: Final = 10

NEIGHBOURS: Final = 10
"""Trials of a search that learns are compared with so many that were proposed at about the same time."""

ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Relation:
    """How the fate of trials goes with a parameter.

    Attributes:
        parameter: Its name.
        p: How often chance alone would show as much, in one parameter.
        p_holm: The same, corrected for all parameters that were looked at.
        finding: What goes with what, in words.
        strength: 0 if the fate has nothing to do with it, 1 if the parameter alone tells it: of numbers, how far the
            chance that one with that fate is above one without is from a half, doubled; of others, Cramér's V.
    """

    parameter: str
    p: float
    finding: str
    strength: float
    p_holm: float = math.nan


def relations(
    fates: Sequence[bool], params: Sequence[Mapping[str, Any]], *, called: str, led: bool = False
) -> list[Relation]:
    """Return how a fate goes with each parameter that varies, the least p-value first.

    Args:
        fates: Of each trial, whether it has that fate.
        params: The configurations. A parameter is looked at among those that have it.
        called: What those with that fate are called: "failed".
        led: Whether trials, which are in their order then, were proposed for what earlier ones came to. Those that fail
            are then seldom late, and so is everything that the search left behind. So fates are handed out among ten
            neighbours only.

    Source:
        The permutation test of Wilcoxon's sum of ranks for numbers, and of the chi-squared statistic for others;
        corrected by Holm.
    """
    names = list(dict.fromkeys(name for one in params for name in one))
    found = []
    for name in names:
        there = [(fate, one[name]) for fate, one in zip(fates, params, strict=True) if name in one]
        own, values = [fate for fate, _ in there], [value for _, value in there]
        block = NEIGHBOURS if led else None
        if len(set(own)) == 2 and len({repr(value) for value in values}) > 1:  # noqa: PLR2004
            by = of_numbers if all(map(is_number, values)) else of_labels
            p, strength, finding = by(own, values, called, block)
            found.append(Relation(name, p, f"{name}: {finding}", strength))
    corrected = [replace(one, p_holm=p) for one, p in zip(found, holm([one.p for one in found]), strict=True)]
    return sorted(corrected, key=lambda one: (one.p, -one.strength))


def of_numbers(
    fates: Sequence[bool], values: Sequence[float], called: str = "such", block: int | None = None
) -> tuple[float, float, str]:
    """Return p-value, strength and words: whether those with a fate have larger or smaller values than the others.

    Args:
        fates: Of each trial, whether it has that fate.
        values: What is compared.
        called: What those with that fate are called.
        block: Among how many neighbours fates could as well be others; among all, if left out.

    Example:
        >>> of_numbers([False] * 8 + [True] * 4, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])[1]
        1.0
    """
    import numpy as np

    fate = np.array(fates)
    ranks = _ranks(np.array(values, dtype=np.float64))
    n, k = len(fate), int(fate.sum())
    blocks = _blocks(n, block)
    expected = sum(float(ranks[part].mean()) * int(fate[part].sum()) for part in blocks)
    off = abs(float(ranks[fate].sum()) - expected)
    if n <= MOST_DRAWN or min(k, n - k) < FEWEST_SIDE:
        p = _share_of_draws(fate, ranks, blocks, expected, off)
    else:
        spread = math.sqrt(sum(_variance(fate[part], ranks[part]) for part in blocks))
        p = (
            max(math.erfc(off / spread / math.sqrt(2)), sys.float_info.min) if spread > 0 else 1.0
        )  # chance is never none
    mine = [value for has, value in zip(fates, values, strict=True) if has]
    rest = [value for has, value in zip(fates, values, strict=True) if not has]
    finding = f"median {show(float(median(mine)))} of those {called}, {show(float(median(rest)))} of the others"
    alone = abs(float(ranks[fate].sum()) - k * float(ranks.mean()))
    return min(1.0, p), 2 * alone / (k * (n - k)), finding


def of_labels(
    fates: Sequence[bool], values: Sequence[Any], called: str = "such", block: int | None = None
) -> tuple[float, float, str]:
    """Return p-value, strength and words: whether those with a fate have other values than the others.

    Args:
        fates: See ``of_numbers``.
        values: See ``of_numbers``.
        called: See ``of_numbers``.
        block: See ``of_numbers``.
    """
    import numpy as np

    labels = [str(value) for value in values]
    names = list(dict.fromkeys(labels))
    of = np.array([[label == name for name in names] for label in labels], dtype=np.int64)
    fate = np.array(fates)
    n, k = len(labels), int(fate.sum())
    blocks = _blocks(n, block)
    counts, mine = of.sum(axis=0), of[fate].sum(axis=0)
    expected = sum(of[part].sum(axis=0) * fate[part].mean() for part in blocks)
    room = np.maximum(expected * (1 - expected / counts), ROUNDING)  # none where no draw could change anything

    def far(found: Any) -> Any:
        return ((found - expected) ** 2 / room).sum(axis=-1)

    here = float(far(mine))
    rng = np.random.default_rng(0)
    drawn = sum(
        rng.multivariate_hypergeometric(of[part].sum(axis=0), int(fate[part].sum()), size=DRAWS) for part in blocks
    )
    p = (1 + int((far(drawn) >= here * (1 - ROUNDING)).sum())) / (1 + DRAWS)
    shares = sorted(zip((mine / counts).tolist(), names, strict=True), reverse=True)
    most, least = shares[0], shares[-1]
    finding = f"{most[0]:.0%} {called} with {most[1]}, {least[0]:.0%} with {least[1]}"
    whole = k / n
    strength = math.sqrt(float((counts * (mine / counts - whole) ** 2).sum()) / (n * whole * (1 - whole)))
    return p, strength, finding


def _blocks(n: int, block: int | None) -> list[slice]:
    size = max(1, n if block is None else block)
    return [slice(first, min(n, first + size)) for first in range(0, n, size)]


def _variance(fate: Any, ranks: Array) -> float:
    """Return the variance of the sum of ranks of as many as have a fate, drawn from all."""
    n, k = len(fate), int(fate.sum())
    return k * (n - k) / n * float(ranks.var(ddof=1)) if n > 1 else 0.0


def _share_of_draws(fate: Any, ranks: Array, blocks: Sequence[slice], expected: float, bar: float) -> float:
    """Return in which share of ways to hand out fates within blocks the sum of ranks is as far off as was found."""
    import numpy as np

    rng = np.random.default_rng(0)
    sums = np.zeros(DRAWS)
    for part in blocks:
        n, k = len(fate[part]), int(fate[part].sum())
        if k in (0, n):
            sums += float(ranks[part].sum()) if k else 0.0
            continue
        keys = rng.random((DRAWS, n), dtype=np.float32)
        sums += ranks[part][np.argpartition(keys, k - 1, axis=1)[:, :k]].sum(axis=1)
    return (1 + int((np.abs(sums - expected) >= bar - ROUNDING * len(fate)).sum())) / (1 + DRAWS)


def _ranks(values: Array) -> Array:
    """Return ranks from 1; equal values share theirs."""
    import numpy as np

    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[place], dtype=np.float64)
