"""Weights that a model changes in place before it calls their layer, as some do for evaluation."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from repaired import planned, refusal, without
from torch import nn

from etude.core.errors import RefusalCode
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix, self.last = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.last(torch.relu(self.mix(self.norm(x))))


class Scaled(nn.Module):
    """Some weights are smaller in evaluation, and what they are added to with them."""

    def __init__(self, by: float, which: str) -> None:
        super().__init__()
        self.stem, self.block, self.head = nn.Linear(4, 6), Block(), nn.Linear(6, 3)
        self.by, self.which, self.is_scaled = by, which, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_scaled == self.training:
            with torch.no_grad():
                weight: Any = getattr(self.block, self.which).weight
                weight.mul_(self.by) if self.training else weight.div_(self.by)
            self.is_scaled = not self.training
        return self.head(torch.tanh(self.block(self.stem(x))))


@pytest.mark.parametrize(("path", "rung"), [("block", Rung.IDENTITY), ("block.last", Rung.NEUTRAL)])
def test_what_is_changed_for_the_component_alone_goes_with_it(path: str, rung: Rung) -> None:
    net = Scaled(2, "mix" if path == "block" else "last")
    if path == "block.last":
        net.block.mix = net.block.norm = nn.Identity()
    found = planned(net, path, X)
    assert found.rung is rung
    by_hand: Any = copy.deepcopy(net).eval()
    by_hand.block = nn.Identity()
    by_hand.is_scaled = True
    torch.testing.assert_close(without(net, found)(X), by_hand(X))


def test_what_comes_out_instead_would_not_be_changed() -> None:
    refused = refusal(Scaled(2, "mix"), Layers((Whole("block.mix"),)), X)
    assert refused.code is RefusalCode.WITHOUT_CALL
    assert "block.mix.weight is also used without it" in refused.why
    assert refused.instead == "block"


def test_a_scale_of_1_changes_nothing() -> None:
    assert planned(Scaled(1, "mix"), "block.mix", X).rung is Rung.IDENTITY


def test_what_others_read_is_refused() -> None:
    class Reads(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.block.mix.weight.sum()

    class Remembers(Scaled):
        mean: torch.Tensor

        def __init__(self) -> None:
            super().__init__(1, "mix")
            self.register_buffer("mean", torch.zeros(6, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                self.mean.lerp_(self.block.mix.weight, 0.1)
            return super().forward(x)

    for net in (Reads(1, "mix"), Remembers()):
        refused = refusal(net, Layers((Whole("block.mix"),)), X)
        assert refused.code is RefusalCode.WITHOUT_CALL
