"""How much memory a trial will need, from what earlier ones took.

Peaks of memory are products, of batch size and widths say, so their logarithm is taken to be linear in where a
configuration is in its space. How far that may be trusted is measured and not assumed: each trial is predicted from
all others, and the most by which one was undershot is added to every prediction (a jackknife; Barber et al., Predictive
inference with the jackknife+, Ann. Statist. 49, 2021). With few trials that is much, and with more it shrinks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from etude.core.events import How, Usage
from etude.core.history import History, Trial
from etude.core.packing import Needed
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

LEARNED_FROM: Final = frozenset({How.FINISHED, How.STOPPED, How.RAISED})
"""Ends of trials whose peak says something. Who was killed, or never began, may not have come to it."""

Vector = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class MemoryModel:
    """Predicts the memory of trials (``core.packing.Need``).

    Args:
        space: What the trials' parameters may be.
        history: The study so far; what ends there is learned from.
    """

    def __init__(self, space: Space, history: History) -> None:
        self._space = space
        self._history = history
        self._seen = 0
        self._main, self._gpu = _Peaks(), _Peaks()
        self._predicted: dict[int, Needed] = {}  # by what is learned so far: a queue is gone through again and again

    def __call__(self, trial: Trial) -> Needed:
        """Return what a trial is not likely to exceed; None of what too little is known of."""
        self._learn()
        needed = self._predicted.get(trial.number)
        if needed is None:
            place = placed(self._space, trial.params)
            gpu_mb = self._gpu.predicted(place) if self._gpu else 0.0
            needed = self._predicted[trial.number] = Needed(self._main.predicted(place), gpu_mb)
        return needed

    def _learn(self) -> None:
        """Take in what has ended since."""
        ended = self._history.ended
        if self._seen == len(ended):
            return
        self._predicted.clear()
        for trial in ended[self._seen :]:
            outcome = trial.outcome if trial.same_as is None else None
            if outcome is None or outcome.how not in LEARNED_FROM:
                continue
            place = placed(self._space, trial.params)
            well = outcome.how is not How.RAISED
            for peaks, peak_mb in zip((self._main, self._gpu), _peaks_mb(outcome.usage), strict=True):
                if peak_mb > 0:
                    peaks.add(place, peak_mb, well=well)
        self._seen = len(ended)


def _peaks_mb(usage: Usage) -> tuple[float, float]:
    """Return what a trial took of its machine's memory and of GPUs'; 0 for what is not known, or is none."""
    return usage.memory_mb, usage.gpu_memory_mb or 0.0


class _Peaks:
    """Peaks of one kind of memory, and what they say of other configurations."""

    def __init__(self) -> None:
        self._ended_well = _Newest()
        self._any_end = _Newest()  # those, and trials that raised
        self._fitted = True
        self._names: list[str] = []
        self._slope: Vector = np.zeros(0)
        self._middle: Vector = np.zeros(0)
        self._level = 0.0

    def __bool__(self) -> bool:
        """Whether any trial took of it."""
        return bool(self._any_end)

    def add(self, place: dict[str, float], peak_mb: float, *, well: bool) -> None:
        """Take in the peak of a trial that has ended, well or not."""
        if well:
            self._ended_well.add(place, peak_mb)
        self._any_end.add(place, peak_mb)
        self._fitted = False

    def predicted(self, place: dict[str, float]) -> float | None:
        """Return what a trial is not likely to exceed, in MB; None while too little is known."""
        if (known := self._known) is None:
            return None
        if not self._fitted:
            self._fit(known)
        return float(np.exp(self._level + (self._row(place) - self._middle) @ self._slope))

    @property
    def _known(self) -> _Newest | None:
        """What is learned from. Who raised may have done so early, and counts only where hardly any did better."""
        if len(self._ended_well) >= FEWEST:
            return self._ended_well
        return self._any_end if len(self._any_end) >= FEWEST_ENDS else None

    def _fit(self, known: _Newest) -> None:
        self._fitted = True
        self._names = sorted({name for place in known.places for name in place})
        rows, peaks = np.array([self._row(place) for place in known.places]), np.array(known.logarithms)
        self._middle, mean = rows.mean(axis=0), peaks.mean()
        rows, peaks = rows - self._middle, peaks - mean
        fits = [_ridge(rows, peaks, strength) for strength in SHRINK]
        self._slope, undershot, _ = min(fits, key=lambda fit: fit[2])
        self._level = float(mean) + max(undershot, float(np.log1p(LEAST_MARGIN)))

    def _row(self, place: dict[str, float]) -> Vector:
        return np.array([place.get(name, NOWHERE) for name in self._names])


class _Newest:
    """Peaks of the newest trials of some kind, and where their configurations are."""

    def __init__(self) -> None:
        self.places: list[dict[str, float]] = []
        self.logarithms: list[float] = []

    def __len__(self) -> int:
        return len(self.places)

    def add(self, place: dict[str, float], peak_mb: float) -> None:
        """Take in one more."""
        self.places.append(place)
        self.logarithms.append(float(np.log(peak_mb)))
        del self.places[:-NEWEST], self.logarithms[:-NEWEST]


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
