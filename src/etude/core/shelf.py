"""Which saved states of a study are kept: decided from its facts alone, at each moment.

A trial that has not ended keeps its newest checkpoint and the one before, whole, so that its next attempt can go on;
one that another trial may carry on keeps its newest. Of the best trials so far, the weights of some epochs are kept
(``Keep``). Nothing else is: what is surplus goes before anything new is written.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Final

from etude.core.events import BEST, LAST, PARTS, Checkpoint, Keep

Files = tuple[tuple[int, str], ...]
"""Of checkpoints, as (trial, name)."""

POINTS: Final = 2
"""Checkpoints of a trial that has not ended: a damaged newest leaves the one before."""


class Held:
    """What is kept of one trial.

    Attributes:
        points: From where an attempt may go on, the newest last, each with what the trial had reported by then.
        named: Name -> the checkpoint whose weights are kept under it, and what the trial had reported by then.
        loss: The best that it had reported at one of all these.
    """

    __slots__ = ("loss", "named", "points")

    def __init__(self) -> None:
        self.points: list[tuple[float, Checkpoint]] = []
        self.named: dict[str | int, tuple[float, Checkpoint]] = {}
        self.loss = math.inf

    def name(self, keep: Keep) -> None:
        """Give the checkpoints their names; what had one and is no point any more keeps it, but for the last."""
        for loss, point in self.points:
            for name in keep.epochs:
                known = self.named.get(name)
                if known is None or (name == LAST and known[1].key < point.key):
                    fits = name in (LAST, BEST) or name == point.epoch
                elif name == BEST:
                    fits = loss < known[0]
                else:
                    fits = name == point.epoch and known[1].key < point.key
                if fits:
                    self.named[name] = (loss, point)
        losses = [loss for loss, _ in (*self.points, *self.named.values())]
        self.loss = min(losses, default=math.inf)

    def forget_weights(self, keep: Keep) -> None:
        """Have what only the weights' sake kept gone: what is left is what the trial needs to go on."""
        self.named.clear()
        self.name(keep)

    def files(self, *, is_best: bool) -> set[str]:
        """Return the names of the files that are kept."""
        names = {point.name(part) for _, point in self.points for part in PARTS}
        if is_best:
            names |= {point.name("weights") for _, point in self.named.values()}
        return names


class Shelf:
    """The checkpoints of a study.

    Attributes:
        keep: Of which trials the weights are kept, and of which epochs.
        used: Whether any trial has ever saved a state.
    """

    __slots__ = ("_held", "_ranks", "keep", "used")

    def __init__(self) -> None:
        self.keep = Keep()
        self.used = False
        self._held: dict[int, Held] = {}
        self._ranks: list[tuple[float, int]] = []  # loss and number of each trial that holds something, the best first

    def points(self, trial: int) -> tuple[Checkpoint, ...]:
        """Return from where a trial may go on, the newest first."""
        held = self._held.get(trial)
        return tuple(checkpoint for _, checkpoint in reversed(held.points)) if held is not None else ()

    def weights(self, trial: int) -> dict[str | int, Checkpoint]:
        """Return what is kept of a trial's weights, by the names of the epochs."""
        if trial not in self._best():
            return {}
        return {name: checkpoint for name, (_, checkpoint) in self._held[trial].named.items()}

    @property
    def files(self) -> set[tuple[int, str]]:
        """All that is kept, as (trial, name)."""
        best = self._best()
        return {(trial, name) for trial, held in self._held.items() for name in held.files(is_best=trial in best)}

    def files_of(self, trial: int) -> frozenset[str]:
        """Return the names of all that is kept of a trial."""
        held = self._held.get(trial)
        return frozenset(held.files(is_best=trial in self._best())) if held is not None else frozenset()

    def begin(self, keep: Keep) -> Files:
        """Take in what is to be kept from now on; return what may go."""
        if keep == self.keep:
            return ()

        def change() -> None:
            self.keep = keep
            for held in self._held.values():
                held.named = {name: known for name, known in held.named.items() if name in keep.epochs}
                held.name(keep)

        return self._surplus(list(self._held), change)

    def put(self, trial: int, checkpoint: Checkpoint, loss: float) -> Files:
        """Take in a new checkpoint; return what may go.

        Args:
            trial: Whose it is.
            checkpoint: What it is.
            loss: What the trial reported last before it, less being better; infinite if nothing.
        """
        self.used = True
        held = self._held.setdefault(trial, Held())

        def change() -> None:
            held.points = [*held.points, (loss, checkpoint)][-POINTS:]
            held.name(self.keep)

        return self._surplus([trial], change)

    def resume(self, trial: int, checkpoint: tuple[int, int, int] | None) -> Files:
        """Take in from which checkpoint a trial went on, by its key, or from the start; later ones may go."""
        held = self._held.get(trial)
        if held is None:
            return ()

        def change() -> None:
            keys = [point.key for _, point in held.points]
            held.points = held.points[: keys.index(checkpoint) + 1] if checkpoint in keys else []
            held.named = {name: known for name, known in held.named.items() if known[1].key <= (checkpoint or ())}
            held.name(self.keep)

        return self._surplus([trial], change)

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

        def change() -> None:
            held.points = held.points[-1:] if resumable else []
            if not well:
                held.named.clear()

        return self._surplus([trial], change)

    def free(self, trials: Iterable[int]) -> Files:
        """Take in that nobody goes on from trials that have ended; return what may go."""
        held = [trial for trial in trials if self.points(trial)]

        def change() -> None:
            for trial in held:
                self._held[trial].points = []

        return self._surplus(held, change) if held else ()

    def _best(self) -> set[int]:
        return {trial for _, trial in self._ranks[: self.keep.trials]}

    def _surplus(self, trials: list[int], change: Callable[[], None]) -> Files:
        """Change what is held of some trials, and return what may go of theirs, and of those that were best."""
        before_best = self._best()
        touched = before_best.union(trials)
        before = {(trial, name) for trial in touched for name in self._held[trial].files(is_best=trial in before_best)}
        ranked = {trial: (self._held[trial].loss, trial) for trial in trials}
        change()
        for trial in trials:
            self._rank_anew(trial, ranked[trial])
        best = self._best()
        for trial in touched - best:
            if (held := self._held.get(trial)) is not None:
                rank = (held.loss, trial)
                held.forget_weights(self.keep)
                self._rank_anew(trial, rank)
        after = {
            (trial, name)
            for trial in touched
            if trial in self._held
            for name in self._held[trial].files(is_best=trial in best)
        }
        return tuple(sorted(before - after))

    def _rank_anew(self, trial: int, rank: tuple[float, int]) -> None:
        """Give a trial the rank that it has by now; one that holds nothing has none."""
        at = bisect_left(self._ranks, rank)
        if self._ranks[at : at + 1] == [rank]:
            del self._ranks[at]
        held = self._held[trial]
        if held.points or held.named:
            insort(self._ranks, (held.loss, trial))
        else:
            del self._held[trial]
