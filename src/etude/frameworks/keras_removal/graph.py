"""The graph of a Keras model: which operations are called with what, read from the nodes that Keras keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras

from etude.frameworks.keras_removal.edits import Output


class Call(NamedTuple):
    """One call of an operation.

    Attributes:
        n: Its place in the order of calls.
        operation: What is called.
        place: Of the operation in the model.
        nth: Which of its calls.
        node: What Keras keeps of it.
        inputs: Places of the tensors that it is called with, in the order of its arguments.
        outputs: Places of those that it gives.
    """

    n: int
    operation: Any
    place: int
    nth: int
    node: Any
    inputs: tuple[Output, ...]
    outputs: tuple[Output, ...]

    @property
    def kind(self) -> str:
        """The name of the operation's class."""
        return type(self.operation).__name__

    @property
    def is_input(self) -> bool:
        """Whether the data enters here."""
        return bool(self.node.is_input)


class Graph:
    """The calls of a functional model.

    Args:
        model: A functional model, or a sequential one that is built.

    Attributes:
        operations: What is called, in Keras' order.
        calls: The calls, each after those that it needs.
        tensors: The symbolic tensors by their places.
        results: Places of what the model gives.
        made: Which call gives a tensor.
        used: Which calls use it.
    """

    def __init__(self, model: Any) -> None:
        self.function = functional(model)
        self.operations: list[Any] = list(self.function._operations)
        places = {id(operation): place for place, operation in enumerate(self.operations)}
        nodes = [
            node
            for depth in sorted(self.function._nodes_by_depth, reverse=True)
            for node in self.function._nodes_by_depth[depth]
        ]
        here = {id(node) for node in nodes}
        which: dict[int, Output] = {}
        nth: dict[int, int] = {}
        for operation in self.operations:
            mine = [node for node in operation._inbound_nodes if id(node) in here]
            for number, node in enumerate(mine):
                nth[id(node)] = number
                for index, tensor in enumerate(node.outputs):
                    which[id(tensor)] = Output(places[id(operation)], number, index)
        self.calls = tuple(
            Call(
                n,
                node.operation,
                places[id(node.operation)],
                nth[id(node)],
                node,
                tuple(which[id(tensor)] for tensor in node.input_tensors),
                tuple(which[id(tensor)] for tensor in node.outputs),
            )
            for n, node in enumerate(nodes)
        )
        self.tensors = {which[id(tensor)]: tensor for node in nodes for tensor in node.outputs}
        self.results = tuple(which[id(tensor)] for tensor in self.function._outputs)
        self.made = {output: call for call in self.calls for output in call.outputs}
        self.used: dict[Output, list[Call]] = {output: [] for output in self.tensors}
        for call in self.calls:
            for output in dict.fromkeys(call.inputs):
                self.used[output].append(call)

    def shape(self, output: Output) -> tuple[int | None, ...]:
        """Return the shape of a tensor, examples not counted."""
        return tuple(self.tensors[output].shape[1:])

    def place(self, name: str) -> int | None:
        """Return the place of an operation of that name; None if there is none."""
        return next((n for n, operation in enumerate(self.operations) if operation.name == name), None)

    def upstream(self, outputs: Iterator[Output] | tuple[Output, ...]) -> set[int]:
        """Return the numbers of the calls that tensors depend on."""
        found: set[int] = set()
        left = [self.made[output] for output in outputs]
        while left:
            call = left.pop()
            if call.n not in found:
                found.add(call.n)
                left += [self.made[output] for output in call.inputs]
        return found

    def left(self, instead: Mapping[Output, Sequence[Output]], joins: Mapping[Output, tuple[int, ...]]) -> set[int]:
        """Return the numbers of the calls that still have an effect when something is taken out; see ``needed``."""
        return {self.made[output].n for output in self.needed(instead, joins)}

    def needed(
        self, instead: Mapping[Output, Sequence[Output]], joins: Mapping[Output, tuple[int, ...]]
    ) -> set[Output]:
        """Return the tensors that still have an effect when something is taken out.

        Args:
            instead: What takes the place of tensors.
            joins: Which operands are left of what joins branches; where one is left of another than a concatenation,
                it takes the place of the join.
        """
        found: set[Output] = set()
        waiting, seen = list(self.results), set()
        while waiting:
            output = waiting.pop()
            if output in seen:
                continue
            seen.add(output)
            if output in instead:
                waiting += instead[output]
                continue
            call, kept = self.made[output], joins.get(output)
            if kept is not None and len(kept) == 1 and call.kind != "Concatenate":
                waiting.append(call.inputs[kept[0]])
                continue
            found.add(output)
            waiting += [one for n, one in enumerate(call.inputs) if kept is None or n in kept]
        return found

    def downstream(self, outputs: tuple[Output, ...]) -> set[int]:
        """Return the numbers of the calls that depend on tensors."""
        found: set[int] = set()
        left = [call for output in outputs for call in self.used[output]]
        while left:
            call = left.pop()
            if call.n not in found:
                found.add(call.n)
                left += [user for output in call.outputs for user in self.used[output]]
        return found


def functional(model: Any) -> Any:
    """Return the functional model that does the work of a sequential one, or the model itself."""
    return model._functional if isinstance(model, keras.Sequential) else model


def has_graph(layer: Any) -> bool:
    """Whether a layer is a model of which the graph is known, and which runs its graph and nothing of its own."""
    if isinstance(layer, keras.Sequential):
        return layer._functional is not None and type(layer).call is keras.Sequential.call
    if not hasattr(layer, "_nodes_by_depth") or not isinstance(layer, keras.Model):
        return False
    return type(layer).call is sys.modules["keras.src.models.functional"].Functional.call


def nested(model: Any, path: str) -> tuple[Any, tuple[int, ...], str]:
    """Return the innermost model that holds a layer, where it is, and the layer's name in it."""
    places: tuple[int, ...] = ()
    while True:
        graph = Graph(model)
        if graph.place(path) is not None or "." not in path:
            return model, places, path
        inner = next(
            (
                place
                for place, operation in enumerate(graph.operations)
                if path.startswith(f"{operation.name}.") and has_graph(operation)
            ),
            None,
        )
        if inner is None:
            return model, places, path
        model, path = graph.operations[inner], path.removeprefix(f"{graph.operations[inner].name}.")
        places += (inner,)


def at(model: Any, places: tuple[int, ...]) -> list[Any]:
    """Return the models on the way to a nested one, the outermost first and it itself last."""
    found = [model]
    for place in places:
        found.append(Graph(found[-1]).operations[place])
    return found
