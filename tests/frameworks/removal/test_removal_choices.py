"""Modules that choose go on to choose without what learns; weights that are read without a call become constants."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from repaired import assert_same, planned, refusal, without
from torch import nn
from torch.nn import functional as F

import etude
from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung


class Router(nn.Module):
    """Chooses two of three experts by weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(3, 8)), nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> Any:
        scores = F.linear(x, self.weight.type(x.dtype), self.bias)
        found, which = scores.topk(2, dim=-1)
        return found.softmax(-1), which


class Layered(nn.Module):
    """Chooses two of three experts by a layer in it."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> Any:
        found, which = self.classifier(x).topk(2, dim=-1)
        return found.softmax(-1), which


class Experts(nn.Module):
    """Each computes what was sent to it."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor, shares: torch.Tensor, which: torch.Tensor) -> Any:
        each = torch.stack([torch.tanh(expert(x)) for expert in self.experts], -2)
        return (each.gather(-2, which.unsqueeze(-1).expand(*which.shape, 8)) * shares.unsqueeze(-1)).sum(-2)


class Mixture(nn.Module):
    """Experts of tokens; they see the tokens of all texts in one row, and the router sees them as they lie."""

    class Block(nn.Module):
        def __init__(self, router: nn.Module) -> None:
            super().__init__()
            self.router, self.mixed = router, Experts()

        def forward(self, x: torch.Tensor) -> Any:
            shares, which = self.router(x)
            rows = self.mixed(x.view(-1, 8), shares.view(-1, 2), which.view(-1, 2))
            return x + rows.view(x.shape)

    def __init__(self, router: nn.Module) -> None:
        super().__init__()
        self.stem, self.block, self.head = nn.Linear(4, 8), self.Block(router), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.block(torch.tanh(self.stem(x))))


X = torch.randn(5, 7, 4, generator=torch.Generator().manual_seed(1))


def averaged(n: int, to: int) -> torch.Tensor:
    """Return the matrix that averages channels."""
    return F.adaptive_avg_pool1d(torch.eye(n)[None], to)[0].T


def test_a_router_goes_on_to_choose_by_averaged_channels() -> None:
    torch.manual_seed(0)
    net = Mixture(Router()).eval()
    found = planned(net, "block.router", X)
    assert found.rung is Rung.ADAPTER
    assert found.changes == (
        "block.router removed (it goes on to choose, its 8 channels averaged to 3)",
        "27 fewer parameters",
    )
    by_hand = copy.deepcopy(net)
    with torch.no_grad():
        by_hand.block.router.weight.copy_(averaged(8, 3))  # type: ignore[operator,union-attr]
        by_hand.block.router.bias.zero_()  # type: ignore[operator,union-attr]
    changed = without(net, found)
    assert_same(changed, by_hand, X)
    assert not [name for name in changed.state_dict() if name.startswith("block.router")]
    again = pickle.loads(pickle.dumps(changed))
    assert torch.equal(again(X), changed(X))
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(changed, "layer:block.router", X)
    assert refused.value.code is RefusalCode.NOT_FOUND


def test_what_a_router_keeps_to_balance_its_choice_is_saved_no_more() -> None:
    class Balanced(Router):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("correction", torch.tensor([0.0, 0.1, -0.1]))

        def forward(self, x: torch.Tensor) -> Any:
            scores = F.linear(x, self.weight, self.bias)
            which = (scores + self.correction).topk(2, dim=-1).indices
            return scores.gather(-1, which).softmax(-1), which

    torch.manual_seed(0)
    net = Mixture(Balanced()).eval()
    changed = without(net, planned(net, "block.router", X))
    assert "block.router.correction" in net.state_dict()
    assert not [name for name in changed.state_dict() if name.startswith("block.router")]
    assert torch.equal(changed.block.router.correction, net.block.router.correction)  # type: ignore[operator,union-attr]


def test_a_router_with_a_layer_in_it_loses_that() -> None:
    torch.manual_seed(0)
    net = Mixture(Layered()).eval()
    found, layer = planned(net, "block.router", X), planned(net, "block.router.classifier", X)
    assert found.changes == layer.changes
    assert torch.equal(without(net, found)(X), without(net, layer)(X))


