"""Several methods on several data sets: which of them is better over all, by ranks.

Each data set ranks the methods. Friedman's test asks whether ranks differ at all. If so, which two differ is asked pair
by pair: by Wilcoxon's signed ranks over the data sets, corrected by Holm, or by the critical difference of Nemenyi.

Source:
    Demsar 2006, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7; for the F form of Friedman's
    test, Iman and Davenport 1980.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from etude.analyse.corrections import holm
from etude.analyse.libraries import scipy_stats
from etude.analyse.power import check_level
from etude.analyse.table import aligned
from etude.core.errors import ConfigError
from etude.core.text import brief, count, p_value

BY: Final = ("mean", "best")
FEW: Final = 5
"""With fewer data sets than that no two methods can be told apart by signed ranks."""


@dataclass(frozen=True)
class Apart:
    """Two methods.

    Attributes:
        one: The one with the better rank.
        other: The other.
        p: Of the signed ranks over data sets, or of Nemenyi's test.
        p_corrected: The same, for all pairs of methods.
    """

    one: str
    other: str
    p: float
    p_corrected: float


@dataclass(frozen=True)
class Rankings:
    """Methods by their ranks over data sets: print it.

    Attributes:
        ranks: Method -> its mean rank, the best first; 1 is the best that can be.
        data_sets: How many there are with a value for every method.
        p: Of Friedman's test (by Iman and Davenport), that ranks differ at all; 1 if that cannot be asked.
        difference: Nemenyi's critical difference of mean ranks; NaN if there is none.
        pairs: All pairs of methods.
        level: Of the tests.
        by: What stands for a method on a data set: the mean of its runs, or the best.
        says: What is to be said.
    """

    ranks: Mapping[str, float]
    data_sets: int
    p: float
    difference: float
    pairs: tuple[Apart, ...]
    level: float
    by: str
    says: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = (
            f"{count(len(self.ranks), 'method')} on {count(self.data_sets, 'data set')}, by the {self.by} of runs: "
            f"Friedman {p_value(self.p)}, critical difference {self.difference:.3g}."
        )
        table = aligned([["method", "mean rank"], *([name, f"{rank:.2f}"] for name, rank in self.ranks.items())])
        apart = [
            f"{one.one} is better than {one.other} ({p_value(one.p_corrected)}, corrected)."
            for one in self.pairs
            if one.p_corrected <= self.level and self.p <= self.level
        ]
        return "\n".join([*self.says, head, *table, *(apart or ["No two methods are told apart."])])


def rankings(
    runs: Mapping[str, Mapping[str, Any]],
    *,
    mode: Literal["max", "min"] = "max",
    by: Literal["mean", "best"] = "mean",
    post_hoc: Literal["wilcoxon", "nemenyi"] = "wilcoxon",
    level: float = 0.05,
) -> Rankings:
    """Return how methods rank over data sets.

    Args:
        runs: Data set -> method -> its runs there, one number or several. A data set without a number for every method
            is left out, and that is said.
        mode: ``"max"`` if larger is better.
        by: What stands for a method on a data set.
        post_hoc: How pairs of methods are told apart.
        level: Of the tests.

    Raises:
        ConfigError: The runs cannot be read, or scipy is missing.
    """
    import numpy as np

    check_level(level)
    for name, value, known in (("mode", mode, ("max", "min")), ("by", by, BY), ("post_hoc", post_hoc, POST_HOC)):
        if value not in known:
            raise ConfigError(f"{name}={brief(value)} is not known. Pass one of {', '.join(map(repr, known))}.")
    methods = list(dict.fromkeys(method for on in runs.values() for method in on))
    table, left_out = [], []
    for data_set, on in runs.items():
        row = [_stands_for(on.get(method), mode=mode, by=by) for method in methods]
        if all(map(math.isfinite, row)):
            table.append(row)
        else:
            left_out.append(str(data_set))
    says = [f"Left out, without a number for every method: {', '.join(left_out)}."] if left_out else []
    if not table or len(methods) < 2:  # noqa: PLR2004
        says.append("Ranks need two methods and a data set with a number for each.")
        return Rankings({}, len(table), 1.0, math.nan, (), level, by, tuple(says))
    stats = scipy_stats()
    values = np.array(table)
    ranked = stats.rankdata(-values if mode == "max" else values, axis=1)
    mean = ranked.mean(axis=0)
    order = sorted(range(len(methods)), key=lambda nth: (mean[nth], nth))
    if len(table) < FEW:
        says.append(f"{count(len(table), 'data set')} are too few to tell methods apart by their ranks.")
    difference = _critical(len(methods), len(table), level)
    pairs = _pairs(values, mean, [(i, j) for i, j in itertools.combinations(order, 2)], post_hoc)
    return Rankings(
        {methods[nth]: float(mean[nth]) for nth in order},
        len(table),
        _friedman(ranked),
        difference,
        tuple(Apart(methods[i], methods[j], p, q) for (i, j), p, q in pairs),
        level,
        by,
        tuple(says),
    )


POST_HOC: Final = ("wilcoxon", "nemenyi")


def _stands_for(runs: Any, *, mode: str, by: str) -> float:
    if runs is None:
        return math.nan
    several = list(runs.values()) if isinstance(runs, Mapping) else list(runs) if hasattr(runs, "__iter__") else [runs]
    known = [float(value) for value in several if value is not None and math.isfinite(value)]
    if not known:
        return math.nan
    if by == "best":
        return max(known) if mode == "max" else min(known)
    return math.fsum(known) / len(known)


def _friedman(ranked: Any) -> float:
    """Return the p-value of Friedman's test, in the form of Iman and Davenport, ties allowed for."""
    n, k = ranked.shape
    squares = float(((ranked - (k + 1) / 2) ** 2).sum())
    between = n * float(((ranked.mean(axis=0) - (k + 1) / 2) ** 2).sum())
    if n < 2 or squares == 0:  # noqa: PLR2004
        return 1.0
    chi = (k - 1) * n * between / squares
    if chi >= n * (k - 1) * (1 - 1e-12):
        return float(math.factorial(k) ** (1 - n))  # all data sets agree: what it would take by chance
    f = (n - 1) * chi / (n * (k - 1) - chi)
    return float(scipy_stats().f.sf(f, k - 1, (k - 1) * (n - 1)))


def _critical(k: int, n: int, level: float) -> float:
    """Return Nemenyi's critical difference of mean ranks."""
    q = float(scipy_stats().studentized_range.isf(level, k, math.inf)) / math.sqrt(2)
    return q * math.sqrt(k * (k + 1) / (6 * n))


def _pairs(values: Any, mean: Any, places: Sequence[tuple[int, int]], post_hoc: str) -> list[Any]:
    stats, (n, k) = scipy_stats(), values.shape
    if post_hoc == "nemenyi":
        scale = math.sqrt(k * (k + 1) / (6 * n)) / math.sqrt(2)
        ps = [float(stats.studentized_range.sf(abs(mean[i] - mean[j]) / scale, k, math.inf)) for i, j in places]
        return list(zip(places, ps, ps, strict=True))
    ps = []
    for i, j in places:
        off = values[:, i] - values[:, j]
        ps.append(float(stats.wilcoxon(off, zero_method="zsplit").pvalue) if off.any() else 1.0)
    return list(zip(places, ps, holm(ps), strict=True))
