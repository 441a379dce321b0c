"""Layers with fewer inputs, and which layers of a model read what is dropped."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from etude.core.errors import ConfigError
from etude.data.features import columns_without
from etude.frameworks.cutting import CannotCutError, Kept
from etude.frameworks.torch_inputs import keep_inputs
from etude.frameworks.torch_readers import Cut, Cuts, cut, cuts_for


@pytest.mark.parametrize(
    ("layer", "inputs", "name"),
    [
        (nn.Linear(4, 5), (3, 2), "weight"),
        (nn.Conv2d(4, 5, 3), (3, 2, 6, 6), "weight"),
        (nn.LSTM(4, 5, batch_first=True, bidirectional=True), (3, 6, 2), "weight_ih_l0_reverse"),
    ],
)
def test_the_columns_of_the_features_that_are_left_stay_bit_for_bit(
    layer: nn.Module, inputs: tuple[int, ...], name: str
) -> None:
    kept = columns_without(["age", "sex", "sex", "fare"], {"sex"})
    weight = layer.get_parameter(name)
    before = weight.detach().clone()
    keep_inputs(layer, kept)
    assert layer.get_parameter(name) is weight
    assert weight.equal(before[:, [0, 3]])
    given = layer(torch.rand(*inputs))
    (given[0] if isinstance(given, tuple) else given).sum().backward()
    assert weight.grad is not None
    assert weight.grad.shape == weight.shape


def test_a_norm_keeps_what_it_has_for_what_is_left() -> None:
    norm = nn.BatchNorm1d(3)
    norm(torch.rand(8, 3) * torch.tensor([1.0, 2.0, 3.0]))
    before = norm.running_mean.clone()
    keep_inputs(norm, [0, 2])
    assert norm.running_mean.equal(before[[0, 2]])
    assert str(norm).startswith("BatchNorm1d(2")


@pytest.mark.parametrize("layer", [nn.Conv2d(4, 4, 3, groups=2), nn.ReLU(), nn.LayerNorm((2, 4))])
def test_a_layer_whose_weights_belong_to_no_single_input_is_refused(layer: nn.Module) -> None:
    with pytest.raises(ConfigError, match=r"only of Linear, Conv1d, .*, without groups and parametrizations, is known"):
        keep_inputs(layer, [0])


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.ModuleList([nn.Embedding(5, 3) for _ in range(3)])
        self.out = nn.Linear(9, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.cat([column(x[:, nth]) for nth, column in enumerate(self.columns)], 1))


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.ModuleDict({name: nn.Linear(1, 3) for name in "abc"})
        self.out = nn.Linear(9, 2)

    def forward(self, x: Any) -> torch.Tensor:
        return self.out(torch.cat([column(x[name]) for name, column in self.columns.items()], 1))


FIELDS = {name: torch.randn(8, 1) for name in "abc"}
DEEP = [nn.ReLU(), nn.Linear(4, 2)]
MIDDLE = Kept(3, (0, 2))


@pytest.mark.parametrize(
    ("model", "whole", "rest", "changes"),
    [
        (nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 4), *DEEP), (8, 3), None, ("0 3->2 inputs", "1 3->2 inputs")),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), (4, 3, 5, 5), None, ("0 3->2 inputs",)),
        (nn.Sequential(nn.Flatten(), nn.Linear(75, 4)), (4, 3, 5, 5), None, ("1 75->50 inputs",)),
        (nn.Linear(3, 4), (8, 3), None, ("the model 3->2 inputs",)),
        (Embeddings(), torch.randint(0, 5, (8, 3)), None, ("columns.1 goes with it", "out 9->6 inputs")),
        (Named(), FIELDS, {"a": FIELDS["a"], "c": FIELDS["c"]}, ("columns.b goes with it", "out 9->6 inputs")),
    ],
)
def test_what_reads_a_feature_and_nothing_else_goes_with_it(
    model: nn.Module, whole: Any, rest: Any, changes: tuple[str, ...]
) -> None:
    whole = torch.randn(whole) if isinstance(whole, tuple) else whole
    rest = whole[:, [0, 2]] if rest is None else rest
    before = {name: one.clone() for name, one in model.state_dict().items()}
    found = cuts_for(model, (whole,), (rest,), [MIDDLE])
    assert found.changes == changes
    assert all(one.equal(before[name]) for name, one in model.state_dict().items()), "it was only looked at"
    cut(model, found)
    model(rest)
    assert set(model.state_dict()) <= set(before)


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(1, 2), nn.Linear(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x[:, 1:2]) + self.two(x[:, 2:3])


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.two.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x))


@pytest.mark.parametrize(
    ("model", "kept", "message"),
    [
        (Parts(), Kept(3, (1, 2)), "the model does not run without them|reads others in their place"),
        (Tied(), MIDDLE, "the model does not run without them"),
        (nn.Linear(3, 4), Kept(4, (0, 2)), r"called with 8x2 in place of 8x3, and no names tell which of these"),
    ],
)
def test_what_nobody_can_tell_is_refused(model: nn.Module, kept: Kept, message: str) -> None:
    whole = torch.randn(8, 3)
    with pytest.raises(CannotCutError, match=message):
        cuts_for(model, (whole,), (whole[:, list(kept.places)],), [kept])


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor, bio: torch.Tensor) -> torch.Tensor:
        return self.out(torch.cat([x, bio], dim=1))


class Apart(Joined):
    def __init__(self) -> None:
        super().__init__()
        self.bio = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, bio: torch.Tensor) -> torch.Tensor:
        return super().forward(x, self.bio(bio))


@pytest.mark.parametrize("same", [True, False])
def test_all_columns_of_one_input_can_go_where_a_layer_reads_others_beside_them(same: bool) -> None:
    x, bio = torch.randn(8, 3), torch.randn(8, 2)
    found = cuts_for(Joined(), (x, bio), (x, bio[:, []]), [Kept(2, ())], same=same)
    assert found == Cuts((Cut("out", (0, 1, 2), 5),))
    with pytest.raises(CannotCutError, match="All columns of one of its inputs are dropped, so what reads it has none"):
        cuts_for(Apart(), (x, bio), (x, bio[:, []]), [Kept(2, ())], same=same)


def test_a_model_that_reads_others_in_their_place_is_refused() -> None:
    whole = torch.randn(8, 4)
    with pytest.raises(CannotCutError, match="so it reads others in their place"):
        cuts_for(Parts(), (whole,), (whole[:, 1:],), [Kept(4, (1, 2, 3))])


def centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(1, keepdim=True)


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + 0.01 * torch.randn_like(x)


@pytest.mark.parametrize("made", [centred, noisy, lambda x: 3 * x - 1, torch.tanh])
def test_names_tell_the_columns_of_what_was_made_of_them_one_by_one(made: Any) -> None:
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    for nth in range(4):
        left = tuple(other for other in range(4) if other != nth)
        found = cuts_for(nn.Linear(4, 5), (made(x),), (made(x[:, list(left)]),), [Kept(4, left)])
        assert found.cuts == (Cut("", left, 4),)


def components(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.linalg.svd(x, full_matrices=False).Vh.T


@pytest.mark.parametrize("made", [components, torch.randn_like])
def test_columns_that_are_no_longer_what_their_names_say_are_refused(made: Any) -> None:
    torch.manual_seed(0)
    whole = torch.randn(64, 3)
    with pytest.raises(CannotCutError, match="what is left is no longer like the columns that have these names: the t"):
        cuts_for(nn.Linear(3, 4), (made(whole),), (made(whole[:, [0, 2]]),), [MIDDLE])


def test_other_values_beside_what_is_dropped_are_refused_unless_the_data_function_makes_them_anew() -> None:
    x, bio = torch.randn(8, 3), torch.randn(8, 2)
    with pytest.raises(CannotCutError, match="what is left is no longer like the columns that have these names"):
        cuts_for(nn.Linear(3, 4), (x,), (x[:, [2, 0]],), [MIDDLE])
    with pytest.raises(CannotCutError, match="the model is called with other values than beside them, and not only"):
        cuts_for(Joined(), (x, bio), (x * 2, bio[:, :1]), [Kept(2, (0,))])
    assert cuts_for(Joined(), (x, bio), (x * 2, bio[:, :1]), [Kept(2, (0,))], same=False).cuts


def test_names_that_fit_several_inputs_do_not_tell_which_of_these_it_is() -> None:
    whole = torch.zeros(8, 3)
    with pytest.raises(CannotCutError, match="and several inputs have so many columns, of which others are dropped"):
        cuts_for(nn.Linear(3, 4), (whole,), (whole[:, 1:],), [MIDDLE, Kept(3, (1, 2))])


def test_a_model_of_another_shape_than_was_planned_for_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'0' has other inputs than the 3 that the ablation was planned for\. The m"):
        cut(nn.Sequential(nn.Linear(4, 2)), Cuts((Cut("0", (0,), 3),)))
