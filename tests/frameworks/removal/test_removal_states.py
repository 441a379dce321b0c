"""Cells that are called step by step: each of their states goes on from itself."""

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

X = torch.randn(5, 4, 6, generator=torch.Generator().manual_seed(1))


class Cell(nn.Module):
    """An LSTM's cell, written by hand."""

    def __init__(self, n_in: int, hidden: int) -> None:
        super().__init__()
        self.gates = nn.Linear(n_in + hidden, 4 * hidden)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        h, c = state
        i, f, o, g = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Stepwise(nn.Module):
    """Two cells, the second of which reads what the first one says."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.one, self.two = kind(6, 8), kind(8, 9)
        self.out = nn.Linear(9, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two = ((x.new_zeros(len(x), width), x.new_zeros(len(x), width)) for width in (8, 9))
        for step in x.unbind(1):
            one = self.one(step, one)
            two = self.two(one[0], two)
        return self.out(two[0])


class Added(nn.Module):
    """Each state, and what comes next in its width."""

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(one + x[:, torch.arange(one.shape[1]) % x.shape[1]] for one in state)


@pytest.mark.parametrize("path", ["one", "two"])
@pytest.mark.parametrize("kind", [nn.LSTMCell, Cell])
def test_each_of_two_states_goes_on_from_itself(kind: Any, path: str) -> None:
    torch.manual_seed(0)
    net = Stepwise(kind)
    found = planned(net, path, X)
    assert found.rung is Rung.ADAPTER
    assert found.changes[0].startswith(f"{path} removed (what went in is added up, its ")
    by_hand: Any = copy.deepcopy(net)
    setattr(by_hand, path, Added())
    torch.testing.assert_close(without(net, found)(X), by_hand(X))


def test_a_cell_of_equal_widths_has_the_same_rule_in_all_steps() -> None:
    class Swapped(nn.Module):
        """It gives its states the other way round, and the first step begins with numbers."""

        def __init__(self) -> None:
            super().__init__()
            self.stem, self.cell, self.out = nn.Linear(6, 8), Turned(), nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h, c = self.stem(x[:, 0]), torch.tanh(self.stem(x[:, 1]))
            for _ in range(3):
                c, h = self.cell(h, c)
            return self.out(torch.cat([h, c], 1))

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(16, 16)

        def forward(self, h: torch.Tensor, c: torch.Tensor) -> Any:
            h, c = torch.relu(self.mix(torch.cat([h, c], 1))).chunk(2, 1)
            return c, h

    net = Swapped()
    h, c = net.stem(X[:, 0]), torch.tanh(net.stem(X[:, 1]))
    changed = without(net, planned(net, "cell", X))
    torch.testing.assert_close(changed(X), net.out(torch.cat([h, c], 1)))


def test_what_comes_again_in_the_next_step_is_not_added_to_a_state_that_has_it() -> None:
    class Last(nn.Module):
        """A cell that reads what is measured, and what was last seen."""

        def __init__(self) -> None:
            super().__init__()
            self.now, self.before, self.kept = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor, last: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.now(x) + self.before(last) + self.kept(h))

    class Measured(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.begin = nn.Linear(6, 6), nn.Linear(6, 8)
            self.cell, self.out = Last(), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            last, h = self.first(x[:, 0]), self.begin(x[:, 1])
            for step in range(x.shape[1]):
                h = self.cell(x[:, step], last, h)
                last = torch.where(x[:, step] > 0, x[:, step], last)
            return self.out(h)

    assert refusal(Measured(), Layers((Whole("cell"),)), X).code is RefusalCode.NO_PATH
