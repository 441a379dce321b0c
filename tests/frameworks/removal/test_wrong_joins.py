"""Joins that were taken for a chain: each is either dropped so that the other side stays, or refused by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import etude
from etude.core.errors import ConfigError, RefusalCode, RemovalRefused
from etude.core.rungs import Rung

Join = Callable[["Joined", torch.Tensor], torch.Tensor]


class Joined(nn.Module):
    """A branch beside its own input, joined in one of many ways."""

    def __init__(self, join: Join) -> None:
        super().__init__()
        self.inp, self.f, self.g = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out = nn.Linear(8, 3)
        self.scale = nn.Parameter(torch.rand(8) + 0.5)
        self.join = [join]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inp(x)
        return self.out(self.join[0](self, h))


def net_and_example(join: Join) -> tuple[Any, torch.Tensor]:
    torch.manual_seed(0)
    return Joined(join).double(), torch.randn(5, 6, dtype=torch.float64)


def refused(net: Any, component: str, example: Any) -> RemovalRefused:
    with pytest.raises(RemovalRefused) as caught:
        etude.remove(net, component, example)
    return caught.value


def _index_add(s: Any, h: torch.Tensor) -> torch.Tensor:
    return h.clone().index_add_(1, torch.arange(8), s.f(h), alpha=-1)


def _scatter_add(s: Any, h: torch.Tensor) -> torch.Tensor:
    return h.clone().scatter_add_(1, torch.arange(8).expand(len(h), 8), s.f(h))


def _onto(s: Any, h: torch.Tensor) -> torch.Tensor:
    eye = torch.eye(8, dtype=h.dtype).expand(len(h), 8, 8)
    return torch.baddbmm(h.unsqueeze(1), s.f(h).unsqueeze(1), eye, alpha=-1).squeeze(1)


def _scale_and_shift(s: Any, h: torch.Tensor) -> torch.Tensor:
    scale, shift = s.f(h).chunk(2, -1)
    return torch.cat([h[:, :4] * (1 + scale) + shift, h[:, 4:]], -1)


def _own_gate(s: Any, h: torch.Tensor) -> torch.Tensor:
    value, gate = s.f(h).chunk(2, -1)
    return torch.cat([h[:, :4] + value * gate.sigmoid(), h[:, 4:]], -1)


LEFT: dict[str, tuple[Join, Callable[[Any, torch.Tensor], torch.Tensor]]] = {
    "scale before": (lambda s, h: h + s.scale * s.f(h), lambda s, h: h),
    "scale behind": (lambda s, h: h + s.f(h) * s.scale, lambda s, h: h),
    "scale without": (lambda s, h: h - s.scale.detach() * s.f(h), lambda s, h: h),
    "mask": (lambda s, h: h + torch.ones(len(h), 1, dtype=h.dtype) * s.f(h), lambda s, h: h),
    "f - h": (lambda s, h: s.f(h) - h, lambda s, h: -h),
    "f - g": (lambda s, h: s.f(h) - s.g(h), lambda s, h: -s.g(h)),
    "subtract": (lambda s, h: torch.subtract(h, s.f(h)), lambda s, h: h),
    "rsub": (lambda s, h: torch.rsub(s.f(h), h), lambda s, h: h),
    "clamp": (lambda s, h: h - s.f(h).clamp(-50, 50), lambda s, h: h),
    "divided": (lambda s, h: h / s.f(h), lambda s, h: h),
    "flip": (lambda s, h: h + s.f(h).flip(-1), lambda s, h: h),
    "roll": (lambda s, h: h + s.f(h).roll(1, -1), lambda s, h: h),
    "relu": (lambda s, h: h + F.relu(s.f(h)), lambda s, h: h),
    "stack sum": (lambda s, h: torch.stack([h, s.f(h)]).sum(0), lambda s, h: h),
    "index_add_": (_index_add, lambda s, h: h),
    "scatter_add_": (_scatter_add, lambda s, h: h),
    "baddbmm": (_onto, lambda s, h: h),
    "scale and shift": (_scale_and_shift, lambda s, h: h),
    "exp and shift": (lambda s, h: h * s.f(h).exp() + s.f(h), lambda s, h: h),
    "quotient": (lambda s, h: h / (1 + s.f(h) ** 2), lambda s, h: h),
    "twice a half": (lambda s, h: h * (2 * s.f(h).sigmoid()), lambda s, h: h),
    "a gate of its own": (_own_gate, lambda s, h: h),
    "the larger of two": (lambda s, h: torch.maximum(s.g(h), s.f(h)), lambda s, h: s.g(h)),
    "the smaller of it and what went in": (lambda s, h: torch.min(h, s.f(h)), lambda s, h: h),
    "the larger of what is moved": (
        lambda s, h: s.f(h).unflatten(1, (2, 4)).flip(1).flatten(1).fmax(h),
        lambda s, h: h,
    ),
    "a blank of its shape": (lambda s, h: torch.zeros_like(s.f(h)) + h + s.f(h), lambda s, h: h),
}


@pytest.mark.parametrize("how", LEFT)
def test_the_other_side_stays_as_it_is(how: str) -> None:
    join, hand = LEFT[how]
    net, x = net_and_example(join)
    before = copy.deepcopy(net)
    etude.remove(net, "layer:f", x)
    for training in (False, True):
        net.train(training)
        torch.testing.assert_close(net(x), before.out(hand(before, before.inp(x))))


class Minus(torch.autograd.Function):
    """A join that no function of torch makes."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.atan2(a, b)

    @staticmethod
    def backward(ctx: Any, *gradient: torch.Tensor) -> Any:
        return gradient[0], -gradient[0]


