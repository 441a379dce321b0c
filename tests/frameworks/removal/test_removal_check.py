"""The checks see what is wrong with a repair: faults are put into plans that were right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from nets import IMAGE, Dense, Owner, Plain, Residual
from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Whole
from etude.core.rungs import Rung
from etude.frameworks.removal.check import check
from etude.frameworks.removal.edits import Axes, Edit, Fill, Fit, Place, Plan, Resize, Rule, Same, Source, StandIn
from etude.frameworks.removal.plan import plan


def planned(model: nn.Module, path: str, x: Any) -> Plan:
    return plan(model, Layers((Whole(path),)), x)


def with_rule(found: Plan, rule: Rule) -> Plan:
    """Put another rule into a plan's stand-in."""
    edits = [
        msgspec.structs.replace(e, calls=tuple(msgspec.structs.replace(c, rules=(rule,)) for c in e.calls))
        if isinstance(e, StandIn)
        else e
        for e in found.edits
    ]
    return msgspec.structs.replace(found, edits=tuple(edits))


def with_edit(found: Plan, change: Any) -> Plan:
    edits: list[Edit] = [change(e) if isinstance(e, Resize) else e for e in found.edits]
    return msgspec.structs.replace(found, edits=tuple(edits))


def failure(model: nn.Module, found: Plan, x: Any) -> str:
    with pytest.raises(RemovalRefused) as refused:
        check(model, found, x)
    assert refused.value.code is RefusalCode.FAILED_CHECK
    return refused.value.why


def test_all_checks_pass_for_a_right_plan() -> None:
    net, x = Residual(), torch.randn(5, 4)
    made = check(net, planned(net, "branch", x), x)
    assert made == ("parameters", "re-execution", "another batch", "dependence", "examples apart", "training step")
    net, x = Dense(), torch.randn(IMAGE)
    assert check(net, planned(net, "one", x), x)[1:3] == ("re-execution", "masked re-execution")


def test_a_branch_that_takes_the_gradient_of_others_with_it_is_seen() -> None:
    net, x = Residual(), torch.randn(5, 4)
    found = planned(net, "second", x)
    dims = plan(net, Layers((Whole("branch"),)), x).edits[0].calls[0].rules[0].dims  # type: ignore[union-attr]
    assert failure(net, with_rule(found, Fill(0, dims)), x) == "first.bias has no gradient any more."


def test_examples_that_see_each_other_are_seen() -> None:
    net, x = Residual(), torch.randn(5, 4)
    found = planned(net, "second", x)
    source = next(c.rules[0] for c in found.edits[0].calls)  # type: ignore[union-attr]
    assert isinstance(source, Same)
    dims = plan(net, Layers((Whole("branch"),)), x).edits[0].calls[0].rules[0].dims  # type: ignore[union-attr]
    mixed = Fit((Source(source.source, Axes(None, 1, 1, (Place(0, 0),))),), dims, Axes(0, 1, 1))
    with pytest.raises((RemovalRefused, RuntimeError)) as seen:
        check(net, with_rule(found, mixed), x)
    if isinstance(seen.value, RemovalRefused):
        assert "examples depend on each other" in seen.value.why


def test_a_fixed_number_of_examples_is_seen() -> None:
    net, x = Residual(), torch.randn(5, 4)
    found = planned(net, "branch", x)
    rule = found.edits[0].calls[0].rules[0]  # type: ignore[union-attr]
    assert isinstance(rule, Fill)
    fixed = msgspec.structs.replace(rule.dims[0], path=None, size=4)
    assert "raises RuntimeError" in failure(net, with_rule(found, Fill(0, (fixed, rule.dims[1]))), x)


def test_the_wrong_columns_are_seen() -> None:
    net, x = Dense(), torch.randn(IMAGE)
    found = planned(net, "one", x)

    def shifted(edit: Resize) -> Resize:
        assert edit.keep is not None
        return msgspec.structs.replace(edit, keep=tuple((k + 1) % edit.before for k in edit.keep))

    with pytest.raises(RemovalRefused):  # what is kept is not what flows there
        check(net, msgspec.structs.replace(with_edit(found, shifted), edits=with_edit(found, shifted).edits), x)


def test_a_component_that_is_still_there_is_seen() -> None:
    net, x = Plain(), torch.randn(IMAGE)
    found = planned(net, "relu1", x)
    claimed = msgspec.structs.replace(found, layers=Layers((Whole("conv3"),)))
    assert failure(net, claimed, x) == "conv3.weight is still there."


def test_a_bias_of_all_blocks_that_is_dropped_with_one_is_not_planned_at_all() -> None:
    net, x = Owner(), torch.randn(5, 7, 4)
    with pytest.raises(RemovalRefused) as refused:
        planned(net, "blocks.0", x)
    assert refused.value.code is RefusalCode.OWNED_STATE


def test_results_that_hardly_depend_on_the_inputs_any_more_are_seen() -> None:
    class Faint(nn.Module):
        def __init__(self, share: float) -> None:
            super().__init__()
            self.share, self.stem, self.mix, self.head = share, nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.tanh(self.stem(x))
            return self.head(torch.relu(self.mix(x)) + self.share * x)

    x = torch.randn(5, 4)
    for share in (1e-5, 1e-1):
        net = Faint(share)
        found = plan(net, Layers((Whole("mix"),)), x)
        assert found.rung is Rung.NEUTRAL  # identity would say twice what the other side says
        if share > 1e-3:
            check(net, found, x)
            continue
        with pytest.raises(RemovalRefused) as refused:
            check(net, found, x)
        assert refused.value.code is RefusalCode.NO_PATH
        assert refused.value.why.startswith(
            "what it gives does not depend on what goes in any more: other examples change"
        )
