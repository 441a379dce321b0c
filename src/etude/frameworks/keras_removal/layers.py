"""The layers of a Keras model: what could be taken out, and when each is called."""

from __future__ import annotations

from typing import Any

import keras

from etude.frameworks.keras_removal.graph import Graph, has_graph
from etude.frameworks.keras_removal.kinds import CONVOLUTIONS, SEPARABLE, TRANSPOSED
from etude.frameworks.layer_seen import LayerSeen


def layers_of(model: Any) -> list[LayerSeen]:
    """Return the layers of a model whose graph is known, in the order in which they are called first."""
    called: dict[str, list[int]] = {}
    found: dict[str, tuple[Any, bool, bool]] = {}
    _walk(model, "", called, found, is_end=True)
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
            output,
        )
        for path, (layer, integers, output) in found.items()
    ]


def _walk(
    model: Any,
    prefix: str,
    called: dict[str, list[int]],
    found: dict[str, tuple[Any, bool, bool]],
    *,
    is_end: bool,
) -> None:
    """Note the layers of a model and when they are called; those that are called inside end before it does."""
    graph = Graph(model)
    for call in graph.calls:
        if call.is_input or not isinstance(call.operation, keras.layers.Layer):
            continue
        path = f"{prefix}{call.operation.name}"
        ends = is_end and any(output in graph.results for output in call.outputs)
        inner, learns = has_graph(call.operation), bool(getattr(call.operation, "weights", ()))
        integers = not inner and learns and _takes_integers(graph, call)
        known = found.get(path)
        found[path] = (call.operation, integers or bool(known and known[1]), (ends and learns and not inner))
        if inner:
            _walk(call.operation, f"{path}.", called, found, is_end=ends)
        called.setdefault(path, []).append(sum(map(len, called.values())))


def _takes_integers(graph: Graph, call: Any) -> bool:
    kinds = [str(graph.tensors[output].dtype) for output in call.inputs]
    return bool(kinds) and all(kind.startswith(("int", "uint", "bool")) for kind in kinds)
