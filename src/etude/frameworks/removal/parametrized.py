"""Weights that ``torch.nn.utils.parametrize`` makes of others, and layers that have the same ones for their own.

torch's own ``remove_parametrizations`` is not used: it changes the layer's class, which copies of the layer share, and
breaks those.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn

from etude.frameworks.removal.edits import Bare

HOLDER: Final = "parametrizations"
"""The name under which a layer holds what makes its weights."""


def makers(edit: Bare) -> list[str]:
    """Return the paths of what makes the weights that an edit is about."""
    return [f"{edit.path}.{HOLDER}.{name}".removeprefix(".") for name in edit.names]


def weights(edit: Bare) -> list[str]:
    """Return the names of the weights that an edit is about."""
    return [f"{edit.path}.{name}".removeprefix(".") for name in edit.names]


def bare(layer: nn.Module, edit: Bare) -> None:
    """Give a layer weights of its own, in place, where others were made into them.

    They have the values that are made in evaluation, and are trained if anything of what made them was.
    """
    kind = type(layer)
    holder: Any = layer.get_submodule(HOLDER)
    for name in edit.names:
        made = holder[name]
        value = made_weight(layer, name)
        held = list(made.parameters())
        kind = _without(kind, name)
        del holder[name]
        if len(holder) == 0:
            del layer._modules[HOLDER]
            kind = kind.__bases__[0]
        layer.__class__ = kind
        if held:
            layer.register_parameter(name, nn.Parameter(value, requires_grad=any(p.requires_grad for p in held)))
        else:
            layer.register_buffer(name, value)


def made_weight(layer: nn.Module, name: str) -> torch.Tensor:
    """Return a copy of a weight as it is made in evaluation: in training, some go on to change with each look."""
    made: Any = layer.get_submodule(f"{HOLDER}.{name}")
    training = {module: module.training for module in made.modules()}
    try:
        made.eval()
        with torch.no_grad():
            value: torch.Tensor = made()
            return value.detach().clone()
    finally:
        for module, was in training.items():
            module.training = was


def _without(kind: type, name: str) -> type:
    """Return a parametrized layer's class that has a weight of this name no more; others still have theirs."""
    body = {key: value for key, value in vars(kind).items() if key != name}
    return type(kind)(kind.__name__, kind.__bases__, body)
