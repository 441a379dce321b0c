"""What trials of a study have from each other: shared states, and epochs that were not trained twice."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from etude.core.events import Checkpoint, Origin


@dataclass
class Shares:
    """What facts say of it.

    Attributes:
        curves: (trial, epoch) of each state that is kept for trials which agree so far -> the trial's curve until then.
        inherited: Trial -> how many epochs it has from another trial, from whose state it went on.
        carried_on: Trials whose state was that of the trial that they promote: they are the same training, made longer.
        reached: Trial -> after how many epochs, those that it inherited included, it saved its state last.
        refused: How often a shared state was of no use.
    """

    curves: dict[tuple[int, int], array[float]] = field(default_factory=dict)
    inherited: dict[int, int] = field(default_factory=dict)
    carried_on: set[int] = field(default_factory=set)
    reached: dict[int, int] = field(default_factory=dict)
    refused: int = 0

    def save(self, trial: int, checkpoint: Checkpoint) -> None:
        """Take in that a trial saved its state; epochs of its first loop count."""
        if checkpoint.loop == 0:
            self.reached[trial] = checkpoint.epoch

    def resume(self, trial: int, origin: Origin, dropped: Iterable[int], *, promotes: int | None = None) -> None:
        """Take in from where a trial goes on, and which of its shared states are of no use by that.

        Args:
            trial: Its number.
            origin: From where.
            dropped: Epochs after which it had saved states that are of no use by that.
            promotes: The trial that it promotes, and was to go on from; None if there is none.
        """
        for epoch in dropped:
            del self.curves[trial, epoch]
        if origin.key is None:
            self.inherited.pop(trial, None)
            self.reached.pop(trial, None)
            self.carried_on.discard(trial)
            self.refused += origin.source is not None and promotes is None
        elif origin.source is not None and origin.key[1] == 0:
            self.inherited[trial] = self.reached[trial] = origin.key[2]
            if origin.source == promotes:
                self.carried_on.add(trial)

    def free(self, states: Iterable[tuple[int, int]]) -> None:
        """Take in that nobody goes on from states any more."""
        for state in states:
            self.curves.pop(state, None)

    @property
    def epochs(self) -> tuple[int, int]:
        """How many epochs were not trained twice, and of how many that all trials have together.

        What a trial has from the one that it promotes is neither: nobody would have trained it twice.
        """
        own = sum(self.inherited[trial] for trial in self.carried_on)
        return sum(self.inherited.values()) - own, sum(self.reached.values()) - own
