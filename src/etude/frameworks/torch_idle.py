"""Whether what a layer gives has any effect on what its model gives: tried, by giving something else."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from etude.frameworks.removal.nested import mapped, tensors
from etude.frameworks.removal.tracing import arguments, forward_of


def reaches(model: Any, example: Any, path: str) -> bool:
    """Say whether another result of a layer gives another result of the model, in training or in evaluation.

    What a model keeps for a loss of its own, instead of returning it, is not seen. If it cannot be told, it does.

    Args:
        model: A module, or several by name. It is not touched.
        example: What it is called with.
        path: The layer.
    """
    with torch.random.fork_rng(), torch.no_grad():
        try:
            found = [_differs(model, example, path, train=train) for train in (False, True)]
        except Exception:  # whatever a model does that is given NaN
            return True
    return any(found) or all(one is None for one in found)


def _differs(model: Any, example: Any, path: str, *, train: bool) -> bool | None:
    """Say whether the results differ; None if the layer is not called."""
    plain, _ = _results(model, example, path, train=train, spoiled=False)
    other, given = _results(model, example, path, train=train, spoiled=True)
    if not given:
        return None
    if not all(given) or not plain or len(plain) != len(other):
        return True
    return not all(_same(a, b) for a, b in zip(plain, other, strict=True))


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.allclose(a, b, 0, 0, equal_nan=True) if a.is_floating_point() else torch.equal(a, b)


def _results(
    model: Any, example: Any, path: str, *, train: bool, spoiled: bool
) -> tuple[list[torch.Tensor], list[bool]]:
    """Return what a copy of the model gives, and of each tensor that the layer gave whether it has numbers."""
    whole: nn.Module = copy.deepcopy(forward_of(model) if isinstance(model, dict) else model).train(train)
    numbers: list[bool] = []

    def spoil(module: nn.Module, given: Any, result: Any) -> Any:
        numbers.extend(one.is_floating_point() for _, one in tensors(result))
        if not spoiled:
            return result
        return mapped(result, lambda one: torch.full_like(one, torch.nan) if one.is_floating_point() else one)

    whole.get_submodule(path).register_forward_hook(spoil)
    torch.manual_seed(0)
    args, kwargs = copy.deepcopy(arguments(example))
    return [tensor for _, tensor in tensors(whole(*args, **kwargs))], numbers
