"""The untouched model with the repair done by hooks sees what is wrong with rungs 3 and 4 too."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from nets import IMAGE, Dense, Plain, Stage
from torch import nn

import etude
from etude.core.errors import RemovalRefused
from etude.core.removal import Layers, Part, Whole
from etude.core.rungs import Rung
from etude.frameworks.removal import check as checks
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.check import check
from etude.frameworks.removal.comparing import Examples
from etude.frameworks.removal.edits import Plan, Resize
from etude.frameworks.removal.plan import plan


@pytest.mark.parametrize(("net", "path", "rung"), [(Plain, "conv1", Rung.SPLICE), (Stage, "stem", Rung.WIDTH)])
def test_rebuilt_layers_are_re_executed(
    net: type[nn.Module], path: str, rung: Rung, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = net(), torch.randn(IMAGE)
    found = plan(model, Layers((Whole(path),)), x)
    assert found.rung is rung
    assert "re-execution" in check(model, found, x)

    def apply_badly(model: nn.Module, plan: Plan, *, seed: int) -> None:
        apply(model, plan, seed=seed)
        rebuilt: Any = next(e for e in plan.edits if isinstance(e, Resize) and e.side == "in")
        layer: Any = model.get_submodule(rebuilt.path)
        layer.padding, layer.dilation = (2, 2), (2, 2)  # of the same shape, and something else

    monkeypatch.setattr(checks, "apply", apply_badly)
    with pytest.raises(RemovalRefused, match="with the repair done by hooks"):
        check(model, found, x)


def test_filters_that_were_cut_are_zeros_in_the_untouched_model() -> None:
    net, x = Stage(), torch.randn(IMAGE)
    found = plan(net, Layers((Part("stem", "filters", (1, 4)),)), x)
    assert "masked re-execution" in check(net, found, x)
    shifted = tuple(
        msgspec.structs.replace(e, keep=(0, 1, 2, 3)) if isinstance(e, Resize) and e.path == "conv" else e
        for e in found.edits
    )
    with pytest.raises(RemovalRefused):
        check(net, msgspec.structs.replace(found, edits=shifted), x)


def test_a_branch_that_is_cut_is_judged_twice() -> None:
    net, x = Dense(), torch.randn(IMAGE)
    made = check(net, plan(net, Layers((Whole("one"),)), x), x)
    assert made[1:3] == ("re-execution", "masked re-execution")


class Graph(nn.Module):
    """Edges name nodes: with some of the nodes alone it does not run."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.sent, self.out = nn.Linear(5, 8), nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        summed = torch.zeros(x.shape[0], self.own.out_features, dtype=x.dtype)
        return self.out(torch.relu(self.own(x) + summed.index_add(0, edges[1], self.sent(x)[edges[0]])))


def test_only_what_the_untouched_model_can_do_is_demanded() -> None:
    net, nodes = Graph(), torch.randn(9, 5)
    edges = torch.tensor([[8, 7, 6, 5, 4], [0, 1, 2, 3, 8]])
    assert Examples(net, (nodes, edges), {}).n == 9
    removed = etude.remove(net, "layer:sent", (nodes, edges))
    assert "training step" in removed.checks


def test_what_cannot_be_trained_untouched_needs_no_step() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                x = x.requires_grad_().add_(1)  # a leaf that is changed in place: it raises
            return torch.as_tensor(self.two(self.one(x)))

    net, x = Frozen().eval(), torch.randn(5, 4)
    with pytest.raises(RemovalRefused) as refused:  # and nothing untyped comes out
        etude.remove(net, "layer:one", x)
    assert "a leaf Variable" in refused.value.why


def test_a_removal_that_fake_tensors_cannot_judge_is_planned_on_real_ones() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.one(x)
            if type(self.one) is not nn.Linear and float(y.sum()) > 1e9:  # values are asked for without it alone
                return self.out(y)
            return self.out(self.two(y))

    removed = etude.remove(Counts(), "layer:one", torch.randn(5, 4))
    assert not removed.plan.fake
    assert "planned on a real copy" in removed.plan.notes[0]
