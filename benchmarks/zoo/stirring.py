"""A model in which a part has other weights: if that changes nothing, the part has no effect."""

from __future__ import annotations

import copy

import torch
from torch import nn

from benchmarks.zoo.family import SEED
from benchmarks.zoo.values import parameters, within


def stirred(model: nn.Module, path: str) -> nn.Module:
    """Return a copy of a model in which numbers are added to all weights of a part, and to no others.

    What the part shares with others stays theirs as it is: the part gets weights of its own. Otherwise the others
    would change the output.
    """
    made = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(SEED)
    new: dict[int, nn.Parameter] = {}
    for name, tensor in parameters(made).items():
        if not within(name, path):
            continue
        if id(tensor) not in new:
            moved = tensor.detach() + torch.randn(tensor.shape, generator=generator)
            new[id(tensor)] = nn.Parameter(moved.to(tensor.dtype), requires_grad=tensor.requires_grad)
        owner, _, last = name.rpartition(".")
        setattr(made.get_submodule(owner), last, new[id(tensor)])
    return made
