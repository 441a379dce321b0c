"""Carrying out a plan on a model, in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn

from etude.frameworks.removal.attention import cut_heads
from etude.frameworks.removal.constants import frozen, is_frozen
from etude.frameworks.removal.cuts import resized
from etude.frameworks.removal.edits import (
    Bare,
    Drop,
    Edit,
    FewerHeads,
    Freeze,
    Padded,
    Plan,
    Resize,
    ResizeTensor,
    StandIn,
)
from etude.frameworks.removal.padding import pad
from etude.frameworks.removal.parametrized import bare
from etude.frameworks.removal.resize import drawing, taken
from etude.frameworks.removal.standin import stand_in

REGISTRIES: Final = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
"""What of a module is changed in place by edits."""


def apply(model: nn.Module, plan: Plan, *, seed: int) -> None:
    """Carry out a plan on a model, in place.

    Parameters that survive keep their objects, names and values. What is rebuilt is drawn from streams of its own
    name, so that nothing else is moved by it.

    Args:
        model: The model, or a fresh copy of it.
        plan: What ``plan`` gave for it.
        seed: Of the trial.
    """
    for edit in plan.edits:
        carry_out(model, edit, seed=seed)


def carry_out(model: nn.Module, edit: Edit, *, seed: int) -> list[str]:
    """Carry out one edit; return the names of parameters that were drawn anew."""
    if isinstance(edit, StandIn):
        old = model.get_submodule(edit.path)
        made = stand_in(old, edit)
        replace(model, old, made)
        for name, *_ in edit.learned:
            _learn(getattr(made, name), f"{edit.path}.{name}", seed)
        return [f"{edit.path}.{name}.{of}" for name, *_ in edit.learned for of in ("weight", "bias")]
    if isinstance(edit, Resize):
        drawn = resized(model.get_submodule(edit.path), edit, seed=seed)
        return [f"{edit.path}.{name}" if edit.path else name for name in drawn]
    if isinstance(edit, ResizeTensor):
        return _resize_tensor(model, edit, seed)
    if isinstance(edit, Padded):
        pad(model.get_submodule(edit.path), edit)
    elif isinstance(edit, FewerHeads):
        cut_heads(model.get_submodule(edit.path), edit)
    elif isinstance(edit, Freeze):
        old = model.get_submodule(edit.path)
        replace(model, old, frozen(old, edit))
    elif isinstance(edit, Bare):
        bare(model.get_submodule(edit.path), edit)
    elif isinstance(edit, Drop):
        parent, _, name = edit.path.rpartition(".")
        _drop(model.get_submodule(parent), name)
    else:
        setattr(model.get_submodule(edit.path), edit.name, edit.value)
    return []


def replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put a module into every place where another one is."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is old:
                parent._modules[name] = new


@contextmanager
def for_a_try(model: nn.Module) -> Iterator[Callable[[Iterable[Edit]], list[str]]]:
    """Give a function that carries out edits, and undo them in the end.

    It notes what modules hold, so it costs nothing that grows with the sizes of tensors.
    """
    held = [(module, type(module), dict(vars(module)), _registries(module)) for module in model.modules()]

    def carry(edits: Iterable[Edit]) -> list[str]:
        return [name for edit in edits for name in carry_out(model, edit, seed=0)]

    try:
        yield carry
    finally:
        for module, kind, attributes, registries in held:
            training = module.training
            if type(module) is not kind:
                module.__class__ = kind
            vars(module).clear()
            vars(module).update(attributes)
            for name, entries in registries.items():
                vars(module)[name].clear()
                vars(module)[name].update(entries)
            module.training = training


def _registries(module: nn.Module) -> dict[str, dict[str, Any]]:
    return {name: dict(vars(module)[name]) for name in REGISTRIES}


def _resize_tensor(model: nn.Module, edit: ResizeTensor, seed: int) -> list[str]:
    path, _, name = edit.name.rpartition(".")
    module = model.get_submodule(path)
    old = getattr(module, name)
    new = taken(old, edit.axis, edit.size, edit.keep)
    if edit.keep is None and new.device.type != "meta" and type(new).__name__ != "FakeTensor" and old.numel():
        with torch.no_grad(), drawing(seed, edit.name):
            spread = float(old.detach().float().std()) if old.numel() > 1 else 0.0
            new.normal_(float(old.detach().float().mean()), spread or 1e-6)
    if isinstance(old, nn.Parameter):
        module.register_parameter(name, nn.Parameter(new, requires_grad=old.requires_grad))
        return [edit.name] if edit.keep is None else []
    module._buffers[name] = new
    return []


def _learn(layer: nn.Module, path: str, seed: int) -> None:
    if next(layer.parameters()).device.type != "meta" and type(next(layer.parameters())).__name__ != "FakeTensor":
        with torch.no_grad(), drawing(seed, path):
            layer.reset_parameters()  # type: ignore[operator]


def _drop(parent: nn.Module, name: str) -> None:
    """Take out a module that nobody calls; those that count their children keep their count."""
    parent._modules[name] = _Gone()


def is_gone(module: nn.Module) -> bool:
    """Say whether a module stands where another one was taken out."""
    return isinstance(module, _Gone) or is_frozen(module) or hasattr(type(module), "stands_for")


class _Gone(nn.Module):
    """Where a module was that nobody calls any more."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Fail: nobody calls it."""
        raise RuntimeError("this module was taken out of the model, since nothing called it")
