"""Layers of nested models that have no effect any more, since nobody reads what comes of them."""

from __future__ import annotations

from typing import Any

from etude.frameworks.keras_removal.edits import Output
from etude.frameworks.keras_removal.graph import Graph, has_graph


def idle_inside(graph: Graph, before: set[Output], now: set[Output]) -> dict[str, Any]:
    """Return layers that learn in nested models that stay, and that nothing reaches any more, by their paths.

    Args:
        graph: The graph.
        before: Tensors that had an effect.
        now: Those that have one.
    """
    found: dict[str, Any] = {}
    for place in sorted({output.operation for output in now}):
        model = graph.operations[place]
        if not has_graph(model):
            continue
        inner = Graph(model)
        had, has = (
            inner.upstream(
                tuple(inner.results[index] for index in sorted({o.index for o in some if o.operation == place}))
            )
            for some in (before, now)
        )
        still = {inner.calls[n].place for n in has}
        for idle in sorted({inner.calls[n].place for n in had} - still):
            if getattr(inner.operations[idle], "trainable_variables", ()):
                found[f"{model.name}.{inner.operations[idle].name}"] = inner.operations[idle]
    return found
