"""Which saved states of a study are kept: decided from its facts alone, at each moment.

A trial that has not ended keeps two checkpoints, both files of each, so that its next attempt can go on: the newest,
and the one after which it had reported its best value, or the one before if that is the newest. One that another trial
may carry on keeps its newest, and those that are shared with trials which agree with it so far are kept until they are
freed. Of the trials that finished best, the weights of some epochs are kept (``Keep``); a trial that runs takes
nobody's place, since nobody knows how it will end. Nothing else is kept: what is surplus goes before anything new is
written.

All of that is of checkpoints between epochs. One within an epoch is there for the trial's own next attempt alone: the
newest is kept beside the two, until the next one of either kind.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Final

from etude.core.events import BEST, LAST, PARTS, USUAL, Checkpoint, Keep, Key

Files = tuple[tuple[int, str], ...]
"""Of checkpoints, as (trial, name)."""

Rank = tuple[float, ...]
"""Orders trials that finished, the best first."""

GB: Final = 10**9

POINTS: Final = 2
"""Checkpoints between epochs, of a trial that has not ended."""


class Held:
    """What is kept of one trial.

    Attributes:
        points: From where an attempt may go on, the newest last, each with what the trial had reported by then.
        named: Name -> the checkpoint whose weights are kept under it. Before a trial has ended these are the epochs
            that were asked for by number.
        rank: How it finished; None as long as it has not.
        optimizers: Whether what has a name is kept whole, and not its weights alone.
        shared: Epochs done -> the checkpoint that trials may go on from which agree with it until then.
    """

    __slots__ = ("named", "optimizers", "points", "rank", "shared")

    def __init__(self, *, optimizers: bool) -> None:
        self.optimizers = optimizers
        self.points: list[tuple[float, Checkpoint]] = []
        self.named: dict[str | int, Checkpoint] = {}
        self.rank: Rank | None = None
        self.shared: dict[int, Checkpoint] = {}

    @property
    def whole(self) -> list[tuple[float, Checkpoint]]:
        """Those of the points that are between epochs."""
        return [point for point in self.points if point[1].whole]

    def put(self, checkpoint: Checkpoint, loss: float, keep: Keep) -> None:
        """Take in a new checkpoint."""
        older, newest = self.whole, (loss, checkpoint)
        if checkpoint.whole:
            best = _best([*older, newest])
            older = [best] if best is not newest else older[-1:]
            if checkpoint.epoch in keep.epochs:
                self.named[checkpoint.epoch] = checkpoint
        self.points = [*older, newest]

    def back_to(self, key: Key) -> None:
        """Forget checkpoints that are newer than one."""
        self.points = [point for point in self.points if point[1].key <= key]
        self.named = {name: checkpoint for name, checkpoint in self.named.items() if checkpoint.key <= key}
        self.shared = {epoch: checkpoint for epoch, checkpoint in self.shared.items() if checkpoint.key <= key}

    def finish(self, rank: Rank, keep: Keep, *, resumable: bool) -> None:
        """Note how it finished: what is kept from now on are weights, and what another trial may go on from."""
        self.rank = rank
        if whole := self.whole:
            self.named |= {LAST: whole[-1][1]} if LAST in keep.epochs else {}
            self.named |= {BEST: _best(whole)[1]} if BEST in keep.epochs else {}
        self.points = whole[-1:] if resumable else []

    @property
    def size(self) -> int:
        """What has a name takes on the disk, in bytes."""
        kept = {checkpoint.key: checkpoint.sizes for checkpoint in self.named.values()}
        return sum(sum(sizes if self.optimizers else sizes[:: len(PARTS)]) for sizes in kept.values())

    def files(self, *, is_best: bool) -> set[str]:
        """Return the names of the files that are kept."""
        whole = [*(point for _, point in self.points), *self.shared.values()]
        names = {name for point in whole for name in point.names()}
        if is_best or self.rank is None:
            parts = PARTS if self.optimizers else PARTS[:1]
            names |= {name for checkpoint in self.named.values() for name in checkpoint.names(parts)}
        return names


def _best(points: list[tuple[float, Checkpoint]]) -> tuple[float, Checkpoint]:
    """Return the point with the best value; the newest of equals."""
    return min(reversed(points), key=lambda point: point[0])


class Shelf:
    """The checkpoints of a study.

    Attributes:
        keep: Of how many trials the weights are kept, and of which epochs.
        used: Whether any trial has ever saved a state.
    """

    __slots__ = ("_held", "_ranks", "keep", "used")

    def __init__(self) -> None:
        self.keep = USUAL
        self.used = False
        self._held: dict[int, Held] = {}
        self._ranks: list[tuple[Rank, int]] = []  # of those that finished and hold something, the best first

    def points(self, trial: int) -> tuple[Checkpoint, ...]:
        """Return from where a trial may go on, the newest first."""
        held = self._held.get(trial)
        return tuple(checkpoint for _, checkpoint in reversed(held.points)) if held is not None else ()

    def shared(self, trial: int) -> dict[int, Checkpoint]:
        """Return what is kept of a trial for those that agree with it so far, by epochs done."""
        held = self._held.get(trial)
        return dict(held.shared) if held is not None else {}

    def weights(self, trial: int) -> dict[str | int, Checkpoint]:
        """Return what is kept of the weights of a trial that finished, by the names of the epochs."""
        return dict(self._held[trial].named) if trial in self._best() else {}

    def has_optimizers(self, trial: int) -> bool:
        """Return whether the rest of these states is kept as well."""
        return trial in self._held and self._held[trial].optimizers

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
                held.optimizers &= keep.optimizers

        return self._surplus(list(self._held), change)

    def put(self, trial: int, checkpoint: Checkpoint, loss: float) -> Files:
        """Take in a new checkpoint; return what may go.

        Args:
            trial: Whose it is.
            checkpoint: What it is.
            loss: What the trial reported last before it, less being better; infinite if nothing.
        """
        self.used = True
        held = self._held.setdefault(trial, Held(optimizers=self.keep.optimizers))
        return self._surplus([trial], lambda: held.put(checkpoint, loss, self.keep))

    def resume(self, trial: int, checkpoint: Key | None) -> Files:
        """Take in from which checkpoint a trial went on, by its key, or from the start; later ones may go."""
        held = self._held.get(trial)
        return self._surplus([trial], lambda: held.back_to(checkpoint or (0, 0, 0))) if held is not None else ()

    def end(self, trial: int, rank: Rank | None, *, resumable: bool = False) -> Files:
        """Take in that a trial has ended; return what may go.

        Args:
            trial: Its number.
            rank: How it finished; None if it did not, and then nothing of it is kept.
            resumable: Whether another trial may go on from its newest state.
        """
        held = self._held.get(trial)
        if held is None:
            return ()

        def change() -> None:
            if rank is not None:
                held.finish(rank, self.keep, resumable=resumable)
            else:
                held.points, held.named = [], {}

        return self._surplus([trial], change)

    def share(self, trial: int, epoch: int) -> None:
        """Take in that the newest checkpoint of a trial is kept for others."""
        held = self._held[trial]
        newest = held.points[-1][1]
        assert newest.epoch == epoch, "it has just been saved"
        held.shared[epoch] = newest

    def free(self, trials: Iterable[int], shared: Iterable[tuple[int, int]] = ()) -> Files:
        """Take in that nobody goes on from trials that have ended, nor from shared states; return what may go.

        Args:
            trials: Those that have ended.
            shared: The states, as (trial, epoch).
        """
        held = {trial for trial in trials if self.points(trial)}
        unshared = [(trial, epoch) for trial, epoch in shared if epoch in self.shared(trial)]

        def change() -> None:
            for trial in held:
                self._held[trial].points = []
            for trial, epoch in unshared:
                del self._held[trial].shared[epoch]

        touched = sorted(held.union(trial for trial, _ in unshared))
        return self._surplus(touched, change) if touched else ()

    def _best(self) -> set[int]:
        best, left = set[int](), math.inf if self.keep.max_gb is None else self.keep.max_gb * GB
        for _, trial in self._ranks[: self.keep.trials]:
            if (size := self._held[trial].size) <= left:  # else one that is too large has no place, and others do
                best.add(trial)
                left -= size
        return best

    def _surplus(self, trials: list[int], change: Callable[[], None]) -> Files:
        """Change what is held of some trials, and return what may go: of theirs, and of those that were best before."""
        best = self._best()
        touched = best.union(trials)
        before = {(trial, name) for trial in touched for name in self._held[trial].files(is_best=trial in best)}
        change()
        for trial in trials:
            self._rank(trial)
        best = self._best()
        for trial in touched - best:
            held = self._held[trial]
            if held.rank is not None:  # it finished, and others did better
                held.named.clear()
                self._rank(trial)
            if not held.points and not held.named and not held.shared:
                del self._held[trial]
        kept = touched & self._held.keys()
        after = {(trial, name) for trial in kept for name in self._held[trial].files(is_best=trial in best)}
        return tuple(sorted(before - after))

    def _rank(self, trial: int) -> None:
        """Give a trial its place among those that finished, if it has weights; else none."""
        held = self._held[trial]
        if held.rank is None:
            return
        place = (held.rank, trial)
        at = bisect_left(self._ranks, place)
        is_there = self._ranks[at : at + 1] == [place]
        if is_there and not held.named:
            del self._ranks[at]
        elif held.named and not is_there:
            insort(self._ranks, place)
