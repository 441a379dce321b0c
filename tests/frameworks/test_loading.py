"""Weights into models of all kinds: what fits is loaded, and nothing is said to be that is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from etude.core.errors import StateError
from etude.frameworks.torch import load_weights


def state_of(net: nn.Module) -> dict[str, Any]:
    return dict(net.state_dict())


def test_what_a_module_says_beside_its_tensors_is_loaded_too() -> None:
    class Counting(nn.Linear):
        told = 0

        def get_extra_state(self) -> Any:
            return {"told": self.told}

        def set_extra_state(self, state: Any) -> None:
            self.told = state["told"]

    there, here = Counting(2, 2), Counting(2, 2)
    there.told = 3
    assert load_weights(here, {"net": state_of(there)}).whole
    assert here.told == 3
    assert torch.equal(here.weight, there.weight)


def test_a_lazy_module_takes_the_shapes_that_it_is_given() -> None:
    there, here = nn.Linear(3, 2), nn.LazyLinear(2)
    assert load_weights(here, {"net": state_of(there)}).whole
    assert torch.equal(here.weight, there.weight)


def test_a_module_whose_state_is_a_copy_is_loaded_all_the_same() -> None:
    class Copying(nn.Linear):
        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return {name: tensor.clone() for name, tensor in super().state_dict(*args, **kwargs).items()}

    there, here = Copying(2, 2), Copying(2, 2)
    assert load_weights(here, {"net": state_of(there)}).whole
    assert torch.equal(here.weight, there.weight)


def test_tied_weights_are_shrunk_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(2, 2, bias=False)
            self.other = nn.Linear(2, 2, bias=False)
            self.other.weight = self.one.weight

    there, here = Tied(), Tied()
    before = here.one.weight.detach().clone()
    load_weights(here, {"net": state_of(there)}, shrink=0.5, perturb=0.1)
    assert torch.allclose(here.one.weight, 0.5 * there.one.weight + 0.1 * before)
    assert here.one.weight is here.other.weight


def test_several_modules_get_the_parts_in_the_order_in_which_they_were_kept() -> None:
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    here = (nn.Linear(2, 2), nn.Linear(2, 2))
    assert load_weights(here, {"student": state_of(one), "average": state_of(other)}).whole
    assert torch.equal(here[0].weight, one.weight)
    assert torch.equal(here[1].weight, other.weight)


def test_weights_of_another_precision_take_the_models() -> None:
    there, here = nn.Linear(2, 2).double(), nn.Linear(2, 2)
    load_weights(here, {"net": state_of(there)}, shrink=0.5)
    assert here.weight.dtype is torch.float32
    assert torch.allclose(here.weight, 0.5 * there.weight.float())


def test_what_does_not_fit_is_told_by_name() -> None:
    told = load_weights(
        nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3)),
        {"net": state_of(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 4)))},
    )
    assert str(told) == "2 of 4 tensors loaded; of another shape: 1.weight, 1.bias"
    assert not told.complete
    with pytest.raises(StateError, match="do not fit the model at all"):
        load_weights(nn.Linear(5, 5), {"net": state_of(nn.Linear(2, 2))})
