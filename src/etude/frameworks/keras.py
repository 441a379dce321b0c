"""Keras 3: how its models, optimizers and callbacks are kept, and its global random generator.

A model's variables are told apart by their order, not by their names: those count the layers that a process has made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import keras
import numpy as np

from etude.core.errors import StateError
from etude.core.text import brief
from etude.frameworks.kinds import Handle
from etude.frameworks.trees import take_apart

GLOBAL_SEEDS: Final = "global_seed_generator"
"""Under this name Keras has the generator of whoever names none."""

OF_THE_FIT: Final = {"_model", "_params", "model", "params"}
"""What a callback is given by each ``fit``."""


def is_model(thing: Any) -> bool:
    """Say whether something is a Keras model; with torch as its backend it is a module of torch as well."""
    return isinstance(thing, keras.Model)


def handle(thing: Any, *, path: str) -> Handle | None:
    """Return how a layer, a model, an optimizer or a callback is kept; None if it is nothing of Keras.

    Raises:
        StateError: It is not built, so that there would be nothing to bring a state back to.
    """
    if isinstance(thing, keras.layers.Layer):
        if not hasattr(keras, "ops"):
            raise StateError(f"{path} is a model of Keras {keras.__version__}. From Keras 3 on they can be kept.")
        if not thing.built:
            raise StateError(
                f"{path} is {brief(thing)}, which is not built: it has no weights yet that could be brought back. "
                "Let it begin with keras.Input(shape=...), or call its build(input_shape), and keep it then."
            )
        return _Model(thing, path)
    if isinstance(thing, keras.optimizers.Optimizer):
        if not thing.built:
            raise StateError(
                f"{path} is {brief(thing)}, which is not built: it has no state yet that could be brought back. "
                "Call its build(model.trainable_variables), and keep it then; or keep a compiled model, which has its "
                "optimizer in it."
            )
        return _Optimizer(thing, path)
    return _Callback(thing, path) if isinstance(thing, keras.callbacks.Callback) else None


class _Model:
    """A layer or a model: its weights; its seeds, the optimizer that it was compiled with, and its metrics."""

    def __init__(self, model: Any, path: str) -> None:
        self._model = model
        self._path = path

    def weights(self) -> Any:
        return _values(self._model.weights)

    def rest(self) -> Any:
        optimizer = getattr(self._model, "optimizer", None)
        return {
            "seeds": _values(self._seeds),
            "optimizer": _values(optimizer.variables) if optimizer is not None else None,
            "metrics": _values(self._model.metrics_variables),
        }

    def beginning(self) -> Any:
        """Return the rest of its state, and how its optimizer is set up, schedule and all.

        Without names: Keras counts the objects of a process.
        """
        optimizer = getattr(self._model, "optimizer", None)
        states = [list(values.values()) for values in self.rest().values() if values is not None]
        return {"states": states, "set up": _set_up(optimizer) if optimizer is not None else None}

    def bring_back(self, weights: Any, rest: Any) -> None:
        _assign(self._model.weights, weights, self._path)
        _assign(self._seeds, rest["seeds"], f"{self._path}: its seeds")
        optimizer = getattr(self._model, "optimizer", None)
        if (optimizer is None) != (rest["optimizer"] is None):
            raise StateError(
                f"{self._path} was {'not ' if optimizer is not None else ''}compiled when its state was saved, and now "
                f"it is{'' if optimizer is not None else ' not'}. Compile it before the epochs, in each attempt."
            )
        if optimizer is not None:
            if not optimizer.built:
                optimizer.build(self._model.trainable_variables)
            _assign(optimizer.variables, rest["optimizer"], f"{self._path}.optimizer")
        if len(self._model.metrics_variables) == len(rest["metrics"]):  # else the first batch makes them
            _assign(self._model.metrics_variables, rest["metrics"], f"{self._path}: its metrics")

    @property
    def _seeds(self) -> list[Any]:
        known = {id(variable) for variable in self._model.weights}
        return [variable for variable in self._model.variables if id(variable) not in known]


class _Optimizer:
    """An optimizer that no model was compiled with."""

    def __init__(self, optimizer: Any, path: str) -> None:
        self._optimizer = optimizer
        self._path = path

    def weights(self) -> Any:
        return None

    def rest(self) -> Any:
        return _values(self._optimizer.variables)

    def beginning(self) -> Any:
        """Return its state, and how it is set up, schedule and all."""
        return {"state": list(self.rest().values()), "set up": _set_up(self._optimizer)}

    def bring_back(self, weights: Any, rest: Any) -> None:
        _assign(self._optimizer.variables, rest, self._path)


class _Callback:
    """A callback: its attributes, but for functions of the user's and what ``fit`` gives it.

    Operations of Keras are saved by name. A callback that looks for its own (``keras.ops.less``) when it begins turns
    the sign of ``min_delta`` with it, and must not do so again.
    """

    def __init__(self, callback: Any, path: str) -> None:
        self._callback = callback
        take_apart(self.rest(), path=path)

    def weights(self) -> Any:
        return None

    def rest(self) -> Any:
        mine = {name: value for name, value in vars(self._callback).items() if name not in OF_THE_FIT}
        operations = {name: getattr(value, "__name__", "") for name, value in mine.items() if callable(value)}
        return {
            "values": {name: value for name, value in mine.items() if name not in operations},
            "operations": {name: op for name, op in operations.items() if getattr(keras.ops, op, None) is mine[name]},
        }

    def bring_back(self, weights: Any, rest: Any) -> None:
        vars(self._callback).update(rest["values"])
        vars(self._callback).update({name: getattr(keras.ops, op) for name, op in rest["operations"].items()})


def _set_up(optimizer: Any) -> str:
    """Return how an optimizer is set up, schedule and all."""
    return repr({name: value for name, value in optimizer.get_config().items() if name != "name"})


def _values(variables: Sequence[Any]) -> dict[str, Any]:
    """Return what variables hold; where numpy has no such numbers (bfloat16), their bits."""
    found = {}
    for n, variable in enumerate(variables):
        value = np.asarray(keras.ops.convert_to_numpy(variable.value))
        bits = value.dtype.kind not in "biufc"
        found[f"{n:03d} {variable.path}"] = value.view(f"u{value.dtype.itemsize}") if bits else value
    return found


def _assign(variables: Sequence[Any], values: Mapping[str, Any], path: str) -> None:
    here, saved = [tuple(variable.shape) for variable in variables], [value.shape for value in values.values()]
    if here != saved:
        raise StateError(
            f"{path} has variables of the shapes {brief(here)}, and those that were saved have {brief(saved)}. An "
            "attempt has to make the model that the one before it made."
        )
    for variable, value in zip(variables, values.values(), strict=True):
        dtype = np.asarray(keras.ops.convert_to_numpy(variable.value)).dtype
        variable.assign(value.view(dtype) if dtype.kind not in "biufc" else value)


def random_state() -> Any:
    """Return the state of the global generator; None if nobody has drawn from it."""
    generator = _shared("get_global_attribute")(GLOBAL_SEEDS)
    return None if generator is None else np.asarray(keras.ops.convert_to_numpy(generator.state.value))


def restore_random_state(state: Any) -> None:
    """Put the state of the global generator back. Without one, it begins anew, with a seed from Python's generator."""
    generator = None
    if state is not None:
        generator = _shared("get_global_attribute")(GLOBAL_SEEDS) or keras.random.SeedGenerator(0)
        generator.state.assign(state)
    _shared("set_global_attribute")(GLOBAL_SEEDS, generator)


@contextmanager
def kept_names() -> Iterator[None]:
    """Let layers that are made here not count, when Keras gives names to those that nobody named."""
    uids = _shared("get_global_attribute")("object_name_uids")
    before = dict(uids) if uids is not None else {}
    try:
        yield
    finally:
        uids = _shared("get_global_attribute")("object_name_uids")
        if uids is not None:
            uids.clear()
            uids.update(before)


def _shared(name: str) -> Callable[..., Any]:
    """Return a function of Keras' global state, which has no public name."""
    found: Callable[..., Any] = getattr(sys.modules["keras.src.backend.common.global_state"], name)
    return found
