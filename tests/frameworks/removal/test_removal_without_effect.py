"""Modules of which nothing is lost if they are taken out, and others that only look like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from etude.core.removal import Layers, Whole
from etude.frameworks.removal.edits import Plan
from etude.frameworks.removal.plan import plan
from etude.frameworks.removal.without_effect import changes_nothing

X = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))


class Chain(nn.Module):
    """A part between two layers, and a dropout behind it that draws."""

    def __init__(self, part: nn.Module, *, before: nn.Module | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.before, self.part = nn.Linear(5, 8), before or nn.Identity(), part
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(self.part(self.before(self.first(x)))))


class Scale(nn.Module):
    def __init__(self, first: float, *, learns: bool) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.full((8,), first), requires_grad=learns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


class Noise(nn.Module):
    """It draws, also where it adds nothing."""

    def __init__(self, spread: float) -> None:
        super().__init__()
        self.spread = spread

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.spread * torch.randn_like(x) if self.training else x


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return -gradients[0]


class Reversal(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Reversed.apply(x)


class Still(nn.Sequential):
    """It stays in evaluation, whatever the model is in."""

    def train(self, mode: bool = True) -> Still:
        return super().train(False)


class Residual(nn.Module):
    """A branch that counts for nothing, at first or always."""

    def __init__(self, scale: nn.Module) -> None:
        super().__init__()
        self.inner, self.scale = nn.Linear(8, 8), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale(self.inner(x))


def planned(net: nn.Module, path: str) -> Plan:
    return plan(net, Layers((Whole(path),)), X)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Chain(nn.Dropout(0.0)), "part"),
        (lambda: Chain(nn.Identity()), "part"),
        (lambda: Chain(Noise(0.0)), "part"),
        (lambda: Chain(nn.ReLU(), before=nn.ReLU()), "part"),
        (lambda: Chain(nn.Sequential(nn.Identity(), nn.Dropout(0.0))), "part"),
        (lambda: Chain(Still(nn.Dropout(0.5))), "part.0"),
        (lambda: Chain(Scale(1.0, learns=False)), "part"),
        (lambda: Chain(Residual(Scale(0.0, learns=False))), "part.inner"),
    ],
)
def test_a_part_that_does_nothing_changes_nothing_when_it_goes(make: Callable[[], nn.Module], path: str) -> None:
    net = make()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    assert changes_nothing(net, planned(net, path), X)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Chain(nn.Dropout(0.1)), "part"),
        (lambda: Chain(Noise(0.1)), "part"),
        (lambda: Chain(nn.ReLU(inplace=True)), "part"),
        (lambda: Chain(nn.Hardtanh(-6.0, 6.0)), "part"),
        (lambda: Chain(nn.BatchNorm1d(8, affine=False)), "part"),
        (lambda: Chain(Scale(1.0, learns=True)), "part"),
        (lambda: Chain(Residual(Scale(0.0, learns=True))), "part.inner"),
        (lambda: Chain(Reversal()), "part"),
        (lambda: Chain(nn.Identity()), "first"),
    ],
)
def test_a_part_that_will_do_something_or_only_in_training_is_not_dead(make: Callable[[], Any], path: str) -> None:
    net = make()
    assert not changes_nothing(net, planned(net, path), X)
