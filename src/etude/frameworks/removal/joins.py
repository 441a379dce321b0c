"""Where a value meets others: the end of a branch, a gate, a part of a concatenation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch

from etude.frameworks.removal.flow import Flow, values, within
from etude.frameworks.removal.operations import (
    ADD,
    CAT,
    CONTRACTIONS,
    DIVIDE,
    FAITHFUL,
    GATES,
    GREATEST,
    LEAST,
    LIMITS,
    MASKING,
    MUL,
    SHAPES,
    SHARING,
    STACK,
    STACKED,
    STILL,
    TAKE,
)
from etude.frameworks.removal.trace import Call, Op, Trace

KINDS: Final = ((ADD, "add"), (MUL, "mul"), (CAT | STACK, "cat"), (LEAST, "least"), (GREATEST, "greatest"))
"""Operations that join -> how."""
AS_IT_IS: Final = "as it is"
MASKED: Final = "masked"
STILL_NOTHING: Final = "still nothing"


@dataclass(frozen=True)
class Join:
    """Where a value meets another one.

    Attributes:
        kind: ``add``, ``mul``, ``cat``, ``least`` or ``greatest``.
        op: The operation.
        branch: What of it comes from the value.
        others: What comes from elsewhere.
    """

    kind: str
    op: Op
    branch: int
    others: tuple[int, ...]


@dataclass(frozen=True)
class _On:
    """How a value goes on: as it is, or so that only a 0 is still one."""

    how: str
    values: tuple[int, ...]


class Joins:
    """Where the values of a run meet.

    Args:
        flow: The run's data flow.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow, self._trace = flow, flow.trace

    def of(self, value: int, own: Call, calls: list[Call], *, dropped: bool = False) -> list[Join]:
        """Return where a value meets others, for each of its uses; empty unless all of them end so.

        A value that meets what was made of it alone joins nothing: that is how activations are written out. Where one
        of them, or a norm, lies between, only a 0 comes through, and only what the branch began with can be met.

        Args:
            value: What a module gave.
            own: In which call.
            calls: All calls of that module: where the value comes back to it, it meets nothing else.
            dropped: Whether it is known that branches go, whatever they began with.
        """
        found: list[Join] = []
        waiting, seen, ways = [value], set[int](), set[str]()
        while waiting:
            now = waiting.pop()
            if now in seen:
                continue
            seen.add(now)
            if now in self._flow.ends or any(within(n, calls) and not within(n, [own]) for n in self._uses(now)):
                return []
            for n in self._uses(now):
                if within(n, [own]):
                    continue
                met = self._met(now, n)
                if met is None:
                    return []
                if not isinstance(met, Join):
                    ways.add(met.how)
                    waiting += met.values
                elif not any(self._has_more(other, value) for other in met.others):
                    return []
                else:
                    found.append(met)
        if STILL_NOTHING in ways and not dropped and not all(self.begun(joined, calls) for joined in found):
            return []
        return [] if ways - {AS_IT_IS} and any(joined.kind != "add" for joined in found) else found

    def gated(self, value: int) -> tuple[str, list[Join]]:
        """Return which kind of gate is made of a value, and where that scales something; empty if none is.

        It is ``sigmoid``, ``softmax``, or ``one plus``, as of ``x * (1 + f(x))``.
        """
        found: list[Join] = []
        kind = ""
        waiting, seen = [(value, "")], set[int]()
        while waiting:
            now, by = waiting.pop()
            if now in self._flow.ends:
                return "", []
            for op in (self._trace.ops[n] for n in self._uses(now) if n not in seen):
                seen.add(op.n)
                joined = self._joined(op, now)
                if joined is not None and joined.kind == "mul" and by:
                    found.append(joined)
                elif op.name in SHAPES:
                    waiting += [(out, by) for out in op.outputs]
                elif op.name in GATES | SHARING and not by and kind != "one plus":
                    kind = "softmax" if op.name in SHARING else kind or "sigmoid"
                    waiting += [(out, op.name) for out in op.outputs]
                elif self._is_one_plus(op, now) and not by and kind in ("", "one plus"):
                    kind = "one plus"
                    waiting += [(out, kind) for out in op.outputs]
                else:
                    return "", []
        return (kind, found) if found else ("", [])

    def _has_more(self, other: int, value: int) -> bool:
        """Say whether something has content in it that does not come from a value."""
        if not self._flow.is_ancestor(value, other):
            return True
        return bool(self._flow.reached({value: ()}, ends=[other]) & self._flow.content_bits)

    def _uses(self, value: int) -> list[int]:
        return self._flow.consumers[value]

    def _met(self, value: int, n: int) -> Join | _On | None:
        """Return what a value meets in an operation, or how it goes on; None if it becomes something else."""
        op = self._trace.ops[n]
        norm = self._norm_of(value, n)
        if norm is not None:
            return _On(STILL_NOTHING, (norm,))
        joined = self._joined(op, value)
        if joined is not None and not (joined.kind == "add" and self._is_scale(joined.others)):
            return joined
        if self._passes(op, value):
            return _On(AS_IT_IS, op.outputs)
        if joined is not None or self._is_masked(op, value):  # a bias beside a mask, say: for a 0 alone
            return _On(MASKED, op.outputs)
        return _On(STILL_NOTHING, op.outputs) if self.is_still(op, value) else None

    def is_still(self, op: Op, value: int) -> bool:
        """Say whether an operation makes nothing of nothing."""
        return op.inputs[0] == value and (op.name in STILL or (op.name in LIMITS and _holds_nothing(op)))

    def _norm_of(self, value: int, op: int) -> int | None:
        """Return what a norm makes of a value, if an operation is a norm's: it may be written out in many."""
        for call in reversed(self._trace.calls):
            if not within(op, [call]) or "norm" not in call.kind.lower() or value not in call.inputs.values():
                continue
            mixes = any(self._flow.mixes(self._trace.ops[n]) for n in range(call.first, call.end))
            if len(call.inputs) == len(call.outputs) == 1 and not mixes:
                return next(iter(call.outputs.values()))
        return None

    def begun(self, join: Join, calls: list[Call]) -> list[int]:
        """Return what a branch began with, of what it is joined with."""
        inputs = [n for call in calls for n in call.inputs.values()]
        return [other for other in join.others if any(self._flow.is_ancestor(other, n) for n in inputs)]

    def mixing_left(self, join: Join, calls: list[Call], besides: int = 0, own: Call | None = None) -> bool:
        """Say whether a branch has layers that mix, besides what these calls did: then it is still a branch.

        Where what it meets is what it began with (a residual connection), the branch is what lies between the two: an
        encoder that is read on the way is none of it. Else it is all that only this side has.

        Args:
            join: Where it meets the rest.
            calls: What goes.
            besides: Values that do not count, as bits.
            own: Which of the calls it is about, if what others of them were given does not matter.
        """
        begun = self.begun(join, calls if own is None else [own])
        kept = besides
        for other in join.others:
            kept |= self._flow.ancestors[other]
        for value in values(self._flow.ancestors[join.branch] & ~kept, self._trace):
            if value.op is None or within(value.op, calls) or not self._flow.mixes(self._trace.ops[value.op]):
                continue
            if not begun or any(self._flow.is_ancestor(other, value.n) for other in begun):
                return True
        return False

    def trigonometry(self, value: int) -> str:
        """Return ``cos`` or ``sin`` if a value is one, but for its scale and type; else an empty text."""
        for _ in range(8):
            n = self._trace.values[value].op
            if n is None:
                return ""
            op = self._trace.ops[n]
            if op.name in ("cos", "sin"):
                return op.name
            if not (op.name in SHAPES or op.name in MUL) or not op.inputs:
                return ""
            value = op.inputs[0]
        return ""

    def is_summand(self, value: int) -> bool:
        """Say whether a value is added to something else before a layer mixes.

        Then it may have fewer channels than the sum, and zeros beside them, as in the shortcuts of ResNets. Not so
        where it is a factor first: zeros there take away what they are multiplied with.
        """
        own = self._flow.made_of(value)
        waiting, seen = [value], set[int]()
        while waiting:
            now = waiting.pop()
            for op in (self._trace.ops[n] for n in self._uses(now) if n not in seen):
                others = [other for other in op.inputs if other not in own]
                if op.name in ADD and any(map(self._flow.carries, others)):
                    return True
                seen.add(op.n)
                waiting += [] if self._flow.mixes(op) or op.name in CONTRACTIONS else op.outputs
        return False

    def is_moved(self, join: Join, value: int) -> bool:
        """Say whether what a join reads is a value that was only moved: whatever number it is, it still is."""
        now = join.branch
        while now != value and (made := self._trace.values[now].op) is not None:
            op = self._trace.ops[made]
            if op.name not in FAITHFUL:
                return False
            now = op.inputs[0]
        return now == value

    def is_scaled(self, join: Join) -> bool:
        """Say whether a branch is the larger side of a product: then it is what a gate scales, and none itself."""
        return math.prod(self._trace.values[join.branch].shape) > max(map(self._before_repeats, join.others))

    def _before_repeats(self, value: int) -> int:
        """Return how many numbers there are in a value, those counted once that were repeated to fit."""
        least = math.prod(self._trace.values[value].shape)
        while (made := self._trace.values[value].op) is not None and self._trace.ops[made].name in SHAPES:
            value = self._trace.ops[made].inputs[0]
            least = min(least, math.prod(self._trace.values[value].shape))
        return least

    def _joined(self, op: Op, value: int) -> Join | None:
        others = tuple(dict.fromkeys(n for n in op.inputs if n != value))
        kind = next((kind for names, kind in KINDS if op.name in names), "")
        if op.name in DIVIDE and op.inputs[0] != value:
            kind = "mul"
        if op.name == "scaled_dot_product_attention" and _is_mask(op, value, self._trace):
            kind = "add"
        if not kind or not others or list(op.inputs).count(value) > 1:
            return None
        if kind in ("mul", "least", "greatest") and self._is_scale(others):  # a limit, as of an activation
            return None
        if kind == "add" and not any(self._trace.values[n].is_float for n in others):
            return None
        return Join(kind, op, value, others)

    def _passes(self, op: Op, value: int) -> bool:
        if op.name in SHAPES:
            return True
        if op.name in ADD:  # sum() begins with a 0
            return all(n == value for n in op.inputs) and len(op.inputs) == 1 and 0 in _numbers(op)
        if op.name in MUL or (op.name in DIVIDE and op.inputs[0] == value):
            return self._is_scale(tuple(n for n in op.inputs if n != value))
        return False

    def _is_one_plus(self, op: Op, value: int) -> bool:
        """Say whether an operation adds a 1 to a value, or takes it from a 1: where it is 0, a 1 comes out."""
        takes_1 = op.name in TAKE and isinstance(op.args[0], torch.Tensor)
        return op.name in ADD and not takes_1 and op.inputs == (value,) and _numbers(op) == [1]

    def reduced(self, join: Join) -> str:
        """Return the operation that reads a 0 beside the rest of a stack as if it were a part; empty if none does."""
        waiting, seen = [*join.op.outputs], set[int]()
        while waiting:
            now = waiting.pop()
            for n in self._uses(now):
                op = self._trace.ops[n]
                if n in seen or self._flow.mixes(op) or self._norm_of(now, n) is not None:
                    continue
                seen.add(n)
                if op.name not in STACKED and any(self._trace.values[out].is_float for out in op.outputs):
                    return op.name
                if op.name in SHAPES | MUL | DIVIDE | MASKING:
                    waiting += [out for out in op.outputs if self._trace.values[out].is_float]
        return ""

    def _is_masked(self, op: Op, value: int) -> bool:
        """Say whether an operation puts something else into some places of a value: then it is part of a mask."""
        others = [self._trace.values[n] for n in op.inputs if n != value]
        return op.name in MASKING and bool(others) and all(v.dtype in [torch.bool] or not v.shape for v in others)

    def _is_scale(self, others: tuple[int, ...]) -> bool:
        return not any(self._flow.depends_on_content(n) for n in others)


def _holds_nothing(op: Op) -> bool:
    """Say whether the limits of a clamp are numbers that have 0 between them."""
    given = dict(zip(("min", "max"), op.args[1:], strict=False)) | op.kwargs
    low, high = given.get("min"), given.get("max")
    return all(one is None or isinstance(one, int | float) for one in (low, high)) and (low or 0) <= 0 <= (high or 0)


def _numbers(op: Op) -> list[float]:
    return [one for one in op.args if isinstance(one, int | float)]


def _is_mask(op: Op, value: int, trace: Trace) -> bool:
    if not trace.values[value].is_float:
        return False
    shape = trace.values[value].shape
    mask = op.kwargs.get("attn_mask", op.args[3] if len(op.args) > 3 else None)  # noqa: PLR2004 - query, key, value, mask
    return mask is not None and tuple(mask.shape) == shape
