"""What is said of a removal: what goes, what stays, and what has no effect any more."""

from __future__ import annotations

import torch
from repaired import planned
from torch import nn


class Blocks(nn.Module):
    """Blocks in a list that follow each other, a shortcut behind a pooling, and things that are no activations."""

    class Shape(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.contiguous()

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.blocks = nn.ModuleList([nn.BatchNorm2d(6), nn.BatchNorm2d(6)])
        self.main, self.pool, self.short = nn.Conv2d(6, 6, 3, 2, 1), nn.AvgPool2d(2), nn.Conv2d(6, 6, 1)
        self.mix, self.shape, self.act = nn.Conv2d(6, 6, 1), self.Shape(), nn.GELU()
        self.head = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.main(x) + self.short(self.pool(x))
        return self.head(self.act(self.shape(self.mix(x))).mean((2, 3)))


def test_no_module_is_both_removed_and_kept() -> None:
    found = planned(Blocks(), "blocks", torch.randn(4, 3, 8, 8))
    assert [word for word in found.changes if "blocks.1" in word] == ["blocks.1 removed"]


def test_a_pooling_in_front_of_a_branch_that_goes_is_named() -> None:
    found = planned(Blocks(), "short", torch.randn(4, 3, 8, 8))
    assert found.changes == (
        *("short removed (what it was added to stays)", "no longer reached: pool", "42 fewer parameters"),
    )


def test_only_activations_and_the_like_are_said_to_be_kept() -> None:
    found = planned(Blocks(), "mix", torch.randn(4, 3, 8, 8))
    assert not [word for word in found.changes if word == "shape kept"]
    found = planned(Blocks(), "shape", torch.randn(4, 3, 8, 8))
    assert "act kept" in found.changes


def test_a_bias_that_a_block_holds_is_named_and_not_the_block() -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transform, self.decoder = nn.Linear(6, 6), nn.Linear(6, 9)
            self.bias = self.decoder.bias

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.decoder(torch.relu(self.transform(x)))

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(4, 6), Head()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.stem(x))

    found = planned(Reader(), "head.decoder", torch.randn(5, 4))
    assert found.idle == ("head.bias",)
    assert "no longer reached: head.bias" in found.changes
    assert "no longer reached: head" not in found.changes
