"""Branches that go as a whole: through gated activations, with all results of a component, and gates that stay open."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from repaired import assert_same, planned, refusal, without
from torch import nn
from torch.nn import functional as F

from etude.core.errors import RefusalCode
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung


def test_a_branch_that_ends_in_a_gated_activation_and_a_norm_is_dropped() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.conv, self.norm = nn.Conv1d(3, 6, 1), nn.Conv1d(6, 12, 3, padding=1), nn.GroupNorm(2, 6)
            self.head = nn.Conv1d(6, 2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            return self.head(x + self.norm(F.glu(self.conv(x), 1)))

    net, x = Gated(), torch.randn(4, 3, 9)
    found = planned(net, "conv", x)
    assert found.rung is Rung.NEUTRAL
    y = net.stem(x)
    torch.testing.assert_close(without(net, found)(x), net.head(y + net.norm.bias[:, None]))


class Gate(nn.Module):
    """A gate beside what it scales, made in some way."""

    def __init__(self, of: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.of, self.stem, self.gate, self.head = of, nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.stem(x))
        return self.head(x * self.of(self.gate(x)))


@pytest.mark.parametrize("of", [torch.sigmoid, F.hardsigmoid, nn.Sigmoid(), nn.Hardsigmoid()])
def test_a_gate_whose_layer_goes_stays_open(of: Callable[[torch.Tensor], torch.Tensor]) -> None:
    class Without(Gate):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.tanh(self.stem(x)))

    net, x = Gate(of), torch.randn(5, 4)
    found = planned(net, "gate", x)
    assert found.rung is Rung.NEUTRAL
    assert "the gate that was made of it is open" in found.changes[0]
    by_hand = Without(of)
    by_hand.load_state_dict(net.state_dict())
    assert_same(without(net, found), by_hand, x)


def test_a_gate_of_two_layers_keeps_the_other_one() -> None:
    class Two(Gate):
        def __init__(self) -> None:
            super().__init__(torch.sigmoid)
            self.first = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.tanh(self.stem(x))
            return self.head(x * torch.sigmoid(self.gate(torch.relu(self.first(x)))))

    net, x = Two(), torch.randn(5, 4)
    y = torch.tanh(net.stem(x))
    wanted = net.head(y * torch.sigmoid(torch.relu(net.first(y))))
    torch.testing.assert_close(without(net, planned(net, "gate", x))(x), wanted)


def test_a_softmax_that_scales_is_refused_unless_it_goes_along() -> None:
    net, x = Gate(nn.Softmax(-1)), torch.randn(5, 4)
    refused = refusal(net, Layers((Whole("gate"),)), x)
    assert refused.code is RefusalCode.DOES_NOT_FIT
    assert refused.why == (
        "a softmax of it scales something, and no constant makes a 1 of each share. "
        "Take the softmax along with it, or take away the block round both."
    )
    both = planned(net, "gate", x, along=("of",))
    torch.testing.assert_close(without(net, both)(x), net.head(torch.tanh(net.stem(x))))


def test_weights_of_a_sum_become_all_the_same() -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.score, self.head = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.tanh(self.stem(x))
            return self.head((x * torch.softmax(self.score(x), 1)).sum(1))

    net, x = Pooled(), torch.randn(5, 7, 4)
    wanted = net.head(torch.tanh(net.stem(x)).mean(1))
    torch.testing.assert_close(without(net, planned(net, "score", x))(x), wanted)


def test_all_results_of_a_component_go_where_one_of_them_does() -> None:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.past, self.future = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.past(x), self.future(x)

    class Beats(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stacks = nn.ModuleList([Stack(), Stack(), Stack()])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total = x[:, -1:].expand(-1, 8)
            for stack in self.stacks:
                past, future = stack(x)
                x, total = x - past, total + future
            return total

    net, x = Beats(), torch.randn(5, 8)
    found = planned(net, "stacks.1", x)
    assert found.rung is Rung.NEUTRAL
    past, future = net.stacks[0](x)
    wanted = x[:, -1:] + future + net.stacks[2](x - past)[1]
    torch.testing.assert_close(without(net, found)(x), wanted)


def test_what_the_model_computes_twice_is_not_doubled() -> None:
    class Twice(nn.Module):
        def __init__(self, again: bool) -> None:
            super().__init__()
            self.again, self.stem, self.other = again, nn.Linear(4, 6), nn.Linear(4, 6)
            self.mix, self.head = nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            beside = self.stem(x) if self.again else self.other(x)
            return self.head(beside + self.mix(self.stem(x)))

    x = torch.randn(5, 4)
    refused = refusal(Twice(again=True), Layers((Whole("mix"),)), x)
    assert refused.code is RefusalCode.DOES_NOT_FIT
    assert refused.why == (
        "it is joined with what goes into it, which the model computes twice, and would be doubled. Compute it once."
    )
    net = Twice(again=False)
    torch.testing.assert_close(without(net, planned(net, "mix", x))(x), net.head(net.other(x) + net.stem(x)))
