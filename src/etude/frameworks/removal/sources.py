"""Which layers speak in a value: those that mixed last on each way to it. So it is seen what a repair says twice.

Identity is meant where other layers are left in a branch. But of ``y + conv(block(y))``, whose block has a skip
connection of its own, identity makes ``y + (y + g(y))``, and of ``y - conv(block(y))`` it makes ``-g(y)``. There one
side of the sum says nothing that the other one does not: all layers that speak in it speak in the other one too. So it
is with a product, where no activation lies between: of ``y * (1 + f(y))`` it makes ``y * (1 + y)``, which is no gate.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, Final

from etude.frameworks.removal.flow import Flow, within
from etude.frameworks.removal.nested import leaves
from etude.frameworks.removal.operations import ADD, BLENDS, CAT, DIVIDE, LINEAR, MUL, STACK, STRAIGHT
from etude.frameworks.removal.trace import Call, Op

PRODUCTS: Final = MUL | DIVIDE
SIDES: Final = 2


class Sources:
    """What speaks in the values of a run.

    Args:
        flow: The run's data flow.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow, self._trace = flow, flow.trace
        self._untouched: dict[AbstractSet[str], _Spoken] = {}

    def doubled(self, replaced: Mapping[int, Sequence[int]], calls: Sequence[Call]) -> Op | None:
        """Return the first sum or product of which a repair makes one side repeat another one.

        Args:
            replaced: Values that the repair makes of others -> those.
            calls: Calls of what goes.
        """
        if not calls or not any(replaced.values()):
            return None
        found = self._doubled(STRAIGHT, replaced, calls)
        sums = next((op for op in found if op.name not in PRODUCTS), None)
        if sums is not None or not found:
            return sums
        return next((op for op in self._doubled(LINEAR, replaced, calls) if op.name in PRODUCTS), None)

    def _doubled(
        self, straight: AbstractSet[str], replaced: Mapping[int, Sequence[int]], calls: Sequence[Call]
    ) -> list[Op]:
        if straight not in self._untouched:
            self._untouched[straight] = self._spoken(straight, {}, ())
        before, after = self._untouched[straight], self._spoken(straight, replaced, calls)
        joins = [op for op in self._trace.ops[calls[0].end :] if self._joins(op) and not within(op.n, calls)]
        return [op for op in joins if self._repeating(op, after) - self._repeating(op, before)]

    def _spoken(
        self, straight: AbstractSet[str], replaced: Mapping[int, Sequence[int]], calls: Sequence[Call]
    ) -> _Spoken:
        found = _Spoken(self._flow, self._keys, straight, replaced, calls)
        for op in self._trace.ops:
            if not within(op.n, calls):
                found.follow(op)
        return found

    @cached_property
    def _keys(self) -> list[Any]:
        """What each operation does, but for the tensors that it does it to: the same where a module is called again."""
        return [(op.name, op.key[0], op.key[2], _settings(op)) for op in self._trace.ops]

    def _joins(self, op: Op) -> bool:
        return op.name in ADD | PRODUCTS | BLENDS or (op.name in STACK | CAT and self._is_summed(op))

    def _is_summed(self, op: Op) -> bool:
        """Say whether a stack is made to be summed up, or averaged: an addition of all that is in it."""
        rank = len(self._trace.values[op.outputs[0]].shape)
        readers = [self._trace.ops[n] for n in self._flow.consumers[op.outputs[0]]]
        along = _dims(op, rank, 0)
        return bool(readers) and all(r.name in ("sum", "mean") and _dims(r, rank, None) == along for r in readers)

    def _repeating(self, op: Op, spoken: _Spoken) -> set[tuple[int, int]]:
        """Return pairs of sides of which one says nothing that the other one does not."""
        sides = [n for n in op.inputs if self._trace.values[n].is_float]
        found = set()
        for one, two in itertools.combinations(sides if op.name in STACK | CAT else sides[:SIDES], 2):
            shape, a, b = self._trace.values[one].shape, spoken.of(one), spoken.of(two)
            same = shape == self._trace.values[two].shape and shape not in ((), (1,))
            if same and a and b and a & b in (a, b):
                found.add((one, two))
        return found


class _Spoken:
    """What speaks in each value, as bits.

    Args:
        flow: A run's data flow.
        keys: What its operations do.
        straight: Operations that have nothing to say of their own.
        replaced: Values that are made of others -> those.
        calls: Calls that are replaced: what scales their results by a parameter stays, and speaks.
    """

    def __init__(
        self,
        flow: Flow,
        keys: list[Any],
        straight: AbstractSet[str],
        replaced: Mapping[int, Sequence[int]],
        calls: Sequence[Call],
    ) -> None:
        self._values, self._keys, self._straight, self._replaced = flow.trace.values, keys, straight, replaced
        self._bits = [1 << v.n if v.kind == "input" and v.is_float else 0 for v in flow.trace.values]
        self._same = list(range(len(flow.trace.values)))  # the first value that is computed in the same way
        self._first: dict[Any, tuple[int, ...]] = {}
        self._behind = {n for call in calls for n in call.outputs.values()}

    def of(self, value: int) -> int:
        """Return what speaks in a value."""
        found = 0 if value in self._replaced else self._bits[value]
        for n in self._replaced.get(value, ()):
            found |= self._bits[n]
        return found

    def follow(self, op: Op) -> None:
        """Note what speaks in an operation's results."""
        first = self._first.setdefault((self._keys[op.n], *map(self._canonical, op.inputs)), op.outputs)
        spoken = {self.of(n) for n in op.inputs if self._values[n].is_float} - {0}
        is_gate = op.name in MUL and len(spoken) > 1
        speaks = is_gate or op.name not in self._straight or self._is_scaled_behind(op)
        together = 0
        for bits in spoken:
            together |= bits
        for out, other in zip(op.outputs, first, strict=False):
            self._same[out] = other
            self._bits[out] = (1 << other if speaks else together) if self._values[out].is_float else 0

    def _canonical(self, value: int) -> int:
        of = self._replaced.get(value, ())
        return self._same[of[0]] if len(of) == 1 else self._same[value]

    def _is_scaled_behind(self, op: Op) -> bool:
        """Say whether a parameter scales what was replaced, as that of a norm behind it."""
        if op.name in ADD or op.name not in STRAIGHT or self._behind.isdisjoint(op.inputs):
            return False
        self._behind.update(op.outputs)
        return any(self._values[n].kind == "parameter" for n in op.inputs)


def _settings(op: Op) -> tuple[str, ...]:
    """Return what an operation was called with beside tensors."""
    return tuple(str(leaf) for _, leaf in leaves((op.args, op.kwargs)) if isinstance(leaf, int | float | str))


def _dims(op: Op, rank: int, default: int | None) -> set[int]:
    """Return the axes that an operation goes along, which is called with them first; all of them if none is given."""
    dim = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else default)
    try:
        return {int(n) % rank for n in (range(rank) if dim is None else [dim] if isinstance(dim, int) else dim)}
    except (TypeError, ValueError):
        return set()
