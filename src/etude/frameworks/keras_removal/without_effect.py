"""Whether taking a component out of a Keras model changes anything that the model gives or learns."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import keras
import numpy as np

from etude.frameworks.keras_removal.comparing import Arrays, close
from etude.frameworks.keras_removal.edits import Instead, KerasPlan, Resize
from etude.frameworks.keras_removal.override import array
from etude.frameworks.keras_removal.plan import in_place
from etude.frameworks.keras_removal.running import Runs, as_inputs
from etude.frameworks.moving import MOVES, USUAL

CLOSE: Final = 1e-6
"""Results are the same if they differ by no more than this share of the largest: the order of sums may be another."""

Values: TypeAlias = list[tuple[Any, Any]]
"""Variables with their values."""


def changes_nothing(model: Any, planned: KerasPlan, example: Any, *, seed: int) -> bool:
    """Say whether a model gives and learns the same without what a plan takes out, in evaluation and in training.

    It is tried with the weights that the model has, and with others: a part that does nothing with its first weights
    may do something with those that it learns. If it cannot be told, something changes.

    Args:
        model: The model; afterwards it is as it was.
        planned: What is done to it.
        example: What it is called with.
        seed: Of the trial.
    """
    edits = [edit for step in planned.steps for edit in step.edits]
    if any(isinstance(edit, Resize) or (isinstance(edit, Instead) and edit.learned) for edit in edits):
        return False
    kept = [(variable, array(variable)) for variable in model.variables]
    runs = Runs(model, as_inputs(model, example))
    try:
        plain = runs.results()
        with in_place(model, planned, seed=seed):
            if not _same(plain, runs.results()):
                return False
        before = _behaviours(model, runs, kept)
        with in_place(model, planned, seed=seed):
            return all(map(_same, before, _behaviours(model, runs, kept)))
    except Exception:  # whatever a model does with other weights
        return False
    finally:
        _give(kept, 0.0)


def _behaviours(model: Any, runs: Runs, kept: Values) -> list[Arrays]:
    """Return results, losses of its own and gradients of a model, in evaluation and in training, by its weights."""
    learns = [(variable, value) for variable, value in kept if variable.trainable]
    found = []
    for by in MOVES:
        _give(kept, by)
        for training in (False, True):
            behaviour = runs.results(training=training)
            behaviour["losses"] = np.array(sum(float(keras.ops.convert_to_numpy(loss)) for loss in model.losses))
            gradients, _ = runs.gradients(training=training)
            for n, (variable, value) in enumerate(learns):
                behaviour[f"gradient {n}"] = gradients.get(id(variable), np.zeros_like(value))
            found.append(behaviour)
    return found


def _give(kept: Values, by: float) -> None:
    """Give variables their values, those that learn moved; the states of what draws begin again as well."""
    for n, (variable, value) in enumerate(kept):
        variable.assign(_moved(value, by, n) if by and variable.trainable else value)


def _moved(value: Any, by: float, n: int) -> Any:
    noise = np.random.default_rng(n).standard_normal(value.shape).astype(value.dtype)
    return value + by * (float(value.std()) or USUAL) * noise


def _same(one: Arrays, two: Arrays) -> bool:
    """Whether two behaviours are the same; what is no finite number in both tells nothing."""
    if one.keys() != two.keys() or any(one[name].shape != two[name].shape for name in one):
        return False
    finite = {name: np.isfinite(one[name]) & np.isfinite(two[name]) for name in one}
    if any((np.isfinite(one[name]) != finite[name]).any() for name in one):
        return False
    return all(close(one[name][finite[name]], two[name][finite[name]], share=CLOSE) for name in one)
