"""Copies of models, also of such as have run and keep something of their results."""

from __future__ import annotations

import copy

import torch
from torch import nn

from etude.frameworks.removal.nested import tensors


def copied(model: nn.Module) -> nn.Module:
    """Return a copy of a model; what it keeps of its results, as the states of its last call, has no history there."""
    memo = {id(tensor): tensor.detach().clone() for tensor in tensors_of(model) if not tensor.is_leaf}
    return copy.deepcopy(model, memo)


def tensors_of(model: nn.Module) -> list[torch.Tensor]:
    """Return all tensors of a model: parameters, buffers, and what its modules keep beside them."""
    found: list[torch.Tensor] = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        found += [t for name, value in vars(module).items() if not name.startswith("_") for _, t in tensors(value)]
        found += [value for value in vars(module).values() if isinstance(value, torch.Tensor)]
        found += [t for value in vars(module).values() if isinstance(value, list) for _, t in tensors(value)]
    return found
