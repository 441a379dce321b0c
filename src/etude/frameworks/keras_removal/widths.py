"""Which layers get another width: channels are followed through a model from where they change.

Nothing is called for it. What a layer does with channels is known for the layers of Keras that are listed; where a
changed width reaches anything else, it does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from etude.frameworks.keras_removal.edits import Output, Resize
from etude.frameworks.keras_removal.graph import Call, Graph
from etude.frameworks.keras_removal.kinds import FREE, RECURRENT, UNARY, Columns, joins, weights_of, width_setting


class MisfitError(Exception):
    """A width reaches what cannot have it."""


class CoupledError(Exception):
    """Operands of different widths meet.

    Attributes:
        operands: Those that have the width of before.
        columns: What the others have.
    """

    def __init__(self, operands: list[Output], columns: Columns) -> None:
        super().__init__()
        self.operands, self.columns = operands, columns


class Widths:
    """Follows widths through what is left of a graph.

    Args:
        graph: The graph.
        instead: Which tensors take the place of others, as they are; those that are brought into shape are not among
            them, and change no width.
        joins: Which of their operands are left to calls.
        left: Numbers of the calls that are left.
        fixed: Tensors that have the width that they had, whatever they are made of.
        flat: What is flattened from another number of positions -> how many there are then.
    """

    def __init__(
        self,
        graph: Graph,
        instead: Mapping[Output, Output],
        joins: Mapping[Output, tuple[int, ...]],
        left: set[int],
        fixed: set[Output],
        flat: Mapping[Output, int] | None = None,
    ) -> None:
        self._flat = flat or {}
        self._graph, self._instead, self._joins, self._left, self._fixed = graph, instead, joins, left, fixed
        self._columns: dict[Output, Columns | None] = {}
        self.inputs: dict[int, Columns | None] = {}
        self.outputs: dict[int, Columns] = {}

    def follow(self, outputs: dict[int, Columns]) -> None:
        """Follow them, where some layers have other outputs by decision.

        Raises:
            MisfitError: They reach what cannot have them.
            CoupledError: Operands of different widths meet.
        """
        self._columns, self.inputs, self.outputs = {}, {}, outputs
        for call in self._graph.calls:
            if call.n in self._left:
                found = self._flattened(call) if call.outputs[0] in self._flat else self._after(call)
                for output in call.outputs:
                    self._columns[output] = found
        for output in self._graph.results:
            if self._of(output) is not None:
                raise MisfitError("the model would give results of another shape")

    def _of(self, output: Output) -> Columns | None:
        """Return the channels of a tensor, or of what takes its place, as channels of its own."""
        if output in self._fixed:
            return None
        source, moved = output, False
        while source in self._instead:
            source, moved = self._instead[source], True
        found = None if source in self._fixed else self._columns.get(source)
        if not moved:
            return found
        there = len(found) if found is not None else self._graph.shape(source)[-1]
        return None if there == self._graph.shape(output)[-1] else (None,) * int(there or 0)

    def _after(self, call: Call) -> Columns | None:  # noqa: PLR0911 - one for each kind
        """Return the channels of what a call gives."""
        given = [self._of(output) for output in call.inputs]
        kept = self._joins.get(call.outputs[0]) if call.outputs else None
        if joins(call.operation) and len(call.inputs) > 1:
            return self._joined(call, given, kept)
        own = self.outputs.get(call.place)
        if all(columns is None for columns in given):
            self._note(call, None)
            return own
        if len(given) != 1 or len(call.outputs) != 1:
            raise MisfitError(f"{call.operation.name} is called with several tensors")
        columns = given[0]
        assert columns is not None
        if call.kind == "Flatten":
            return _flat(columns, self._graph.shape(call.inputs[0]))
        if call.kind == "Reshape":
            return self._reshape(call, columns)
        lies = weights_of(call.operation) if call.operation.__class__.__module__.startswith("keras.") else None
        if call.kind in FREE | UNARY and (lies is not None or not getattr(call.operation, "weights", ())):
            if lies is not None:
                self._note(call, columns)
            return columns
        if lies is None:
            raise MisfitError(f"nobody knows what another width means to {call.operation.name}, a {call.kind}")
        self._note(call, columns)
        if all(weight.outputs is None for weight in lies.values()):
            return None if call.kind in RECURRENT else columns
        return own

    def _flattened(self, call: Call) -> Columns:
        """Return the channels of what is flattened from another number of positions: none is known to be an old one."""
        columns = self._of(call.inputs[0])
        width = int(self._graph.shape(call.inputs[0])[-1] or 0) if columns is None else len(columns)
        return (None,) * (self._flat[call.outputs[0]] * width)

    def _note(self, call: Call, columns: Columns | None) -> None:
        if call.place in self.inputs and self.inputs[call.place] != columns:
            raise MisfitError(f"{call.operation.name} is called with several widths")
        self.inputs[call.place] = columns

    def _joined(self, call: Call, given: list[Columns | None], kept: tuple[int, ...] | None) -> Columns | None:
        there = range(len(given)) if kept is None else kept
        if call.kind == "Concatenate":
            if all(given[n] is None for n in there) and len(there) == len(given):
                return None
            axis, rank = call.operation.axis, len(self._graph.shape(call.outputs[0])) + 1
            if axis not in (-1, rank - 1):
                raise MisfitError(f"{call.operation.name} joins along another axis")
            found: list[int | None] = []
            start = 0
            for n, output in enumerate(call.inputs):
                width = int(self._graph.shape(output)[-1] or 0)
                if n in there:
                    columns = given[n]
                    mine = range(width) if columns is None else columns
                    found += [None if one is None else start + one for one in mine]
                start += width
            return tuple(found)
        broad = [n for n in there if self._graph.shape(call.inputs[n])[-1:] != (1,)]
        changed = {given[n] for n in broad if given[n] is not None}
        if not changed:
            return None
        if len(changed) > 1:
            raise MisfitError(f"{call.operation.name} is given two new widths")
        columns = next(iter(changed))
        assert columns is not None
        if same := [call.inputs[n] for n in broad if given[n] is None]:
            raise CoupledError(same, columns)
        return columns

    def _reshape(self, call: Call, columns: Columns) -> Columns:
        if not hasattr(call.operation, "target_shape") or not self._keeps_width(call):
            raise MisfitError(f"{call.operation.name} needs another width")
        self._note(call, columns)
        return columns

    def _keeps_width(self, call: Call) -> bool:
        return self._graph.shape(call.inputs[0])[-1:] == self._graph.shape(call.outputs[0])[-1:] != ()

    def producers(self, output: Output, seen: set[Output] | None = None) -> list[Call]:
        """Return the calls of layers that make the channels of a tensor.

        Raises:
            MisfitError: They are made by what can have no other width.
        """
        seen = set() if seen is None else seen
        if output in seen:
            return []
        seen.add(output)
        if output in self._fixed:
            raise MisfitError("what was brought into shape would need another one")
        if output in self._instead:
            return self.producers(self._instead[output], seen)
        call = self._graph.made[output]
        if width_setting(call.operation) and weights_of(call.operation) is not None:
            return [call]
        if joins(call.operation) and call.kind != "Concatenate" and len(call.inputs) > 1:
            kept = self._joins.get(output, tuple(range(len(call.inputs))))
            wide = [call.inputs[n] for n in kept if self._graph.shape(call.inputs[n])[-1:] != (1,)]
            return [one for operand in wide for one in self.producers(operand, seen)]
        keeps = hasattr(call.operation, "target_shape") and self._keeps_width(call)
        through = keeps or call.kind in FREE or (weights_of(call.operation) is not None and call.kind not in RECURRENT)
        if through and len(call.inputs) == 1:
            return self.producers(call.inputs[0], seen)
        raise MisfitError(f"{call.operation.name}, a {call.kind}, can have no other width")

    def resizes(self) -> list[Resize]:
        """Return what has to be rebuilt."""
        found = []
        for place in range(len(self._graph.operations)):
            inputs, outputs = self.inputs.get(place), self.outputs.get(place)
            if inputs is None and outputs is None:
                continue
            call = next(call for call in self._graph.calls if call.place == place)
            given = call.inputs[0] if call.inputs else call.outputs[0]
            was = int(self._graph.shape(given)[-1] or 0)
            found.append(Resize(place, inputs, outputs, was, int(self._graph.shape(call.outputs[0])[-1] or 0)))
        return found


def _flat(columns: Columns, shape: tuple[int | None, ...]) -> Columns:
    if any(size is None for size in shape):
        raise MisfitError("what is flattened has no fixed size")
    width = int(shape[-1] or 0)
    times = prod(int(size or 0) for size in shape[:-1])
    return tuple(None if one is None else n * width + one for n in range(times) for one in columns)


def drawn(layer: Any, resize: Resize) -> tuple[int, int, list[str]]:
    """Return how many parameters a layer has then, how many of them are drawn anew, and in which variables."""
    lies = weights_of(layer) or {}
    total = new = 0
    names = []
    for variable in layer.variables:
        weight = lies.get(variable.name)
        shape = list(variable.shape)
        known = list(shape)
        for axis, columns in _changed(weight, resize):
            shape[-axis] = len(columns)
            known[-axis] = sum(one is not None for one in columns)
        if not is_seed(variable):
            total += prod(shape)
            if variable.trainable:
                new += prod(shape) - prod(known)
            names += [variable.path] if prod(known) < prod(shape) else []
    return total, new, names


def resized(layer: Any, resize: Resize) -> list[str]:
    """Return which variables of a layer get another size, by their paths."""
    lies = weights_of(layer) or {}
    return [variable.path for variable in layer.variables if _changed(lies.get(variable.name), resize)]


def _changed(weight: Any, resize: Resize) -> list[tuple[int, Columns]]:
    if weight is None:
        return []
    pairs = [(weight.inputs, resize.inputs), (weight.outputs, resize.outputs)]
    return [(axis, columns) for axis, columns in pairs if axis is not None and columns is not None]


def is_seed(variable: Any) -> bool:
    """Whether a variable is the state of a random generator, and no parameter."""
    return str(variable.name) == "seed_generator_state"
