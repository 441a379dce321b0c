"""``etude.remove``: the ladder behind one call, and its errors."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import nn

import etude
from etude.core.errors import ConfigError, RefusalCode, RemovalRefused
from etude.core.removal import Layers, Whole
from etude.frameworks.repair_words import with_mend


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


class Scaled(nn.Module):
    """The data is scaled first, and read by two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(6))
        self.flat, self.wide, self.deep, self.next = nn.Flatten(), nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (self.flat(x) - self.mean) / 2
        return self.wide(x) + self.next(self.deep(x))


def test_layers_that_read_the_data_itself_are_known() -> None:
    seen = etude.removing.layers_of(Scaled(), torch.randn(3, 2, 3))
    assert [one.path for one in seen if one.reads_data] == ["wide", "deep"]


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))


UNTAKEN = (
    "'layer:1' cannot be taken out (untraceable): the untouched model does not run with the example: RuntimeError: "
)
NO_ROWS = (
    "'layer:1' cannot be taken out (untraceable): the example has no rows, so that nothing can be seen or compared."
)


@pytest.mark.parametrize(
    ("example", "begin", "end"),
    [
        (
            torch.ones(4, 21),
            UNTAKEN,
            ". Pass an example that it is called with in training; this one is of shape (4, 21).",
        ),
        (
            torch.ones(4, 20, dtype=torch.long),
            UNTAKEN,
            ". The example has whole numbers only: pass floating point numbers, such as x.float().",
        ),
        (torch.ones(0, 20), NO_ROWS, " Pass two examples or more."),
    ],
)
def test_an_example_that_the_model_does_not_take_is_said_to_be_that(
    example: torch.Tensor, begin: str, end: str
) -> None:
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(dense(), "layer:1", example)
    assert str(refused.value).startswith(begin)
    assert str(refused.value).endswith(end)


def test_what_is_no_input_is_told_in_whole_words() -> None:
    with pytest.raises(RemovalRefused, match=r"Pass what it is called with: a tensor, a tuple of arguments, or a dict"):
        etude.remove(Net(), "layer:conv2", "hello")


def test_an_example_of_one_number_throughout_is_to_blame_and_not_the_component() -> None:
    class Stem(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.second(self.first(x)).relu())

    with pytest.raises(RemovalRefused, match="the example is 0 throughout, with which nothing can be seen of what dep"):
        etude.remove(Stem(), "layer:first", torch.zeros(4, 5))
    assert etude.remove(Stem(), "layer:first", torch.randn(4, 5)).rung.name == "IDENTITY"


def test_what_has_no_positions_is_not_said_to_be_resized_along_them() -> None:
    removed = etude.remove(dense(), "layer:4", torch.randn(4, 20))
    assert removed.changes[0] == (
        "4 removed (what went in comes out, its 32 channels averaged to 3; the model's result is made of them)"
    )
    assert removed.plan.notes == (
        "4: what reads it gets no other width, since the model would give (N, 32) instead of (N, 3)",
    )
    pooled = etude.remove(Net(), "layer:pool", torch.randn(4, 3, 8, 8))
    assert pooled.changes[0] == "pool removed (what went in is resized along its positions)"


def test_a_dead_component_is_refused_with_what_can_be_done() -> None:
    class Dead(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self[0](x)

    with pytest.raises(RemovalRefused, match=r"Leave it out, or pass an example with which the model uses it\."):
        etude.remove(Dead(nn.Linear(5, 5), nn.Linear(5, 5)), "layer:1", torch.randn(4, 5))


def test_a_repair_that_draws_too_much_anew_is_refused_with_what_draws_less() -> None:
    layers = Layers((Whole("a"),))
    refused = RemovalRefused(RefusalCode.TOO_MUCH, "a", "93% of what is left would be drawn anew.")
    assert with_mend(refused, layers) == (
        "93% of what is left would be drawn anew. Take along what reads it (with_=, or between: up to a layer that "
        'gives as much as went in), or allow a small dense layer in its place, repair="learned".'
    )


@pytest.mark.parametrize("seed", ["x", 0.5, None])
def test_a_seed_that_is_no_whole_number_is_refused_before_anything(seed: Any) -> None:
    net = Net()
    with pytest.raises(ConfigError, match=r"seed=.* is no whole number"):
        etude.remove(net, "layer:conv2", torch.randn(2, 3, 8, 8), seed=seed)
    assert hasattr(net, "conv2")


def test_functions_behind_a_removed_layer_are_said_to_stay() -> None:
    removed = etude.remove(Net(), "layer:fc", torch.randn(4, 3, 8, 8))
    assert "relu() kept" in removed.changes
    gone = etude.remove(Net(), "layer:conv2", torch.randn(4, 3, 8, 8))
    assert "relu() kept" not in gone.changes
