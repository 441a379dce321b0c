"""What takes the place of a layer that changes resolution or width, beside what a person would write."""

from __future__ import annotations

import pytest
import torch
from repaired import assert_same, planned, refusal, without
from torch import nn
from torch.nn import functional as F

from etude.core.errors import RefusalCode
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung


class Strided(nn.Module):
    """A convolution that makes an image smaller and gives it more channels; much stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 4, stride=2), nn.Conv2d(8, 6, 3)
        self.fc, self.head = nn.Linear(6 * 5 * 5, 30), nn.Linear(30, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.fc(self.conv2(torch.relu(self.conv1(x))).flatten(1))))


def test_pixels_are_averaged_and_what_reads_the_channels_is_rebuilt() -> None:
    class Without(Strided):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.adaptive_avg_pool2d(x, 7)
            return self.head(torch.relu(self.fc(self.conv2(torch.relu(x)).flatten(1))))

    net, x = Strided(), torch.randn(4, 3, 16, 16)
    found = planned(net, "conv1", x)
    assert found.rung is Rung.ADAPTER
    assert found.rebuilt == ("conv2.weight",)
    changed, by_hand = without(net, found), Without()
    by_hand.conv2 = nn.Conv2d(3, 6, 3)
    by_hand.load_state_dict(changed.state_dict(), strict=False)
    assert_same(changed, by_hand, x)


def test_time_is_never_taken_for_channels() -> None:
    class Sound(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv1d(1, 8, 6, stride=2), nn.GroupNorm(1, 8)
            self.next, self.head = nn.Conv1d(8, 5, 3), nn.Linear(5, 90)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.next(self.norm(self.conv(x[:, None]))).transpose(1, 2))

    net, x = Sound(), torch.randn(4, 48)
    found = planned(net, "conv", x)
    changed = without(net, found)
    short = F.adaptive_avg_pool1d(x[:, None], 22)
    torch.testing.assert_close(changed(x), changed.head(changed.next(changed.norm(short)).transpose(1, 2)))
    assert changed(x).std(1).min() > 0  # it still changes with time


def test_the_layer_in_front_gets_the_width_where_what_follows_is_a_sum() -> None:
    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.up, self.down = nn.Linear(4, 9), nn.Linear(9, 30), nn.Linear(30, 9)
            self.wide, self.head = nn.Linear(9, 80), nn.Linear(80, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            return self.head(torch.relu(self.wide(x + self.down(torch.relu(self.up(x))))))

    net, x = Mlp(), torch.randn(5, 4)
    found = planned(net, "down", x)
    assert found.rung is Rung.WIDTH
    assert "up rebuilt 30->9 outputs" in found.changes
    assert set(found.rebuilt) == {"up.weight", "up.bias"}
    changed = without(net, found)
    y = net.stem(x)
    wanted = changed.head(torch.relu(changed.wide(y + torch.relu(changed.up(y)))))
    torch.testing.assert_close(changed(x), wanted)


def test_zeros_fill_up_what_is_added_as_in_the_shortcuts_of_the_first_residual_networks() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.shortcut = nn.Conv2d(5, 8, 3, 2, 1), nn.Conv2d(5, 8, 1, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.shortcut(x) + torch.relu(self.conv(x))

    class Stages(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.block, self.next = nn.Conv2d(3, 5, 3, padding=1), Block(), nn.Conv2d(8, 8, 3, padding=1)
            self.head = nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.block(self.stem(x))
            return self.head((x + self.next(x)).mean((2, 3)))

    net, x = Stages(), torch.randn(4, 3, 8, 8)
    found = planned(net, "block", x)
    assert not found.rebuilt  # to rebuild would be most of what is left
    y = F.pad(F.adaptive_avg_pool2d(net.stem(x), 4), (0, 0, 0, 0, 0, 3))
    wanted = net.head((y + net.next(y)).mean((2, 3)))
    torch.testing.assert_close(without(net, found)(x), wanted)
    assert "zeros beside its channels" in found.changes[0]


def test_a_last_layer_is_said_to_be_one_and_learned_on_request() -> None:
    net, x = nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 3)), torch.randn(5, 4)
    found = planned(net, "2", x)
    assert "its 30 channels averaged to 3; the model's result is made of them" in found.changes[0]
    torch.testing.assert_close(without(net, found)(x), net[1](net[0](x)).reshape(5, 3, 10).mean(2))
    assert planned(net, "2", x, repair="learned").rung is Rung.LEARNED


class Residual(nn.Module):
    """All that is added to the stream goes to the head at last."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.inner, self.head = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 400)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.stem(x)
        return self.head(h + self.inner(torch.tanh(h)))


