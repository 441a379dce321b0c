"""Weights that are made of others: without what makes them, they stay as they are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from repaired import planned, refusal, without
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import etude
from etude.core.errors import RefusalCode
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(3))


class Net(nn.Module):
    """A layer in the middle whose weight is made."""

    def __init__(self, held: Callable[[nn.Linear], nn.Module]) -> None:
        super().__init__()
        self.stem, self.mid, self.head = nn.Linear(4, 6), held(nn.Linear(6, 6)), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.mid(torch.relu(self.stem(x)))))


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).T


def symmetric(layer: nn.Linear) -> nn.Module:
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


def trained(net: nn.Module) -> nn.Module:
    """Move what weights are made of, so that they are not what they were first."""
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1.1).add_(0.05)
    return net


MAKERS = (parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal, symmetric)
PATHS = ("mid.parametrizations", "mid.parametrizations.weight", "mid.parametrizations.weight.0")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("held", MAKERS)
def test_a_weight_that_is_no_longer_made_keeps_its_value_and_is_trained(held: Any, path: str) -> None:
    net: Any = trained(Net(held))
    by_hand = copy.deepcopy(net).eval()
    found = planned(net, path, X)
    assert found.rung is Rung.NEUTRAL
    assert found.changes[0] == "mid.parametrizations.weight removed (mid.weight keeps its value)"
    changed = without(net, found)
    assert type(changed.mid) is nn.Linear
    assert isinstance(changed.mid.weight, nn.Parameter)
    assert {name for name, _ in changed.named_parameters()} == {name for name, _ in Net(lambda x: x).named_parameters()}
    assert torch.equal(changed(X), by_hand(X))
    assert parametrize.is_parametrized(net.mid)
    parametrize.remove_parametrizations(net.eval().mid, "weight")  # what one would write by hand
    torch.testing.assert_close(changed.mid.weight, net.mid.weight, rtol=0, atol=0)


def test_copies_of_the_model_keep_what_makes_their_weights() -> None:
    net = Net(parametrizations.weight_norm)
    other = copy.deepcopy(net)
    etude.remove(net, "layer:mid.parametrizations", X)
    torch.testing.assert_close(other(X), net(X))
    assert parametrize.is_parametrized(other.mid)


def test_a_norm_that_looks_closer_each_time_in_training_is_asked_in_evaluation() -> None:
    net = Net(parametrizations.spectral_norm).train()
    with torch.no_grad():
        wanted = copy.deepcopy(net).eval()(X)
    etude.remove(net, "layer:mid.parametrizations.weight", X)
    assert net.training
    torch.testing.assert_close(net(X), wanted)


def test_one_of_two_weights_that_are_made_may_go() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)
            for name in ("weight_ih_l0", "weight_hh_l0"):
                parametrizations.weight_norm(self.rnn, name)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(x)[0])

    net, x = Recurrent(), torch.randn(5, 7, 4)
    wanted = net(x)
    etude.remove(net, "layer:rnn.parametrizations.weight_hh_l0", x)
    assert parametrize.is_parametrized(net.rnn, "weight_ih_l0")
    assert not parametrize.is_parametrized(net.rnn, "weight_hh_l0")
    torch.testing.assert_close(net(x), wanted)
    etude.remove(net, "layer:rnn.parametrizations", x)
    assert type(net.rnn) is nn.GRU
    torch.testing.assert_close(net(x), wanted)


def test_a_frozen_weight_stays_frozen() -> None:
    net = Net(parametrizations.weight_norm)
    net.mid.requires_grad_(False)
    etude.remove(net, "layer:mid.parametrizations", X)
    assert not net.mid.weight.requires_grad


def test_one_of_two_steps_is_refused_and_both_together_are_named() -> None:
    net = Net(lambda layer: parametrizations.spectral_norm(symmetric(layer)))
    refused = refusal(net, Layers((Whole("mid.parametrizations.weight.1"),)), X)
    assert (refused.code, refused.instead) == (RefusalCode.WITHOUT_CALL, "mid.parametrizations.weight")


def test_what_two_layers_make_their_weights_with_is_refused() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.one, self.two = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 6)
            self.scale = Scale()
            for layer in (self.one, self.two):
                parametrize.register_parametrization(layer, "weight", self.scale)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(torch.relu(self.one(torch.relu(self.stem(x)))))

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = nn.Parameter(torch.tensor(1.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    refused = refusal(Shared(), Layers((Whole("one.parametrizations"),)), X)
    assert refused.code is RefusalCode.TIED


def test_what_is_read_besides_is_refused() -> None:
    class Reads(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made: Any = self.mid.parametrizations
            return super().forward(x) + made.weight.original0.sum()

    refused = refusal(Reads(parametrizations.weight_norm), Layers((Whole("mid.parametrizations"),)), X)
    assert refused.code is RefusalCode.WITHOUT_CALL
    assert "mid.parametrizations.weight.original0 is also used without it" in refused.why


def test_what_makes_a_weight_that_nobody_reads_is_dead() -> None:
    class Unused(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.stem(x)))

    refused = refusal(Unused(parametrizations.weight_norm), Layers((Whole("mid.parametrizations"),)), X)
    assert refused.code is RefusalCode.DEAD


def test_a_layer_whose_weight_is_made_is_removed_as_any_other() -> None:
    net = Net(parametrizations.weight_norm)
    found = planned(net, "mid", X)
    assert found.rung is Rung.IDENTITY
    torch.testing.assert_close(without(net, found)(X), net.head(torch.tanh(torch.relu(net.stem(X)))))
