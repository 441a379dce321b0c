"""Which saved states of a study are kept: decided from its facts alone, at each moment.

A trial that has not ended keeps its newest checkpoint and the one before, whole, so that its next attempt can go on;
one that another trial may carry on keeps its newest. Of the best trials so far, the weights of their last checkpoint
and of their best are kept. Nothing else is: what is surplus goes before anything new is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from etude.core.events import PARTS, Checkpoint

Files = tuple[tuple[int, str], ...]
"""Of checkpoints, as (trial, name)."""

POINTS: Final = 2
"""Checkpoints of a trial that has not ended: a damaged newest leaves the one before."""

BEST: Final = 3
"""So many trials keep their weights, unless somebody says otherwise."""


class Held:
    """What is kept of one trial."""

    __slots__ = ("best", "last", "loss", "points")

    def __init__(self) -> None:
        self.points: list[tuple[float, Checkpoint]] = []  # each with what the trial had reported last
        self.last: Checkpoint | None = None
        self.best: Checkpoint | None = None
        self.loss = math.inf  # at the best

    def forget_weights(self) -> None:
        """Have what only the weights' sake kept gone: what is left is what the trial needs to go on."""
        self.loss, self.best = min(self.points, key=lambda point: point[0], default=(math.inf, None))
        self.last = self.points[-1][1] if self.points else None


class Shelf:
    """The checkpoints of a study.

    Args:
        best: How many trials keep their weights.

    Attributes:
        used: Whether any trial has ever saved a state.
    """

    __slots__ = ("_held", "best", "used")

    def __init__(self, best: int = BEST) -> None:
        self.best = best
        self.used = False
        self._held: dict[int, Held] = {}

    def points(self, trial: int) -> tuple[Checkpoint, ...]:
        """Return from where a trial may go on, the newest first."""
        held = self._held.get(trial)
        return tuple(checkpoint for _, checkpoint in reversed(held.points)) if held is not None else ()

    def weights(self, trial: int) -> dict[str, Checkpoint]:
        """Return what is kept of a trial's weights: the ``last`` checkpoint, and the ``best``."""
        held = self._held.get(trial)
        if held is None or trial not in self._best():
            return {}
        found = {"last": held.last, "best": held.best}
        return {name: checkpoint for name, checkpoint in found.items() if checkpoint is not None}

    @property
    def files(self) -> set[tuple[int, str]]:
        """All that is kept, as (trial, name)."""
        best = self._best()
        return {(trial, name) for trial, held in self._held.items() for name in _names(held, trial in best)}

    def files_of(self, trial: int) -> frozenset[str]:
        """Return the names of all that is kept of a trial."""
        held = self._held.get(trial)
        return frozenset(_names(held, trial in self._best())) if held is not None else frozenset()

    def put(self, trial: int, checkpoint: Checkpoint, loss: float) -> Files:
        """Take in a new checkpoint; return what may go.

        Args:
            trial: Whose it is.
            checkpoint: What it is.
            loss: What the trial reported last before it, less being better; infinite if nothing.
        """
        self.used = True
        before = self.files
        held = self._held.setdefault(trial, Held())
        held.points = [*held.points, (loss, checkpoint)][-POINTS:]
        held.last = checkpoint
        if held.best is None or loss < held.loss:
            held.best, held.loss = checkpoint, loss
        return self._surplus(before)

    def resume(self, trial: int, checkpoint: tuple[int, int, int] | None) -> Files:
        """Take in from which checkpoint a trial went on, by its key, or from the start; later ones may go."""
        held = self._held.get(trial)
        if held is None:
            return ()
        before = self.files
        keys = [point.key for _, point in held.points]
        held.points = held.points[: keys.index(checkpoint) + 1] if checkpoint in keys else []
        if held.best is None or held.best.key > (checkpoint or ()):
            held.forget_weights()
        held.last = held.points[-1][1] if held.points else held.best
        return self._surplus(before)

    def end(self, trial: int, *, well: bool, resumable: bool = False) -> Files:
        """Take in that a trial has ended; return what may go.

        Args:
            trial: Its number.
            well: Whether it went well; else nothing of it is kept.
            resumable: Whether another trial may go on from its newest state.
        """
        held = self._held.get(trial)
        if held is None:
            return ()
        before = self.files
        held.points = held.points[-1:] if resumable else []
        if not well:
            del self._held[trial]
        return self._surplus(before)

    def free(self, trials: Iterable[int]) -> Files:
        """Take in that nobody goes on from trials that have ended; return what may go."""
        held = [self._held[trial] for trial in trials if trial in self._held]
        if not held:
            return ()
        before = self.files
        for one in held:
            one.points = []
        return self._surplus(before)

    def _best(self) -> set[int]:
        ranked = sorted(self._held, key=lambda trial: (self._held[trial].loss, trial))
        return set(ranked[: self.best])

    def _surplus(self, before: set[tuple[int, str]]) -> Files:
        best = self._best()
        for trial in [trial for trial in self._held if trial not in best]:
            self._held[trial].forget_weights()
            if not self._held[trial].points:
                del self._held[trial]
        return tuple(sorted(before - self.files))


def _names(held: Held, is_best: bool) -> set[str]:
    names = {point.name(part) for _, point in held.points for part in PARTS}
    if is_best:
        names |= {point.name("weights") for point in (held.last, held.best) if point is not None}
    return names