def test_a_stream_begins_with_zeros_beside_what_came_in_and_is_no_last_layer() -> None:
    net, x = Residual(), torch.randn(5, 3)
    found = planned(net, "stem", x)
    assert "zeros beside its channels" in found.changes[0]
    assert "the model's result" not in found.changes[0]
    begun = F.pad(x, (0, 5))
    torch.testing.assert_close(without(net, found)(x), net.head(begun + net.inner(torch.tanh(begun))))


def test_of_several_layers_no_two_may_get_other_channels() -> None:
    held = nn.utils.parametrizations.weight_norm  # made of others, so that no width of it can be changed
    net = nn.Sequential(nn.Linear(3, 8), held(nn.Linear(8, 4)), nn.Linear(4, 7), held(nn.Linear(7, 5)))
    x = torch.randn(5, 3)
    assert "its 3 channels again" in planned(net, "0", x).changes[0]
    assert "its 4 channels again" in planned(net, "2", x).changes[0]
    refused = refusal(net, Layers((Whole("0"), Whole("2"))), x)
    assert refused.code is RefusalCode.DOES_NOT_FIT
    assert "nobody means what these make together. Take away one of them." in refused.why


class Latents(nn.Module):
    """Tokens are pooled, or not."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.stem, self.pool = how, nn.Linear(4, 6), _Pool(how)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.stem(x)))


class _Pool(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.dense = how, nn.Linear(6, 6)
        self.queries, self.flat = nn.Parameter(torch.randn(3, 6)), nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "latents":
            return torch.softmax(self.queries @ self.dense(x).transpose(1, 2), -1) @ x
        if self.how == "first":
            return torch.tanh(self.dense(x[:, 0]))
        if self.how == "mean":
            return torch.tanh(self.dense(x)).mean(1)
        return self.flat(x.transpose(1, 2)).transpose(1, 2)


@pytest.mark.parametrize("how", ["latents", "flat"])
def test_what_has_no_neighbours_is_not_averaged(how: str) -> None:
    refused = refusal(Latents(how), Layers((Whole("pool"),)), torch.randn(5, 7, 4))
    assert refused.code is RefusalCode.DOES_NOT_FIT
    assert "no adapter brings what goes in into the shape of what it gives" in refused.why


def test_a_pooling_of_tokens_takes_those_that_the_model_takes() -> None:
    x = torch.randn(5, 7, 4)
    for how in ("first", "mean"):
        net = Latents(how)
        y = net.stem(x)
        wanted = net.head(y[:, 0] if how == "first" else y.mean(1))
        torch.testing.assert_close(without(net, planned(net, "pool", x))(x), wanted)


def test_patches_of_an_image_are_averaged_in_two_directions() -> None:
    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 6, 4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x).flatten(2).transpose(1, 2)

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.mix, self.head = Patches(), nn.Linear(6, 5), nn.Linear(5, 60)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.mix(self.patches(x))).mean(1))

    net, x = Tokens(), torch.randn(4, 3, 8, 12)
    changed = without(net, planned(net, "patches", x))
    tokens = F.avg_pool2d(x, 4).flatten(2).transpose(1, 2)
    torch.testing.assert_close(changed(x), changed.head(torch.relu(changed.mix(tokens)).mean(1)))


def test_inputs_of_two_widths_are_added_up_where_one_of_them_would_lead_nowhere() -> None:
    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.cell, self.head = nn.Linear(4, 9), nn.GRUCell(9, 6), nn.Linear(6, 40)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = x.new_zeros(x.shape[0], 6)
            for moment in range(x.shape[1]):
                h = self.cell(torch.tanh(self.enter(x[:, moment])), h)
            return self.head(h)

    net, x = Agent(), torch.randn(5, 3, 4)
    found = planned(net, "cell", x)
    assert found.rung is Rung.ADAPTER
    assert "enter rebuilt 9->6 outputs" in found.changes
    changed = without(net, found)
    entered = torch.tanh(changed.enter(x)).sum(1)
    torch.testing.assert_close(changed(x), changed.head(entered))


def test_what_was_attended_to_counts_the_same_everywhere() -> None:
    class Crossed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
            return x + F.scaled_dot_product_attention(self.query(x), self.key(memory), self.value(memory))

    class Translation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen, self.said = nn.Linear(3, 6), nn.Linear(4, 6)
            self.decoder, self.head = Crossed(), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.head(self.decoder(self.said(y), self.seen(x)))

    net, x = Translation(), (torch.randn(5, 9, 3), torch.randn(5, 7, 4))
    found = planned(net, "decoder", x)
    assert found.rung is Rung.ADAPTER
    memory = net.seen(x[0]).mean(1, keepdim=True)
    torch.testing.assert_close(without(net, found)(*x), net.head(net.said(x[1]) + memory))


def test_what_goes_on_beside_a_state_space_is_not_added_a_second_time() -> None:
    class States(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rates, self.skip, self.out = (
                nn.Parameter(torch.rand(6, 3)),
                nn.Parameter(torch.rand(6)),
                nn.Linear(6, 6),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kernel = torch.einsum("wk,kt->wt", self.rates, torch.rand(3, x.shape[1]))
            y = torch.fft.irfft(torch.fft.rfft(x, dim=1) * torch.fft.rfft(kernel.T, dim=0), n=x.shape[1], dim=1)
            return self.out(F.gelu(y + x * self.skip))

    class Series(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.states, self.head = nn.Linear(4, 6), States(), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            return self.head(x + self.states(x))

    refused = refusal(Series(), Layers((Whole("states.out"),)), torch.randn(5, 8, 4))
    assert refused.code is RefusalCode.NO_PATH
    assert refused.instead == "states"


def test_no_zeros_are_put_beside_what_is_multiplied_before_it_is_added() -> None:
    class Weighed(nn.Module):
        """A layer makes the weights by which four parts are mixed, and a shift is added to what comes out."""

        def __init__(self) -> None:
            super().__init__()
            self.parts, self.weights, self.shift = nn.Linear(6, 4), nn.Linear(6, 40), nn.Linear(6, 10)
            self.head = nn.Linear(10, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights = self.weights(x).abs().view(-1, 4, 10)
            return self.head(torch.bmm(self.parts(x).unsqueeze(1), weights).squeeze(1) + self.shift(x))

    torch.manual_seed(0)
    net, x = Weighed(), torch.randn(5, 6)
    changed = without(net, planned(net, "weights", x))
    changed(x).sum().backward()
    assert changed.parts.bias.grad.ne(0).all()


def test_no_norm_is_left_with_two_numbers() -> None:
    class Short(nn.Module):
        """Images of two channels, whose pixels become tokens."""

        def __init__(self) -> None:
            super().__init__()
            self.proj, self.norm, self.mix = nn.Conv2d(2, 8, 4, stride=4), nn.LayerNorm(8), nn.Linear(8, 8)
            self.head = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = self.norm(self.proj(x).flatten(2).transpose(1, 2))
            return self.head(torch.relu(self.mix(tokens)).mean(1))

    found = planned(Short(), "proj", torch.randn(4, 2, 16, 16))
    assert found.changes[0] == (
        "proj removed (what went in is resized along its positions, its 2 channels again from the first on, up to 8)"
    )
