"""What the tests of removal do over and over: plan and check, carry out on a copy, and see what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from etude.core.errors import RemovalRefused
from etude.core.removal import Layers, Part, Whole
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.check import check
from etude.frameworks.removal.edits import Plan
from etude.frameworks.removal.plan import plan


def planned(model: nn.Module, path: str, example: Any, **more: Any) -> Plan:
    """Plan the removal of one module, and check it."""
    found = plan(model, Layers((Whole(path),), **more), example)
    check(model, found, example)
    return found


def parts_planned(model: nn.Module, path: str, of: Any, indices: tuple[int, ...], example: Any) -> Plan:
    """Plan the removal of parts of a layer, and check it."""
    found = plan(model, Layers((Part(path, of, indices),)), example)
    check(model, found, example)
    return found


def without(model: Any, found: Plan) -> Any:
    """Return a copy on which a plan was carried out."""
    changed = copy.deepcopy(model)
    apply(changed, found, seed=1)
    return changed.eval()


def refusal(model: Any, layers: Layers, example: Any) -> RemovalRefused:
    """Return with what a plan is refused."""
    with pytest.raises(RemovalRefused) as refused:
        plan(model, layers, example)
    return refused.value


def zeroed(model: Any, layer: str, columns: list[int], *, axis: int = 1) -> Any:
    """Return a copy of which a layer reads nothing from some of its inputs: as if those who make them gave 0."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        changed.get_submodule(layer).weight.index_fill_(axis, torch.tensor(columns), 0.0)
    return changed.eval()


def assert_same(one: Any, two: Any, example: Any) -> None:
    """Compare two models in double precision: what they give, and the gradients of weights that were not cut."""
    found = [_results_and_gradients(model, example) for model in (one, two)]
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-10, atol=1e-12)
    compared = 0
    for name, gradient in found[1][1].items():
        other = found[0][1].get(name)
        if other is not None and other.shape == gradient.shape:
            torch.testing.assert_close(other, gradient, rtol=1e-8, atol=1e-10)
            compared += 1
    assert compared, "no gradient could be compared"


def gradients(model: Any, example: Any) -> dict[str, torch.Tensor]:
    """Return the gradients that all parameters of a copy get, in double precision."""
    return _results_and_gradients(model, example)[1]


def _results_and_gradients(model: Any, example: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model = copy.deepcopy(model).double().eval()
    result = _called(model, example)
    result = result if isinstance(result, torch.Tensor) else result[0]
    weights = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).reshape(result.shape)
    (result * weights).sum().backward()
    return result.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def _called(model: Any, example: Any) -> Any:
    def wide(x: torch.Tensor) -> torch.Tensor:
        return x.double() if x.is_floating_point() else x

    if isinstance(example, dict):
        return model(**{name: wide(x) for name, x in example.items()})
    return model(*map(wide, example)) if isinstance(example, tuple) else model(wide(example))
