"""The epochs of a training whose callback nobody asked for (``frameworks.unasked`` puts it in)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from etude.core.errors import StateError
from etude.frameworks.callbacks import Running, Turns

VALIDATION: Final = "val_"
"""How trainers call what they measure on validation data: the same with this in front."""

AMBIGUOUS: Final = (
    "The trainer logs {name!r} and {other!r}, and the study goes by {name!r}, which by its name is of the training "
    "data. If the validation data is to count, say metric={other!r}."
)

UNSAVED: Final = "What model() returned is reported after each epoch, and not saved: {why}"


class Told(Running, Protocol):
    """What is wanted of a run handle beside that.

    Attributes:
        metrics: Names of the study's metrics.
        epoch: The epoch that it gave out last; None before the first.
        judged: How many reports had one of the metrics in them.
    """

    metrics: tuple[str, ...]
    epoch: int | None
    judged: int

    @property
    def is_in_epochs(self) -> bool:
        """Whether an epoch of ``run.epochs`` is being trained."""
        ...

    def say(self, text: str) -> None:
        """Have users told something."""
        ...


class UnaskedTurns(Turns):
    """The epochs of a training whose callback nobody asked for.

    Args:
        run: The run handle.
        counts: Whether they are the epochs of the run, so that they are saved and resumed; else they are only reported.
    """

    def __init__(self, run: Told, *, counts: bool) -> None:
        super().__init__(run, {})
        self._told = run
        self._counts = counts
        self._judged = run.judged
        self._warned = False

    def keep(self, things: Mapping[str, Any]) -> None:
        """Keep things, if they can be; else the training is only reported, and a note says why."""
        if self._counts:
            try:
                self.run.keep(**things)
            except StateError as error:
                self._told.say(UNSAVED.format(why=error))
                self._counts = self.run.keeper.kept is None  # else what others keep would be saved without this

    def begin(self, n: float) -> bool:
        """Begin a training of at most ``n`` epochs."""
        return super().begin(n) if self._counts else True

    def again(self) -> None:
        """Bring everything back once more."""
        if self._counts:
            super().again()

    def end(self, *, over: bool = False) -> bool:
        """End an epoch. What cannot be saved after all, since a callback of the user's has it, ends no training."""
        if self._counts:
            try:
                return super().end(over=over)
            except StateError as error:
                self._told.say(UNSAVED.format(why=error))
                self._counts = False
        return True

    def tell(self, numbers: Mapping[str, float]) -> None:
        """Report numbers; the study's metrics only if the training function has not reported them in this epoch."""
        found = dict(numbers)
        for name in self._told.metrics:
            other = VALIDATION + name
            if other not in numbers:
                continue
            if name in numbers and not self._warned:
                self._warned = True
                self._told.say(AMBIGUOUS.format(name=name, other=other))
            found.setdefault(name, numbers[other])
        if self._told.judged != self._judged:
            found = {name: value for name, value in found.items() if name not in self._told.metrics}
        self.run.report(found)
        self._judged = self._told.judged
