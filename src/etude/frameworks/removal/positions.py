"""Which axes of a model's tensors are the same positions: pixels of a height, steps of a time, tokens.

Each axis of what goes into a model gets a label, and the labels go where its operations carry the axes: through
permutations, reshapes (an axis may consist of several: height and width, flattened), convolutions that leave another
number of positions, products and additions, in which axes that meet are the same. So an adapter never takes time for
channels, or tokens of one text for those of another.

Of some labels it is known that neighbours belong together: convolutions, local pooling, interpolation or recurrent
layers go along them. Others are only pooled as a whole. Latents, windows, and tokens without either are a set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from etude.frameworks.removal.flow import within
from etude.frameworks.removal.operations import ADD, BLANKS, CAT, DIVIDE, MASKING, MUL, STACK
from etude.frameworks.removal.permutations import MOVES, moved_axes
from etude.frameworks.removal.sameness import Axis, Sameness, size_of
from etude.frameworks.removal.trace import Call, Op, Trace

SPATIAL: Final = re.compile(r"(conv|pool|interpolate|upsample|pixel_shuffle|pixel_unshuffle)(?:_transpose)?(\d?)")
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


class Positions:
    """The positions of a run's tensors.

    Args:
        trace: The run.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._labels = Sameness()
        self._near, self._pooled, self._made = set[int](), set[int](), set[int]()
        self._taken: dict[int, tuple[Axis, int]] = {}
        self._axes: list[tuple[Axis, ...]] = []
        for value in trace.values:
            self._axes.append(() if value.op is not None else self._labels.unknown(value.shape))
        for op in trace.ops:
            found = self._after(op)
            for nth, (n, axes) in enumerate(zip(op.outputs, found, strict=False)):
                shape = trace.values[n].shape
                exact = len(axes) == len(shape) and all(size_of(a) == s for a, s in zip(axes, shape, strict=True))
                self._axes[n] = tuple(map(self._labels.joined, axes)) if exact else self._labels.unknown(shape)
                if not exact and nth == 0:
                    self._axes[n] = self._like(op, shape)
            for n in op.outputs[len(found) :]:
                self._axes[n] = self._like(op, trace.values[n].shape)

    # --- what is asked ------------------------------------------------------------------------------

    def of(self, value: int) -> tuple[Axis, ...]:
        """Return what the axes of a value consist of."""
        return tuple(tuple((self._labels.root(label), size) for label, size in axis) for axis in self._axes[value])

    def has_neighbours(self, label: int) -> bool:
        """Say whether positions beside each other belong together."""
        return self._labels.root(label) in {self._labels.root(n) for n in self._near}

    def is_pooled(self, label: int) -> bool:
        """Say whether the model itself makes one of all these positions."""
        return self._labels.root(label) in {self._labels.root(n) for n in self._near | self._pooled}

    def is_made(self, label: int) -> bool:
        """Say whether an axis is of layers of a recurrent network, and so of nothing that went in."""
        return self._labels.root(label) in {self._labels.root(n) for n in self._made}

    def taken(self, axis: Axis, calls: Sequence[Call]) -> int | None:
        """Return which one of an axis's positions these calls read, if it is always the same one: the first token."""
        same = self._labels.roots(axis)
        taken = self._taken.items()
        found = {nth for n, (of, nth) in taken if within(n, calls) and self._labels.roots(of) == same}
        return found.pop() if len(found) == 1 else None

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
        return self._labels.fresh(self._shape(op)[-1])

    def _like(self, op: Op, shape: tuple[int, ...]) -> tuple[Axis, ...]:
        """Return axes as those of what an operation was given, where sizes agree, counted from behind."""
        given = [self._axes[n] for n in op.inputs if len(self._axes[n]) <= len(shape)]
        given.sort(key=lambda axes: len(axes) != len(shape))
        found = []
        for axis, size in enumerate(shape):
            behind = axis - len(shape)
            same = (axes[behind] for axes in given if -behind <= len(axes) and size_of(axes[behind]) == size)
            found.append(next(same, ()) or self._labels.fresh(size))
        return tuple(found)

    def _met(self, op: Op) -> list[tuple[Axis, ...]]:
        shape = self._shape(op)
        order = sorted(op.inputs, key=lambda n: self._trace.values[n].kind in ("parameter", "buffer", "constant"))
        found = []
        for axis, size in enumerate(shape):
            behind = axis - len(shape)
            axes = [self._axes[n][behind] for n in order if -behind <= len(self._axes[n])]
            axes = [each for each in axes if size_of(each) == size]
            for other in axes[1:]:
                if size > 1:
                    self._labels.unite(axes[0], other)
            found.append(axes[0] if axes else self._labels.fresh(size))
        return [tuple(found)]

    def _slid(self, op: Op, kind: str, n: int) -> tuple[Axis, ...]:
        """Follow what goes along positions; they are neighbours if it looks at several of them."""
        x, shape = self._axes[op.inputs[0]], self._shape(op)
        n = n or (2 if kind.startswith("pixel") else len(shape) - 2)
        if len(x) != len(shape) or len(shape) <= n:
            return self._labels.unknown(shape)
        kernel: Sequence[int] = [2] * n
        if kind == "conv" and len(op.inputs) > 1:
            kernel = self._trace.values[op.inputs[1]].shape[-n:]
        for axis, size, reach in zip(x[-n:], shape[-n:], kernel, strict=True):
            if len(axis) == 1 and reach > 1 and size_of(axis) > 1:
                (self._near if size > 1 else self._pooled).add(axis[0][0])
        same = shape[-n - 1] == size_of(x[-n - 1]) and kind != "conv"
        width = x[-n - 1] if same else None
        resized = [self._labels.resized(axis, size) for axis, size in zip(x[-n:], shape[-n:], strict=True)]
        return (*x[: -n - 1], width or self._labels.fresh(shape[-n - 1]), *resized)

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
                    outer, inner = self._labels.split(label)
                    atoms.insert(0, (inner, has // left))
                    label, has = outer, left
                if left % has:
                    return [tuple(found)]  # of the wrong rank: nothing is known
                got.append((label, has))
                left //= has
            found.append(tuple(got) or self._labels.fresh(size))
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
        return [(*x[:axis], self._labels.resized(x[axis], size), *x[axis + 1 :]) for size in sizes]

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
                found.append(self._labels.fresh(1))
            elif one is Ellipsis:
                rest = len(self._axes[op.inputs[0]]) - given
                found += x[:rest]
                del x[:rest]
            elif isinstance(one, slice):
                size = len(range(*one.indices(size_of(x[0]))))
                found.append(self._labels.resized(x.pop(0), size))
            else:
                self._taken[op.n] = x.pop(0), int(one)
        return [tuple(found)]

    def _lengthened(self, op: Op) -> list[tuple[Axis, ...]]:
        """Follow a concatenation: of positions with something else beside them, nothing is known."""
        given, shape = [self._axes[n] for n in op.inputs], self._shape(op)
        dim = int(op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else 0)) % len(shape)
        if op.name in STACK:
            given = [(*axes[:dim], self._labels.fresh(len(op.inputs)), *axes[dim:]) for axes in given]
        content = [axes[dim] for n, axes in zip(op.inputs, given, strict=True) if not self._is_blank(n)]
        long = self._labels.resized(content[0], shape[dim]) if len(content) == 1 else self._labels.fresh(shape[dim])
        for axes in given[1:]:
            for n, axis in enumerate(axes):
                if n != dim:
                    self._labels.unite(given[0][n], axis)
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
        return tuple(a if size_of(a) > 1 else b for a, b in zip(long, short, strict=True))

    def _gone_through(self, op: Op) -> list[tuple[Axis, ...]]:
        """Follow a recurrent layer: time is ordered, and a state has an axis of layers."""
        x, out = self._axes[op.inputs[0]], self._shape(op)
        if len(x) != len(out) or len(x) < 2:  # noqa: PLR2004 - packed
            return []
        self._near.update(label for axis in x[:-1] for label, _ in axis)
        found: list[tuple[Axis, ...]] = [(*x[:-1], self._last(op))]
        for nth in range(1, len(op.outputs)):
            shape = self._shape(op, nth)
            layers = self._labels.new()
            self._made.add(layers)
            found.append((((layers, shape[0]),), *(self._labels.fresh(size) for size in shape[1:])))
        return found

    def _padded(self, op: Op) -> list[tuple[Axis, ...]]:
        x = self._axes[op.inputs[0]]
        return [tuple(self._labels.resized(axis, size) for axis, size in zip(x, self._shape(op), strict=True))]

    def _unfolded(self, op: Op) -> list[tuple[Axis, ...]]:
        x, shape = self._axes[op.inputs[0]], self._shape(op)
        if len(shape) != len(x) + 1:
            return []
        axis = int(op.kwargs.get("dimension", op.args[1])) % len(x)
        if len(x[axis]) == 1:
            self._near.add(x[axis][0][0])
        return [(*x[:axis], self._labels.resized(x[axis], shape[axis]), *x[axis + 1 :], self._last(op))]
