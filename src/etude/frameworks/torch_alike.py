"""Whether all ranks have the same data: told by a few of its rows, so that it costs nothing."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from etude.frameworks.torch import every
from etude.frameworks.torch_data import as_array, inside

ROWS: Final = 64
"""So many rows of an array are looked at, evenly spread."""

DEEPEST: Final = 8
"""Data sets within data sets are looked into so far."""


def told(data: Any) -> list[str]:
    """Return what can be told of data: a line for each loader, and one for each tensor that is in none."""
    loaders = list(every(DataLoader, data))
    lines = [f"loader {nth}: {_of_loader(loader)}" for nth, loader in enumerate(loaders, start=1)]
    return lines + [f"tensor {nth}: {_of(tensor)}" for nth, tensor in enumerate(every(torch.Tensor, data), start=1)]


def _of_loader(loader: DataLoader[Any]) -> str:
    sampler: Any = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    inner = getattr(sampler, "sampler", sampler)
    size = getattr(sampler, "batch_size", loader.batch_size)
    return f"{_of(loader.dataset)}, in batches of {size} by {type(inner).__name__}"


def _of(value: Any, depth: int = 0) -> str:
    """Return a text that differs where data does, as far as that can be seen without asking for an example."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{type(value).__name__} {tuple(value.shape)} {value.dtype} {_digest(value)}"
    if isinstance(value, tuple) and depth < DEEPEST:
        return ", ".join(_of(part, depth + 1) for part in value)
    length = _length(value)
    name = f"{type(value).__name__} of {'unknown length' if length is None else f'{length:,} examples'}"
    try:
        found = inside(value) if depth < DEEPEST else None
    except (ValueError, TypeError):  # it does not say what it is made of
        return name
    if found is None:
        return name
    rows = f" by {_digest(np.asarray(found.rows))}" if found.rows is not None else ""
    return f"{name}{rows} ({'; '.join(_of(part, depth + 1) for part in found.parts)})"


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except (TypeError, NotImplementedError):
        return None


def _digest(array: Any) -> str:
    n = len(array) if array.ndim else 0
    if torch.is_tensor(array):
        array = as_array(array if not n or array.layout != torch.strided else array[_spread(n)])
    elif n:
        array = array[_spread(n)]
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=6).hexdigest()


def _spread(n: int) -> list[int]:
    return sorted({round(i * (n - 1) / (ROWS - 1)) for i in range(ROWS)})
