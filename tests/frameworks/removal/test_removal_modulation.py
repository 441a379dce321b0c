"""Layers that say how others work: a shift, a scale and a gate, each a part of one result."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from repaired import assert_same, planned, without
from torch import nn

import etude
from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.rungs import Rung

GIVEN = (torch.randn(5, 7, 4, generator=torch.Generator().manual_seed(1)), torch.randn(5, 3))


class Block(nn.Module):
    """What is said of a step modulates a norm, and opens and closes the branch behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(6, elementwise_affine=False), nn.Linear(6, 6)
        self.says = nn.Sequential(nn.SiLU(), nn.Linear(8, 18))

    def parts(self, said: torch.Tensor) -> Any:
        return self.says(said).chunk(3, 1)

    def forward(self, x: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
        shift, scale, gate = (part.unsqueeze(1) for part in self.parts(said))
        return x + gate * torch.tanh(self.mix(self.norm(x) * (1 + scale) + shift))


class Plain(Block):
    """The same without what is said."""

    def parts(self, said: torch.Tensor) -> Any:
        zero = torch.zeros(len(said), 6, dtype=said.dtype)
        return zero, zero, zero + 1


class Diffusion(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.stem, self.step = nn.Linear(4, 6), nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 8))
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(n)), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        x, said = self.stem(x), self.step(step)
        for block in self.blocks:
            x = block(x, said)
        return self.head(x)


def test_without_what_modulates_nothing_is_shifted_or_scaled_and_the_gate_is_open() -> None:
    for n, path in ((0, "says"), (1, "says"), (1, "says.1")):
        net = Diffusion(2)
        found = planned(net, f"blocks.{n}.{path}", GIVEN)
        assert found.rung is Rung.NEUTRAL
        assert found.changes[0].endswith("removed (what it shifted and scaled stays, and its gates are open)")
        by_hand: Any = copy.deepcopy(net)
        by_hand.blocks[n] = Plain()
        by_hand.blocks[n].load_state_dict(net.blocks[n].state_dict())
        assert_same(without(net, found), by_hand, GIVEN)


def test_layers_that_lead_there_alone_do_not_fall_silent() -> None:
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(Diffusion(1), "layer:blocks.0.says", GIVEN)
    assert refused.value.code is RefusalCode.NO_PATH


class Halves(nn.Module):
    """One half of a result scales the other one: that is no gate for others."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.wide, self.head = nn.Linear(4, 6), nn.Linear(6, 12), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.stem(x))
        one, two = self.wide(x).chunk(2, -1)
        return self.head((one * two).mean(1) + x.amax(1))


def test_halves_that_scale_each_other_are_no_gates() -> None:
    found = planned(Halves(), "wide", GIVEN[0])
    assert "gates are open" not in found.changes[0]
