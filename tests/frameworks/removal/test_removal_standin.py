"""A stand-in looks like what it stands for, to whoever asks."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from nets import IMAGE, Plain
from torch import nn

from etude.core.removal import Layers, Whole
from etude.frameworks.removal.adapter import fitted
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.edits import Axes, Dim, Place, Plan
from etude.frameworks.removal.plan import plan


def stood_in(module: nn.Module, path: str, example: Any) -> Any:
    found = plan(module, Layers((Whole(path),)), example)
    apply(module, found, seed=0)
    return module.get_submodule(path)


class Holder(nn.Module):
    def __init__(self, held: nn.Module) -> None:
        super().__init__()
        self.stem, self.held, self.head = nn.Linear(4, 6), held, nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.held(self.stem(x)))


def test_it_has_the_class_and_the_attributes_and_no_parameters() -> None:
    stand = stood_in(Holder(nn.Linear(6, 6)), "held", torch.randn(5, 4))
    assert isinstance(stand, nn.Linear)
    assert stand.in_features == 6
    assert stand.weight.shape == (6, 6)
    assert stand.weight.dtype is torch.float32
    assert not list(stand.parameters())
    assert not stand.state_dict()
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        stand.weight + torch.ones(6, 6)


def test_it_has_a_length_only_if_what_it_stands_for_had_one() -> None:
    x = torch.randn(5, 4)
    assert len(stood_in(Holder(nn.Sequential(nn.Linear(6, 6), nn.ReLU())), "held", x)) == 2
    with pytest.raises(TypeError, match="len"):
        len(stood_in(Holder(nn.Linear(6, 6)), "held", x))


def test_it_has_the_hooks_of_what_it_stands_for() -> None:
    seen = []
    net = Holder(nn.Linear(6, 6))
    net.held.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    stood_in(net, "held", torch.randn(5, 4))
    seen.clear()
    net(torch.randn(5, 4))
    assert seen == [(5, 6)]


def test_what_changes_its_result_in_place_changes_no_input() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.middle, self.head = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            y = self.middle(x)
            y.clamp_(min=0)
            return self.head(torch.tanh(x) * y)

    net, x = InPlace(), torch.randn(5, 4)
    stood_in(net, "middle", x)
    y = net.stem(x)
    assert torch.equal(net(x), net.head(torch.tanh(y) * y.clamp(min=0)))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copied", "pickled"])
def test_it_is_copied_pickled_and_saved(again: Any) -> None:
    net = Plain()
    apply(net, plan(net, Layers((Whole("conv2"),)), torch.randn(IMAGE)), seed=0)
    other, x = again(net), torch.randn(IMAGE)
    assert torch.equal(other.eval()(x), net.eval()(x))
    assert type(other.conv2) is type(net.conv2)
    torch.save(net, io.BytesIO())


def test_it_follows_the_type_of_the_model() -> None:
    net = Holder(nn.Linear(6, 6))
    stand = stood_in(net, "held", torch.randn(5, 4))
    net.double()
    assert stand.weight.dtype is torch.float64
    assert net(torch.randn(5, 4).double()).dtype is torch.float64


@pytest.mark.parametrize(
    "path", ["enc.layers.1", "enc.layers.1.self_attn", "enc.layers.0.linear2", "enc.layers.2.norm1"]
)
def test_the_fast_way_of_transformers_does_not_pass_it_by(path: str) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Linear(4, 6)
            layer = nn.TransformerEncoderLayer(6, 2, 10, batch_first=True)
            self.enc = nn.TransformerEncoder(layer, 3)
            self.head = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.zeros(x.shape[:2], dtype=torch.bool)
            return self.head(self.enc(self.stem(x), src_key_padding_mask=hidden))

    net, x = Encoder(), torch.randn(3, 5, 4)
    stood_in(net, path, x)
    net.eval()
    slow = net(x)
    with torch.no_grad():
        torch.testing.assert_close(net(x), slow)


def test_a_plan_travels_as_data() -> None:
    import msgspec

    net, x = Plain(), torch.randn(IMAGE)
    found = plan(net, Layers((Whole("conv2"), Whole("pool"))), x)
    again = msgspec.json.decode(msgspec.json.encode(found), type=Plan)
    assert again == found
    one, two = copy.deepcopy(net), copy.deepcopy(net)
    apply(one, found, seed=3)
    apply(two, again, seed=3)
    assert torch.equal(one(x), two(x))


def test_an_adapter_averages_positions_and_keeps_examples_apart() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    rows = Axes(batch=0, each=1, width=2, places=(Place(1, 0),))
    assert torch.equal(fitted(x, rows, (2, 4), Axes(0, 1, 1)), x.mean(1))
    assert torch.equal(fitted(x, rows, (2, 6, 4), rows), x.repeat_interleave(2, dim=1))
    turned = Axes(batch=0, each=1, width=1, places=(Place(2, 0),))
    assert torch.equal(fitted(x, rows, (2, 4, 3), turned), x.transpose(1, 2))
    second = fitted(x, Axes(0, 1, 2, (Place(1, 0, 0, 1),)), (1, 2, 4), Axes(1, 1, 2, (Place(0, 1),)))
    assert torch.equal(second[0], x[:, 1])
    windows = fitted(x.reshape(6, 4), Axes(0, 3, 1, (Place(0, 0, 3),)), (2, 4), Axes(0, 1, 1))
    assert torch.equal(windows, x.mean(1))


def test_an_adapter_takes_height_and_width_out_of_one_axis_and_never_averages_channels() -> None:
    x = torch.arange(48.0).reshape(2, 3, 4, 2)
    image = Axes(batch=0, each=1, width=1, places=(Place(2, 0), Place(3, 1)))
    tokens = Axes(batch=0, each=1, width=2, places=(Place(1, 0, 2), Place(1, 1, 2)))
    halved = torch.nn.functional.avg_pool2d(x, (2, 1)).flatten(2).transpose(1, 2)
    assert torch.equal(fitted(x, image, (2, 4, 3), tokens), halved)
    wider = fitted(x, image, (2, 4, 5), tokens)
    assert torch.equal(wider, torch.nn.functional.pad(halved, (0, 2)))
    assert Dim(3).path is None
