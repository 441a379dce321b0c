"""Layers whose result is taken apart and says how others work: shift, scale and gate, each a part of it.

Without such a layer nothing is shifted, nothing is scaled and the gate is open. No one number says that: it is 0 for
the parts that are added, or made ``1 + scale`` of, and 1 for those that something is multiplied with.
"""

from __future__ import annotations

from dataclasses import dataclass

from etude.frameworks.removal.flow import Flow, within
from etude.frameworks.removal.joins import Join, Joins
from etude.frameworks.removal.operations import SPLITS
from etude.frameworks.removal.trace import Call, Op


@dataclass(frozen=True)
class Modulation:
    """Finds what a result says of others.

    Attributes:
        flow: A run's data flow.
        joins: Where its values meet.
        own: The call that goes.
        calls: All calls of that module.
    """

    flow: Flow
    joins: Joins
    own: Call
    calls: list[Call]

    def ones(self, value: int) -> tuple[int, tuple[tuple[int, int], ...]] | None:
        """Return along which axis a result is taken apart, and from where to where it is a gate, open at 1.

        All else of it is a shift or a scale, which are nothing at 0. None if that is not all it is, or if there are
        no gates, or nothing but gates.
        """
        readers = [self.flow.trace.ops[n] for n in self.flow.consumers[value] if not within(n, [self.own])]
        axis = _taken_apart_along(self.flow, readers, value)
        if axis is None:
            return None
        at, ones, kinds = 0, list[tuple[int, int]](), set[str]()
        for part in readers[0].outputs:
            end = at + self.flow.trace.values[part].shape[axis]
            kind = self._kind(part, value)
            if not kind:
                return None
            kinds.add(kind)
            ones += [(at, end)] if kind == "mul" else []
            at = end
        return (axis, tuple(ones)) if "mul" in kinds and kinds - {"mul", "unused"} else None

    def _kind(self, part: int, value: int) -> str:
        """Return how a part meets what others give: ``add``, ``mul``, ``one plus``, or ``unused``; empty otherwise."""
        if not self.flow.used_outside(part, [self.own]):
            return "unused"
        kind, found = self.joins.gated(part)
        if kind != "one plus":
            found = self.joins.of(part, self.own, self.calls)
            kinds = {join.kind for join in found}
            kind = kinds.pop() if len(kinds) == 1 else ""
        if kind not in ("add", "mul", "one plus") or not all(self._meets_others(join, value) for join in found):
            return ""
        return "" if kind == "mul" and any(map(self.joins.is_scaled, found)) else kind

    def _meets_others(self, join: Join, value: int) -> bool:
        """Say whether what is met would be there without the result."""
        return bool(self.flow.reached({value: ()}, ends=join.others) & self.flow.content_bits)


def _taken_apart_along(flow: Flow, readers: list[Op], value: int) -> int | None:
    """Return the axis along which all that reads a value is the operation that takes it apart; None otherwise."""
    if len(readers) != 1 or readers[0].name not in SPLITS or value in flow.ends:
        return None
    whole = flow.trace.values[value].shape
    parts = [flow.trace.values[n].shape for n in readers[0].outputs]
    axes = {n for shape in parts for n, (a, b) in enumerate(zip(shape, whole, strict=False)) if a != b}
    if len(axes) != 1 or any(len(shape) != len(whole) for shape in parts):
        return None
    return axes.pop()
