"""What models give, flattened: tensors by where they stand, for comparisons."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

Shown = tuple[tuple[str, str], ...]


def leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all that is in an output, with where it stands. Caches and other objects stand for themselves."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from leaves(one, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for nth, one in enumerate(value):
            yield from leaves(one, f"{where}[{nth}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), f"{where}.{field.name}")
    else:
        yield where, value


def tensors(value: Any) -> dict[str, Tensor]:
    """Return the tensors in an output by where they stand."""
    return {where: one for where, one in leaves(value) if isinstance(one, Tensor)}


def floats(value: Any) -> dict[str, Tensor]:
    """Return the tensors of floating-point numbers in an output."""
    return {where: one for where, one in tensors(value).items() if one.is_floating_point()}


def structure(value: Any) -> Shown:
    """Return what an output is made of: where each part stands, of which type, of which shape."""
    return tuple(
        (where, f"{one.dtype} {tuple(one.shape)}" if isinstance(one, Tensor) else type(one).__name__)
        for where, one in leaves(value)
    )


def parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return parameters by all of their names: one that is shared has several."""
    return dict(model.named_parameters(remove_duplicate=False))


def within(name: str, path: str) -> bool:
    """Say whether a name is that of a submodule or of something in it."""
    return name == path or name.startswith(f"{path}.")