def test_a_router_is_no_longer_reached_without_experts_that_see_tokens_in_a_row() -> None:
    torch.manual_seed(0)
    found = planned(Mixture(Layered()).eval(), "block.mixed", X)
    assert found.rung is Rung.NEUTRAL
    assert "no longer reached: block.router.classifier" in found.changes


def test_a_codebook_that_chooses_and_gives_is_refused() -> None:
    class Quantizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.codes = nn.Parameter(torch.randn(5, 8))

        def forward(self, x: torch.Tensor) -> Any:
            which = (x @ self.codes.T).argmax(-1)
            return F.embedding(which, self.codes), which

    class Codec(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.quantizer, self.head = nn.Linear(4, 8), Quantizer(), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.stem(x)
            given, which = self.quantizer(y)
            return self.head(y + given), which

    assert refusal(Codec(), Layers((Whole("quantizer"),)), X).code is RefusalCode.NOT_FLOAT


class Reads(nn.Module):
    """Reads the weight of a layer that it never calls."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.stem, self.proj, self.head = nn.Linear(4, n_in), nn.Linear(n_in, n_out), nn.Linear(n_out, 2)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.proj.weight @ torch.tanh(self.stem(x)).transpose(1, 2)
        return self.head(torch.tanh(y.transpose(1, 2) + self.proj.bias))


@pytest.mark.parametrize(
    ("n_in", "n_out", "said"),
    [
        (6, 9, "its 6 channels again from the first on, up to 9"),
        (9, 6, "its 9 channels averaged to 6"),
        (6, 6, "the identity takes the place of its weight"),
    ],
)
def test_a_weight_that_is_read_without_a_call_becomes_a_constant(n_in: int, n_out: int, said: str) -> None:
    torch.manual_seed(0)
    net = Reads(n_in, n_out).eval()
    found = planned(net, "proj", X)
    assert found.changes[0] == f"proj removed ({said})"
    assert found.rung is (Rung.IDENTITY if n_in == n_out else Rung.ADAPTER)
    y = torch.tanh(net.stem(X))
    y = y if n_in == n_out else torch.cat([y, y[..., :3]], -1) if n_in < n_out else y @ averaged(n_in, n_out).T
    changed = without(net, found)
    torch.testing.assert_close(changed(X), net.head(torch.tanh(y)))
    assert {name.partition(".")[0] for name, _ in changed.named_parameters()} == {"stem", "head"}


def test_a_branch_that_ends_in_a_weight_that_is_read_is_dropped_and_not_doubled() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.proj, self.head = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> Any:
            x = torch.tanh(self.stem(x))
            return self.head(x + F.linear(x, self.proj.weight, self.proj.bias))

    net = Branch()
    found = planned(net, "proj", X)
    assert found.rung is Rung.NEUTRAL
    assert found.changes[0] == "proj removed (what it was added to stays)"
    torch.testing.assert_close(without(net, found)(X), net.head(torch.tanh(net.stem(X))))


@pytest.mark.parametrize(
    ("join", "code"), [(torch.hypot, RefusalCode.DOES_NOT_FIT), (torch.maximum, RefusalCode.WITHOUT_CALL)]
)
def test_a_weight_that_is_read_and_joined_otherwise_is_refused(join: Any, code: RefusalCode) -> None:
    class Largest(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.proj, self.head = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> Any:
            x = torch.tanh(self.stem(x))
            return self.head(join(x, F.linear(x, self.proj.weight)))

    assert refusal(Largest(), Layers((Whole("proj"),)), X).code is code


def test_a_layer_that_learns_is_not_averaged_channels() -> None:
    refused = refusal(Reads(9, 6), Layers((Whole("proj"),), repair="learned"), X)
    assert refused.code is RefusalCode.WITHOUT_CALL


def test_a_second_name_of_a_weight_that_others_use_is_dead() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared, self.words, self.head = nn.Embedding(9, 6), nn.Embedding(9, 6), nn.Linear(6, 2)
            self.words.weight = self.shared.weight

        def forward(self, x: torch.Tensor) -> Any:
            return self.head(self.words(x))

    assert refusal(Shared(), Layers((Whole("shared"),)), torch.randint(0, 9, (5, 7))).code is RefusalCode.DEAD
