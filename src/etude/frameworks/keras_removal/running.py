"""What a Keras model does with some examples: what it gives, what that moves with, and the gradients of what learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import keras
import numpy as np

from etude.core.errors import RefusalCode, RemovalRefused
from etude.frameworks.keras_removal.comparing import Arrays, close, loss, movement, named, shapes, varied
from etude.frameworks.keras_removal.gradients import gradients
from etude.frameworks.keras_removal.override import array

FEW: Final = 4
"""So many examples are used, or as many as there are."""


class Runs:
    """Runs of one model, whatever its graph is at the time, with the same draws. Its variables stay as they were.

    Args:
        model: The model.
        example: What it is called with, as tensors.

    Attributes:
        n: How many examples are used.
    """

    def __init__(self, model: Any, example: Any) -> None:
        self._model, self._example = model, example
        self.n = min(max(int(keras.tree.flatten(example)[0].shape[0]), 2), FEW)

    def _rows(self, rows: list[int]) -> Any:
        def take(value: Any) -> Any:
            given = np.asarray(keras.ops.convert_to_numpy(value))
            return keras.ops.convert_to_tensor(given[[row % len(given) for row in rows]])

        return keras.tree.map_structure(take, self._example)

    def results(self, rows: list[int] | None = None, *, training: bool = False) -> Arrays:
        """Return what the model gives for these examples."""
        inputs = self._rows(list(range(self.n)) if rows is None else rows)
        with _no_gradients(), self._remembered():
            return named(self._model(inputs, training=training))

    def seen(self) -> tuple[Arrays, dict[str, bool], dict[str, Any]]:
        """Return the results, which of those of other examples move with the last one, and shapes for one more."""
        rows = list(range(self.n))
        one, two = self.results(rows), self.results([*rows[:-1], rows[0]])
        moved = {
            name: not close(value[:-1], two[name][:-1], share=1e-5)
            for name, value in one.items()
            if value.ndim and len(value) == len(rows) and value.dtype.kind == "f"
        }
        return one, moved, shapes(self.results([n % self.n for n in range(self.n + 1)]))

    def needs(self) -> dict[tuple[str, str], float]:
        """Return how much results change if an input does, as far as they do."""
        flat = keras.tree.flatten_with_path(self._rows(list(range(self.n))))
        plain, found = self.results(), {}
        for place, (path, _) in enumerate(flat):
            other = [varied(one) if n == place else one for n, (_, one) in enumerate(flat)]
            with _no_gradients():
                moved = named(self._model(keras.tree.pack_sequence_as(self._example, other), training=False))
            for name, value in plain.items():
                if value.dtype.kind == "f" and (value != moved[name]).any():
                    found[name, ".".join(map(str, path))] = movement(value, moved[name])
        return found

    def gradients(self, *, training: bool) -> tuple[dict[int, Any], Arrays]:
        """Return the gradients of what learns, and the results on the way."""
        variables = list(self._model.trainable_variables)
        inputs = self._rows(list(range(self.n)))
        seen: list[Any] = []

        def compute() -> Any:
            result = self._model(inputs, training=training)
            seen.append(result)
            return loss(result)

        with self._remembered():
            found = gradients(compute, variables) if variables else []
        results = named(seen[0]) if seen and keras.config.backend() != "jax" else {}
        return {id(v): g for v, g in zip(variables, found, strict=True) if g is not None}, results

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        """Put back what a run moves: the means of norms, and the states of what draws."""
        values = [(variable, array(variable)) for variable in self._model.variables if not variable.trainable]
        try:
            with _seeded():
                yield
        finally:
            for variable, value in values:
                variable.assign(value)


@contextmanager
def _seeded() -> Iterator[None]:
    """Let layers without a seed of their own draw the same; elsewhere the states of what draws see to it."""
    if keras.config.backend() != "torch":
        yield
        return
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@contextmanager
def _no_gradients() -> Iterator[None]:
    if keras.config.backend() != "torch":
        yield
        return
    import torch

    with torch.no_grad():
        yield


def as_inputs(model: Any, example: Any) -> Any:
    """Return an example in the structure that a model is called with, as tensors of its backend.

    Raises:
        RemovalRefused: It is none.
    """
    if isinstance(example, list | tuple) and len(example) == 1:
        example = example[0]
    try:
        return keras.tree.map_structure(keras.ops.convert_to_tensor, example)
    except Exception as broken:
        why = f"the example is no input of a model: {str(broken).strip()[:200]}."
        raise RemovalRefused(RefusalCode.UNTRACEABLE, "the model", why) from None
