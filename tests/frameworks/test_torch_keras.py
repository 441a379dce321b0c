"""Seeds of Keras on several ranks: each rank has its own, and comes back to it from the state of rank 0."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from etude.frameworks.torch_keras import draw_apart, untrained


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    """Return a module as Keras makes them; Keras itself takes ten seconds to load."""
    monkeypatch.setitem(sys.modules, "keras", object())
    made = nn.Module()
    made._torch_params = nn.ParameterDict(
        {
            "drop/seed_generator_state": nn.Parameter(torch.tensor([7, 3], dtype=torch.int32), requires_grad=False),
            "norm/moving_mean": nn.Parameter(torch.zeros(2), requires_grad=False),
            "dense/kernel": nn.Parameter(torch.zeros(2)),
        }
    )
    return made


def test_what_no_gradient_changes_is_found(layer: nn.Module) -> None:
    found = {variable.name: variable.is_seed for variable in untrained(layer)}
    assert found == {"_torch_params.drop/seed_generator_state": True, "_torch_params.norm/moving_mean": False}


def test_each_rank_draws_from_a_seed_of_its_own_and_comes_back_to_it(layer: nn.Module) -> None:
    seed = next(variable.tensor for variable in untrained(layer) if variable.is_seed)
    own: dict[int, int] = {}
    draw_apart(layer, 1, own)
    mine = seed.tolist()
    assert mine[0] != 7
    assert mine[1] == 3
    draw_apart(layer, 1, own)  # as when another model is made
    assert seed.tolist() == mine
    with torch.no_grad():
        seed.copy_(torch.tensor([7, 5]))  # rank 0's state
    draw_apart(layer, 1, own)
    assert seed.tolist() == [mine[0], 5]
    with torch.no_grad():
        seed.copy_(torch.tensor([7, 5]))
    draw_apart(layer, 0, {})
    assert seed.tolist() == [7, 5]
