"""What a repaired model is afterwards: a module as any other, with the weights that were loaded."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from nets import IMAGE, Dense, Plain, Stage
from torch import nn

from etude.core.removal import Layers, Part, Whole
from etude.removing import remove

X = torch.randn(IMAGE)


def trained(net: nn.Module) -> nn.Module:
    """Train a model a little, so that no value is one that a new model has."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        net(X).square().mean().backward()
        optimizer.step()
    return net


def test_surviving_parameters_keep_loaded_values_and_rebuilt_ones_are_listed() -> None:
    loaded = trained(Plain()).state_dict()
    net = Plain()
    net.load_state_dict(loaded)
    found = remove(net, "layer:conv2", X)
    assert found.plan.rebuilt == ("conv3.weight",)
    assert "conv3 rebuilt 12->8 inputs" in found.changes
    for name, value in net.state_dict().items():
        if name not in found.plan.rebuilt:
            assert torch.equal(value, loaded[name])
    assert not {name for name in net.state_dict() if name.startswith("conv2")}


def test_what_norms_remember_is_kept_and_cut_where_channels_go() -> None:
    net = trained(Stage())
    before = copy.deepcopy(net)
    remove(net, "filters:stem[1,4]", X)
    kept = [0, 2, 3, 5]
    assert torch.equal(net.bn.running_mean, before.bn.running_mean[kept])
    assert torch.equal(net.bn.running_var, before.bn.running_var[kept])
    assert torch.equal(net.bn.num_batches_tracked, torch.tensor(2))
    net = trained(Dense())
    before = copy.deepcopy(net)
    remove(net, "layer:two", X)  # a branch of a concatenation
    assert torch.equal(net.norm.running_mean, before.norm.running_mean[:9])


def test_buffers_that_are_no_weights_are_left_alone() -> None:
    class Placed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(31, 6), nn.Embedding(16, 6)
            self.mix, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
            self.register_buffer("ids", torch.arange(16)[None], persistent=False)
            self.register_buffer("mask", torch.ones(16, 16).tril())

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            n = tokens.shape[1]
            x = self.words(tokens) + self.places(self.ids[:, :n])
            return self.head(torch.relu(self.mix(self.mask[:n, :n] @ x)))

    net, tokens = Placed(), torch.randint(0, 31, (4, 9))
    remove(net, "units:mix[0:3]", tokens)
    assert torch.equal(net.ids, torch.arange(16)[None])
    assert torch.equal(net.mask, torch.ones(16, 16).tril())
    assert list(net.state_dict()) == [
        *("mask", "words.weight", "places.weight", "mix.weight", "mix.bias", "head.weight", "head.bias"),
    ]


def test_what_required_no_gradient_requires_none_after_it_was_cut() -> None:
    net = Plain()
    net.conv1.requires_grad_(False)
    remove(net, "filters:conv1[0]", X)
    assert [name for name, p in net.named_parameters() if not p.requires_grad] == ["conv1.weight", "conv1.bias"]


def test_an_optimizer_sees_surviving_parameters_and_trains_them() -> None:
    net = trained(Plain())
    remove(net, "layer:conv2", X)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert len(held) == len(list(net.parameters())) == 10
    before = copy.deepcopy(net)
    net.train()(X).square().mean().backward()
    optimizer.step()
    assert not [n for n, p in net.named_parameters() if torch.equal(p, before.get_parameter(n))]


def heads() -> tuple[nn.Module, Any, Layers]:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 3, 20, batch_first=True, dropout=0.0), 2, None, False)
    return net, torch.randn(3, 7, 24), Layers((Part("layers.0.self_attn", "heads", (1,)), Whole("layers.1.linear1")))


def spliced() -> tuple[nn.Module, Any, Layers]:
    return trained(Plain()), X, Layers((Whole("conv2"),))


def cut() -> tuple[nn.Module, Any, Layers]:
    return trained(Stage()), X, Layers((Part("stem", "filters", (0,)),))


def padded() -> tuple[nn.Module, Any, Layers]:
    from test_resisting_heads import Fused, Holder

    return Holder(Fused(by_width=True)), torch.randn(3, 7, 5), Layers((Part("attn", "heads", (1,)),))


@pytest.mark.parametrize("case", [heads, spliced, cut, padded])
def test_a_repaired_model_is_copied_pickled_saved_and_loaded(case: Callable[[], Any]) -> None:
    net, x, layers = case()
    again = copy.deepcopy(net)
    remove(net, layers, x, seed=1)
    net.eval()
    expected = net(x)
    assert torch.equal(copy.deepcopy(net)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(net))(x), expected)
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    remove(again, layers, x, seed=2)
    again.load_state_dict(torch.load(file))
    assert torch.equal(again.eval()(x), expected)
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), expected)


@pytest.mark.parametrize("case", [heads, spliced, cut, padded])
def test_a_repaired_model_goes_to_training_and_back(case: Callable[[], Any]) -> None:
    net, x, layers = case()
    remove(net, layers, x)
    for mode in (True, False, True):
        net.train(mode)
        assert {module.training for module in net.modules()} == {mode}
        assert net(x).isfinite().all()
    net.to(torch.float64)
    assert net(x.double()).dtype == torch.float64


@pytest.mark.parametrize("case", [spliced, padded])
def test_a_repaired_model_is_compiled(case: Callable[[], Any]) -> None:
    net, x, layers = case()
    remove(net, layers, x)
    net.eval()
    expected = net(x)
    compiled = torch.compile(net, backend="eager", fullgraph=True)  # what is captured; code for it is torch's affair
    torch.testing.assert_close(compiled(x), expected)
