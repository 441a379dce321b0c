"""``etude.remove``: the ladder behind one call, and its errors."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import nn

import etude
from etude.core.errors import ConfigError, RefusalCode, RemovalRefused


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
    assert removed.checks == (
        "parameters",
        "re-execution",
        "another batch",
        "dependence",
        "examples apart",
        "training step",
    )
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
    ("component", "gone"),
    [
        ("layers:[conv2, relu2]", {"conv2", "relu2"}),
        ("layers:~^relu", {"relu1", "relu2"}),
        ("layers:conv*", {"conv1", "conv2"}),
        ("type:ReLU", {"relu1", "relu2"}),
        ("between:conv1..relu2", {"relu1", "conv2", "relu2"}),
        ("layer:conv2 with=relu2", {"conv2", "relu2"}),
    ],
)
def test_components_are_read_as_in_an_ablation(component: str, gone: set[str]) -> None:
    model = nn.Sequential()
    for nth in (1, 2):
        model.add_module(f"conv{nth}", nn.Conv2d(3, 3, 3, padding=1))
        model.add_module(f"relu{nth}", nn.ReLU())
    model.add_module("last", nn.Conv2d(3, 2, 1))
    plan = etude.remove(model, component, torch.rand(4, 3, 8, 8)).plan
    assert {edit.path for edit in plan.edits} == gone


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ("dropout", "is no part of a model. Write 'layer:NAME'"),
        ("feature:age", "is no part of a model. Write 'layer:NAME'"),
        ("layer:conv9", "matches no layer. There are: 0, 1"),
        ("filters:0", "filters"),
        ("what:ever", "has the kind 'what', and there are"),
    ],
)
def test_what_is_no_part_of_a_model_is_refused(component: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        etude.remove(nn.Sequential(nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 3)), component, torch.rand(4, 3, 8, 8))


def test_a_model_on_fake_tensors_is_planned_and_changed_and_not_computed_with() -> None:
    with torch.device("meta"):
        net = Net()
    removed = etude.remove(net, "layer:relu", torch.empty(4, 3, 8, 8, device="meta"))
    assert removed.checks == ()
    assert removed.plan.fake


@pytest.mark.parametrize("seed", ["x", 0.5, None])
def test_a_seed_that_is_no_whole_number_is_refused_before_anything(seed: Any) -> None:
    net = Net()
    with pytest.raises(ConfigError, match=r"seed=.* is no whole number"):
        etude.remove(net, "layer:conv2", torch.randn(2, 3, 8, 8), seed=seed)
    assert hasattr(net, "conv2")
