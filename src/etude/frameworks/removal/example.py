"""What a model is called with: from a batch of its data, or from the first call that a training function makes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from etude.frameworks.torch_cuts import training_loaders


def guessed(data: Any, modules: Mapping[str, nn.Module]) -> Any:
    """Return what a single module is called with as a rule: the first of a batch, or what its forward has names for.

    Args:
        data: What the data function gave.
        modules: What the model function gave.

    Returns:
        The example; None if nobody can tell.
    """
    loaders = training_loaders(data)
    if list(modules) != [""] or not loaders:
        return None
    batch = next(iter(loaders[0]), None)
    if isinstance(batch, Mapping):
        known = inspect.signature(modules[""].forward).parameters
        return {name: one for name, one in batch.items() if name in known} or None
    if isinstance(batch, list | tuple) and batch and isinstance(batch[0], torch.Tensor):
        return (batch[0],)
    return (batch,) if isinstance(batch, torch.Tensor) else None


class EnoughError(BaseException):
    """A training function has called its model, and nothing else is wanted of it."""


class Called:
    """Notes what modules are called with first.

    Args:
        enough: Whether the first call of a single model ends the training function, by EnoughError.

    Attributes:
        examples: By the place of the module: positional arguments and those by name.
    """

    def __init__(self, *, enough: bool = False) -> None:
        self.examples: dict[str, Any] = {}
        self._enough = enough

    def watch(self, modules: Mapping[str, nn.Module]) -> None:
        """Note what these are called with from now on, the first time."""
        for place, module in modules.items():
            module.register_forward_pre_hook(partial(self._note, place), with_kwargs=True)

    def _note(self, place: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if place not in self.examples:
            given = inspect.signature(module.forward).bind(*args, **kwargs).arguments if kwargs else args
            self.examples[place] = _detached(given)
            if self._enough and not place:
                raise EnoughError

    @property
    def example(self) -> Any:
        """What a planner takes; None if nobody was called."""
        return self.examples.get("", self.examples or None)


def _detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {name: _detached(one) for name, one in value.items()}
    return type(value)(map(_detached, value)) if type(value) in (list, tuple) else value
