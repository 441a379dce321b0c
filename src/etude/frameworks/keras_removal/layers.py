"""The layers of a Keras model: what could be taken out, and when each is called."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras

from etude.frameworks.keras_removal.edits import Output
from etude.frameworks.keras_removal.graph import Graph, has_graph
from etude.frameworks.keras_removal.kinds import CONVOLUTIONS, SEPARABLE, TRANSPOSED
from etude.frameworks.layer_seen import LayerSeen


def layers_of(model: Any) -> list[LayerSeen]:
    """Return the layers of a model whose graph is known, in the order in which they are called first."""
    called: dict[str, list[int]] = {}
    found: dict[str, _Found] = {}
    _walk(model, "", called, found, is_begin=True, is_end=True)
    return [
        LayerSeen(
            path,
            type(layer).__name__,
            int(layer.count_params()) if hasattr(layer, "count_params") else 0,
            path.count("."),
            None,
            layer.units if type(layer).__name__ == "Dense" else None,
            layer.filters if type(layer).__name__ in CONVOLUTIONS | SEPARABLE | TRANSPOSED else None,
            tuple(called.get(path, ())),
            integers,
            reads,
            output,
        )
        for path, (layer, integers, reads, output) in found.items()
    ]


class _Found(NamedTuple):
    """A layer, whether it takes integers, reads the data itself, and gives what the model gives."""

    layer: Any
    integers: bool
    reads: bool
    output: bool


def inputs_of(model: Any) -> tuple[str, ...]:
    """Return the names of a model's inputs, which Keras takes for layers."""
    return tuple(call.operation.name for call in Graph(model).calls if call.is_input)


def _walk(
    model: Any,
    prefix: str,
    called: dict[str, list[int]],
    found: dict[str, _Found],
    *,
    is_begin: bool,
    is_end: bool,
) -> None:
    """Note the layers of a model and when they are called; those that are called inside end before it does."""
    graph = Graph(model)
    data: set[Output] = set()  # what nothing that learns has been made of
    for call in graph.calls:
        reads = call.is_input if not call.inputs else data.issuperset(call.inputs)
        if is_begin and reads and not getattr(call.operation, "trainable_weights", ()):
            data.update(call.outputs)
        if call.is_input or not isinstance(call.operation, keras.layers.Layer):
            continue
        path = f"{prefix}{call.operation.name}"
        ends = is_end and any(output in graph.results for output in call.outputs)
        inner, learns = has_graph(call.operation), bool(getattr(call.operation, "weights", ()))
        reads = learns and not inner and not data.isdisjoint(call.inputs)
        integers = not inner and learns and _takes_integers(graph, call)
        known = found.get(path)
        before = known or _Found(call.operation, integers=False, reads=False, output=False)
        found[path] = _Found(
            call.operation, integers or before.integers, reads or before.reads, ends and learns and not inner
        )
        if inner:
            begins = not data.isdisjoint(call.inputs)
            _walk(call.operation, f"{path}.", called, found, is_begin=begins, is_end=ends)
        called.setdefault(path, []).append(sum(map(len, called.values())))


def _takes_integers(graph: Graph, call: Any) -> bool:
    kinds = [str(graph.tensors[output].dtype) for output in call.inputs]
    return bool(kinds) and all(kind.startswith(("int", "uint", "bool")) for kind in kinds)
