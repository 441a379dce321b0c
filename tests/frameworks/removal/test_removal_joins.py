"""What joins a component: a branch that ends in a norm, a gate, an activation that is written out, a stack."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn

from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.check import check
from etude.frameworks.removal.edits import Plan
from etude.frameworks.removal.plan import plan
from etude.frameworks.removal.trace import record


def planned(model: nn.Module, path: str, example: Any) -> tuple[Plan, nn.Module]:
    """Plan the removal of one module, check it, and return the model without it."""
    found = plan(model, Layers((Whole(path),)), example)
    check(model, found, example)
    changed = copy.deepcopy(model)
    apply(changed, found, seed=1)
    return found, changed.eval()


class WrittenNorm(nn.Module):
    """A norm in single operations."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class PostNorm(nn.Module):
    """The norm stands behind the branch."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.stem, self.branch, self.norm, self.head = nn.Linear(4, 6), nn.Linear(6, 6), norm, nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.norm(self.branch(x))
        return self.head(x)


def test_of_a_branch_with_a_norm_behind_it_nothing_is_left_but_the_bias() -> None:
    x = torch.randn(5, 4)
    for norm in (WrittenNorm(6), nn.LayerNorm(6)):
        net = PostNorm(norm).eval()
        with torch.no_grad():
            nn.init.normal_(norm.bias if isinstance(norm, nn.LayerNorm) else norm.weight)
        found, changed = planned(net, "branch", x)
        assert found.rung is Rung.NEUTRAL
        stem = net.stem(x)
        assert torch.equal(changed(x), net.head(stem + norm(torch.zeros_like(stem))))


def test_a_branch_that_ends_in_an_activation_is_dropped_as_well() -> None:
    net, x = PostNorm(nn.ReLU()).eval(), torch.randn(5, 4)
    found, changed = planned(net, "branch", x)
    assert found.rung is Rung.NEUTRAL
    assert torch.equal(changed(x), net.head(net.stem(x)))


def test_an_activation_that_is_written_out_is_no_gate() -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.up(self.norm(x))
            y = y * 0.5 * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * y * (1 + 0.044715 * y * y)))
            return x + self.down(y)

    net, x = Written().eval(), torch.randn(5, 6)
    found, changed = planned(net, "up", x)
    assert found.rung is Rung.IDENTITY
    y = net.norm(x)
    y = y * 0.5 * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * y * (1 + 0.044715 * y * y)))
    assert torch.equal(changed(x), x + net.down(y))


def test_fields_in_a_stack_and_summands_of_sum_become_0() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fields = nn.ModuleList(nn.Embedding(n, 6) for n in (5, 8))
            self.biases = nn.ModuleList(nn.Embedding(n, 1) for n in (5, 8))
            self.numbers = nn.Linear(7, 6)

        def forward(self, x: torch.Tensor, kinds: torch.Tensor) -> Any:
            stacked = torch.stack([*(f(kinds[:, n]) for n, f in enumerate(self.fields)), self.numbers(x)], 1)
            bias: Any = sum(b(kinds[:, n]) for n, b in enumerate(self.biases))
            return stacked.pow(2).sum((1, 2)).unsqueeze(1) + bias

    net, x = Table().eval(), (torch.randn(4, 7), torch.randint(0, 5, (4, 2)))
    for path in ("fields.1", "biases.0"):
        found, changed = planned(net, path, x)
        assert found.rung is Rung.NEUTRAL
        zeros = copy.deepcopy(net)
        nn.init.zeros_(zeros.get_submodule(path).weight)  # type: ignore[arg-type]
        assert torch.equal(changed(*x), zeros(*x))


def test_a_bias_that_several_blocks_add_is_0_in_all_of_them() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias, self.one, self.two = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            b = self.bias(time)
            x = x + torch.tanh(self.one(x) + b)
            return x + torch.tanh(self.two(x) + b)

    net, x = Shared().eval(), (torch.randn(5, 6), torch.randn(5, 3))
    found, changed = planned(net, "bias", x)
    assert found.rung is Rung.NEUTRAL
    y = x[0] + torch.tanh(net.one(x[0]))
    assert torch.equal(changed(*x), y + torch.tanh(net.two(y)))


def test_inputs_are_known_as_inputs_in_a_trace() -> None:
    trace = record(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), (torch.randn(3, 4),), {})
    assert [value.n for value in trace.values] == list(range(len(trace.values)))
    assert [value.name for value in trace.values if value.kind == "input"] == ["input"]
    assert trace.values[trace.calls[0].inputs["input",]].kind == "input"
