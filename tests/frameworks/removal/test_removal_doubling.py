"""What a repair would say twice: sums, differences and products of which one side repeats the other one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from repaired import planned, refusal, without
from torch import nn

from etude.core.errors import RefusalCode
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung

Forward = Callable[[Any, torch.Tensor], torch.Tensor]


class Skip(nn.Module):
    """A block with a skip connection of its own."""

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.mix, self.norm = nn.Linear(8, 8), nn.LayerNorm(8) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + torch.tanh(self.mix(x)))


class Net(nn.Module):
    """Layers that are put together in some way."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.block, self.normed = Skip(), Skip(norm=True)
        self.f, self.g, self.h = (nn.Linear(8, 8) for _ in range(3))
        self.way = [forward]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.way[0](self, self.stem(x)))


def net_and_example(forward: Forward) -> tuple[Any, torch.Tensor]:
    torch.manual_seed(0)
    return Net(forward), torch.randn(5, 6)


REPEATING: dict[str, Forward] = {
    "a sum": lambda s, x: x + s.f(s.block(x)),
    "a sum of Python": lambda s, x: sum([x, s.f(s.block(x))]),
    "in place": lambda s, x: s.f(s.block(x)).add_(x),
    "scaled": lambda s, x: 0.7 * x + 0.3 * s.f(s.block(x)),
    "a norm between": lambda s, x: x + s.f(s.normed(x)),
    "an activation behind": lambda s, x: x + torch.relu(s.f(s.block(x))),
    "a difference": lambda s, x: x - s.f(s.block(x)),
    "a difference that is squared": lambda s, x: (s.f(s.block(x)) - x) ** 2,
    "a product": lambda s, x: x * s.f(s.block(x)),
    "a quotient": lambda s, x: x / (3 + s.f(s.block(x))),
    "lerp": lambda s, x: torch.lerp(x, s.f(s.block(x)), 0.3),
    "a stack that is summed": lambda s, x: torch.stack([x, s.f(s.block(x))]).sum(0),
    "a stack that is averaged": lambda s, x: torch.stack([x, s.f(s.block(x))], -1).mean(-1),
    "two levels": lambda s, x: x + s.f(x + s.g(x)),
}


@pytest.mark.parametrize("how", REPEATING)
def test_what_would_be_said_twice_is_refused(how: str) -> None:
    net, x = net_and_example(REPEATING[how])
    refused = refusal(net, Layers((Whole("f"),)), x)
    assert refused.code is RefusalCode.DOES_NOT_FIT
    assert "would say what the other one says already" in refused.why


def test_the_refusal_names_what_can_go_instead() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.body, self.head = nn.Linear(6, 8), nn.Sequential(Skip(), nn.Linear(8, 8)), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            return self.head(x + self.body(x))

    net, x = Deep(), torch.randn(5, 6)
    refused = refusal(net, Layers((Whole("body.1"),)), x)
    assert refused.instead == "body"
    assert refused.why == (
        "without it one side of 'add' would say what the other one says already, as in x + x. "
        "Take away the block round both."
    )
    torch.testing.assert_close(without(net, planned(net, "body", x))(x), net.head(net.stem(x)))


def test_two_towers_that_share_a_layer_do_not_become_one() -> None:
    for forward in (
        lambda s, x: (s.f(x) - s.f(s.g(x))).abs(),
        lambda s, x: s.f(x) + s.f(s.g(x)),
    ):
        net, x = net_and_example(forward)
        assert refusal(net, Layers((Whole("g"),)), x).code is RefusalCode.DOES_NOT_FIT


def chain(s: Any, x: torch.Tensor) -> torch.Tensor:
    u = torch.tanh(s.f(x))
    return x + u + torch.tanh(s.g(u))


