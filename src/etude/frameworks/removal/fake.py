"""A copy of a model, and inputs for it, on fake tensors: they have shapes and types, and nothing is computed."""

from __future__ import annotations

import copy
from typing import Any, Final

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from etude.frameworks.removal.copies import copied, tensors_of
from etude.frameworks.removal.nested import mapped, tensors

NO_VALUES: Final = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)


class Copy:
    """A copy of a model that may be changed, and its inputs.

    Args:
        model: The model; it is not touched.
        args: Its inputs.
        kwargs: Likewise.
        fake: Whether on fake tensors.

    Attributes:
        model: The copy.
        mode: The mode of the fake tensors, or None.
    """

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, fake: bool) -> None:
        self._args, self._kwargs = args, kwargs
        self.mode = _mode_of(model, args, kwargs) if fake else None
        memo: dict[int, Any] = {}
        if self.mode is not None:
            memo[id(self.mode)] = self.mode
            for tensor in tensors_of(model):
                memo[id(tensor)] = _fake(tensor, self.mode)
            with self.mode:
                self.model = copy.deepcopy(model, memo)
        else:
            self.model = copied(model)

    def inputs(self, batch: int | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return inputs with so many examples; as they are if that is None."""
        n = batch_of(self._args, self._kwargs)

        def change(tensor: torch.Tensor) -> torch.Tensor:
            other = batch is not None and tensor.ndim > 0 and tensor.shape[0] == n and batch != n
            if self.mode is None:
                rows = torch.arange(batch or 0, device=tensor.device) % max(n, 1)
                return tensor.index_select(0, rows) if other else tensor.clone()
            shape = (batch, *tensor.shape[1:]) if other else tuple(tensor.shape)
            if isinstance(tensor, FakeTensor) and not other:
                return tensor
            if not other and tensor.numel() <= 1:  # models read single numbers, and decide by them
                return self.mode.from_tensor(tensor)
            with self.mode:
                return torch.empty(shape, dtype=tensor.dtype, device=tensor.device)

        return mapped(self._args, change), mapped(self._kwargs, change)

    def run(self, batch: int | None, *, train: bool) -> Any:
        """Run the copy with so many examples."""
        self.model.train(train)
        args, kwargs = self.inputs(batch)
        with self.at_work():
            return self.model(*args, **kwargs)

    def at_work(self) -> Any:
        """Return a context in which the copy can be run, and nothing else is changed by it."""
        return self.mode if self.mode is not None else torch.random.fork_rng(devices=[])


class NeedsValues(Exception):  # noqa: N818 - it is planned again, on real tensors
    """Without values it cannot be said what a model does."""


def refuse_fakes(broken: Exception) -> None:
    """Raise NeedsValues if an error says nothing of the model: it is only that fake tensors have no values."""
    if isinstance(broken, NO_VALUES):
        raise NeedsValues(str(broken)) from broken


def batch_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return how many examples there are: the size of the first axis of the first input that has axes."""
    return next((int(t.shape[0]) for _, t in tensors((args, kwargs)) if t.ndim), 0)


def _fake(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    if isinstance(tensor, FakeTensor):
        return tensor
    return mode.from_tensor(tensor)


def _mode_of(model: nn.Module, args: Any, kwargs: Any) -> FakeTensorMode:
    found = (*model.parameters(), *model.buffers(), *(t for _, t in tensors((args, kwargs))))
    for tensor in found:
        if isinstance(tensor, FakeTensor):
            return tensor.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)
