"""Which axes of a model's tensors are the same positions: pixels of a height, steps of a time, tokens.

Each axis of what goes into a model gets a label, and the labels go where its operations carry the axes: through
permutations, reshapes (an axis may consist of several: height and width, flattened), convolutions that leave another
number of positions, products and additions, in which axes that meet are the same. So an adapter never takes time for
channels, or tokens of one text for those of another.

Of some labels it is known that neighbours belong together: convolutions, local pooling, interpolation or recurrent
layers go along them. Others are only pooled as a whole. Latents, windows, and tokens without either are a set.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import torch

from etude.frameworks.removal.flow import within
from etude.frameworks.removal.operations import ADD, BLANKS, CAT, DIVIDE, MASKING, MUL, STACK
from etude.frameworks.removal.trace import Call, Op, Trace

Axis: TypeAlias = tuple[tuple[int, int], ...]
"""What an axis consists of: labels with sizes, the outermost first."""

SPATIAL: Final = re.compile(r"(conv|pool|interpolate|upsample|pixel_shuffle|pixel_unshuffle)(?:_transpose)?(\d?)")
MOVES: Final = frozenset(
    [*("permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "T", "mT", "H", "mH", "t", "adjoint")]
)
RESHAPES: Final = frozenset(
    [*("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "view_as", "reshape_as")]
)
REDUCTIONS: Final = frozenset(
    [*("mean", "sum", "amax", "amin", "max", "min", "logsumexp", "std", "var", "nanmean", "any", "all", "argmax")]
)
SLICES: Final = frozenset(
    [*("split", "chunk", "tensor_split", "split_with_sizes", "narrow", "index_select", "unbind", "select")]
)
MATRICES: Final = frozenset(["matmul", "__matmul__", "bmm"])
RECURRENT: Final = frozenset(["lstm", "gru", "rnn_tanh", "rnn_relu"])
TOGETHER: Final = ADD | MUL | DIVIDE | MASKING | frozenset(["maximum", "minimum", "lerp"])
PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19)


class Positions:
    """The positions of a run's tensors.

    Args:
        trace: The run.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._same: list[int] = []
        self._near, self._pooled, self._made = set[int](), set[int](), set[int]()
        self._taken: dict[int, tuple[Axis, int]] = {}
        self._whole: dict[tuple[int, int], int] = {}
        self._axes: list[tuple[Axis, ...]] = []
        for value in trace.values:
            self._axes.append(() if value.op is not None else self._unknown(value.shape))
        for op in trace.ops:
            found = self._after(op)
            for nth, (n, axes) in enumerate(zip(op.outputs, found, strict=False)):
                shape = trace.values[n].shape
                exact = len(axes) == len(shape) and all(_size(a) == s for a, s in zip(axes, shape, strict=True))
                self._axes[n] = tuple(map(self._joined, axes)) if exact else self._unknown(shape)
                if not exact and nth == 0:
                    self._axes[n] = self._like(op, shape)
            for n in op.outputs[len(found) :]:
                self._axes[n] = self._like(op, trace.values[n].shape)

    # --- what is asked ------------------------------------------------------------------------------

    def of(self, value: int) -> tuple[Axis, ...]:
        """Return what the axes of a value consist of."""
        return tuple(tuple((self._root(label), size) for label, size in axis) for axis in self._axes[value])

    def has_neighbours(self, label: int) -> bool:
        """Say whether positions beside each other belong together."""
        return self._root(label) in {self._root(n) for n in self._near}

    def is_pooled(self, label: int) -> bool:
        """Say whether the model itself makes one of all these positions."""
        return self._root(label) in {self._root(n) for n in self._near | self._pooled}

    def is_made(self, label: int) -> bool:
        """Say whether an axis is of layers of a recurrent network, and so of nothing that went in."""
        return self._root(label) in {self._root(n) for n in self._made}

    def taken(self, axis: Axis, calls: Sequence[Call]) -> int | None:
        """Return which one of an axis's positions these calls read, if it is always the same one: the first token."""
        found = {
            nth for n, (of, nth) in self._taken.items() if within(n, calls) and self._roots(of) == self._roots(axis)
        }
        return found.pop() if len(found) == 1 else None

    # --- labels -------------------------------------------------------------------------------------

    def _new(self) -> int:
        self._same.append(len(self._same))
        return len(self._same) - 1

    def _fresh(self, size: int) -> Axis:
        return ((self._new(), size),)

    def _unknown(self, shape: Sequence[int]) -> tuple[Axis, ...]:
        return tuple(self._fresh(size) for size in shape)

    def _root(self, label: int) -> int:
        while self._same[label] != label:
            self._same[label] = label = self._same[self._same[label]]
        return label

    def _roots(self, axis: Axis) -> tuple[int, ...]:
        return tuple(self._root(label) for label, _ in axis)

    def _unite(self, one: Axis, two: Axis) -> None:
        """Take two axes for the same positions."""
        if len(one) == len(two) and all(a[1] == b[1] for a, b in zip(one, two, strict=True)):
            for (a, _), (b, _) in zip(one, two, strict=True):
                self._same[self._root(b)] = self._root(a)

    def _joined(self, axis: Axis) -> Axis:
        """Return an axis in which what was taken apart, and stands together again, is one."""
        found: list[tuple[int, int]] = []
        for atom in axis:
            found.append(atom)
            while len(found) > 1 and (whole := self._whole.get((found[-2][0], found[-1][0]))) is not None:
                size = found[-2][1] * found[-1][1]
                found[-2:] = [(whole, size)]
        return tuple(found)

    def _resized(self, axis: Axis, size: int) -> Axis:
        """Return the same positions, another number of them."""
        if _size(axis) == size:
            return axis
        return ((axis[0][0], size),) if len(axis) == 1 else self._fresh(size)

    # --- operations ---------------------------------------------------------------------------------

    def _after(self, op: Op) -> list[tuple[Axis, ...]]:
        """Return the axes of an operation's results; of those that are left out, nothing in particular is known."""
        if not op.inputs:
            return []
        spatial = SPATIAL.search(op.name)
        if spatial is not None:
            return [self._slid(op, spatial[1], int(spatial[2] or 0))]
        for names, way in self._ways():
            if op.name in names:
                try:
                    return way(op)
                except (TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError):
                    return []  # called in a way that is not known
        return []

    def _ways(self) -> tuple[tuple[frozenset[str], Callable[[Op], list[tuple[Axis, ...]]]], ...]:
        return (
            (MOVES, self._moved),
            (RESHAPES, self._reshaped),
            (REDUCTIONS, self._reduced),
            (SLICES, self._sliced),
            (CAT | STACK, self._lengthened),
            (MATRICES, self._multiplied),
            (RECURRENT, self._gone_through),
            (TOGETHER, self._met),
            (frozenset(["__getitem__"]), self._picked),
            (frozenset(["linear", "embedding"]), self._made_wide),
            (frozenset(["addmm"]), lambda op: [(self._axes[op.inputs[1]][0], self._last(op))]),
            (frozenset(["pad"]), self._padded),
            (frozenset(["unfold"]), self._unfolded),
            (frozenset(["scaled_dot_product_attention"]), self._attended),
            (frozenset(["einsum"]), self._contracted),
        )

    def _shape(self, op: Op, nth: int = 0) -> tuple[int, ...]:
        return self._trace.values[op.outputs[nth]].shape

    def _rank(self, op: Op) -> int:
        return len(self._shape(op))

    def _made_wide(self, op: Op) -> list[tuple[Axis, ...]]:
        return [(*self._axes[op.inputs[0]][: self._rank(op) - 1], self._last(op))]

    def _last(self, op: Op) -> Axis:
        return self._fresh(self._shape(op)[-1])

    def _like(self, op: Op, shape: tuple[int, ...]) -> tuple[Axis, ...]:
        """Return axes as those of what an operation was given, where sizes agree, counted from behind."""
        given = [self._axes[n] for n in op.inputs if len(self._axes[n]) <= len(shape)]
        given.sort(key=lambda axes: len(axes) != len(shape))
        found = []
        for axis, size in enumerate(shape):
            behind = axis - len(shape)
            same = (axes[behind] for axes in given if -behind <= len(axes) and _size(axes[behind]) == size)
            found.append(next(same, ()) or self._fresh(size))
        return tuple(found)

    def _met(self, op: Op) -> list[tuple[Axis, ...]]:
        shape = self._shape(op)
        order = sorted(op.inputs, key=lambda n: self._trace.values[n].kind in ("parameter", "buffer", "constant"))
        found = []
        for axis, size in enumerate(shape):
            behind = axis - len(shape)
            axes = [self._axes[n][behind] for n in order if -behind <= len(self._axes[n])]
            axes = [each for each in axes if _size(each) == size]
            for other in axes[1:]:
                if size > 1:
                    self._unite(axes[0], other)
            found.append(axes[0] if axes else self._fresh(size))
        return [tuple(found)]

    def _slid(self, op: Op, kind: str, n: int) -> tuple[Axis, ...]:
        """Follow what goes along positions; they are neighbours if it looks at several of them."""
        x, shape = self._axes[op.inputs[0]], self._shape(op)
        n = n or (2 if kind.startswith("pixel") else len(shape) - 2)
        if len(x) != len(shape) or len(shape) <= n:
            return self._unknown(shape)
        kernel: Sequence[int] = [2] * n
        if kind == "conv" and len(op.inputs) > 1:
            kernel = self._trace.values[op.inputs[1]].shape[-n:]
        for axis, size, reach in zip(x[-n:], shape[-n:], kernel, strict=True):
            if len(axis) == 1 and reach > 1 and _size(axis) > 1:
                (self._near if size > 1 else self._pooled).add(axis[0][0])
        same = shape[-n - 1] == _size(x[-n - 1]) and kind != "conv"
        width = x[-n - 1] if same else None
        resized = [self._resized(axis, size) for axis, size in zip(x[-n:], shape[-n:], strict=True)]
        return (*x[: -n - 1], width or self._fresh(shape[-n - 1]), *resized)

    def _moved(self, op: Op) -> list[tuple[Axis, ...]]:
        x = self._axes[op.inputs[0]]
        order = moved_axes(op, len(x))
        return [] if order is None else [tuple(x[n] for n in order)]

    def _reshaped(self, op: Op) -> list[tuple[Axis, ...]]:
        atoms = [atom for axis in self._axes[op.inputs[0]] for atom in axis if atom[1] != 1]
        found: list[Axis] = []
        for size in self._shape(op):
            got: list[tuple[int, int]] = []
            left = size
            while left > 1 and atoms:
                label, has = atoms.pop(0)
                if has > left and has % left == 0:
                    outer, inner = self._new(), self._new()
                    self._whole[outer, inner] = label
                    atoms.insert(0, (inner, has // left))
                    label, has = outer, left
                if left % has:
                    return [tuple(found)]  # of the wrong rank: nothing is known
                got.append((label, has))
                left //= has
            found.append(tuple(got) or self._fresh(size))
        return [tuple(found)]

    def _reduced(self, op: Op) -> list[tuple[Axis, ...]]:
        x = self._axes[op.inputs[0]]
        dim: Any = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else None)
        if isinstance(dim, torch.Tensor):
            return []
        gone = {int(n) % max(len(x), 1) for n in ([dim] if isinstance(dim, int) else dim or range(len(x)))}
        for n in gone:
            self._pooled.update(label for label, size in x[n] if size > 1)
        kept = len(self._shape(op)) == len(x) > 0 and bool(gone)
        if kept:
            found = tuple(((axis[0][0], 1),) if n in gone else axis for n, axis in enumerate(x))
        else:
            found = tuple(axis for n, axis in enumerate(x) if n not in gone)
        return [found for _ in op.outputs]

    def _sliced(self, op: Op) -> list[tuple[Axis, ...]]:
        x = self._axes[op.inputs[0]]
        at = 1 if op.name in ("narrow", "index_select", "unbind", "select") else 2
        axis = int(op.kwargs.get("dim", op.args[at] if len(op.args) > at else 0)) % len(x)
        if op.name in ("unbind", "select"):
            if op.name == "select":
                self._taken[op.n] = x[axis], int(op.kwargs.get("index", op.args[-1]))
            return [(*x[:axis], *x[axis + 1 :]) for _ in op.outputs]
        sizes = [self._shape(op, nth)[axis] for nth in range(len(op.outputs))]
        return [(*x[:axis], self._resized(x[axis], size), *x[axis + 1 :]) for size in sizes]

    def _picked(self, op: Op) -> list[tuple[Axis, ...]]:
        x, index = list(self._axes[op.inputs[0]]), op.args[1]
        index = list(index) if isinstance(index, tuple) else [index]
        if any(isinstance(one, torch.Tensor | list) for one in index):
            return []
        given = sum(one is not None and one is not Ellipsis for one in index)
        if Ellipsis not in index:
            index.append(Ellipsis)
        found: list[Axis] = []
        for one in index:
            if one is None:
                found.append(self._fresh(1))
            elif one is Ellipsis:
                rest = len(self._axes[op.inputs[0]]) - given
                found += x[:rest]
                del x[:rest]
            elif isinstance(one, slice):
                size = len(range(*one.indices(_size(x[0]))))
                found.append(self._resized(x.pop(0), size))
            else:
                self._taken[op.n] = x.pop(0), int(one)
        return [tuple(found)]

    def _lengthened(self, op: Op) -> list[tuple[Axis, ...]]:
        """Follow a concatenation: of positions with something else beside them, nothing is known."""
        given, shape = [self._axes[n] for n in op.inputs], self._shape(op)
        dim = int(op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else 0)) % len(shape)
        if op.name in STACK:
            given = [(*axes[:dim], self._fresh(len(op.inputs)), *axes[dim:]) for axes in given]
        content = [axes[dim] for n, axes in zip(op.inputs, given, strict=True) if not self._is_blank(n)]
        long = self._resized(content[0], shape[dim]) if len(content) == 1 else self._fresh(shape[dim])
        for axes in given[1:]:
            for n, axis in enumerate(axes):
                if n != dim:
                    self._unite(given[0][n], axis)
        return [(*given[0][:dim], long, *given[0][dim + 1 :])]

    def _is_blank(self, value: int) -> bool:
        here = self._trace.values[value]
        op = None if here.op is None else self._trace.ops[here.op]
        return here.kind == "constant" or (op is not None and (not op.inputs or op.name in BLANKS))

    def _multiplied(self, op: Op) -> list[tuple[Axis, ...]]:
        one, two = (self._axes[n] for n in op.inputs[:2])
        if min(len(one), len(two)) < 2:  # noqa: PLR2004 - a vector has no rows
            return []
        return [(*self._broadcast(one[:-2], two[:-2]), one[-2], two[-1])]

    def _attended(self, op: Op) -> list[tuple[Axis, ...]]:
        query, value = self._axes[op.inputs[0]], self._axes[op.inputs[2]]
        return [(*query[:-1], value[-1])]

    def _contracted(self, op: Op) -> list[tuple[Axis, ...]]:
        left, right = str(op.args[0]).replace(" ", "").split("->")
        named: dict[str, Axis] = {}
        for side, n in zip(left.split(","), op.inputs, strict=True):
            for letter, axis in zip(side, self._axes[n], strict=True):
                named.setdefault(letter, axis)
        return [tuple(named[letter] for letter in right)]

    def _broadcast(self, one: tuple[Axis, ...], two: tuple[Axis, ...]) -> tuple[Axis, ...]:
        short, long = sorted((one, two), key=len)
        short = (*(((-1, 1),) for _ in range(len(long) - len(short))), *short)
        return tuple(a if _size(a) > 1 else b for a, b in zip(long, short, strict=True))

    def _gone_through(self, op: Op) -> list[tuple[Axis, ...]]:
        """Follow a recurrent layer: time is ordered, and a state has an axis of layers."""
        x, out = self._axes[op.inputs[0]], self._shape(op)
        if len(x) != len(out) or len(x) < 2:  # noqa: PLR2004 - packed
            return []
        self._near.update(label for axis in x[:-1] for label, _ in axis)
        found: list[tuple[Axis, ...]] = [(*x[:-1], self._last(op))]
        for nth in range(1, len(op.outputs)):
            shape = self._shape(op, nth)
            layers = self._new()
            self._made.add(layers)
            found.append((((layers, shape[0]),), *(self._fresh(size) for size in shape[1:])))
        return found

    def _padded(self, op: Op) -> list[tuple[Axis, ...]]:
        x = self._axes[op.inputs[0]]
        return [tuple(self._resized(axis, size) for axis, size in zip(x, self._shape(op), strict=True))]

    def _unfolded(self, op: Op) -> list[tuple[Axis, ...]]:
        x, shape = self._axes[op.inputs[0]], self._shape(op)
        if len(shape) != len(x) + 1:
            return []
        axis = int(op.kwargs.get("dimension", op.args[1])) % len(x)
        if len(x[axis]) == 1:
            self._near.add(x[axis][0][0])
        return [(*x[:axis], self._resized(x[axis], shape[axis]), *x[axis + 1 :], self._last(op))]


def moved_axes(op: Op, rank: int) -> list[int] | None:
    """Return which axis each axis of a permutation's result was; None if that is not known."""
    coded = torch.empty(PRIMES[:rank], device="meta")
    try:
        with torch._C.DisableTorchFunction():
            if op.name in ("T", "mT", "H", "mH"):
                moved = getattr(coded, op.name)
            else:
                kwargs = {name: value for name, value in op.kwargs.items() if name != "input"}
                moved = getattr(torch.Tensor, op.name)(coded, *op.args[1:], **kwargs)
        return [PRIMES.index(size) for size in moved.shape]
    except (TypeError, ValueError, IndexError, AttributeError, RuntimeError):
        return None


def _size(axis: Axis) -> int:
    return math.prod(size for _, size in axis)
