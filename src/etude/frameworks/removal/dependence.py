"""Whether a repaired model's results still depend on what goes in, and on all that learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from etude.core.errors import WHOLE_MODEL, RefusalCode, RemovalRefused
from etude.frameworks.removal.comparing import Examples, Found, moved
from etude.frameworks.removal.edits import Fill, Plan, StandIn
from etude.frameworks.removal.nested import tensors

MATRIX: Final = 2
STILL: Final = 1e-9
"""Results that move by no more than this share of their size do not move."""
COLLAPSED: Final = 1e-3
"""Nor do those that move by less than this share of what they moved by before."""
SOME: Final = 1e-6
"""A gradient of less than this share of the largest one may become 0 by rounding."""


@dataclass(frozen=True)
class Dependence:
    """What two models' results depend on.

    Attributes:
        before: The untouched model.
        after: The repaired one.
        plan: What was done.
        examples: Examples for both.
        given: The example as it was given.
    """

    before: nn.Module
    after: nn.Module
    plan: Plan
    examples: Examples
    given: Any

    def lost(self, had: Found | None, has: Found) -> str:
        """Return what hardly changes any more, or which gradient has become exactly 0; empty if there is none.

        Args:
            had: The untouched model's gradients; None if it has none in evaluation.
            has: The repaired one's.

        Raises:
            RemovalRefused: The example is one number throughout, with which this cannot be told.
        """
        before, after = self._movement(self.before), self._movement(self.after)
        if before > STILL and after < max(STILL, COLLAPSED * before):
            self._refuse_constant()
            why = f"other examples change what it gives by {after:.1g} of its size, and by {before:.1g} before"
            return f"what it gives does not depend on what goes in any more: {why}."
        if had and not has:
            return "nothing that learns reaches what it gives any more."
        if had is None or _has_constant(self.plan):
            return ""
        largest = max((float(g.abs().max()) for g in had.values() if g.numel()), default=0.0)
        for name, gradient in has.items():
            old = had.get(name)
            if old is None or not old.numel() or name in self.plan.idle or old.ndim < MATRIX:
                continue
            if float(old.abs().max()) > SOME * largest and not bool(gradient.any()):
                self._refuse_constant()
                return f"the gradient of {name} has become exactly 0."
        return ""

    def _movement(self, model: nn.Module) -> float:
        """Return by which share of its size a model's result moves with the examples: that which moves most."""
        rows = self.examples.rows
        model.eval()
        with torch.no_grad():
            plain = self.examples.called(model, rows)
            other = self.examples.called(model, [*rows[1:], rows[0]])
        return max((moved(plain[name], other[name]) for name in plain if name in other), default=0.0)

    def _refuse_constant(self) -> None:
        """Refuse an example of one number throughout: that it moves nothing is not what a component is to blame for."""
        given = [tensor for _, tensor in tensors(self.given) if tensor.is_floating_point() and tensor.numel()]
        if given and all(bool((tensor == tensor.flatten()[0]).all()) for tensor in given):
            why = (
                f"the example is {float(given[0].flatten()[0]):g} throughout, with which nothing can be seen of what "
                "depends on what. Pass examples with different numbers, such as those of the data."
            )
            raise RemovalRefused(RefusalCode.UNTRACEABLE, WHOLE_MODEL, why)


def _has_constant(plan: Plan) -> bool:
    """Say whether a plan puts a constant somewhere: what scales it has no gradient any more, and should not."""
    calls = [call for edit in plan.edits if isinstance(edit, StandIn) for call in edit.calls]
    return any(isinstance(rule, Fill) and not rule.unused for call in calls for rule in call.rules)