def messages(s: Any, edges: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
    return edges + torch.relu(s.normed.norm(mixed)) + s.h(torch.sigmoid(mixed))


def gated_edges(s: Any, x: torch.Tensor) -> torch.Tensor:
    edges = s.f(x)
    return messages(s, edges, s.block.mix(x) + s.g(edges))


DROPPED: dict[str, tuple[Forward, str, Forward]] = {
    "what leads to it goes on elsewhere": (chain, "g", lambda s, x: x + torch.tanh(s.f(x))),
    "edges that are told of nodes": (gated_edges, "g", lambda s, x: messages(s, s.f(x), s.block.mix(x))),
    "one plus": (lambda s, x: x * (1 + s.f(x)), "f", lambda s, x: x),
    "one minus": (lambda s, x: x * (1 - s.f(x)), "f", lambda s, x: x),
    "one plus, and a shift": (lambda s, x: x * (1 + s.f(x)) + s.g(x), "f", lambda s, x: x + s.g(x)),
}


@pytest.mark.parametrize("how", DROPPED)
def test_a_branch_goes_where_nothing_is_lost_with_it(how: str) -> None:
    forward, path, hand = DROPPED[how]
    net, x = net_and_example(forward)
    found = planned(net, path, x)
    assert found.rung is Rung.NEUTRAL
    by_hand = copy.deepcopy(net)
    by_hand.way = [hand]
    torch.testing.assert_close(without(net, found)(x), by_hand.eval()(x))


class Apart(nn.Module):
    """A series is taken apart into what is slow and what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = nn.AvgPool1d(3, 1, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        slow = self.slow(x.mT).mT
        return x - slow, slow


class Decomposed(nn.Module):
    """What is slow is gathered, and what is left goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head, self.trend = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 8)
        self.apart = nn.ModuleList(Apart() for _ in range(3))
        self.mix = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, gathered = self.stem(x), []
        for apart, mix, norm in zip(self.apart, self.mix, self.norms, strict=True):
            x, slow = apart(x + torch.relu(mix(x)))
            x = norm(x)
            gathered.append(slow)
        return self.head(x + self.trend(gathered[0] + gathered[1] + gathered[2]))


@pytest.mark.parametrize("nth", [0, 1, 2])
def test_of_two_results_the_one_that_is_added_goes(nth: int) -> None:
    class Nothing(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x, torch.zeros_like(x)

    torch.manual_seed(0)
    net, x = Decomposed(), torch.randn(5, 11, 6)
    by_hand = copy.deepcopy(net)
    by_hand.apart[nth] = Nothing()
    found = planned(net, f"apart.{nth}", x)
    torch.testing.assert_close(without(net, found)(x), by_hand.eval()(x))


def highway(s: Any, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return gate * s.g(x) + (1 - gate) * x


STANDING: dict[str, tuple[Forward, Forward]] = {
    "a link of a branch": (lambda s, x: x + s.f(torch.relu(s.g(x))), lambda s, x: x + torch.relu(s.g(x))),
    "a gate of what goes in": (
        lambda s, x: highway(s, x, torch.sigmoid(s.f(x))),
        lambda s, x: highway(s, x, torch.sigmoid(x)),
    ),
    "beside it in a concatenation": (
        lambda s, x: torch.cat([x[:, :4], s.f(s.block(x))[:, 4:]], -1),
        lambda s, x: torch.cat([x[:, :4], s.block(x)[:, 4:]], -1),
    ),
    "the larger one": (
        lambda s, x: torch.maximum(x, s.f(s.block(x))),
        lambda s, x: torch.maximum(x, s.block(x)),
    ),
    "a positions' mean of a stack": (
        lambda s, x: torch.stack([x, s.f(s.block(x))]).mean(-1).T @ torch.ones(2, 8),
        lambda s, x: torch.stack([x, s.block(x)]).mean(-1).T @ torch.ones(2, 8),
    ),
}


@pytest.mark.parametrize("how", STANDING)
def test_what_is_no_repetition_is_left_to_identity(how: str) -> None:
    forward, hand = STANDING[how]
    net, x = net_and_example(forward)
    found = planned(net, "f", x)
    assert found.rung is Rung.IDENTITY
    by_hand = copy.deepcopy(net)
    by_hand.way = [hand]
    torch.testing.assert_close(without(net, found)(x), by_hand.eval()(x))


def test_what_an_attention_reads_twice_is_added_once() -> None:
    class Pooled(nn.Module):
        """Learned queries ask all positions; keys are the values."""

        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
            self.queries = nn.Parameter(torch.randn(1, 1, 8))
            self.mix = nn.Conv1d(8, 8, 3, padding=1)
            self.attn = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.mix(self.stem(x).transpose(1, 2)).transpose(1, 2)
            queries = self.queries.repeat(len(x), 1, 1)
            return self.head((queries + self.attn(queries, x, x)[0]).squeeze(1))

    torch.manual_seed(0)
    net, x = Pooled(), torch.randn(5, 7, 6)
    changed = without(net, planned(net, "attn", x))
    mixed = net.mix(net.stem(x).transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(changed(x), net.head(net.queries[0] + mixed.mean(1)))
