"""What a Keras model computes, in numbers that can be compared."""

from __future__ import annotations

from typing import Any, TypeAlias

import keras
import numpy as np

Arrays: TypeAlias = dict[str, Any]
"""Results by their places."""


def named(result: Any) -> Arrays:
    """Return results as arrays, by their places."""
    pairs = keras.tree.flatten_with_path(result)
    return {".".join(map(str, path)): np.array(keras.ops.convert_to_numpy(value)) for path, value in pairs}


def shapes(results: Arrays) -> dict[str, Any]:
    """Return the shapes of results."""
    return {name: value.shape for name, value in results.items()}


def loss(result: Any) -> Any:
    """Return a scalar in which each result counts, and each otherwise than the others."""
    total: Any = 0.0
    for value in keras.tree.flatten(result):
        if "float" in str(value.dtype):
            size = int(np.prod(value.shape))
            weights = np.cos(np.arange(size, dtype="float32") * 1.7).reshape(tuple(value.shape))
            total = total + keras.ops.sum(
                keras.ops.multiply(keras.ops.cast(value, "float32"), keras.ops.convert_to_tensor(weights))
            )
    return total


def varied(tensor: Any) -> Any:
    """Return another input of the same kind: other numbers, or those of the next example."""
    value = np.asarray(keras.ops.convert_to_numpy(tensor))
    if value.dtype.kind == "f":
        waves = np.cos(np.arange(value.size, dtype=value.dtype) * 1.3).reshape(value.shape)
        value = value + waves * max(float(np.abs(value).max(initial=0.0)) / 4, 0.1)
    else:
        value = np.roll(value, 1, axis=0)
    return keras.ops.convert_to_tensor(value, dtype=tensor.dtype)


def movement(one: Any, two: Any) -> float:
    """Return how far apart two arrays are, as a share of the norm of the first."""
    apart, norm = (float(np.linalg.norm(each.astype("float64"))) for each in (one - two, one))
    return apart / max(norm, 1e-30)


def has_nan(value: Any) -> bool:
    """Whether an array of numbers has one that is none."""
    return value.dtype.kind == "f" and bool(np.isnan(value).any())


def close(one: Any, two: Any, *, share: float, floor: float = 0.0) -> bool:
    """Whether arrays are equal but for a share of the largest number; NaN equals nothing."""
    if one.shape != two.shape:
        return False
    one, two = one.astype("float64"), two.astype("float64")
    largest = float(np.abs(one).max(initial=0.0))
    return bool(np.abs(one - two).max(initial=0.0) <= max(share * largest, floor, 1e-12))
