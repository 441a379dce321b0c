"""How many positions the tensors of a model have when others take the place of some: pixels, steps of time.

Channels are left to ``widths``: here each tensor keeps those that it had. Nothing is computed but shapes, by Keras.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import keras

from etude.frameworks.keras_removal.edits import Output
from etude.frameworks.keras_removal.graph import Call, Graph
from etude.frameworks.keras_removal.kinds import CONVOLUTIONS, DEPTHWISE, RECURRENT, SEPARABLE, TRANSPOSED, joins
from etude.frameworks.keras_removal.widths import MisfitError

Shape: TypeAlias = tuple[int | None, ...]

SLIDING: Final = (
    CONVOLUTIONS
    | TRANSPOSED
    | DEPTHWISE
    | SEPARABLE
    | RECURRENT
    | frozenset(
        f"{what}{n}D"
        for what in ("MaxPooling", "AveragePooling", "UpSampling", "ZeroPadding", "Cropping")
        for n in "123"
    )
    | {"Resizing", "MaxPool", "AveragePool", "Conv", "DepthwiseConv", "SeparableConv", "Resize"}
)
"""These go along positions, so that neighbours belong together."""

BY_POSITION: Final = frozenset({"EinsumDense", "LocallyConnected1D", "LocallyConnected2D"})
"""These may have weights for each position, and do not say so before they are called."""


class Sizes:
    """The shapes of a graph in which some tensors take the place of others.

    Args:
        graph: The graph.
        instead: Which tensors take the place of others, as they are.
        joins: Which of their operands are left to calls.
        left: Numbers of the calls that are left.
        brought: Tensors that have the positions that they had, whatever takes their place.

    Raises:
        MisfitError: Something cannot have another number of positions.
    """

    def __init__(
        self,
        graph: Graph,
        instead: Mapping[Output, Output],
        joins: Mapping[Output, tuple[int, ...]],
        left: set[int],
        brought: set[Output],
    ) -> None:
        self._graph, self._instead, self._joins, self._brought = graph, instead, joins, brought
        self._found: dict[Output, Shape] = {}
        self.flat: dict[Output, int] = {}
        for call in graph.calls:
            if call.n in left and not call.is_input and any(self.of(o) != graph.shape(o) for o in call.inputs):
                self._after(call)
        for output in graph.results:
            if self.of(output) != graph.shape(output) or output in self.flat:
                raise MisfitError("the model would give results of another shape")

    def of(self, output: Output) -> Shape:
        """Return the shape of a tensor, or of what takes its place, with as many channels as before."""
        was, source = self._graph.shape(output), output
        while source in self._instead and source not in self._brought:
            source = self._instead[source]
        if source in self._brought and source == output:
            return was
        here = self._found.get(source, self._graph.shape(source))
        return here if source == output else (*here[:-1], *was[-1:])

    def _after(self, call: Call) -> None:
        name, kept = call.operation.name, self._joins.get(call.outputs[0])
        there = [o for n, o in enumerate(call.inputs) if kept is None or n in kept]
        if joins(call.operation) and len(there) > 1:
            before = [self._graph.shape(output)[:-1] for output in there]
            after = [self.of(output)[:-1] for output in there]
            if any(one != after[before.index(was)] for one, was in zip(after, before, strict=True)):
                raise MisfitError(f"{name} would be given different numbers of positions")
        if call.kind in BY_POSITION:
            raise MisfitError(f"{name}, a {call.kind}, may have weights for each position")
        try:
            made = keras.tree.flatten(self._called(call, there if kept is not None else None))
        except Exception as broken:  # a layer may raise anything
            said = str(broken).strip().partition("\n")[0][:120]
            raise MisfitError(f"{name} takes no other number of positions ({said})") from None
        for output, tensor in zip(call.outputs, made, strict=True):
            was, now = self._graph.shape(output), tuple(tensor.shape[1:])
            if len(was) != len(now):
                raise MisfitError(f"{name} would give another number of axes")
            if call.kind == "Flatten" and was != now:
                self.flat[output] = int(now[-1] or 0) // max(int(self._graph.shape(call.inputs[0])[-1] or 1), 1)
            elif was[-1:] != now[-1:] and call.kind != "Concatenate":
                raise MisfitError(f"{name} would give another width")
            self._found[output] = (*now[:-1], *was[-1:])

    def _called(self, call: Call, there: list[Output] | None) -> Any:
        new = {
            id(tensor): keras.KerasTensor((tensor.shape[0], *self.of(output)), dtype=tensor.dtype)
            for tensor, output in zip(call.node.input_tensors, call.inputs, strict=True)
        }
        if there is not None:
            by_output = dict(zip(call.inputs, (new[id(t)] for t in call.node.input_tensors), strict=True))
            return call.operation.compute_output_spec([by_output[output] for output in there])
        args, kwargs = call.node.arguments.fill_in(new)
        return call.operation.compute_output_spec(*args, **kwargs)


def on_grid(graph: Graph, output: Output) -> bool:
    """Whether the axes of a tensor but the last are positions: layers go along them, of it or of what it is made of.

    Tokens of which nothing is known but that there are several, latents and windows are a set without neighbours.
    """
    rank = len(graph.shape(output))
    waiting, seen = [output], {output}
    while waiting:
        one = waiting.pop()
        for call in (graph.made[one], *graph.used[one]):
            near = [o for o in (*call.inputs, *call.outputs) if len(graph.shape(o)) == rank]
            if call.kind in SLIDING:
                return True
            new = [o for o in near if o not in seen] if not hasattr(call.operation, "target_shape") else []
            seen.update(new)
            waiting += new
    return False
