"""What each parameter goes with: how its values are laid out, and how much of the ranking they go along with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from etude.analyse.report.facts import Facts, Ran

FEWEST_NUMBERS: Final = 7
"""A parameter with fewer values is shown value by value."""

DECADES: Final = 1000
LARGEST: Final = 1e300
BINS: Final = 8
FEWEST_IN_BIN: Final = 3


@dataclass(frozen=True)
class Varied:
    """A parameter that was varied.

    Attributes:
        name: What it is called.
        numeric: Whether it is a number on a scale; else its values are shown one by one.
        log: Whether that scale is logarithmic.
        points: The finished trials that have it: trial, value of the parameter, value of the metric.
        levels: Of one that is not numeric, its values as they are shown, in order.
        share: How much of the variance of the trials' ranks its bins go along with, beyond chance; from 0 to 1.
    """

    name: str
    numeric: bool
    log: bool
    points: tuple[tuple[Ran, Any, float], ...]
    levels: tuple[str, ...]
    share: float


def varied(facts: Facts) -> tuple[list[Varied], dict[str, Any]]:
    """Return the parameters that were varied, first what goes with the most of the ranking; and those that were not.

    Conditional parameters are those of the trials that have them.
    """
    known = {one.name: one for one in facts.parameters}
    names = dict.fromkeys([*known, *(name for one in facts.trials for name in one.params)])
    numbers = facts.numbers()
    found: list[Varied] = []
    held: dict[str, Any] = {}
    for name in names:
        values = [one.params[name] for one in facts.trials if name in one.params]
        if len({_key(value) for value in values}) < 2:  # noqa: PLR2004
            held |= {name: values[0]} if values else {}
            continue
        points = tuple((one, one.params[name], value) for one, value in numbers if name in one.params)
        listed = known[name].values if name in known else None
        log = known[name].log if name in known else _spans_decades(values)
        found.append(_varied(name, points, values, log=log, listed=listed))
    return sorted(found, key=lambda one: -one.share), held


def _spans_decades(values: Sequence[Any]) -> bool:
    """Say whether values of which nobody told the scale look as if it were logarithmic."""
    if not all(map(is_plain_number, values)):
        return False
    return bool(min(values) > 0 and max(values) > DECADES * min(values))


def _key(value: Any) -> tuple[str, str]:
    return (type(value).__name__, repr(value))


def told(value: Any) -> str:
    """Return a value of a parameter as it stands beside an axis."""
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None else str(value)


def is_plain_number(value: Any) -> bool:
    """Say whether a value can lie on a scale."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and abs(value) < LARGEST if isinstance(value, float) else abs(value) < LARGEST


def _varied(
    name: str,
    points: tuple[tuple[Ran, Any, float], ...],
    values: Sequence[Any],
    *,
    log: bool,
    listed: Sequence[Any] | None,
) -> Varied:
    distinct = {_key(value): value for value in values}
    numeric = all(map(is_plain_number, distinct.values())) and len(distinct) >= FEWEST_NUMBERS
    numeric = numeric and not (listed is not None and len(listed) < 2 * FEWEST_NUMBERS)
    if numeric:
        log = log and min(values) > 0
        return Varied(name, True, log, points, (), _share(bins_of([v for _, v, _ in points]), points))
    if all(map(is_plain_number, distinct.values())):
        ordered = [told(value) for value in sorted(distinct.values())]
    else:
        order = {told(value): nth for nth, value in enumerate(listed or ())}
        often = Counter(told(value) for value in values)
        ordered = sorted(often, key=lambda level: (order.get(level, len(order)), -often[level], level))
    levels = tuple(dict.fromkeys(ordered))
    place = {level: nth for nth, level in enumerate(levels)}
    return Varied(name, False, False, points, levels, _share([place[told(v)] for _, v, _ in points], points))


def bins_of(values: Sequence[float]) -> list[int]:
    """Return for each value its bin, of some that hold about as many each; equal values are in one bin."""
    n = max(1, min(BINS, len(values) // FEWEST_IN_BIN))
    ordered = sorted(values)
    edges = sorted({ordered[len(ordered) * nth // n] for nth in range(1, n)}) if ordered else []
    return [
        int(nth)
        for nth in np.searchsorted(np.asarray(edges, dtype=float), np.asarray(values, dtype=float), side="right")
    ]


def _share(bins: Sequence[int], points: Sequence[tuple[Ran, Any, float]]) -> float:
    """Return epsilon squared of the metric's ranks over bins, on average 0 where nothing goes with anything."""
    n = len(points)
    if n < 2 * FEWEST_IN_BIN:
        return 0.0
    values = np.asarray([value for _, _, value in points])
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)
    _, inverse = np.unique(values, return_inverse=True)
    ranks = (np.bincount(inverse, weights=ranks) / np.bincount(inverse))[inverse]  # equal values have equal ranks
    total = float(((ranks - ranks.mean()) ** 2).sum())
    groups: Mapping[int, Any] = {b: ranks[np.asarray(bins) == b] for b in set(bins)}
    free = n - len(groups)
    if total <= 0 or free <= 0 or len(groups) < 2:  # noqa: PLR2004
        return 0.0
    within = sum(float(((of - of.mean()) ** 2).sum()) for of in groups.values())
    return max(0.0, 1.0 - (within / free) / (total / (n - 1)))
