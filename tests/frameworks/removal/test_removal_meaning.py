"""Which axis has the channels: behind gates and slices, for one slope, and to whoever reads it."""

from __future__ import annotations

import torch
from repaired import assert_same, planned, without
from torch import nn
from torch.nn import functional as F

from etude.core.rungs import Rung


def test_channels_in_front_stay_channels_behind_a_gated_activation() -> None:
    class Series(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.mix, self.glu = nn.Linear(4, 6), nn.Conv1d(6, 12, 1), nn.GLU(dim=1)
            self.head = nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.stem(x).transpose(1, 2)
            y = self.glu(self.mix(y))
            return self.head(torch.tanh(y).mean(-1))

    net, x = Series(), torch.randn(5, 9, 4)
    found = planned(net, "glu", x)
    assert found.rung in (Rung.SPLICE, Rung.WIDTH)
    assert [t for t in found.resized if not t.startswith(("mix.", "head."))] == []
    assert without(net, found)(x).shape == (5, 2)


def test_features_in_two_halves_stay_features() -> None:
    """A convolution along the words of one half makes them no channels of the other half."""

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.proj, self.leave, self.head = (
                nn.Linear(4, 12),
                nn.Conv1d(7, 7, 1),
                nn.Linear(6, 8),
                nn.Linear(8, 2),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            u, v = torch.tanh(self.stem(x)).chunk(2, dim=-1)
            return self.head(torch.tanh(self.leave(u * self.proj(v))).sum(1))

    net, x = Gated(), torch.randn(5, 7, 4)
    found = planned(net, "leave", x)
    assert found.rung is Rung.SPLICE
    u, v = torch.tanh(net.stem(x)).chunk(2, dim=-1)
    changed = without(net, found)
    torch.testing.assert_close(changed(x), changed.head(torch.tanh(u * net.proj(v)).sum(1)))


def test_one_slope_for_all_says_nothing_of_channels() -> None:
    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.slope, self.score, self.head = (
                nn.Linear(4, 6),
                nn.PReLU(),
                nn.Linear(6, 1),
                nn.Linear(4, 30),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head((self.score(self.slope(self.stem(x))) * x).sum(1))

    net, x = Scores(), torch.randn(5, 7, 4)
    found = planned(net, "score", x)
    changed = without(net, found)
    assert changed.stem.out_features == 1
    torch.testing.assert_close(changed(x), changed.head((changed.slope(changed.stem(x)) * x).sum(1)))


def test_a_width_is_what_its_reader_takes_for_one() -> None:
    """A moving average goes along the time, of which a dense layer makes its features: it is the layer that goes."""

    class Forecast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.smooth, self.embed = nn.AvgPool1d(3, 1, 1), nn.Linear(9, 6)
            self.block, self.head = nn.Linear(6, 6), nn.Linear(6, 2)
            self.wide = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.embed(x - self.smooth(x))
            for layer in (self.block, self.wide):
                y = y + torch.tanh(layer(y))
            return self.head(y)

    net, x = Forecast(), torch.randn(5, 4, 9)
    found = planned(net, "embed", x)
    assert found.rung is Rung.ADAPTER
    assert found.changes[0] == (
        "embed removed (what went in is resized along its positions, its 9 channels averaged to 6)"
    )
    by_hand = Forecast()
    by_hand.load_state_dict(net.state_dict())
    by_hand.embed = nn.Linear(9, 6, bias=False)
    with torch.no_grad():
        by_hand.embed.weight.copy_(F.adaptive_avg_pool1d(torch.eye(9)[None], 6)[0].T)
    assert_same(without(net, found), by_hand, x)
