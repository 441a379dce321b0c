"""Layers that were cut and look to their callers as wide as before.

Some models reckon with the width of an attention: ``x.view(n, tokens, heads, width // heads)``. Of such a model no head
can be cut without another ``forward``. So the layers round it are cut, and hooks put zeros where outputs are gone, and
pick what inputs are left. Heads of which all is 0 give 0, and what they give is not read.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from etude.frameworks.removal.edits import Padded
from etude.frameworks.removal.resize import width_axis


def pad(module: nn.Module, edit: Padded) -> None:
    """Let a layer look as wide as before."""
    if edit.side == "out":
        module.register_forward_hook(_Widened(edit.keep, edit.before))
    else:
        module.register_forward_pre_hook(_Picked(edit.keep))


def padded(module: nn.Module) -> bool:
    """Say whether a layer looks wider than it is."""
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    return any(isinstance(hook, _Widened | _Picked) for hook in hooks)


class _Widened:
    """Puts zeros where outputs are gone."""

    def __init__(self, keep: tuple[int, ...], before: int) -> None:
        self._keep, self._before = keep, before

    def __call__(self, module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor:
        axis = width_axis(module) % result.ndim
        shape = [self._before if n == axis else size for n, size in enumerate(result.shape)]
        return result.new_zeros(shape).index_copy(axis, torch.tensor(self._keep, device=result.device), result)


class _Picked:
    """Picks the inputs that are left."""

    def __init__(self, keep: tuple[int, ...]) -> None:
        self._keep = keep

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        x = args[0]
        return (x.index_select(width_axis(module) % x.ndim, torch.tensor(self._keep, device=x.device)), *args[1:])
