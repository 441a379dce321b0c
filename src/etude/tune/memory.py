"""How much memory a trial will need, from what earlier ones took.

Peaks of memory are products, of batch size and widths say, so their logarithm is taken to be linear in where a
configuration is in its space. How far that may be trusted is measured and not assumed: each trial is predicted from
all others, and the most by which one was undershot is added to every prediction (a jackknife; Barber et al., Predictive
inference with the jackknife+, Ann. Statist. 49, 2021). With few trials that is much, and with more it shrinks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from etude.core.events import How
from etude.core.history import History, Trial
from etude.tune.spaces import Space
from etude.tune.unit import placed

FEWEST: Final = 2
"""Trials that have to have ended well before anything is predicted."""

FEWEST_ENDS: Final = 5
"""Trials that are learned from however they ended, where fewer than those have ended well."""

NEWEST: Final = 500
"""Trials that are learned from, so that the driver never waits for it."""

SHRINK: Final = (0.01, 0.1, 1.0, 10.0)
"""Strengths of the ridge, of which the one is taken that predicts each trial best from all others."""

LEAST_MARGIN: Final = 0.1
"""At least so much is added, as a share: two runs of one configuration do not take the same."""

NOWHERE: Final = 0.5
"""Where a configuration is taken to be along a parameter that it does not have."""

Vector = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class _Peaks:
    """Peaks of the newest trials of some kind, and where their configurations are."""

    def __init__(self) -> None:
        self.places: list[dict[str, float]] = []
        self.logarithms: list[float] = []

    def __len__(self) -> int:
        return len(self.places)

    def add(self, place: dict[str, float], memory_mb: float) -> None:
        """Take in one more."""
        self.places.append(place)
        self.logarithms.append(float(np.log(memory_mb)))
        del self.places[:-NEWEST], self.logarithms[:-NEWEST]


class MemoryModel:
    """Predicts the memory of trials in MB (``core.packing.Need``).

    Args:
        space: What the trials' parameters may be.
        history: The study so far; what ends there is learned from.
    """

    def __init__(self, space: Space, history: History) -> None:
        self._space = space
        self._history = history
        self._seen = 0
        self._ended_well = _Peaks()
        self._any_end = _Peaks()  # those, and trials that raised
        self._names: list[str] = []
        self._slope: Vector = np.zeros(0)
        self._middle: Vector = np.zeros(0)
        self._level = 0.0
        self._predicted: dict[int, float] = {}  # by the fit as it is: a queue is gone through again and again

    def __call__(self, trial: Trial) -> float | None:
        """Return what a trial is not likely to exceed; None while too little is known."""
        self._learn()
        if self._known is None:
            return None
        known = self._predicted.get(trial.number)
        if known is None:
            row = self._row(placed(self._space, trial.params))
            known = self._predicted[trial.number] = float(np.exp(self._level + (row - self._middle) @ self._slope))
        return known

    @property
    def _known(self) -> _Peaks | None:
        """What is learned from. Who raised may have done so early, and counts only where hardly any did better."""
        if len(self._ended_well) >= FEWEST:
            return self._ended_well
        return self._any_end if len(self._any_end) >= FEWEST_ENDS else None

    def _learn(self) -> None:
        """Take in what has ended since."""
        ended = self._history.ended
        if self._seen == len(ended):
            return
        for trial in ended[self._seen :]:
            outcome = trial.outcome if trial.same_as is None else None
            if outcome is None or not outcome.usage.memory_mb > 0:
                continue
            place = placed(self._space, trial.params)
            if outcome.how in (How.FINISHED, How.STOPPED):
                self._ended_well.add(place, outcome.usage.memory_mb)
            if outcome.how in (How.FINISHED, How.STOPPED, How.RAISED):
                self._any_end.add(place, outcome.usage.memory_mb)
        self._seen = len(ended)
        if self._known is not None:
            self._fit(self._known)

    def _fit(self, known: _Peaks) -> None:
        self._predicted.clear()
        self._names = sorted({name for place in known.places for name in place})
        rows, peaks = np.array([self._row(place) for place in known.places]), np.array(known.logarithms)
        self._middle, mean = rows.mean(axis=0), peaks.mean()
        rows, peaks = rows - self._middle, peaks - mean
        fits = [_ridge(rows, peaks, strength) for strength in SHRINK]
        self._slope, undershot, _ = min(fits, key=lambda fit: fit[2])
        self._level = float(mean) + max(undershot, float(np.log1p(LEAST_MARGIN)))

    def _row(self, place: dict[str, float]) -> Vector:
        return np.array([place.get(name, NOWHERE) for name in self._names])


def _ridge(rows: Vector, peaks: Vector, strength: float) -> tuple[Vector, float, float]:
    """Return the slope; the most by which a trial is undershot if all others predict it; the squares of that, summed.

    Args:
        rows: Where each trial is, without the mean: (trials, coordinates).
        peaks: What it took, without the mean: (trials,).
        strength: How strongly slopes are shrunk.
    """
    n, coordinates = rows.shape
    inverse = np.linalg.inv(rows.T @ rows + strength * np.eye(coordinates))
    slope = inverse @ rows.T @ peaks
    leverage = 1.0 / n + np.einsum("ij,jk,ik->i", rows, inverse, rows)
    missed = (peaks - rows @ slope) / np.maximum(1.0 - leverage, 1.0 / (2 * n))
    return slope, float(missed.max()), float(missed @ missed)
