"""A model that gets another graph, in place: whoever holds it has the new one, and it can be taken back."""

from __future__ import annotations

from typing import Any, Final

import keras

from etude.frameworks.keras_removal.build import Built
from etude.frameworks.keras_removal.graph import Graph, functional

OF_THE_GRAPH: Final = (
    *("_inputs_struct", "_outputs_struct", "_inputs", "_outputs", "_nodes", "_nodes_by_depth"),
    *("_operations", "_operations_by_depth", "output_names"),
)
"""What a functional model knows of its graph."""

COMPILED: Final = ("train_function", "test_function", "predict_function")
"""What a trainer has compiled of a model, and makes anew when it is None."""


class Swap:
    """One model with one new graph.

    Args:
        models: The models on the way to it, the outermost first, and it itself last.
        graph: Its graph as it was.
        built: What takes its place.

    Attributes:
        added: Adapters.
        again: Layers that were made again, for another width.
    """

    def __init__(self, models: list[Any], graph: Graph, built: Built) -> None:
        self._models, self._graph, self._built = models, graph, built
        self.added, self.again = built.added, list(built.layers.values())
        self._model = models[-1]
        self._function = functional(self._model)
        self._new = keras.Model(built.inputs, built.outputs)
        self._is_sequential = isinstance(self._model, keras.Sequential)
        self._before: dict[str, Any] = {}
        self._layers_before: list[Any] = list(self._model._layers)
        self._function_layers: list[Any] = list(self._function._layers)

    def do(self) -> None:
        """Put the new graph in place."""
        self._before = {name: getattr(self._function, name) for name in OF_THE_GRAPH}
        self._set(self._function, {name: getattr(self._new, name) for name in OF_THE_GRAPH})
        gone = {id(op) for op in self._graph.operations} - {id(op) for op in self._new._operations}
        again = {id(self._graph.operations[place]): layer for place, layer in self._built.layers.items()}
        for holder, before in ((self._function, self._function_layers), (self._model, self._layers_before)):
            kept = [again.get(id(layer), layer) for layer in before if id(layer) in again or id(layer) not in gone]
            known = {id(layer) for layer in kept}
            new = [layer for layer in self._built.added if id(layer) not in known and holder is self._function]
            self._set(holder, {"_layers": [*kept, *new]})
        if self._is_sequential:
            order = [op for op in self._new._operations if isinstance(op, keras.layers.Layer)]
            self._set(self._model, {"_layers": order})
        self._tell()

    def undo(self) -> None:
        """Put the old one back."""
        self._set(self._function, {**self._before, "_layers": self._function_layers})
        if self._is_sequential:
            self._set(self._model, {"_layers": self._layers_before})
        self._tell()

    def forget(self) -> None:
        """Take the new nodes off the layers, when the old graph stays."""
        for call, node in reversed(self._built.made):
            call.operation._inbound_nodes.remove(node)
        self._unlink({id(node) for _, node in self._built.made})

    def settle(self) -> None:
        """Take the old nodes off the layers, so that a layer that is called once has one output."""
        for call, node in self._built.made:
            nodes = call.operation._inbound_nodes
            nodes.remove(node)
            place = nodes.index(call.node)
            nodes[place] = node
            for index, tensor in enumerate(node.outputs):
                tensor._keras_history = type(tensor._keras_history)(call.operation, place, index)
        left = {id(node) for nodes in self._function._nodes_by_depth.values() for node in nodes}
        old = {id(call.node) for call in self._graph.calls}
        self._unlink(old - left)
        self._function._nodes = self._nodes()
        for model in self._models:
            for name in COMPILED:
                if getattr(model, name, None) is not None:
                    setattr(model, name, None)
        _renew_optimizer(self._models[0])

    def _nodes(self) -> set[str]:
        """Return the keys of the nodes, which count the calls of a layer."""
        return {
            f"{id(node.operation)}_ib-{node.operation._inbound_nodes.index(node)}"
            for nodes in self._function._nodes_by_depth.values()
            for node in nodes
        }

    def _unlink(self, nodes: set[int]) -> None:
        for operation in self._graph.operations:
            operation._outbound_nodes[:] = [node for node in operation._outbound_nodes if id(node) not in nodes]

    def _set(self, holder: Any, values: dict[str, Any]) -> None:
        for name, value in values.items():
            holder.__dict__[name] = value  # past Keras, which would take it for a part of the model

    def _tell(self) -> None:
        """Let the models that hold it know of their variables, where the backend keeps a list of its own."""
        for model in {id(one): one for one in (self._function, *reversed(self._models))}.values():
            if hasattr(model, "_track_variables"):
                model._track_variables()


def _renew_optimizer(model: Any) -> None:
    """Give a compiled model an optimizer for the variables that it has, if the old one knew others."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or not optimizer.built:
        return
    learns = {id(variable) for variable in model.trainable_variables}
    if {id(variable) for variable in optimizer._trainable_variables} != learns:
        model.optimizer = type(optimizer).from_config(optimizer.get_config())
