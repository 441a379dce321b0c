"""States that a model collects of its layers, and picks by their numbers: a removed layer's is what went into it."""

from __future__ import annotations

import pytest
import torch
from repaired import assert_same, planned, without
from torch import nn

from etude.core.rungs import Rung
from etude.frameworks.removal.without_effect import changes_nothing

COLLECTED: list[torch.Tensor] = []
X = torch.randn(4, 7, 5, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.mix(self.norm(x)))


class Collecting(nn.Module):
    """Gives the last state and one that is picked, each through a layer; hooks collect them, or a list does."""

    def __init__(self, *, pick: int, by_hooks: bool) -> None:
        super().__init__()
        self.pick, self.by_hooks = pick, by_hooks
        self.stem, self.layers = nn.Linear(5, 6), nn.ModuleList(Block() for _ in range(3))
        self.picked, self.last = nn.Linear(6, 2), nn.Linear(6, 2)
        if by_hooks:
            for layer in self.layers:
                layer.register_forward_hook(lambda module, args, out: COLLECTED.append(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = [x := self.stem(x)]
        COLLECTED.clear()
        for layer in self.layers:
            x = layer(x)
            states.append(x)
        states = [states[0], *COLLECTED] if self.by_hooks else states
        return torch.cat([self.picked(states[self.pick]), self.last(x)], -1)


@pytest.mark.parametrize("by_hooks", [False, True], ids=["in a list", "by hooks"])
@pytest.mark.parametrize(("gone", "pick"), [(0, 1), (1, -2), (2, -2), (2, -1)])
def test_a_collected_state_keeps_its_place(gone: int, pick: int, by_hooks: bool) -> None:
    torch.manual_seed(0)
    net = Collecting(pick=pick, by_hooks=by_hooks)
    found = planned(net, f"layers.{gone}", X)
    assert found.rung is Rung.IDENTITY
    states = [net.stem(X)]
    for number, layer in enumerate(net.layers):
        states.append(states[-1] if number == gone else layer(states[-1]))
    expected = torch.cat([net.picked(states[pick]), net.last(states[-1])], -1)
    torch.testing.assert_close(without(net, found)(X), expected)


class Levels(nn.Module):
    """A head for each level; heads share their weights, and the last one's scores are the result."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList(nn.Linear(5, 5) for _ in range(2))
        self.heads = nn.ModuleList(nn.Linear(5, 3) for _ in range(2))
        self.heads[1].weight, self.heads[1].bias = self.heads[0].weight, self.heads[0].bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = []
        for level, head in zip(self.levels, self.heads, strict=True):
            x = torch.tanh(level(x))
            scores.append(head(x))
        return torch.stack(scores, 1)[:, -1]


def test_a_head_whose_scores_nobody_picks_goes_and_its_weights_stay_with_the_other() -> None:
    torch.manual_seed(0)
    net = Levels()
    found = planned(net, "heads.0", X)
    changed = without(net, found)
    assert_same(changed, net, X)
    assert [name for name, _ in changed.named_parameters() if name.startswith("heads")] == [
        "heads.1.weight",
        "heads.1.bias",
    ]
    assert changes_nothing(net, found, X)
