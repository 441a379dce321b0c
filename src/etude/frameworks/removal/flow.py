"""What depends on what in a trace: ancestors, what joins an output, what still reaches the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import torch

from etude.frameworks.removal.trace import Call, Op, Trace, Value

MASKS: Final = re.compile(r"mask|position|token_type|segment|cache|bool|lengths?$|labels?$|target")
"""Inputs of such names say how to read the content, and are none."""

ADD: Final = frozenset(["add", "add_", "__add__", "__radd__", "__iadd__", "sub", "sub_", "__sub__", "__isub__"])
MUL: Final = frozenset(["mul", "mul_", "__mul__", "__rmul__", "__imul__", "multiply"])
CAT: Final = frozenset(["cat", "concat", "concatenate"])
DIVIDE: Final = frozenset(["div", "div_", "__truediv__", "__itruediv__", "true_divide", "divide"])
SHAPES: Final = frozenset(
    [
        *("view", "reshape", "permute", "transpose", "contiguous", "flatten", "squeeze", "unsqueeze", "expand"),
        *("unflatten", "movedim", "swapaxes", "swapdims", "T", "mT", "H", "mH", "t", "expand_as", "view_as", "repeat"),
        *("to", "float", "type_as", "type", "half", "bfloat16", "double", "clone", "detach", "alias", "requires_grad_"),
        *("__getitem__", "select", "narrow", "repeat_interleave", "reshape_as", "moveaxis", "tile"),
        *("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"),
        *("feature_alpha_dropout", "neg", "__neg__", "cuda", "cpu"),
    ]
)
"""Operations that leave a constant 0 what it is, and a 1 but for its scale."""

MASKING: Final = frozenset(["where", "masked_fill", "masked_fill_"])


@dataclass(frozen=True)
class Join:
    """Where a value meets another one.

    Attributes:
        kind: ``add``, ``mul`` or ``cat``.
        op: The operation.
        branch: What of it comes from the value.
        others: What comes from elsewhere.
    """

    kind: str
    op: Op
    branch: int
    others: tuple[int, ...]


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
            for value in dict.fromkeys(op.inputs):
                found[value].append(op.n)
        return found

    @cached_property
    def ancestors(self) -> list[int]:
        """What each value was computed from, itself among it; a bit for each value."""
        found: list[int] = [1 << value.n for value in self.trace.values]
        for op in self.trace.ops:
            together = 0
            for value in op.inputs:
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
            for value in op.inputs:
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

    def is_ancestor(self, value: int, of: int) -> bool:
        """Say whether one value was computed from another one, or is it."""
        return bool(self.ancestors[of] >> value & 1)

    def used_outside(self, value: int, calls: Iterable[Call]) -> bool:
        """Say whether anything outside these calls reads a value."""
        inside = list(calls)
        if value in self.ends:
            return True
        return any(not within(op, inside) for op in self.consumers[value])

    def join(self, value: int, own: Call, calls: list[Call]) -> list[Join]:
        """Return where a value meets others, for each of its uses; empty unless all of them end so.

        Args:
            value: What a module gave.
            own: In which call.
            calls: All calls of that module: where the value comes back to it, it meets nothing else.
        """
        found: list[Join] = []
        waiting, seen, added = [value], set(), False
        while waiting:
            now = waiting.pop()
            if now in seen:
                continue
            seen.add(now)
            if now in self.ends or any(within(n, calls) and not within(n, [own]) for n in self.consumers[now]):
                return []
            for n in self.consumers[now]:
                op = self.trace.ops[n]
                if within(n, [own]):
                    continue
                joined = self._joined(op, now)
                if joined is not None and not (joined.kind == "add" and self._is_scale(joined.others)):
                    found.append(joined)
                elif self._passes(op, now):
                    waiting += op.outputs
                elif joined is not None or self._is_masked(op, now):  # a bias beside a mask, say: for a 0 alone
                    waiting += op.outputs
                    added = True
                else:
                    return []
        return [] if added and any(joined.kind != "add" for joined in found) else found

    def mixing_left(self, join: Join, calls: list[Call]) -> bool:
        """Say whether a branch has layers that mix, besides what these calls did: then it is still a branch.

        Where what it meets is what it began with (a residual connection), the branch is what lies between the two: an
        encoder that is read on the way is none of it. Else it is all that only this side has.
        """
        inputs = [n for call in calls for n in call.inputs.values()]
        begun = [other for other in join.others if any(self.is_ancestor(other, n) for n in inputs)]
        kept = 0
        for other in join.others:
            kept |= self.ancestors[other]
        for value in values(self.ancestors[join.branch] & ~kept, self.trace):
            if value.op is None or within(value.op, calls) or not self.mixes(self.trace.ops[value.op]):
                continue
            if not begun or any(self.is_ancestor(other, value.n) for other in begun):
                return True
        return False

    def mixes(self, op: Op) -> bool:
        """Say whether an operation mixes channels by a parameter: a dense layer, a convolution, an attention."""
        if op.name in SHAPES or op.name in ADD or op.name in MUL or op.name in CAT:
            return False
        inputs = (self.trace.values[n] for n in op.inputs)
        return any(v.kind == "parameter" and len(v.shape) > 1 for v in inputs)

    def reached(self, replaced: Mapping[int, Iterable[int]] | None = None) -> int:
        """Return what the model's results depend on, as bits, where some values come from elsewhere.

        Args:
            replaced: Values -> what they are computed from instead.
        """
        replaced = replaced or {}
        found, waiting = 0, list(self.ends)
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
                waiting += self.trace.ops[op].inputs
        return found

    def is_added_to(self, value: int, other: int) -> bool:
        """Say whether a value is added to another one as it is."""
        ops = (self.trace.ops[n] for n in self.consumers[value])
        return any(op.name in ADD and other in op.inputs for op in ops)

    def followers(self, value: int, calls: list[Call], plain: Callable[[str], bool]) -> list[str]:
        """Return what directly follows a value: activations, norms, dropout, pooling, one behind the other.

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
            if path in found or not plain(path):
                return found
            found.append(path)
            outputs = list(self.trace.calls[ops[0].call].outputs.values())
            if len(outputs) != 1 or outputs[0] == value:
                return found
            value = outputs[0]

    def trigonometry(self, value: int) -> str:
        """Return ``cos`` or ``sin`` if a value is one, but for its scale and type; else an empty text."""
        for _ in range(8):
            n = self.trace.values[value].op
            if n is None:
                return ""
            op = self.trace.ops[n]
            if op.name in ("cos", "sin"):
                return op.name
            if not (op.name in SHAPES or op.name in MUL) or not op.inputs:
                return ""
            value = op.inputs[0]
        return ""

    def _joined(self, op: Op, value: int) -> Join | None:
        others = tuple(dict.fromkeys(n for n in op.inputs if n != value))
        kind = "add" if op.name in ADD else "mul" if op.name in MUL else "cat" if op.name in CAT else ""
        if op.name == "scaled_dot_product_attention" and _is_mask(op, value, self.trace):
            kind = "add"
        if not kind or not others or list(op.inputs).count(value) > 1:
            return None
        if op.name in ("sub", "sub_", "__sub__", "__isub__") and op.inputs[0] == value:
            return None
        if kind == "mul" and self._is_scale(others):
            return None
        if kind == "add" and not any(self.trace.values[n].is_float for n in others):
            return None
        return Join(kind, op, value, others)

    def _passes(self, op: Op, value: int) -> bool:
        if op.name in SHAPES:
            return True
        if op.name in MUL or op.name in DIVIDE:
            return op.inputs[0] == value and self._is_scale(tuple(n for n in op.inputs if n != value))
        return False

    def _is_masked(self, op: Op, value: int) -> bool:
        """Say whether an operation puts something else into some places of a value: then it is part of a mask."""
        others = [self.trace.values[n] for n in op.inputs if n != value]
        return op.name in MASKING and bool(others) and all(v.dtype in _BOOL or not v.shape for v in others)

    def _is_scale(self, others: tuple[int, ...]) -> bool:
        return not any(self.depends_on_content(n) for n in others)


_BOOL: Final = frozenset([torch.bool])


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


def _is_mask(op: Op, value: int, trace: Trace) -> bool:
    if not trace.values[value].is_float:
        return False
    shape = trace.values[value].shape
    mask = op.kwargs.get("attn_mask", op.args[3] if len(op.args) > 3 else None)  # noqa: PLR2004 - query, key, value, mask
    return mask is not None and tuple(mask.shape) == shape
