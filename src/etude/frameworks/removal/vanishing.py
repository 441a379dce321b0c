"""What becomes of a 0 that stands for a component: whether it leaves all that it meets as it is.

Of ``x * (1 + scale) + shift`` with both from one layer, or of ``x * exp(s) + t``, no single join says what is neutral:
the 0 is followed through what is made of it alone, as a number. ``1 + 0`` scales by 1, and so does ``exp(0)``; a
product with a 0 is a 0. Where it meets something else, that has to stay as it is, in each of its uses.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from etude.frameworks.removal.flow import Flow, reads, within
from etude.frameworks.removal.joins import Join, Joins
from etude.frameworks.removal.operations import ADD, DIVIDE, MUL, ONTO, POWERS, SHAPES, SPLITS, TAKE
from etude.frameworks.removal.trace import Call, Op

OF_NUMBERS: Final[Mapping[str, Callable[[float], float]]] = MappingProxyType(
    {
        "exp": math.exp,
        "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
        "tanh": math.tanh,
        "cos": math.cos,
        "square": lambda x: x * x,
        "sqrt": math.sqrt,
        "rsqrt": lambda x: 1 / math.sqrt(x),
        "reciprocal": lambda x: 1 / x,
        **dict.fromkeys(("neg", "__neg__", "negative"), lambda x: -x),
    }
)
"""Functions of single numbers -> what they make of one."""
MIRRORED: Final = frozenset(["rsub", "__rsub__"])
MINUS: Final = TAKE | MIRRORED
NORMS: Final = frozenset(["layer_norm", "batch_norm", "group_norm", "instance_norm"])
NEGATED: Final = frozenset(["neg", "__neg__", "negative"])
"""These are among the operations that only move numbers, for whom a 0 stays one."""
ADDED: Final = ONTO | frozenset(["addcmul", "addcmul_", "index_add", "index_add_", "scatter_add", "scatter_add_"])
"""Operations that add to their first argument what is 0 if one of the others is."""
NEIGHBOURS: Final = frozenset(f"{kind}_pool{n}d" for kind in ("avg", "max", "lp") for n in (1, 2, 3))
"""Operations that mix neighbours: what is left of a branch with one of them is still a branch."""
EXACT: Final = 1e-12


class Vanishing:
    """Follows a 0 that stands for what a call gives.

    Args:
        flow: A run's data flow.
        joins: Where its values meet.
        calls: The calls of the module that goes.

    Attributes:
        shifted: Whether the 0 that was followed last went through a norm, which may add its bias.
    """

    def __init__(self, flow: Flow, joins: Joins, calls: list[Call]) -> None:
        self._flow, self._joins, self._calls = flow, joins, calls
        self._numbers: dict[int, float] = {}
        self.shifted = False

    def is_neutral(self, value: int, own: Call, besides: int) -> bool:
        """Say whether a 0 ends a branch that has nothing else in it, in all or beside what went in.

        Args:
            value: What a call gives.
            own: The call.
            besides: Values that do not count as a part of the branch, as bits.
        """
        joins = self.joined(value, own)
        begun = [bool(self._joins.begun(join, [own])) for join in joins]
        if not joins or (self.shifted and not all(begun)):
            return False
        whole = [not self._joins.mixing_left(join, self._calls, besides, own) for join in joins]
        return all(whole) or any(map(operator.and_, whole, begun))

    def joined(self, value: int, own: Call) -> list[Join]:
        """Return where a 0 in a value's place meets the rest and leaves it as it is; empty if it does not everywhere.

        Args:
            value: What a call gives.
            own: The call.
        """
        self._numbers, self.shifted = {value: 0.0}, False
        found: list[Join] = []
        for op in self._flow.trace.ops[own.end :]:
            mine = [n for n in reads(op) if n in self._numbers]
            if not mine or (op.name in SHAPES and op.inputs[0] not in mine):  # it may be read for its shape alone
                continue
            others = [] if op.name in SHAPES else self._others(op)
            if within(op.n, self._calls) or self._flow.mixes(op) or op.name in NEIGHBOURS:
                return []
            if others:
                kind = self._left(op, mine)
                if not kind:
                    return []
                kept = others[:1] if op.name in ADDED else others
                found.append(Join(kind, op, mine[0], tuple(kept)))
                continue
            self.shifted = self.shifted or op.name in NORMS
            number = self._number(op, mine)
            if number is None or any(out in self._flow.ends for out in op.outputs):
                return []
            self._numbers.update(dict.fromkeys(op.outputs, number))
        return [] if value in self._flow.ends else found

    def _others(self, op: Op) -> list[int]:
        others = (n for n in dict.fromkeys(op.inputs) if n not in self._numbers)
        return [n for n in others if self._flow.depends_on_content(n)]

    def _left(self, op: Op, mine: list[int]) -> str:
        """Return how an operation joins numbers with something that they leave as it is; empty if they do not."""
        numbers = [self._numbers[n] for n in mine]
        if op.name in ADD and not any(numbers):
            return "add"
        if op.name in ADDED and not any(numbers) and op.inputs[0] not in mine:
            return "" if any(self._would_be_lost(n) for n in op.inputs[1:] if n not in mine) else "add"
        ones = all(abs(number - 1) < EXACT for number in numbers)
        if ones and (op.name in MUL or (op.name in DIVIDE and op.inputs[0] not in mine)):
            return "mul"
        return ""

    def _would_be_lost(self, factor: int) -> bool:
        """Say whether a factor of a 0 has weights behind it, which would have no effect any more."""
        value = self._flow.trace.values[factor]
        return value.is_float and (value.kind == "parameter" or self._flow.carries(factor))

    def _number(self, op: Op, mine: list[int]) -> float | None:
        """Return which number an operation makes of numbers; None if that is not known, or it is none."""
        first = self._numbers.get(op.inputs[0])
        try:
            return self._made(op, first, mine)
        except (ArithmeticError, ValueError, IndexError, TypeError):
            return None

    def _made(self, op: Op, first: float | None, mine: list[int]) -> float | None:
        if op.name in ADD | MUL | DIVIDE:
            return self._combined(op, mine)
        if first is None:
            return None
        if op.name in SHAPES | SPLITS and op.name not in NEGATED:
            return None if first and "dropout" in op.name else first
        if first == 0 and self._joins.is_still(op, op.inputs[0]):
            return 0.0
        if op.name in POWERS:
            return float(first ** op.args[1])
        return OF_NUMBERS[op.name](first) if op.name in OF_NUMBERS else None

    def _combined(self, op: Op, mine: list[int]) -> float | None:
        """Return the sum, difference, product or quotient of two numbers; of what is learned nothing is known."""
        if op.name in MUL and not all(self._numbers[n] for n in mine):
            return 0.0
        if op.name in DIVIDE and self._numbers.get(op.inputs[0]) == 0:
            return 0.0
        given = iter(op.inputs)
        two = [one if isinstance(one, int | float) else self._numbers.get(next(given)) for one in op.args]
        a, b = (float(one) for one in two if one is not None)
        if op.kwargs:
            return None
        if op.name in MIRRORED:
            a, b = b, a
        if op.name in ADD:
            return a - b if op.name in MINUS else a + b
        return a * b if op.name in MUL else a / b
