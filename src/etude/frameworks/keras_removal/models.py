"""The Keras models in what a model function gave, and what they are called with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

import keras
import numpy as np

from etude.core.errors import RefusalCode, RemovalRefused
from etude.frameworks.keras_removal.graph import has_graph

FEW: Final = 4
"""So many examples are taken of the data."""

UNKNOWN: Final = 8
"""The size of an axis that has none, in examples that are made up."""


def models(built: Any) -> list[Any]:
    """Return the Keras models in what a model function gave, each once."""
    found = {id(model): model for model in _models(built)}
    return list(found.values())


def _models(value: Any) -> Iterator[Any]:
    if isinstance(value, keras.Model):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _models(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _models(one)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _models(getattr(value, field.name))


def with_graph(model: Any, example: Any = None) -> Any:
    """Return a model of which the graph is known; a sequential one is built for an example.

    Raises:
        RemovalRefused: It has no graph.
    """
    if isinstance(model, keras.Sequential) and not has_graph(model) and example is not None:
        given = example[0] if isinstance(example, list | tuple) and len(example) == 1 else example
        model.build((None, *np.shape(given)[1:]))
    if not has_graph(model):
        why = (
            f"{type(model).__name__} is a model of Keras whose layers are called in code of its own, so that nobody "
            "can see what follows what. Write it with the functional API, keras.Model(inputs, outputs), or give "
            "variants of it: etude.custom(name, model=...)."
        )
        if type(model) is keras.Sequential:
            why = "it is not built, so that shapes are not known. Let it begin with keras.Input(shape=...)."
        raise RemovalRefused(RefusalCode.UNTRACEABLE, model.name, why)
    return model


def guessed(model: Any, data: Any) -> Any:
    """Return what a model is called with: the first examples of the data if they fit it, or made-up ones.

    Args:
        model: The model.
        data: What the data function gave; None if there is none.

    Returns:
        The example; None if the model has no graph yet, and the data has nothing for it.
    """
    for one in batches(data):
        x = one[0] if isinstance(one, list | tuple) and one else one
        example = few(x)
        if example is not None and fits(model, example):
            return example
    return made_up(model) if has_graph(model) else None


def batches(data: Any) -> Iterator[Any]:
    """Yield what could be a batch: of data in arrays all of it, of loaders the first one."""
    train = getattr(data, "train", None)
    for one in (train, data):
        if one is None:
            continue
        if isinstance(one, list | tuple | Mapping):
            yield one
            if isinstance(one, list | tuple) and one:
                yield from batches(one[0]) if not hasattr(one[0], "shape") else ()
        elif hasattr(one, "shape"):
            yield one
        elif hasattr(one, "__iter__"):
            yield next(iter(one), None)
        elif hasattr(one, "__getitem__"):
            yield one[0]


def few(x: Any) -> Any:
    """Return some examples as arrays; None if they are none."""
    try:
        return keras.tree.map_structure(lambda one: np.asarray(keras.ops.convert_to_numpy(one))[:FEW], x)
    except Exception:  # anything may be in the data
        return None


def fits(model: Any, example: Any) -> bool:
    """Whether a model can be called with examples."""
    flat = keras.tree.flatten(example)
    if not flat or any(not getattr(one, "ndim", 0) or one.dtype.kind not in "biuf" for one in flat):
        return False
    if not has_graph(model):
        return len(flat) == 1
    want = model.inputs
    return len(want) == len(flat) and all(
        len(t.shape) == one.ndim and all(a in (None, b) for a, b in zip(t.shape[1:], one.shape[1:], strict=True))
        for t, one in zip(want, flat, strict=True)
    )


def made_up(model: Any) -> Any:
    """Return examples of the shapes that a model says it is called with."""
    random = np.random.default_rng(0)

    def one(tensor: Any) -> Any:
        shape = (FEW, *(size or UNKNOWN for size in tensor.shape[1:]))
        dtype = str(tensor.dtype)
        if "int" in dtype or "bool" in dtype:
            return random.integers(0, 2, shape).astype(dtype)
        return random.random(shape).astype("float32" if dtype == "bfloat16" else dtype)

    return keras.tree.map_structure(one, model.input)
