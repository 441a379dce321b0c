"""What a removal leaves without effect: it is named, unless it is more than may fall silent."""

from __future__ import annotations

from typing import Any

import torch
from nets import Residual
from torch import nn

import etude
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung
from etude.frameworks.removal.check import check
from etude.frameworks.removal.plan import plan


def test_a_norm_that_nothing_reads_any_more_is_named() -> None:
    removed = etude.remove(Residual(), "layer:branch", torch.randn(5, 4))
    assert removed.plan.idle == ("norm.bias", "norm.weight")
    assert removed.changes == (
        "branch removed (what it was added to stays)",
        "no longer reached: norm",
        "42 fewer parameters",
    )


def test_a_norm_that_is_taken_along_is_not_named() -> None:
    removed = etude.remove(Residual(), "layer:branch", torch.randn(5, 4), with_=("norm",))
    assert removed.plan.idle == ()
    assert not any("no longer reached" in change for change in removed.changes)


def test_of_a_layer_that_is_read_in_part_the_rest_is_named() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.branch, self.head = nn.ParameterDict(), nn.Linear(6, 6), nn.Linear(6, 2)
            self.before["scale"] = nn.Parameter(torch.rand(6))
            self.before["other"] = nn.Parameter(torch.rand(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x * self.before["other"]
            return self.head(x + self.branch(x * self.before["scale"]))

    net, x = Scaled(), torch.randn(5, 6)
    found = plan(net, Layers((Whole("branch"),)), x)
    check(net, found, x)
    assert "no longer reached: before.scale" in found.changes


class Mixture(nn.Module):
    """Experts beside a router, both in one block."""

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 8, 8))

        def forward(self, x: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
            each: Any = torch.einsum("nc,ecd->ned", x, self.weight)
            return (each * shares.unsqueeze(-1)).sum(1)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.experts = nn.Linear(8, 3), Mixture.Experts()

        def forward(self, x: torch.Tensor) -> Any:
            return self.experts(x, self.gate(x).softmax(-1))

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.block, self.head = nn.Linear(4, 8), nn.LayerNorm(8), self.Block(), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.stem(x)
        return self.head(x + self.block(self.norm(x)))


def test_a_router_goes_idle_with_its_experts() -> None:
    net, x = Mixture(), torch.randn(5, 4)
    found = plan(net, Layers((Whole("block.experts"),)), x)
    check(net, found, x)
    assert found.rung is Rung.NEUTRAL
    assert [c for c in found.changes if "reached" in c] == [
        "no longer reached: block.gate",
        "no longer reached: norm",
    ]
