"""Keras' ``fit``: reported, saved and resumed by a callback.

It keeps the compiled model, which is what Keras' own ``BackupAndRestore`` writes, and more: that leaves out the random
generators. The epoch to begin with is set as that callback sets it, and what ``fit`` returns has all epochs in it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import keras

from etude.frameworks.unasked_turns import UnaskedTurns

if TYPE_CHECKING:
    from etude.frameworks.callbacks import Turns

STATEFUL: Final = (keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau)
"""Callbacks of Keras that count epochs. They are kept where nobody has asked us to keep anything."""


def callback(turns: Turns) -> Any:
    """Return the callback."""
    return Fit(turns)


def put_in(model: Any, turns: Callable[[], UnaskedTurns | None]) -> None:
    """Have the callback put in whenever a model is fitted without it.

    Args:
        model: That the model function has returned.
        turns: Gives the turns of a fit; None for one that is none of ours.
    """
    inner = vars(model).get("fit")  # who trains with several ranks has one of its own

    def fit(*args: Any, **options: Any) -> Any:
        call = inner if inner is not None else type(model).fit.__get__(model)
        args, options = _with_ours(call, args, options, turns)
        return call(*args, **options)

    vars(model)["fit"] = fit  # past Keras, which would take it for a part of the model


def _with_ours(
    call: Any, args: tuple[Any, ...], options: dict[str, Any], turns: Callable[[], UnaskedTurns | None]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what ``fit`` is called with, our callback included; unchanged where that cannot be or need not be."""
    names = list(inspect.signature(keras.Model.fit).parameters)[1:]
    at = names.index("callbacks")
    given = args[at] if len(args) > at else options.get("callbacks")
    if isinstance(given, keras.callbacks.CallbackList) or "callbacks" not in _taken(call):
        return args, options
    others = list(given) if isinstance(given, list | tuple) else [given] if given is not None else []
    if any(isinstance(one, Fit) for one in others) or (own := turns()) is None:
        return args, options
    all_of_them = [*others, Fit(own, beside=others)]
    if len(args) > at:
        return (*args[:at], all_of_them, *args[at + 1 :]), options
    return args, {**options, "callbacks": all_of_them}


def _taken(call: Any) -> Sequence[str]:
    """Return the names of what a ``fit`` takes, which may be the user's own."""
    parameters = inspect.signature(call).parameters
    return ["callbacks"] if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else list(parameters)


class Fit(keras.callbacks.Callback):  # type: ignore[misc]
    """Goes through a run's epochs as ``fit`` does; the last of the callbacks, so that it sees what the others did."""

    def __init__(self, turns: Turns, beside: Sequence[Any] = ()) -> None:
        super().__init__()
        self._turns = turns
        self._beside = beside
        self._kept: _Progress | None = None
        self._resumed = False

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Bring back what an attempt before this one has saved."""
        if self._kept is None:
            self._kept = _Progress()
            self._keep(self._kept)
        self._kept.begin()
        goes_on = self._turns.begin(self.params["epochs"])
        self.model._initial_epoch = self._kept.epoch if goes_on else self.params["epochs"]
        self._resumed = goes_on

    def _keep(self, progress: _Progress) -> None:
        if not isinstance(self._turns, UnaskedTurns):
            self._turns.run.keep(keras=progress, **({} if self._is_kept(self.model) else {"model": self.model}))
            return
        things = {"unasked": progress, "unasked_model": self.model}
        things |= {f"unasked_{n}": one for n, one in enumerate(self._beside) if type(one) in STATEFUL}
        self._turns.keep({name: thing for name, thing in things.items() if not self._is_kept(thing)})

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Bring it back once more: the other callbacks have begun anew since, and may have drawn."""
        if self._resumed:
            self._resumed = False
            self._turns.again()
            self.model.reset_metrics()  # as fit has done: those that were brought back are of an epoch that is over
            assert self._kept is not None
            if self._kept.epoch is not None:
                self.model.history.history.update({name: list(values) for name, values in self._kept.history.items()})
                self.model.history.epoch[:] = self._kept.epochs

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Report, and save."""
        assert self._kept is not None
        self._kept.epoch = epoch + 1
        self._kept.epochs.append(epoch)
        for name, value in (logs or {}).items():
            if isinstance(value, float):  # what else there may be is a metric's own business
                self._kept.history.setdefault(name, []).append(value)
        self._turns.report(logs or {})
        if not self._turns.end(over=self.model.stop_training):
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Leave the model as if this had not been."""
        self.model._initial_epoch = None

    def _is_kept(self, thing: Any) -> bool:
        kept = self._turns.run.keeper.kept
        return kept is not None and any(one is thing for one in vars(kept).values())


class _Progress:
    """How far ``fit`` has come.

    Attributes:
        epoch: The next, as ``fit`` counts; None before the first.
        epochs: Those that it had.
        history: What it has logged of each.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Know of no epoch."""
        self.epoch: int | None = None
        self.epochs: list[int] = []
        self.history: dict[str, list[float]] = {}

    def state_dict(self) -> dict[str, Any]:
        history = {name: list(values) for name, values in self.history.items()}
        return {"epoch": self.epoch, "epochs": list(self.epochs), "history": history}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.epoch, self.epochs = state["epoch"], list(state["epochs"])
        self.history = {name: list(values) for name, values in state["history"].items()}
