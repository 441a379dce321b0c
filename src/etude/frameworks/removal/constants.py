"""Weights that go where the code that reads them stays: a constant takes the place of each.

So it is where a module's weights are read by others who never call it, and where a module makes a choice, as the router
of experts does: nothing can stand for the indices that it gives, but they can be made of what went in.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

from etude.frameworks.removal.disguise import Disguised
from etude.frameworks.removal.edits import Constant, Freeze

REGISTRIES: Final = ("_parameters", "_buffers", "_modules")


def constants_of_layer(layer: nn.Module) -> dict[str, Constant] | None:
    """Return what the weights of a layer become so that it gives what it gets, or its channels again or averaged.

    Of a convolution of each channel by itself the tap that is the input's own place is 1. None of any other layer.
    """
    weight: Any = getattr(layer, "weight", None)
    kind: Constant
    if isinstance(layer, nn.Linear):
        kind = "rows"
    elif isinstance(layer, nn.Conv1d) and layer.groups == layer.in_channels == layer.out_channels:
        kind = "tap"
        if layer.stride[0] != 1 or _own_tap(layer, weight) is None:
            return None
    else:
        return None
    return {name: kind if name == "weight" else "zeros" for name, _ in layer.named_parameters(recurse=False)}


def constant(kind: Constant, layer: nn.Module, weight: torch.Tensor) -> torch.Tensor:
    """Return what takes the place of a weight."""
    with torch.no_grad():
        if kind in ("zeros", "ones"):
            return torch.full_like(weight, int(kind == "ones")).detach()
        if kind == "tap":
            own = torch.tensor([_own_tap(layer, weight)], device=weight.device)
            return torch.zeros_like(weight).index_fill(2, own, 1.0).detach()
        n_out, n_in = weight.shape if kind == "rows" else weight.shape[::-1]
        eye = torch.eye(n_in, dtype=weight.dtype, device=weight.device)
        if n_out < n_in:
            dtype = eye.dtype if eye.dtype in (torch.float32, torch.float64) else torch.float32
            eye = functional.adaptive_avg_pool1d(eye.to(dtype).unsqueeze(0), n_out)[0].T.to(eye.dtype)
        rows = eye.repeat(math.ceil(n_out / len(eye)), 1)[:n_out]
        return (rows if kind == "rows" else rows.T).contiguous().detach()


def _own_tap(layer: Any, weight: torch.Tensor) -> int | None:
    taps, padding = weight.shape[-1], layer.padding[0]
    return {taps - 1: taps - 1, (taps - 1) // 2: taps // 2}.get(int(padding) if padding != "same" else -1)


def channels_in_words(edit: Freeze, layer: nn.Module) -> str:
    """Say which channels become others; empty if all stay as they are."""
    for name, kind in edit.constants:
        if kind in ("rows", "columns"):
            shape = getattr(layer, name).shape
            n_out, n_in = shape if kind == "rows" else shape[::-1]
            if n_out != n_in:
                again = f"its {n_in} channels again from the first on, up to {n_out}"
                return again if n_out > n_in else f"its {n_in} channels averaged to {n_out}"
    return ""


class _Constant(Disguised):
    """What all modules have in common whose weights are constants. Their class is made from this and their own."""

    constant: type

    def __reduce__(self) -> Any:
        """Its class cannot be imported: it is made again."""
        return _blank, (self.constant,), self.__dict__

    def extra_repr(self) -> str:
        """Say what it is."""
        return "without weights of its own"


def frozen(old: nn.Module, edit: Freeze) -> nn.Module:
    """Return a module that does what another one does, with constants for weights."""
    made: nn.Module = _blank(type(old))
    vars(made).update(copy.copy(vars(old)))
    for registry in REGISTRIES:
        vars(made)[registry] = copy.copy(vars(old)[registry])
    made._non_persistent_buffers_set = set(made._buffers)  # its code still reads them; what is saved has none of it
    for name, kind in edit.constants:
        weight = made.get_parameter(name)
        del made._parameters[name]
        made.register_buffer(name, constant(kind, old, weight), persistent=False)
    return made


def is_frozen(module: nn.Module) -> bool:
    """Say whether constants have taken the place of a module's weights."""
    return isinstance(module, _Constant)


def freeze_in_place(module: nn.Module, edit: Freeze) -> None:
    """Give weights the values of the constants, and leave them weights."""
    with torch.no_grad():
        for name, kind in edit.constants:
            weight = module.get_parameter(name)
            weight.copy_(constant(kind, module, weight))


def _blank(kind: type) -> Any:
    made = _class_for(getattr(kind, "constant", kind))
    return made.__new__(made)


@functools.cache
def _class_for(kind: type) -> Any:
    body = {"constant": kind, "__module__": __name__, "__doc__": f"A {kind.__name__} without weights."}
    return type(f"Constant{kind.__name__}", (_Constant, kind), body)
