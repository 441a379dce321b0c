"""What the zoo's judges once took for a fault and is none; what is one beside it is still seen."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.zoo.family import Family  # noqa: E402 - they need torch
from benchmarks.zoo.oracles import Judge  # noqa: E402
from benchmarks.zoo.removers import blind, hidden  # noqa: E402
from benchmarks.zoo.stirring import stirred  # noqa: E402
from torch import Tensor, nn  # noqa: E402

COLLECTED: list[Tensor] = []


class Collecting(nn.Module):
    """Its hooks collect what its layers give, and it picks one of that."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2))
        self.head = nn.Linear(6, 3)
        for layer in self.layers:
            layer.register_forward_hook(lambda module, args, out: COLLECTED.append(out))

    def forward(self, x: Tensor) -> Tensor:
        COLLECTED.clear()
        for layer in self.layers:
            x = layer(x)
        return self.head(COLLECTED[-1]) + x.mean(-1, keepdim=True)


class Tied(nn.Module):
    """Layers that share their weights, of which only the last one is read."""

    def __init__(self, *, reads_first: bool = False) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 3), nn.Linear(6, 3)
        self.last.weight, self.last.bias = self.first.weight, self.first.bias
        self.reads_first = reads_first

    def forward(self, x: Tensor) -> Tensor:
        found = [self.first(x), self.last(x)]
        return torch.tanh(found[0]) * found[1] if self.reads_first else found[-1]


class Affine(nn.Module):
    """Does next to nothing with its first weights."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0001]))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class Faint(nn.Module):
    """What a part does to the result is less than single precision tells."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.part, self.head = nn.Linear(6, 6), Affine(), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(1e-6 * self.part(self.stem(x))) + 1


def found(remove: Any, path: str, build: Any) -> set[str]:
    """Return which oracles find a fault in what a remover makes of a model."""
    family = Family("small", "", build, lambda batch: (torch.randn(batch, 6),))
    repaired, _ = remove(family.build(), path, family.example())
    return {fault.oracle for fault in Judge(family).faults(repaired, path)}


def test_what_a_models_own_hooks_collect_is_what_stands_in_for_a_layer():
    assert found(blind, "layers.1", Collecting) == set()


def test_weights_that_others_share_are_not_a_parts_effect():
    assert "effect" not in found(hidden, "first", Tied)
    assert "effect" in found(hidden, "last", Tied)
    assert "effect" in found(hidden, "first", lambda: Tied(reads_first=True))


def test_an_effect_that_single_precision_does_not_tell_is_one():
    assert found(blind, "part", Faint) == set()
    assert "effect" in found(hidden, "part", Faint)


def test_only_the_part_is_stirred_and_its_own_ties_hold():
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.Linear(4, 4))
    net[0][1].weight = net[1].weight = net[0][0].weight
    before = copy.deepcopy(net)
    made = stirred(net, "0")
    assert made[0][0].weight is made[0][1].weight
    assert not torch.equal(made[0][0].weight, before[0][0].weight)
    assert all(torch.equal(made[1].get_parameter(name), before[1].get_parameter(name)) for name in ("weight", "bias"))
    assert all(torch.equal(one, other) for one, other in zip(net.parameters(), before.parameters(), strict=True))
