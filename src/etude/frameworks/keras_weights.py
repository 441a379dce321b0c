"""Weights into the Keras models that a model function gave, on each backend; what fits is loaded, and all is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from etude.frameworks.keras_removal.models import models
from etude.frameworks.loading import Loaded, Parts, match


def load_weights(model: Any, weights: Parts, *, shrink: float = 1.0, perturb: float = 0.0) -> Loaded:
    """Load weights into the Keras models that a model function gave, and tell which.

    Saved variables are told apart by their order: their names count the layers that a process has made. Weights of
    another model, whose variables have other shapes, are matched by name.

    Args:
        model: A model of Keras, or any nesting of them.
        weights: The states of models, by what they are called.
        shrink: How much of the weights is taken; what no gradient changes is taken as it is.
        perturb: How much of what the model has by now is added to it.

    Raises:
        StateError: Nothing fits.
    """
    found = models(model)
    here = {"" if len(found) == 1 else str(nth): _named(one.weights) for nth, one in enumerate(found)}
    states = {part: {name: _array(variable) for name, variable in named.items()} for part, named in here.items()}
    loads, told = match(states, _renamed(weights, states))
    for part, arrays in loads.items():
        for name, array in arrays.items():
            variable, value = here[part][name], _read(array, states[part][name].dtype)
            if variable.trainable and (shrink, perturb) != (1.0, 0.0):
                value = shrink * value + perturb * states[part][name]
            variable.assign(value)
    return told


def _named(variables: Any) -> dict[str, Any]:
    """Return variables by their paths; those whose path another one has, by their place as well."""
    paths = [variable.path for variable in variables]
    return {
        path if paths.count(path) == 1 else f"{path} {nth}": variable
        for nth, (path, variable) in enumerate(zip(paths, variables, strict=True))
    }


def _renamed(weights: Parts, states: Parts) -> dict[str, Mapping[str, Any]]:
    """Return saved variables by the names that a model has for them."""
    found: dict[str, Mapping[str, Any]] = {}
    for part, saved in weights.items():
        shapes = [tuple(array.shape) for array in saved.values()]
        like = next((one for one in states.values() if [tuple(a.shape) for a in one.values()] == shapes), None)
        if like is not None:
            found[part] = dict(zip(like, saved.values(), strict=True))
        else:
            found[part] = {_without_number(name): array for name, array in saved.items()}
    return found


def _without_number(name: str) -> str:
    """Return a variable's path without its place among those that were saved.

    Example:
        >>> _without_number("003 dense/kernel")
        'dense/kernel'
    """
    number, gap, path = name.partition(" ")
    return path if gap and number.isdigit() else name


def _read(array: Any, dtype: Any) -> Any:
    """Return what was saved; where numpy has no such numbers (bfloat16), their bits were."""
    value = np.asarray(array)
    is_bits = dtype.kind not in "biufc" and value.dtype.kind == "u"
    return value.view(dtype) if is_bits else value.astype(dtype)


def _array(variable: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(variable.value))
