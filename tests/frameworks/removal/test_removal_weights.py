"""What a layer is, and what is none: weights that are made, blanks, measures, and axes that nobody named."""

from __future__ import annotations

import torch
from repaired import assert_same, planned, refusal, without
from torch import nn
from torch.nn import functional as F

from etude.core.errors import RefusalCode
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung


class Standardised(nn.Conv2d):
    """A convolution that standardises its weight each time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.weight.flatten(1)
        weight = ((flat - flat.mean(1, keepdim=True)) / (flat.std(1, keepdim=True) + 1e-5)).view_as(self.weight)
        return F.conv2d(x, weight, self.bias, padding=1)


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 400)
        self.first, self.norm, self.last = Standardised(8, 6, 3), nn.GroupNorm(2, 6), Standardised(6, 8, 3)

    def branch(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.norm(self.first(x))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head((x + self.branch(x)).mean((2, 3)))


def test_a_layer_that_makes_its_weight_is_one_in_a_branch() -> None:
    class Without(Branch):
        def branch(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.relu(self.first(x)))

    net, x = Branch(), torch.randn(5, 3, 7, 9)
    found = planned(net, "norm", x)
    assert found.rung is Rung.IDENTITY
    by_hand = Without()
    by_hand.load_state_dict(without(net, found).state_dict(), strict=False)
    assert_same(without(net, found), by_hand, x)
    assert planned(net, "first", x).rung is Rung.SPLICE  # the other one is rebuilt, as any convolution


class Messages(nn.Module):
    """What neighbours say is gathered in a blank of the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.say, self.hear = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.mix, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.mix(torch.relu(self.lift(x)))
        heard = torch.zeros_like(x).index_add_(1, torch.arange(1, 5), self.say(x)[:, :-1])
        return self.head(torch.relu(self.hear(heard)))


def test_a_blank_of_the_same_shape_is_no_path() -> None:
    net, x = Messages(), torch.randn(7, 5, 4)
    found = planned(net, "mix", x)
    assert (found.rung, found.idle) == (Rung.IDENTITY, ())


class Measured(nn.Module):
    """Besides its result it gives a measure of how far codes are apart, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.stem, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, apart = self.stem(x), 0
        for code in self.codes:
            y = torch.tanh(code(x))
            apart = F.mse_loss(x, y) + apart
            x = F.softplus(y)
        return self.head(x), apart


def test_a_sum_of_measures_is_no_skip_connection() -> None:
    net, x = Measured(), torch.randn(5, 4)
    assert planned(net, "codes.1", x).rung is Rung.IDENTITY


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mix = nn.Linear(4, 12), nn.Linear(12, 6)
        self.heads = nn.ModuleDict({"kind": nn.Linear(6, 3), "size": nn.Linear(6, 1)})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = torch.relu(self.mix(torch.relu(self.stem(x))))
        return {name: head(x) for name, head in self.heads.items()}


def test_heads_beside_each_other_may_all_get_other_channels() -> None:
    net, x = Heads(), torch.randn(5, 4)
    changed = without(net, planned(net, "heads", x))
    y = torch.relu(net.mix(torch.relu(net.stem(x))))
    torch.testing.assert_close(changed(x), {"kind": F.adaptive_avg_pool1d(y, 3), "size": y.mean(1, keepdim=True)})


def test_what_halves_the_channels_keeps_their_axis() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv1d(3, 6, 1)
            self.wide, self.glu, self.head = nn.Conv1d(6, 12, 1), nn.GLU(dim=-2), nn.Linear(6, 99)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            return self.head((x + self.glu(self.wide(x))).mean(-1))

    found = planned(Gated(), "glu", torch.randn(5, 3, 30))
    assert found.rung is Rung.WIDTH
    assert "wide rebuilt 12->6 outputs" in found.changes


class Bells(nn.Module):
    """Bells over distances of all pairs."""

    def forward(self, apart: torch.Tensor) -> torch.Tensor:
        return torch.exp(-((apart.unsqueeze(-1) - torch.linspace(0, 4, 9, dtype=apart.dtype)) ** 2))


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lift, self.bells, self.weigh, self.head = nn.Linear(3, 6), Bells(), nn.Linear(9, 6), nn.Linear(6, 20)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        apart = (places.unsqueeze(2) - places.unsqueeze(1)).norm(dim=-1)
        return self.head((self.weigh(self.bells(apart)) * self.lift(places).unsqueeze(1)).sum(2)).mean(1)


def test_numbers_without_channels_stand_for_themselves() -> None:
    net, x = Pairs(), torch.randn(4, 7, 3)
    found = planned(net, "bells", x)
    assert found.rebuilt == ("weigh.weight",)
    changed = without(net, found)
    apart = (x.unsqueeze(2) - x.unsqueeze(1)).norm(dim=-1).unsqueeze(-1)
    wanted = changed.head((changed.weigh(apart) * changed.lift(x).unsqueeze(1)).sum(2)).mean(1)
    torch.testing.assert_close(changed(x), wanted)


class Film(nn.Module):
    """Frames come first, and then the colours."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.mix, self.head = _Patches(), nn.Linear(8, 6), nn.Linear(6, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.mix(self.patches(x))).unflatten(0, (-1, 5)).mean((1, 2)))


class _Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x.flatten(0, 1)).flatten(2).transpose(1, 2)


def test_channels_are_where_the_layer_reads_them_that_comes_later() -> None:
    net, x = Film(), torch.randn(4, 5, 2, 8, 12)
    changed = without(net, planned(net, "patches", x))
    tokens = F.avg_pool2d(x.flatten(0, 1), 4).flatten(2).transpose(1, 2)
    wanted = changed.head(torch.relu(changed.mix(tokens)).unflatten(0, (-1, 5)).mean((1, 2)))
    torch.testing.assert_close(changed(x), wanted)


def test_layers_in_a_chain_may_not() -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            held = nn.utils.parametrizations.weight_norm
            self.steps = nn.ModuleList([nn.Linear(3, 8), nn.Linear(4, 7)])
            self.between = nn.ModuleList([held(nn.Linear(8, 4)), held(nn.Linear(7, 5))])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for step, between in zip(self.steps, self.between, strict=True):
                x = between(step(x))
            return x

    assert refusal(Chain(), Layers((Whole("steps"),)), torch.randn(5, 3)).code is RefusalCode.DOES_NOT_FIT


class WrittenOut(nn.Module):
    """Attention as a sum of values, each scaled by a share."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.share = nn.Linear(4, 6), nn.Linear(6, 1)
        self.value, self.mix, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def values(self, x: torch.Tensor) -> torch.Tensor:
        return self.value(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.stem(x))
        return self.head(x.mean(1) + self.mix((self.share(x).softmax(1) * self.values(x)).sum(1)))


def test_what_a_gate_scales_is_no_gate() -> None:
    class Without(WrittenOut):
        def values(self, x: torch.Tensor) -> torch.Tensor:
            return x

    net, x = WrittenOut(), torch.randn(5, 7, 4)
    found = planned(net, "value", x)
    assert found.rung is Rung.IDENTITY
    by_hand = Without()
    by_hand.load_state_dict(without(net, found).state_dict(), strict=False)
    assert_same(without(net, found), by_hand, x)