def _used_twice(s: Any, h: torch.Tensor) -> torch.Tensor:
    y = s.f(h)
    return h + y + s.g(y)


def _compared_and_added(s: Any, h: torch.Tensor) -> torch.Tensor:
    y = s.f(h)
    return torch.maximum(s.g(h), y) + y


UNKNOWN: dict[str, Join] = {
    "softplus": lambda s, h: h + F.softplus(s.f(h)),
    "exp": lambda s, h: h + s.f(h).exp(),
    "sigmoid": lambda s, h: h - s.f(h).sigmoid(),
    "softmax": lambda s, h: h - s.f(h).softmax(-1),
    "plus one": lambda s, h: h + (s.f(h) + 1),
    "clamp above 0": lambda s, h: h + s.f(h).clamp(1, 2),
    "maximum of what is scaled": lambda s, h: torch.maximum(s.g(h), -s.f(h)),
    "maximum and sum": _compared_and_added,
    "hypot": lambda s, h: torch.hypot(h, s.f(h)),
    "lerp": lambda s, h: torch.lerp(h, s.f(h), 0.5),
    "addcmul": lambda s, h: torch.addcmul(h, s.f(h), s.g(h)),
    "addcdiv": lambda s, h: torch.addcdiv(h, s.f(h), torch.full_like(h, -1.0)),
    "einsum": lambda s, h: torch.einsum("bi,bi->bi", h, s.f(h)),
    "cosine": lambda s, h: F.cosine_similarity(h, s.f(h), dim=-1).unsqueeze(-1) * h,
    "where": lambda s, h: torch.where(h > 0, s.f(h), s.g(h)),
    "numerator": lambda s, h: s.f(h) / h,
    "stack prod": lambda s, h: torch.stack([h, s.f(h)], -1).prod(-1),
    "stack amax": lambda s, h: torch.stack([h, s.f(h)], -1).amax(-1),
    "stack min": lambda s, h: torch.stack([h, s.f(h)], -1).min(-1).values,
    "stack logsumexp": lambda s, h: torch.stack([h, s.f(h)], -1).logsumexp(-1),
    "a function of one's own": lambda s, h: Minus.apply(h, s.f(h)),  # type: ignore[no-untyped-call]
    "used twice": _used_twice,
}


@pytest.mark.parametrize("how", UNKNOWN)
def test_a_join_that_is_not_known_is_refused_by_name(how: str) -> None:
    net, x = net_and_example(UNKNOWN[how])
    why = refused(net, "layer:f", x)
    assert why.code is RefusalCode.DOES_NOT_FIT
    assert "Take away the block" in why.why


def test_within_vmap_nothing_is_followed() -> None:
    net, x = net_and_example(lambda s, h: torch.vmap(lambda a: a - s.f(a))(h))
    assert "torch.vmap" in refused(net, "layer:f", x).why


