"""Rates of epochs made comparable: on a scale where ratios count, in units of how far runs lie apart by themselves.

A rate may be a million a second or a share below one, and many are zero at times. So each is put on a scale that is a
logarithm where the rate is large, and a straight line near zero. What is near zero is said by the past runs: a
hundredth of what the rate is in the middle one of them. Then each is divided by its spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Rates = Mapping[str, float]
Array = np.ndarray[Any, np.dtype[np.float64]]

NEAR_ZERO: Final = 0.01
"""Of the middle past run; differences among rates below this hardly count."""
LEAST_SPREAD: Final = 0.01
"""A hundredth: no rate is held to be more constant than this, however few runs seem to say so."""
PRIOR_RUNS: Final = 4
"""As many runs' worth of the steadier rates' spread is mixed into each rate's own, which a few runs tell badly."""
LEAST_SHARED: Final = 0.5
"""Of the rates of both runs: with fewer in common they cannot be compared."""


@dataclass(frozen=True)
class Ruler:
    """Measures how far runs lie apart.

    Attributes:
        names: The rates, in the order of the columns.
        near_zero: Of each rate, where its scale turns from a line into a logarithm.
        spread: Of each rate on that scale, the standard deviation that counts as one.
    """

    names: tuple[str, ...]
    near_zero: Array
    spread: Array

    def place(self, rates: Rates) -> Array:
        """Return where a run lies, a number for each rate; NaN where it has none, or one that is not finite."""
        raw = np.array([rates.get(name, np.nan) for name in self.names], dtype=float)
        return _scaled(np.where(np.isfinite(raw), raw, np.nan), self.near_zero) / self.spread

    def distances(self, one: Array, others: Array) -> Array:
        """Return how far one run lies from others, a number for each row of ``others``.

        Rates that one side lacks are left out of both. Two runs with rates that spread as the ruler says are 1 apart
        on average, however many rates they share. Runs that share too few are infinitely far apart.
        """
        squares = (others - one) ** 2 / 2
        shared = np.isfinite(squares)
        either = np.isfinite(one) | np.isfinite(others)
        mean = np.where(shared, squares, 0).sum(axis=1) / np.maximum(shared.sum(axis=1), 1)
        enough = shared.sum(axis=1) >= np.maximum(LEAST_SHARED * either.sum(axis=1), 1)
        return np.where(enough, np.sqrt(mean), np.inf)


def ruler(past: Sequence[Rates], groups: Sequence[str] | None = None) -> Ruler:
    """Return a ruler by what is known of past runs.

    Args:
        past: Their rates.
        groups: Which workload each was of: the spread is then that of runs of the same workload, so that a rate
            counts the less the more it varies by itself. None for the spread of all runs.
    """
    names = tuple(sorted({name for rates in past for name in rates}))
    raw = np.array([[rates.get(name, np.nan) for name in names] for rates in past], dtype=float)
    raw = np.where(np.isfinite(raw), raw, np.nan).reshape(len(past), len(names))
    near_zero = np.array([_near_zero(column) for column in raw.T])
    placed = _scaled(raw, near_zero)
    alike = ["" for _ in past] if groups is None or len(set(groups)) == len(groups) else list(groups)
    return Ruler(names, near_zero, _spread(placed, np.array(alike)))


def _near_zero(column: Array) -> float:
    sizes = np.abs(column[np.isfinite(column) & (column != 0)])
    return NEAR_ZERO * float(np.median(sizes)) if sizes.size else 1.0


def _scaled(raw: Array, near_zero: Array) -> Array:
    scaled: Array = np.arcsinh(raw / near_zero)
    return scaled


def _spread(placed: Array, groups: np.ndarray[Any, Any]) -> Array:
    """Return the standard deviation of each column within groups, drawn towards that of the steadier columns."""
    squares, free = np.zeros(placed.shape[1]), np.zeros(placed.shape[1])
    for group in np.unique(groups):
        rows = placed[groups == group]
        there = np.isfinite(rows)
        counts = there.sum(axis=0)
        mean = np.where(there, rows, 0).sum(axis=0) / np.maximum(counts, 1)
        squares += np.where(there, (rows - mean) ** 2, 0).sum(axis=0)
        free += np.maximum(counts - 1, 0)
    own = squares[free > 0] / free[free > 0]
    prior = float(np.quantile(own, 0.25, method="lower")) if own.size else 0.0
    variance = (squares + PRIOR_RUNS * prior) / (free + PRIOR_RUNS)
    spread: Array = np.sqrt(np.maximum(variance, LEAST_SPREAD**2))
    return spread
