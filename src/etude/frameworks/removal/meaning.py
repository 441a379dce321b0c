"""Which axis of a tensor means what: examples, width, and the rest.

Which axis has the examples is not guessed: the model is run with two numbers of examples, and the axis whose size
differs has them. Which one is the width follows from the layers that made the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from etude.frameworks.removal.attended import attended
from etude.frameworks.removal.edits import Axes, Dim
from etude.frameworks.removal.nested import Path
from etude.frameworks.removal.positions import Positions
from etude.frameworks.removal.sameness import Axis
from etude.frameworks.removal.trace import Call, Op, Trace

CHANNELS_FIRST: Final = (
    *("conv", "batch_norm", "group_norm", "instance_norm", "max_pool", "avg_pool", "lp_pool", "fractional_max_pool"),
    *("interpolate", "upsample", "pixel_shuffle", "prelu"),
)
CHANNELS_LAST: Final = ("linear", "layer_norm", "rms_norm", "embedding", "lstm", "gru", "rnn_tanh", "rnn_relu", "addmm")
DEEP: Final = 4
"""A tensor of so many axes has its channels second, unless a layer says otherwise."""


class Meaning:
    """What the axes of a trace's tensors mean.

    Args:
        trace: The trace.
        batch: How many examples there were.
        other: A trace of the same model with another number of examples; None if that did not go.
        other_batch: How many there were.
    """

    def __init__(self, trace: Trace, batch: int, other: Trace | None, other_batch: int) -> None:
        self._trace, self._batch, self._other_batch = trace, batch, other_batch
        self._pairs: dict[int, tuple[int, ...]] = {}
        if other is not None:
            for mine, its in zip(trace.calls, other.calls, strict=False):
                if mine.path != its.path:
                    break
                for group, there in ((mine.inputs, its.inputs), (mine.outputs, its.outputs)):
                    for path, n in group.items():
                        if path in there:
                            self._pairs[n] = other.values[there[path]].shape
        self.known = other is not None

    def other_shape(self, value: int) -> tuple[int, ...]:
        """Return the shape that it has with another number of examples."""
        return self._pairs.get(value, self._trace.values[value].shape)

    def batch_axis(self, value: int) -> tuple[int | None, int]:
        """Return which axis has the examples, and how many of its entries each has."""
        shape = self._trace.values[value].shape
        if not self.known:
            return (0, 1) if shape and shape[0] == self._batch else (None, 1)
        for axis, (size, there) in enumerate(zip(shape, self.other_shape(value), strict=False)):
            if size != there:
                each = size // self._batch
                exact = size == each * self._batch and there == each * self._other_batch
                return axis, each if exact else 0
        return None, 1

    def axes(self, value: int, readers: Sequence[Call] = ()) -> Axes | None:
        """Return what the axes of a value mean, to calls that read it; None if its examples cannot be told apart."""
        shape = self._trace.values[value].shape
        batch, each = self.batch_axis(value)
        if not each:
            return None
        width = self.width_axis(value, readers)
        if batch is not None and width == batch and len(shape) > 1:
            width = len(shape) - 1 if batch != len(shape) - 1 else 0
        return Axes(batch, each, max(width, 0))

    def width_axis(self, value: int, readers: Sequence[Call] = ()) -> int:
        """Return which axis has the channels or features.

        Args:
            value: The value.
            readers: Calls that read it: what are channels to them counts more than what they were to others. Of a
                series, a moving average goes along the time, of which a dense layer makes its features.
        """
        found = self._read_by(readers, value) if readers else None
        found = self._widths[value] if found is None else found
        shape = self._trace.values[value].shape
        if found is not None and -1 < found < len(shape):
            return found
        if not shape:
            return 0
        if (carried := self._carried_width(value)) is not None:
            return carried
        return 1 if len(shape) >= DEEP else len(shape) - 1

    def _read_by(self, calls: Sequence[Call], value: int) -> int | None:
        """Return which axis is the width to the first layer in these calls that reads a value itself."""
        for op in (op for call in calls for op in self._trace.ops[call.first : call.end]):
            axis = self._of_layer(op, value) if op.inputs and op.inputs[0] == value else None
            if axis is not None:
                return axis
        return None

    def has_channels(self, value: int) -> bool:
        """Say whether a layer says which axis of a value has channels, be it a later one that reads them."""
        return self._widths[value] is not None or self._carried_width(value) is not None

    def _carried_width(self, value: int) -> int | None:
        """Return the axis that layers take for channels further on, to which it is moved; None if there is no one."""
        found = [n for n, axis in enumerate(self.positions.of(value)) if axis in self._channels]
        return found[0] if len(found) == 1 and found[0] != self.batch_axis(value)[0] else None

    @cached_property
    def _channels(self) -> set[Axis]:
        """What axes consist of that layers take for channels, but for single ones."""
        found = set[Axis]()
        for op in self._trace.ops:
            of_floats = bool(op.inputs) and self._trace.values[op.inputs[0]].is_float  # ids of tokens have no channels
            axis = self._of_layer(op, op.inputs[0]) if of_floats else None
            if axis is not None and self._trace.values[op.inputs[0]].shape[axis : axis + 1] not in ((), (1,)):
                found.add(self.positions.of(op.inputs[0])[axis])
        return found

    def dims(self, call: Call, value: int) -> tuple[Dim, ...]:
        """Return the shape of a value, as it follows from what its call was given."""
        width = self.width_axis(value)
        there = self.other_shape(value)
        shape = self._trace.values[value].shape
        return tuple(self._dim(call, axis, shape[axis], there[axis], axis == width) for axis in range(len(shape)))

    def _dim(self, call: Call, axis: int, size: int, there: int, is_width: bool) -> Dim:
        if not self.known:
            return self._dim_of_examples(call, axis, size)
        if size != there:
            return self._dim_that_varies(call, size, there)
        return Dim(size) if is_width else self._dim_like(call, axis, size)

    def _dim_of_examples(self, call: Call, axis: int, size: int) -> Dim:
        """Return the first axis as that of an input that has examples there."""
        rank = len(self._shape_of(call))
        for path, n in call.inputs.items():
            shape = self._trace.values[n].shape
            if axis == 0 and shape and shape[0] == size and (size == self._batch or len(shape) == rank):
                return Dim(size, path, 0)
        return Dim(size)

    def _dim_that_varies(self, call: Call, size: int, there: int) -> Dim:
        """Return an axis that goes by the number of examples, as does one of an input."""
        for path, n in call.inputs.items():
            mine, its = self._trace.values[n].shape, self.other_shape(n)
            for by in range(len(mine)):
                if mine[by] != its[by] and mine[by] * there == size * its[by]:
                    return _ratio(size, path, by, mine[by])
        return Dim(size)

    def _dim_like(self, call: Call, axis: int, size: int) -> Dim:
        """Return an axis of time or space, which goes by that of an input: it is as long, or a whole part of it."""
        rank = len(self._shape_of(call))
        inputs = [(path, self._trace.values[n].shape) for path, n in call.inputs.items() if self.width_axis(n) != axis]
        for path, mine in inputs:
            if axis < len(mine) and mine[axis] == size > 1:
                return Dim(size, path, axis)
        for path, mine in inputs:
            if axis < len(mine) == rank and 1 < size < mine[axis] and mine[axis] % size == 0:
                return _ratio(size, path, axis, mine[axis])
        return self._dim_elsewhere(call, size)

    def _dim_elsewhere(self, call: Call, size: int) -> Dim:
        """Return an axis that is as long as the only axis of time or space of an input, wherever that lies."""
        for path, n in call.inputs.items():
            shape, besides = self._trace.values[n].shape, (self.width_axis(n), self.batch_axis(n)[0])
            axes = [axis for axis in range(len(shape)) if axis not in besides]
            if len(axes) == 1 and shape[axes[0]] == size > 1:
                return Dim(size, path, axes[0])
        return Dim(size)

    def _shape_of(self, call: Call) -> tuple[int, ...]:
        return next((self._trace.values[n].shape for n in call.outputs.values()), ())

    @cached_property
    def positions(self) -> Positions:
        """The positions of the tensors: which axes are the same height, time, or tokens."""
        return Positions(self._trace)

    @cached_property
    def attended(self) -> frozenset[int]:
        """The labels of positions over which the model takes weighted sums: those that an attention looks at."""
        return attended(self._trace, self.positions)

    @cached_property
    def _widths(self) -> list[int | None]:
        """The axis of channels of each value, where a layer says it."""
        found: list[int | None] = [None] * len(self._trace.values)
        for op in self._trace.ops:
            for value in op.outputs:
                found[value] = self._after(op, value, found)
        for op in self._trace.ops:  # what no layer made is as the layer wants it that reads it
            if op.inputs and found[op.inputs[0]] is None:
                found[op.inputs[0]] = self._of_layer(op, op.inputs[0])
        return found

    def _of_layer(self, op: Op, value: int) -> int | None:
        rank = len(self._trace.values[value].shape)
        name = op.name.lower()
        if "prelu" in name and not any(max(self._trace.values[n].shape, default=1) > 1 for n in op.inputs[1:]):
            return None  # one slope for all says nothing of channels
        if any(part in name for part in CHANNELS_FIRST) and "embedding" not in name:
            return 1 if rank > 1 else 0
        if any(part in name for part in CHANNELS_LAST):
            return rank - 1
        return None

    def _after(self, op: Op, value: int, found: list[int | None]) -> int | None:
        by_layer = self._of_layer(op, value)
        if by_layer is not None:
            return by_layer
        first = next((n for n in op.inputs if found[n] is not None), None)
        axis = None if first is None else found[first]
        if first is None or axis is None:
            return None
        before, shape = self._trace.values[first].shape, self._trace.values[value].shape
        if op.name in ("permute", "transpose", "movedim", "swapaxes", "swapdims"):
            return _moved(op, axis, len(before))
        differ = [n for n, (a, b) in enumerate(zip(before, shape, strict=False)) if a != b]
        same = len(before) == len(shape) and (axis not in differ or differ == [axis] or op.name in ("cat", "concat"))
        return axis if same or (op.name == "flatten" and axis == len(shape) - 1 == 1) else None


def _ratio(size: int, path: Path, axis: int, of: int) -> Dim:
    common = math.gcd(size, of)
    return Dim(size, path, axis, size // common, of // common)


def _moved(op: Op, axis: int, rank: int) -> int | None:
    try:
        if op.name == "permute":
            order = op.args[1:] if isinstance(op.args[1], int) else op.args[1]
            return [n % rank for n in order].index(axis)
        first, second = (int(n) % rank for n in op.args[1:3])
        if op.name != "movedim":
            return {first: second, second: first}.get(axis, axis)
    except (TypeError, ValueError, IndexError):
        return None
    return None
