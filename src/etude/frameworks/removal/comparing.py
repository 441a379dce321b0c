"""What a model computes, in numbers that can be compared: results, gradients, and how close is equal."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn

from etude.frameworks.removal.copies import copied
from etude.frameworks.removal.fake import batch_of
from etude.frameworks.removal.nested import mapped, tensors

CLOSE: Final = 1e-7
"""Results in double precision are equal if they differ by no more than this share of the largest."""

CLOSE_SINGLE: Final = 1e-4
"""Likewise, for models that do not run in double precision."""

FEW: Final = 4
"""So many examples are used, or as many as there are."""

Found = dict[str, torch.Tensor]
"""Results or gradients, by name."""


class Examples:
    """Some of the examples, in double precision where a model can.

    Args:
        model: The untouched model: only what it can do is asked of others.
        args: What it is called with.
        kwargs: Likewise.

    Attributes:
        n: How many are used.
        close: The share up to which results are equal.
    """

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._args, self._kwargs, self._given = args, kwargs, batch_of(args, kwargs)
        self._double = False
        self.close = CLOSE_SINGLE
        self.n = min(max(self._given, 2), FEW)
        if not self._runs(model):  # a graph, whose edges name nodes: none can be left out
            self.n = self._given
        trial = copied(model).double()
        self._double = True
        if self._runs(trial) and not self.not_numbers(trial):  # masks of the least number may be too little there
            self.close = CLOSE
        else:
            self._double = False

    @property
    def in_double(self) -> bool:
        """Whether the model computes in double precision."""
        return self._double

    @property
    def rows(self) -> list[int]:
        """The examples that are used."""
        return list(range(self.n))

    def take(self, rows: list[int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return these examples, as arguments."""
        whole = rows == list(range(self._given))

        def change(t: torch.Tensor) -> torch.Tensor:
            if not whole and t.ndim and t.shape[0] == self._given:
                t = t.index_select(0, torch.tensor([row % self._given for row in rows], device=t.device))
            return t.double() if self._double and t.is_floating_point() else t.clone()

        return mapped(self._args, change), mapped(self._kwargs, change)

    def called(self, model: nn.Module, rows: list[int]) -> Found:
        """Return what a model gives for these examples, drawing the same numbers each time."""
        args, kwargs = self.take(rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            result = model(*args, **kwargs)
        return {".".join(map(str, path)): tensor for path, tensor in tensors(result)}

    def not_numbers(self, model: nn.Module) -> str:
        """Return ``NaN`` or ``no finite number`` if a model gives that; else an empty text."""
        model.eval()
        with torch.no_grad():
            found = [t for t in self.called(model, self.rows).values() if t.is_floating_point() and t.numel()]
        if any(bool(t.isnan().any()) for t in found):
            return "NaN"
        return "no finite number" if any(not bool(t.isfinite().any()) for t in found) else ""

    def _runs(self, model: nn.Module) -> bool:
        model.eval()
        try:
            with torch.no_grad():
                self.called(model, self.rows)
        except Exception:
            return False
        return True


def with_gradients(model: nn.Module, examples: Examples, *, wanted: bool = True) -> tuple[Found, Found]:
    """Return a model's results in evaluation, and the gradients of its parameters, if these are wanted."""
    model.eval()
    model.zero_grad()
    found = examples.called(model, examples.rows)
    loss = loss_of(found)
    if loss.requires_grad and wanted:
        loss.backward()
    named = model.named_parameters(remove_duplicate=False)
    gradients = {name: p.grad.clone() for name, p in named if p.grad is not None}
    model.zero_grad()
    return {name: value.detach() for name, value in found.items()}, gradients


def loss_of(found: Found) -> torch.Tensor:
    """Return a number that depends on all results, each of their entries in its own way."""
    total = torch.zeros((), dtype=torch.float64)
    for value in found.values():
        if value.is_floating_point() and value.requires_grad:
            weights = torch.linspace(0.5, 1.5, value.numel(), dtype=torch.float64, device=value.device)
            finite = torch.nan_to_num(value.double().reshape(-1), nan=0.0, posinf=0.0, neginf=0.0)
            total = total.to(value.device) + (finite * weights).sum() + finite.square().mean()
    return total


def is_close(one: torch.Tensor, two: torch.Tensor, *, share: float, floor: float = 0.0) -> bool:
    """Say whether two tensors differ by no more than a share of the largest entry, or by a floor."""
    if one.shape != two.shape:
        return False
    if not one.is_floating_point():
        return bool(torch.equal(one, two))
    if not one.numel():
        return True
    for strange in (torch.isnan, torch.isposinf, torch.isneginf):  # what is no number equals nothing but its like
        if not one.is_complex() and not torch.equal(strange(one), strange(two)):
            return False
    a, b = (torch.nan_to_num(t.double(), nan=0.0, posinf=0.0, neginf=0.0) for t in (one, two))
    largest = max(float(a.abs().max()), float(b.abs().max()), 1e-300)
    return float((a - b).abs().max()) <= max(share * largest, floor, 1e-12)


def moved(one: torch.Tensor, two: torch.Tensor) -> float:
    """Return by which share of the largest entry two results differ."""
    if one.shape != two.shape:
        return 1.0
    if not one.numel():
        return 0.0
    if not one.is_floating_point():
        return float(not torch.equal(one, two))
    a, b = (torch.nan_to_num(t.double(), nan=0.0, posinf=0.0, neginf=0.0) for t in (one, two))
    return float((a - b).abs().max()) / max(float(a.abs().max()), float(b.abs().max()), 1e-300)


def is_equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Say whether two tensors are the same, bit for bit."""
    return one.shape == two.shape and bool(torch.equal(one.detach(), two.detach()))
