"""How much may be drawn anew: of several steps, all of them together count."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from repaired import without
from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Whole
from etude.frameworks.removal.budget import MOST_REBUILT, is_dear
from etude.frameworks.removal.plan import plan


def test_the_bound_itself_is_allowed() -> None:
    assert not is_dear(20, 100)
    assert is_dear(21, 100)
    assert not is_dear(0, 0)


class Stages(nn.Module):
    """A list of stages that get wider, with little behind it."""

    def __init__(self, readers: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 1)
        self.stages = nn.ModuleList([nn.Conv2d(8, 8, 5, padding=2), nn.Conv2d(8, 12, 2, stride=2)])
        self.norm, self.head = nn.BatchNorm2d(12), nn.Linear(12, 5)
        self.rest = nn.Linear(5, readers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = torch.relu(stage(x))
        return self.rest(torch.relu(self.head(self.norm(x).mean((2, 3)))))


@pytest.mark.parametrize("readers", [4, 90])
def test_what_the_last_steps_take_away_does_not_pay_for_the_first(readers: int) -> None:
    net, x = Stages(readers), torch.randn(3, 3, 8, 8)
    found = plan(net, Layers((Whole("stages"),)), x)
    left = without(net, found)
    drawn = sum(left.get_parameter(name).numel() for name in found.rebuilt)
    assert drawn <= MOST_REBUILT * sum(p.numel() for p in left.parameters())
    assert bool(drawn) is (readers == 90)  # else channels come again: rebuilding would be too much


def test_all_steps_together_are_refused_as_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    def whatever(*edits: Any, **more: Any) -> bool:
        return True

    monkeypatch.setattr("etude.frameworks.removal.fitting.Fitting._affordable", whatever)
    with pytest.raises(RemovalRefused) as refused:
        plan(Stages(4), Layers((Whole("stages"),)), torch.randn(3, 3, 8, 8))
    assert refused.value.code is RefusalCode.TOO_MUCH
    assert refused.value.why == (
        "more than 20 % of what is left would have to be rebuilt. Take along what reads it (with_=, or between: up to "
        'a layer that gives as much as went in), or allow a small dense layer in its place, repair="learned".'
    )
