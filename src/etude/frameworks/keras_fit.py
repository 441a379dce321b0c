"""Keras' ``fit``: reported, saved and resumed by a callback.

It keeps the compiled model, which is what Keras' own ``BackupAndRestore`` writes, and more: that leaves out the random
generators. The epoch to begin with is set as that callback sets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from etude.frameworks.callbacks import Turns


def callback(turns: Turns) -> Any:
    """Return the callback."""
    return Fit(turns)


class Fit(keras.callbacks.Callback):  # type: ignore[misc]
    """Goes through a run's epochs as ``fit`` does; the last of the callbacks, so that it sees what the others did."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._kept: _Progress | None = None
        self._resumed = False

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Bring back what an attempt before this one has saved."""
        if self._kept is None:
            self._kept = _Progress()
            self._turns.run.keep(keras=self._kept, **({} if self._is_kept() else {"model": self.model}))
        self._kept.epoch = None
        goes_on = self._turns.begin(self.params["epochs"])
        self.model._initial_epoch = self._kept.epoch if goes_on else self.params["epochs"]
        self._resumed = goes_on

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Bring it back once more: the other callbacks have begun anew since, and may have drawn."""
        if self._resumed:
            self._resumed = False
            self._turns.again()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Report, and save."""
        assert self._kept is not None
        self._kept.epoch = epoch + 1
        self._turns.report(logs or {})
        if not self._turns.end(over=self.model.stop_training):
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Leave the model as if this had not been."""
        self.model._initial_epoch = None

    def _is_kept(self) -> bool:
        kept = self._turns.run.keeper.kept
        return kept is not None and any(thing is self.model for thing in vars(kept).values())


class _Progress:
    """How far ``fit`` has come.

    Attributes:
        epoch: The next, as ``fit`` counts; None before the first.
    """

    def __init__(self) -> None:
        self.epoch: int | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.epoch = state["epoch"]
