"""The old graph of a Keras model, run by hand with what the component gives overridden: what a repair must equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from etude.frameworks.keras_removal.edits import Instead, Join, Output, Resize, Step
from etude.frameworks.keras_removal.fit import Fit
from etude.frameworks.keras_removal.graph import Call, Graph
from etude.frameworks.keras_removal.kinds import RECURRENT, weights_of


class Override:
    """Runs an old graph call by call, and overrides what goes.

    Of a join that does without a branch, that branch gives the neutral element of what joins: an average is taken of
    the others.

    Args:
        graph: The old graph.
        step: What is done to it.
        seen: Called with what the component gives, and what takes its place; with None, if it cannot be called, since
            something in front of it went.
    """

    def __init__(self, graph: Graph, step: Step, seen: Callable[[Any, Any], None] | None = None) -> None:
        self._graph, self._seen = graph, seen
        self._instead = {one.of: one for one in step.edits if isinstance(one, Instead)}
        self._joins = {one.of: one for one in step.edits if isinstance(one, Join)}

    def __call__(self, inputs: Any, training: bool) -> Any:
        """Return what the model would give."""
        values: dict[Output, Any] = {}
        flat = dict(zip((id(t) for t in self._graph.function._inputs), keras.tree.flatten(inputs), strict=True))
        for call in self._graph.calls:
            if call.is_input:
                values[call.outputs[0]] = flat[id(call.node.outputs[0])]
                continue
            given = {id(t): values[o] for t, o in zip(call.node.input_tensors, call.inputs, strict=True)}
            join = self._joins.get(call.outputs[0])
            if join is not None:
                given |= self._neutral(call, join, values)
            if all(output in self._instead for output in call.outputs) and not self._reached(call, values):
                values |= {output: self._taken(output, None, values) for output in call.outputs}
                continue
            args, kwargs = call.node.arguments.fill_in(given)
            if getattr(call.operation, "_call_has_training_arg", False):
                kwargs["training"] = training
            for output, value in zip(call.outputs, keras.tree.flatten(call.operation(*args, **kwargs)), strict=True):
                values[output] = self._taken(output, value, values)
        results = [values[output] for output in self._graph.results]
        return keras.tree.pack_sequence_as(self._graph.function._outputs_struct, results)

    def _reached(self, call: Call, values: dict[Output, Any]) -> bool:
        """Whether what reaches a call is of the shape that it always was."""
        pairs = ((tuple(values[one].shape)[1:], self._graph.shape(one)) for one in call.inputs)
        return all(len(a) == len(b) and all(y is None or x == y for x, y in zip(a, b, strict=True)) for a, b in pairs)

    def _taken(self, output: Output, value: Any, values: dict[Output, Any]) -> Any:
        one = self._instead.get(output)
        if one is None:
            return value
        given = [values[source] for source in one.sources]
        found = given[0]
        if one.shape is not None:
            kind = getattr(value, "dtype", None)
            found = Fit(one.shape, dtype=kind if isinstance(kind, str) else None)(given)
        if self._seen is not None:
            self._seen(value, found)
        return found

    def _neutral(self, call: Any, join: Join, values: dict[Output, Any]) -> dict[int, Any]:
        kept = [values[call.inputs[n]] for n in join.kept]
        found = {}
        for n, tensor in enumerate(call.node.input_tensors):
            if n in join.kept:
                continue
            like = values[call.inputs[n]]
            if call.kind in ("Add", "Subtract", "Concatenate"):
                found[id(tensor)] = keras.ops.zeros_like(like)
            elif call.kind == "Multiply":
                found[id(tensor)] = keras.ops.ones_like(like)
            elif call.kind == "Average":
                found[id(tensor)] = sum(kept[1:], kept[0]) / len(kept)
            else:
                found[id(tensor)] = kept[0]
        return found


@contextmanager
def called(graph: Graph, run: Override) -> Iterator[None]:
    """Let a functional model run its old graph by hand."""
    function = graph.function

    def call(inputs: Any, training: bool = False, mask: Any = None, **_: Any) -> Any:
        return run(inputs, bool(training))

    function.__dict__["call"] = call
    try:
        yield
    finally:
        del function.__dict__["call"]


@contextmanager
def zeroed(graph: Graph, resizes: list[Resize]) -> Iterator[None]:
    """Put zeros where layers read columns that are cut."""
    kept = []
    for one in resizes:
        layer = graph.operations[one.operation]
        assert one.inputs is not None
        lost = [n for n in range(one.was_inputs) if n not in one.inputs]
        for variable in layer.variables:
            weight = (weights_of(layer) or {}).get(variable.name)
            reads = weight is not None and (weight.outputs is not None or type(layer).__name__ in RECURRENT)
            if weight is None or weight.inputs is None or not reads:  # a norm keeps its channels
                continue
            value = array(variable)
            kept.append((variable, value))
            cut = value.copy()
            at_axis: list[Any] = [slice(None)] * value.ndim
            at_axis[-weight.inputs] = lost
            cut[tuple(at_axis)] = 0
            variable.assign(cut)
    try:
        yield
    finally:
        for variable, value in kept:
            variable.assign(value)


def array(variable: Any) -> Any:
    """Return a copy of a variable's value."""
    return np.array(keras.ops.convert_to_numpy(variable.value))