def test_a_link_of_a_longer_branch_is_replaced_by_its_input_however_the_branch_ends() -> None:
    net, x = net_and_example(lambda s, h: torch.maximum(h, s.f(torch.relu(s.g(h)))))
    before = copy.deepcopy(net)
    etude.remove(net, "layer:f", x)
    h = before.inp(x)
    torch.testing.assert_close(net(x), before.out(torch.maximum(h, torch.relu(before.g(h)))))


class Loop(nn.Module):
    """A cell that is called for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.mix, self.out = nn.GRUCell(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(len(x), 8)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            h = h + self.mix(h)
        return self.out(h)


def test_without_a_cell_its_state_and_what_comes_next_are_added_up() -> None:
    torch.manual_seed(0)
    net, x = Loop(), torch.randn(4, 5, 6)
    removed = etude.remove(net, "layer:cell", x)
    assert removed.plan.rung is Rung.ADAPTER
    assert "its 6 channels again from the first on, up to 8" in str(removed)
    h = torch.zeros(4, 8)
    for t in range(5):
        h = h + x[:, t, torch.arange(8) % 6]
        h = h + net.mix(h)
    torch.testing.assert_close(removed.model.eval()(x), net.out(h))


class Halves(nn.Module):
    """Units that go in couples."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inp, self.mid, self.out, self.how = nn.Linear(6, 16), nn.Linear(8, 8), nn.Linear(8, 3), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inp(x)
        if self.how == "pool":
            return self.out(self.mid(F.max_pool1d(h.unsqueeze(1), 2).squeeze(1)))
        a, b = h.chunk(2, -1)
        return self.out(self.mid(F.glu(h) if self.how == "glu" else a * torch.sigmoid(b)))


@pytest.mark.parametrize("how", ["chunk", "glu"])
def test_units_of_two_halves_go_in_couples(how: str) -> None:
    torch.manual_seed(0)
    x, net = torch.randn(5, 6), Halves(how)
    assert "[0, 1, 8, 9] would go together" in refused(net, "units:inp[0:2]", x).why
    before = copy.deepcopy(net)
    removed = etude.remove(net, "units:inp[0,1,8,9]", x)
    assert not removed.plan.rebuilt
    assert "masked re-execution" in removed.checks
    mid = F.linear(F.glu(before.inp(x))[:, 2:], before.mid.weight[:, 2:], before.mid.bias)
    torch.testing.assert_close(net(x), before.out(mid))


class Shuffled(nn.Module):
    """Pixels that are made of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 64, 1), nn.Conv2d(16, 8, 1)
        self.shuffle, self.big = nn.PixelShuffle(2), nn.Conv2d(8, 64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.big(F.relu(self.two(self.shuffle(self.one(x)))))


def test_parts_that_are_taken_together_are_refused() -> None:
    assert "drawn anew" in refused(Shuffled(), "filters:one[0:4]", torch.randn(3, 3, 4, 4)).why
    assert "drawn anew" in refused(Halves("pool"), "units:inp[1:3]", torch.randn(5, 6)).why


@pytest.mark.parametrize("value", [float("nan"), 1e300])
def test_an_example_that_gives_no_numbers_is_refused(value: float) -> None:
    net, _ = net_and_example(lambda s, h: s.f(torch.exp(h)))
    why = refused(net, "layer:f", torch.full((5, 6), value, dtype=torch.float64))
    assert "the example gives NaN" in why.why


def test_what_cannot_be_asked_is_said() -> None:
    net, x = net_and_example(lambda s, h: s.f(torch.relu(s.g(h))))
    for component in (["layer:f"], 3):
        with pytest.raises(ConfigError, match="Write a text"):
            etude.remove(net, component, x)  # type: ignore[arg-type]
    assert "no rows" in refused(net, "layer:f", x[:0]).why
    net.scale = None
    assert refused(net, "layers:*", x).code is RefusalCode.EVERYTHING
    etude.remove(net, "layer:f", x)
    again = refused(net, "layer:f", x)
    assert again.code is RefusalCode.NOT_FOUND
    assert "already removed" in again.why
