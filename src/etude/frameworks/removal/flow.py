"""What depends on what in a trace: ancestors, consumers, what still reaches the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Final

import torch

from etude.frameworks.removal.operations import (
    ADD,
    BEHIND,
    BLANKS,
    CAT,
    CONTRACTIONS,
    MUL,
    SHAPES,
    SPLITS,
    STACK,
    WEIGHING,
)
from etude.frameworks.removal.trace import Call, Op, Trace, Value

MASKS: Final = re.compile(r"mask|position|token_type|segment|cache|bool|lengths?$|labels?$|target")
"""Inputs of such names say how to read the content, and are none."""


class Flow:
    """The data flow of a trace.

    Args:
        trace: The trace.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        root = trace.calls[0]
        self.ends: tuple[int, ...] = tuple(n for n in root.outputs.values())
        tensors = [(path, trace.values[n]) for path, n in root.inputs.items()]
        named = [v for path, v in tensors if not MASKS.search(".".join(map(str, path)).lower())]
        floats = [v for v in named if v.is_float]
        self.content: tuple[int, ...] = tuple(v.n for v in floats or named or [v for _, v in tensors])
        others = [v for v in named if not v.is_float and v.dtype not in _BOOL]
        if floats and others:  # text beside an image
            self.content += tuple(v.n for v in others)

    @cached_property
    def consumers(self) -> list[list[int]]:
        """Operations that read each value."""
        found: list[list[int]] = [[] for _ in self.trace.values]
        for op in self.trace.ops:
            for value in dict.fromkeys(reads(op)):
                found[value].append(op.n)
        return found

    @cached_property
    def ancestors(self) -> list[int]:
        """What each value was computed from, itself among it; a bit for each value."""
        found: list[int] = [1 << value.n for value in self.trace.values]
        for op in self.trace.ops:
            together = 0
            for value in reads(op):
                together |= found[value]
            for value in op.outputs:
                found[value] |= together
        return found

    @cached_property
    def content_bits(self) -> int:
        """The model's content inputs, as bits."""
        return _bits(self.content)

    @cached_property
    def differentiable(self) -> list[int]:
        """As ancestors, along which a gradient could flow: through floating point values alone."""
        found: list[int] = [1 << value.n for value in self.trace.values]
        for op in self.trace.ops:
            if op.name == "detach":
                continue
            together = 0
            for value in reads(op):
                if self.trace.values[value].is_float:
                    together |= found[value]
            for value in op.outputs:
                if self.trace.values[value].is_float:
                    found[value] |= together
        return found

    def depends_on_content(self, value: int) -> bool:
        """Say whether a value was computed from what the model is given to judge."""
        return bool(self.ancestors[value] & self.content_bits)

    @cached_property
    def _carriers(self) -> int:
        """Parameters and floating point content, as bits: what came from neither is a mask or the like."""
        floats = [n for n in self.content if self.trace.values[n].is_float]
        return _bits([*floats, *(v.n for v in self.trace.values if v.kind == "parameter")])

    def carries(self, value: int) -> bool:
        """Say whether a value carries content, other than a mask, which only says where there is some."""
        return self.depends_on_content(value) and bool(self.differentiable[value] & self._carriers)

    def made_of(self, value: int) -> set[int]:
        """Return what is made of a value alone: without a layer that mixes, or other content."""
        found = {value}
        for op in self.trace.ops:
            carry = [n for n in op.inputs if n in found or self.carries(n)]
            if found.intersection(carry) and found.issuperset(carry) and not self.mixes(op):
                found.update(op.outputs)
        return found

    def unmixed(self, value: int) -> set[int]:
        """Return what a value leads to, itself among it, on some way without a layer that mixes."""
        found = {value}
        for op in self.trace.ops:
            if found.intersection(reads(op)) and not self.mixes(op):
                found.update(out for out in op.outputs if self.trace.values[out].is_float)
        return found

    def has_in_it(self, value: int, other: int) -> bool:
        """Say whether a value has another one in it, or its twin, on some way without a layer that mixes."""
        made = self.trace.values[other].op
        op = None if made is None else self.trace.ops[made]
        alike = [other]
        if op is not None and op.inputs:
            ops = (self.trace.ops[n] for n in self.consumers[op.inputs[0]])
            alike += [out for one in ops if one.name == op.name for out in one.outputs if self.are_twins(out, other)]
        return any(value in self.unmixed(one) for one in alike)

    def is_ancestor(self, value: int, of: int) -> bool:
        """Say whether one value was computed from another one, or is it."""
        return bool(self.ancestors[of] >> value & 1)

    def are_twins(self, one: int, two: int) -> bool:
        """Say whether two values are the same, computed twice: by the same operations of the same modules."""
        waiting = [(one, two)]
        seen = set[tuple[int, int]]()
        while waiting:
            a, b = waiting.pop()
            if a == b or (a, b) in seen:
                continue
            seen.add((a, b))
            made = self.trace.values[a].op, self.trace.values[b].op
            if made[0] is None or made[1] is None:
                return False
            first, second = self.trace.ops[made[0]], self.trace.ops[made[1]]
            same = (first.name, first.key[0], first.key[2]) == (second.name, second.key[0], second.key[2])
            if not same or first.outputs.index(a) != second.outputs.index(b) or len(first.inputs) != len(second.inputs):
                return False
            waiting += zip(first.inputs, second.inputs, strict=True)
        return True

    def used_outside(self, value: int, calls: Iterable[Call]) -> bool:
        """Say whether anything outside these calls reads a value."""
        inside = list(calls)
        if value in self.ends:
            return True
        return any(not within(op, inside) for op in self.consumers[value])

    def mixes(self, op: Op) -> bool:
        """Say whether an operation mixes channels by a parameter: a dense layer, a convolution, an attention."""
        if op.name in WEIGHING:
            return True
        if op.name in SHAPES | SPLITS | ADD | MUL | CAT | STACK:
            return False
        if op.name in CONTRACTIONS | {"einsum"} and any(map(self.depends_on_content, op.inputs)):
            return any(map(self.is_weight, op.inputs))
        inputs = (self.trace.values[n] for n in op.inputs)
        return any(v.kind == "parameter" and len(v.shape) > 1 for v in inputs)

    def is_weight(self, value: int) -> bool:
        """Say whether a value is a matrix that was made of parameters alone, a standardised one for instance."""
        matrix = len(self.trace.values[value].shape) > 1 and not self.depends_on_content(value)
        return matrix and bool(self.differentiable[value] & self._weights)

    @cached_property
    def _weights(self) -> int:
        """Parameters of more than one axis, as bits."""
        named = (v for v in self.trace.values if v.kind == "parameter" and len(v.shape) > 1)
        return _bits(v.n for v in named)

    def reached(self, replaced: Mapping[int, Iterable[int]] | None = None, ends: Iterable[int] | None = None) -> int:
        """Return what the model's results depend on, as bits, where some values come from elsewhere.

        Args:
            replaced: Values -> what they are computed from instead.
            ends: Values that are asked about; left out, the results.
        """
        replaced = replaced or {}
        found, waiting = 0, list(self.ends if ends is None else ends)
        while waiting:
            now = waiting.pop()
            if found >> now & 1:
                continue
            found |= 1 << now
            if now in replaced:
                waiting += replaced[now]
                continue
            op = self.trace.values[now].op
            if op is not None:
                waiting += reads(self.trace.ops[op])
        return found

    def origin(self, value: int) -> int:
        """Return what a value was before it only changed its shape."""
        made = self.trace.values[value].op
        while made is not None and self.trace.ops[made].name in SHAPES:
            value = self.trace.ops[made].inputs[0]
            made = self.trace.values[value].op
        return value

    def is_added_to(self, value: int, other: int) -> bool:
        """Say whether a value is added to another one as it is."""
        ops = (self.trace.ops[n] for n in self.consumers[value])
        return any(op.name in ADD and other in op.inputs for op in ops)

    def followers(self, value: int, calls: list[Call], plain: Callable[[str], bool]) -> list[str]:
        """Return what directly follows a value: activations, norms, dropout, pooling, one behind the other.

        Modules go by their paths, functions by their names with brackets: ``relu()``.

        Args:
            value: The value.
            calls: Calls of what made it.
            plain: Says of a module, by its path, whether it is one of those.
        """
        found: list[str] = []
        while True:
            ops = [self.trace.ops[n] for n in self.consumers[value] if not within(n, calls)]
            paths = {self.trace.calls[op.call].path for op in ops if op.call >= 0}
            if len(paths) != 1 or value in self.ends:
                return found
            path = paths.pop()
            if len(ops) == 1 and ops[0].name in BEHIND and len(ops[0].outputs) == 1 and not plain(path):
                found.append(f"{ops[0].name}()")
                value = ops[0].outputs[0]
                continue
            if path in found or not plain(path):
                return found
            found.append(path)
            outputs = list(self.trace.calls[ops[0].call].outputs.values())
            if len(outputs) != 1 or outputs[0] == value:
                return found
            value = outputs[0]


_BOOL: Final = frozenset([torch.bool])


def reads(op: Op) -> tuple[int, ...]:
    """Return the values whose numbers an operation reads: none where it asks for a shape alone."""
    return () if op.name in BLANKS else op.inputs


def within(op: int, calls: Iterable[Call]) -> bool:
    """Say whether an operation was done in one of these calls."""
    return any(call.first <= op < call.end for call in calls)


def values(bits: int, trace: Trace) -> list[Value]:
    """Return the values that bits stand for."""
    return [value for value in trace.values if bits >> value.n & 1]


def _bits(numbers: Iterable[int]) -> int:
    found = 0
    for n in numbers:
        found |= 1 << n
    return found
