"""What a component gives meets beside it: where no rule says what leaves the other side as it is, nothing is guessed.

Identity is meant where a component is one link of a chain. Where its result is joined with another path from the same
input before another layer mixes, the way in which it is joined has to be known: of ``maximum(x, f(x))`` or of
``x + softplus(f(x))`` nothing stands for ``f`` that leaves ``x``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from etude.frameworks.removal.flow import Flow, reads, within
from etude.frameworks.removal.joins import Join, Joins
from etude.frameworks.removal.operations import (
    ADD,
    CAT,
    CONTRACTIONS,
    DIVIDE,
    GATHERED,
    LOOKUPS,
    LOSSES,
    MASKING,
    MUL,
    ONTO,
    PLACES,
    SHAPES,
    SPLITS,
    STACK,
)
from etude.frameworks.removal.trace import Call, Op


@dataclass
class Meeting:
    """Looks for a join of which no neutral element is known.

    Attributes:
        flow: A run's data flow.
        joins: Where its values meet.
        own: The call that goes.
        calls: All calls of that module.
        besides: Values that do not count as a part of a branch, as bits.
    """

    flow: Flow
    joins: Joins
    own: Call
    calls: list[Call]
    besides: int = 0
    _still: dict[int, bool] = field(default_factory=dict)
    _gated: set[int] = field(default_factory=set)

    def unknown(self, value: int) -> str:
        """Return the operation in which a value meets a parallel path in an unknown way; empty if there is none.

        Args:
            value: What the call gives.
        """
        self._still = {value: True}  # value -> whether a 0 that the component gave is still a 0 there
        for op in self.flow.trace.ops[self.own.end :]:
            if within(op.n, self.calls) or self.flow.mixes(op) or op.name in LOSSES:
                continue
            if self._gated.intersection(op.inputs):  # what the component scaled by now
                self._gated.update(op.outputs)
            mine = [n for n in reads(op) if n in self._still]
            if not mine or (op.name in SHAPES and op.inputs[0] not in mine):  # it may be read for its shape alone
                continue
            if self._meets(op, mine, value):
                return op.name
        return ""

    def _meets(self, op: Op, mine: list[int], value: int) -> bool:
        """Say whether an operation joins in an unknown way; else note how its results go on."""
        others = [n for n in dict.fromkeys(op.inputs) if n not in self._still and self._is_parallel(n, value)]
        still = self._stays(op, mine)
        if others:
            join = Join("", op, mine[0], tuple(others))
            if self._is_unknown(op, mine, others, still) and not self._mixing_left(join):
                return True
            if op.name in MUL:
                self._gated.update(op.outputs)
            if op.name not in SHAPES:
                return False
        self._still.update((out, still) for out in op.outputs if self.flow.trace.values[out].is_float)
        return False

    def _mixing_left(self, join: Join) -> bool:
        return self.joins.mixing_left(join, self.calls, self.besides)

    def _is_parallel(self, other: int, value: int) -> bool:
        """Say whether a value comes from the component's own input, by a way that does not lead through it."""
        given = 0
        for n in self.own.inputs.values():
            given |= self.flow.ancestors[n]
        shared = self.flow.ancestors[other] & given & self.flow.content_bits
        if not shared or not self.flow.carries(other):
            return False
        if not self.flow.is_ancestor(value, other):
            return True
        return bool(self.flow.reached({value: ()}, ends=[other]) & shared)

    def _is_unknown(self, op: Op, mine: list[int], others: list[int], still: bool) -> bool:
        if op.name in ADD:  # where a 0 arrives, identity is meant only where what is met is not what went in
            return not still or any(other in self._gated or self._went_in(other) for other in others)
        if op.name in SHAPES | MUL:
            return False
        if op.name in ONTO:
            return op.inputs[0] in (*others, *mine)
        if op.name == "einsum":
            return not _sums(op)
        return op.name not in CONTRACTIONS | CAT | STACK | PLACES | LOOKUPS

    def _went_in(self, other: int) -> bool:
        return any(self.flow.is_ancestor(other, n) for n in self.own.inputs.values())

    def _stays(self, op: Op, mine: list[int]) -> bool:
        """Say whether a 0 goes through an operation as a 0, or with a bias that is no content."""
        still = [self._still[n] for n in mine]
        if op.name in MUL:
            return any(still)
        if op.name in ADD:
            return all(still) and (len(op.inputs) > 1 or _adds_nothing(op))
        if op.name in DIVIDE:
            return op.inputs[0] in mine and self._still[op.inputs[0]]
        passes = op.name in SHAPES | CONTRACTIONS | MASKING | CAT | STACK | PLACES | LOOKUPS | GATHERED
        return all(still) and (passes or any(self._is_still(op, n) for n in mine))

    def _is_still(self, op: Op, value: int) -> bool:
        return self.joins.is_still(op, value) or op.name in SPLITS | {"pad"}


def _adds_nothing(op: Op) -> bool:
    return 0 in [one for one in op.args if isinstance(one, int | float)]


def _sums(op: Op) -> bool:
    """Say whether an einsum sums over something that two of its sides have; else it is a product of entries."""
    equation = op.args[0] if op.args else None
    if not isinstance(equation, str) or "->" not in equation:
        return True
    left, right = equation.replace(" ", "").split("->")
    sides = left.split(",")
    return any(sum(name in side for side in sides) > 1 for name in set(left) - {",", "."} if name not in right)
