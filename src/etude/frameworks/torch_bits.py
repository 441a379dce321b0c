"""Whether two batches are the same, to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def alike(one: Any, other: Any) -> bool:
    """Say whether two values are the same to the bit; of a kind that nobody can compare, that they are.

    Example:
        >>> alike({"x": torch.tensor([1.0, float("nan")])}, {"x": torch.tensor([1.0, float("nan")])})
        True
        >>> alike((0.0, "a"), (-0.0, "a"))
        False
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return _tensors(one, other)
    if isinstance(one, np.ndarray):
        return _arrays(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return _values(one, other)


def _tensors(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.layout is not torch.strided or one.is_meta:
        return True
    return _bits(one) == _bits(other)  # NaN equals nothing, and 0 equals -0


def _bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _arrays(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.hasobject:
        return alike(one.tolist(), other.tolist())
    return bool(one.tobytes() == other.tobytes())


def _values(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return bool(one.hex() == other.hex())
    if isinstance(one, int | str | bytes | complex):
        return bool(one == other)
    parts = getattr(one, "__dict__", None)
    return bool(parts is None or alike(parts, other.__dict__))
