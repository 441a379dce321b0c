"""Gradients on each backend of Keras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np


def gradients(compute: Callable[[], Any], variables: Sequence[Any]) -> list[Any]:
    """Return the gradients of a scalar for variables, as arrays; None where it does not depend on one.

    Args:
        compute: Returns the scalar.
        variables: Trainable variables of Keras.
    """
    found = {"torch": _by_torch, "tensorflow": _by_tensorflow, "jax": _by_jax}[keras.config.backend()]
    return [None if one is None else np.asarray(keras.ops.convert_to_numpy(one)) for one in found(compute, variables)]


def _by_torch(compute: Callable[[], Any], variables: Sequence[Any]) -> Sequence[Any]:
    import torch

    return torch.autograd.grad(compute(), [variable.value for variable in variables], allow_unused=True)


def _by_tensorflow(compute: Callable[[], Any], variables: Sequence[Any]) -> Sequence[Any]:
    import tensorflow

    with tensorflow.GradientTape() as tape:
        result = compute()
    found = tape.gradient(result, [variable.value for variable in variables])
    return [None if one is None else tensorflow.convert_to_tensor(one) for one in found]


def _by_jax(compute: Callable[[], Any], variables: Sequence[Any]) -> Sequence[Any]:
    import jax

    def of(values: Sequence[Any]) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return compute()

    found = jax.grad(of)([variable.value for variable in variables])
    return [one if bool((one != 0).any()) else None for one in found]
