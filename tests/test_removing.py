"""``etude.remove``: the ladder behind one call, and its errors."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

import etude
from etude.core.errors import ConfigError, RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part, Whole
from etude.removing import _layers


class Net(nn.Module):
    """Three convolutions, as in the front page's example."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(2)
        self.conv3 = nn.Conv2d(64, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 16, 300)
        self.head = nn.Linear(300, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.conv2(self.conv1(x))))
        return self.head(torch.relu(self.fc(self.conv3(x).flatten(1))))


def test_it_says_what_goes_what_stays_and_what_is_rebuilt() -> None:
    net, x = Net(), torch.randn(4, 3, 8, 8)
    before = dict(net.named_parameters())
    removed = etude.remove(net, "layer:conv2", x, with_=("relu",))
    assert removed.model is net
    assert str(removed) == (
        "conv2 removed; relu after it removed; pool kept; conv3 rebuilt 64->32 inputs; 23,104 fewer parameters "
        "(rung 3, splice)"
    )
    assert removed.checks == ("parameters", "another batch", "examples apart", "training step")
    assert net(x).shape == (4, 10)
    after = dict(net.named_parameters())
    assert all(after[name] is before[name] for name in after if name != "conv3.weight")


def test_a_refusal_leaves_the_model_as_it_was() -> None:
    net = nn.Sequential(nn.Embedding(20, 6), nn.Linear(6, 2))
    state = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(net, "layer:0", torch.randint(0, 20, (5, 7)))
    assert refused.value.code is RefusalCode.NO_PATH
    assert type(net[0]) is nn.Embedding
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.code, str(again)) == (refused.value.code, str(refused.value))


def test_several_models_by_name() -> None:
    pair = {"g": nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6)), "d": nn.Linear(6, 1)}
    removed = etude.remove(pair, "layer:g.1", {"g": torch.randn(5, 3), "d": torch.randn(5, 6)})
    assert removed.model is pair
    assert torch.equal(pair["g"](torch.ones(1, 3)), pair["g"][2](pair["g"][0](torch.ones(1, 3))))


@pytest.mark.parametrize(
    ("component", "layers"),
    [
        ("layer:conv2", Layers((Whole("conv2"),))),
        ("module:encoder.block3", Layers((Whole("encoder.block3"),))),
        ("layers:[conv1, pool1]", Layers((Whole("conv1"), Whole("pool1")))),
        ("filters:conv2[0:3]", Layers((Part("conv2", "filters", (0, 1, 2)),))),
        ("heads:attn[0,3]", Layers((Part("attn", "heads", (0, 3)),))),
    ],
)
def test_the_plain_forms_of_components(component: str, layers: Layers) -> None:
    assert _layers(component, (), "auto") == layers


def test_what_cannot_be_read_is_refused_with_the_forms() -> None:
    for wrong in ("conv2", "feature:age", "filters:conv2", "units:fc[a]"):
        with pytest.raises(ConfigError, match=r"[Ww]rite"):
            _layers(wrong, (), "auto")
    with pytest.raises(ConfigError, match="neither"):
        etude.remove(Net(), "layer:conv2", torch.randn(4, 3, 8, 8), repair="magic")
    with pytest.raises(ConfigError, match="takes a torch"):
        etude.remove(7, "layer:conv2", torch.randn(4, 3, 8, 8))


def test_a_model_on_fake_tensors_is_planned_and_changed_and_not_computed_with() -> None:
    with torch.device("meta"):
        net = Net()
    removed = etude.remove(net, "layer:relu", torch.empty(4, 3, 8, 8, device="meta"))
    assert removed.checks == ()
    assert removed.plan.fake
