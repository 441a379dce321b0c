"""Plain values and digests of whatever a program has. Nothing here draws random numbers or changes what it is given."""

from __future__ import annotations

import enum
import hashlib
import math
import os
from typing import Any

LONGEST_TEXT = 200
MOST_ITEMS = 50
DEEPEST = 3
MOST_NUMBERS = 100_000
"""Of a larger tensor, about so many numbers are looked at."""
_NONE = object()


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON has it; ``is_plain`` says whether there is one."""
    value = _simpler(value)
    if value is None or isinstance(value, bool | int | float):
        return "nan" if value is not None and math.isnan(value) else value  # which would not equal itself
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else _NONE
    found: Any = _NONE
    if depth < DEEPEST and isinstance(value, tuple | list | dict) and len(value) <= MOST_ITEMS:
        if isinstance(value, dict):
            found = {str(name): plain(one, depth + 1) for name, one in value.items()}
        else:
            found = [plain(one, depth + 1) for one in value]
        if not all(is_plain(one) for one in (found.values() if isinstance(found, dict) else found)):
            found = _NONE
    return found


def _simpler(value: Any) -> Any:
    """Return what stands behind enumerations, paths, and the scalars, devices and types of NumPy and PyTorch."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value).__module__.split(".")[0] in ("numpy", "torch"):
        if type(value).__name__ in ("device", "dtype"):
            return str(value)
        if tuple(getattr(value, "shape", (0,))) == () and hasattr(value, "item"):
            return value.item()
    return value


def is_plain(value: object) -> bool:
    """Say whether ``plain`` found one."""
    return value is not _NONE


def plain_items(items: Any) -> dict[str, Any]:
    """Return those items of a mapping that are plain and are not private."""
    found = {str(name): plain(value) for name, value in items if not str(name).startswith("_")}
    return {name: value for name, value in found.items() if is_plain(value)}


def digest(*parts: bytes) -> str:
    """Return what tells some bytes from others."""
    made = hashlib.blake2b(digest_size=8)
    for part in parts:
        made.update(part)
    return made.hexdigest()


def bytes_of(value: Any) -> bytes:
    """Return the bytes of a tensor, an array, or something that can be made one."""
    if hasattr(value, "detach") and hasattr(value, "untyped_storage"):
        return _bytes_of_tensor(value)
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if hasattr(value, "tobytes") and str(getattr(value, "dtype", "object")) != "object":
        return f"{value.dtype}{tuple(value.shape)}".encode() + bytes(value.tobytes())
    if hasattr(value, "tolist"):
        value = value.tolist()
    return repr(value).encode()


def _bytes_of_tensor(tensor: Any) -> bytes:
    import sys

    torch = sys.modules["torch"]
    with torch.no_grad():
        dense = tensor.detach()
        dense = dense.to_dense() if dense.layout is not torch.strided else dense
        flat = dense.cpu().contiguous().reshape(-1).view(torch.uint8) if dense.numel() else None
    head = f"{tensor.dtype}{tuple(tensor.shape)}".encode()
    return head if flat is None else head + flat.numpy().tobytes()


def moments(value: Any) -> list[float] | None:
    """Return mean and standard deviation of the finite numbers of a tensor or array; None if it holds no numbers."""
    if hasattr(value, "detach") and hasattr(value, "untyped_storage"):
        value = value.detach()
        value = (value.to_dense() if "sparse" in str(value.layout) else value).cpu()
        value = value.reshape(-1)[:: value.numel() // MOST_NUMBERS + 1]
        value = (value.float() if value.is_floating_point() else value).numpy()
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in "biuf" or not kind or not hasattr(value, "ravel"):
        return None
    import numpy

    flat = value.reshape(-1)
    flat = flat[:: flat.size // MOST_NUMBERS + 1].astype("float64")
    flat = flat[numpy.isfinite(flat)]
    return [float(flat.mean()), float(flat.std())] if flat.size else [0.0, 0.0]


def leaves(value: Any, depth: int = 0) -> list[Any]:
    """Return the tensors, arrays and scalars of a nest of lists, dicts and tuples."""
    if depth > DEEPEST:
        return []
    if hasattr(value, "to_dict") and not hasattr(value, "columns"):  # a graph, for instance
        value = value.to_dict()
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in leaves(one, depth + 1)]
    if isinstance(value, tuple | list):
        return [leaf for one in value for leaf in leaves(one, depth + 1)]
    return [value]


def shapes(value: Any) -> list[list[int]]:
    """Return the shapes of all tensors and arrays in it."""
    found = [leaf.shape for leaf in leaves(value) if hasattr(leaf, "shape")]
    return [[-1 if size is None else int(size) for size in shape] for shape in found]


def classes(kind: type) -> set[type]:
    """Return a class and all that are below it: there are some thousands, and hundreds of thousands of objects."""
    found, waiting = {kind}, [kind]
    while waiting:
        below: set[type] = set(type.__subclasses__(waiting.pop())) - found
        found |= below
        waiting += below
    return found
