"""The layers that an adapter is: they have no weights of their own, unless a learned one was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import keras
import numpy as np


@keras.saving.register_keras_serializable("etude")
class Fit(keras.layers.Layer):  # type: ignore[misc]
    """Brings tensors into a shape; several are added.

    Positions are averaged where there are fewer, and repeated where there are more. Channels have no neighbours: they
    come as they are, and zeros stand beside them if the last size is larger.

    Args:
        shape: The shape, examples not counted. Sizes that are None stay as they come.
        learned: Whether the last axis is brought into shape by a dense layer.
        options: As for each layer.
    """

    def __init__(self, shape: Sequence[int | None], *, learned: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.shape = tuple(shape)
        self.learned = learned
        self.dense = keras.layers.Dense(self.shape[-1], name="dense", dtype=self.dtype_policy) if learned else None

    def build(self, input_shape: Any) -> None:
        """Make the weights of a learned one."""
        if self.dense is not None:
            one = _first(input_shape)
            there = one[-1] if len(one) - 1 >= len(self.shape) and len(one) > 1 else 1
            self.dense.build((None,) * len(self.shape) + (there,))
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Return them in shape."""
        given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        brought = [self._brought(keras.ops.cast(one, self.compute_dtype)) for one in given]
        return sum(brought[1:], brought[0])

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """Return the shape, with examples."""
        one = _first(input_shape)
        there = one[1:] if len(one) - 1 == len(self.shape) else (*(None,) * (len(self.shape) - 1), one[-1])
        return (one[0], *(have if want is None else want for have, want in zip(there, self.shape, strict=True)))

    def _brought(self, x: Any) -> Any:
        while len(x.shape) - 1 > len(self.shape):
            x = keras.ops.mean(x, axis=1)
        if self.learned and len(x.shape) - 1 < len(self.shape):
            x = keras.ops.expand_dims(x, -1)
        while len(x.shape) - 1 < len(self.shape):
            x = keras.ops.expand_dims(x, 1)
        for axis, size in enumerate(self.shape[:-1], start=1):
            if size is not None and x.shape[axis] != size:
                x = _resized(x, axis, size)
        if self.dense is not None:
            return self.dense(x)
        more = (self.shape[-1] or 0) - int(x.shape[-1])
        return keras.ops.pad(x, [[0, 0]] * (len(x.shape) - 1) + [[0, more]]) if more > 0 else x

    def get_config(self) -> dict[str, Any]:
        """Return what it is made of."""
        return {**super().get_config(), "shape": self.shape, "learned": self.learned}


def _first(input_shape: Any) -> Any:
    return input_shape if not isinstance(input_shape[0], list | tuple) else input_shape[0]


def _resized(x: Any, axis: int, size: int) -> Any:
    weights = keras.ops.convert_to_tensor(shares(int(x.shape[axis]), size), dtype=x.dtype)
    last = len(x.shape) - 1
    return keras.ops.moveaxis(keras.ops.matmul(keras.ops.moveaxis(x, axis, last), weights), last, axis)


def shares(before: int, after: int) -> Any:
    """Return how much of each position stands in each one of fewer or of more.

    Example:
        >>> shares(4, 2).T.tolist()
        [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    found = np.zeros((before, after), "float32")
    for n in range(after):
        first = n * before // after
        last = max(first + 1, ceil((n + 1) * before / after)) if after < before else first + 1
        found[first:last, n] = 1.0 / (last - first)
    return found
