"""A graph built anew without what goes: surviving layers are the same objects, and are called again.

A layer that needs another width is made again from its configuration, under its name. Its weights are drawn from a
stream of its place, and columns that are known to be the old ones are copied.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from etude.core.streams import stream_seed
from etude.frameworks.keras_removal.edits import Instead, Join, Output, Resize, Step
from etude.frameworks.keras_removal.fit import Fit
from etude.frameworks.keras_removal.graph import Call, Graph
from etude.frameworks.keras_removal.kinds import weights_of, width_setting


class Built:
    """What was built.

    Args:
        graph: The graph as it was.
        step: What is done to it.
        seed: Of the trial.

    Attributes:
        inputs: The new model's inputs, in the structure of the old ones.
        outputs: Likewise its outputs.
        layers: The layers that were made again, by those that they stand for.
        added: Adapters.
        made: Calls of layers that survive which were made anew, with their new nodes.
    """

    def __init__(self, graph: Graph, step: Step, *, seed: int) -> None:
        self._graph, self._seed, self._where = graph, seed, step.model
        self._instead = {edit.of: edit for edit in step.edits if isinstance(edit, Instead)}
        self._joins = {edit.of: edit for edit in step.edits if isinstance(edit, Join)}
        self._resizes = {edit.operation: edit for edit in step.edits if isinstance(edit, Resize)}
        self._tensors: dict[Output, Any] = {}
        self.layers: dict[int, Any] = {}
        self.added: list[Fit] = []
        self.made: list[tuple[Call, Any]] = []
        instead = {of: edit.sources for of, edit in self._instead.items()}
        left = graph.left(instead, {of: edit.kept for of, edit in self._joins.items()})
        for call in graph.calls:
            is_passed = len(self._kept(call)) == 1 < len(call.inputs)  # a join with one branch left: see _of
            if (call.n in left and not is_passed) or call.is_input:
                self._call(call)
        function = graph.function
        self.inputs = self._entered(function._inputs_struct)
        results = [self._of(output) for output in graph.results]
        self.outputs = keras.tree.pack_sequence_as(function._outputs_struct, results)

    def _kept(self, call: Call) -> tuple[int, ...]:
        join = self._joins.get(call.outputs[0]) if call.outputs else None
        return join.kept if join is not None else tuple(range(len(call.inputs)))

    def _of(self, output: Output) -> Any:
        """Return the new tensor for a place in the old graph."""
        if output in self._tensors:
            return self._tensors[output]
        one = self._instead.get(output)
        if one is not None:
            given = [self._of(source) for source in one.sources]
            found = given[0] if one.shape is None else self._brought(one, given)
        else:
            call = self._graph.made[output]
            found = self._of(call.inputs[self._kept(call)[0]])  # a join with one branch left
        self._tensors[output] = found
        return found

    def _brought(self, one: Instead, given: list[Any]) -> Any:
        assert one.shape is not None
        like = self._graph.operations[one.of.operation]
        with drawing(self._seed, *self._where, one.of.operation):
            layer = Fit(one.shape, learned=one.learned, name=one.name, dtype=getattr(like, "dtype_policy", None))
            self.added.append(layer)
            return layer(given if len(given) > 1 else given[0])

    def _call(self, call: Call) -> None:
        if call.is_input:
            if call.place in self._resizes:
                self._enter(call, self._resizes[call.place])
                return
            for output, tensor in zip(call.outputs, call.node.outputs, strict=True):
                self._tensors[output] = tensor
            return
        args, kwargs = self._arguments(call)
        given = [call.inputs[n] for n in self._kept(call)]
        same = all(self._of(output) is self._graph.tensors[output] for output in given)
        if same and call.place not in self._resizes and len(given) == len(call.inputs):
            for output, tensor in zip(call.outputs, call.node.outputs, strict=True):
                self._tensors[output] = tensor  # nothing before it has changed
            return
        resize = self._resizes.get(call.place)
        is_new = resize is not None and call.place not in self.layers
        with drawing(self._seed, *self._where, call.place):
            if resize is not None and is_new:
                self.layers[call.place] = _again(call.operation, resize)
            operation = self.layers.get(call.place, call.operation)
            made = operation(*args, **kwargs)
        if resize is not None and is_new:
            _copy(call.operation, operation, resize)
        if operation is call.operation:
            self.made.append((call, operation._inbound_nodes[-1]))
        for output, tensor in zip(call.outputs, keras.tree.flatten(made), strict=True):
            self._tensors[output] = tensor

    def _enter(self, call: Call, resize: Resize) -> None:
        """Let fewer columns come in; none of an input that is gone."""
        [tensor] = call.node.outputs
        if resize.outputs:
            shape = (*tensor.shape[:-1], len(resize.outputs))
            new = keras.Input(batch_shape=shape, dtype=tensor.dtype, name=call.operation.name)
            self._tensors[call.outputs[0]] = new
            self.layers[call.place] = new._keras_history.operation

    def _entered(self, struct: Any) -> Any:
        """Return what comes in, in the structure of before, without what is gone."""
        if isinstance(struct, dict):
            pairs = ((name, self._entered(one)) for name, one in struct.items())
            return {name: one for name, one in pairs if one is not None}
        if isinstance(struct, list | tuple):
            return type(struct)([one for one in map(self._entered, struct) if one is not None])
        return self._tensors.get(next(call.outputs[0] for call in self._graph.calls if call.node.outputs[0] is struct))

    def _arguments(self, call: Call) -> tuple[Any, Any]:
        arguments, kept = call.node.arguments, self._kept(call)
        if len(kept) < len(call.inputs):
            given = [self._of(call.inputs[n]) for n in kept]
            return (given,), {k: v for k, v in arguments.kwargs.items() if not isinstance(v, keras.KerasTensor)}
        new = {id(t): self._of(o) for t, o in zip(call.node.input_tensors, call.inputs, strict=True)}
        return arguments.fill_in(new)  # type: ignore[no-any-return]


@contextmanager
def drawing(seed: int, *places: int) -> Iterator[None]:
    """Let weights that are drawn come from a stream of their layer's place, and move no other draw.

    Initializers without a seed take one from Python's generator, whatever the backend is.
    """
    state = random.getstate()
    random.seed(stream_seed(seed, "init", *places))
    try:
        yield
    finally:
        random.setstate(state)


def _again(layer: Any, resize: Resize) -> Any:
    """Return a layer as another one is, of another width."""
    config = layer.get_config()
    if resize.outputs is not None:
        config[width_setting(layer)] = len(resize.outputs)
    if "target_shape" in config and resize.inputs is not None:
        config["target_shape"] = (*config["target_shape"][:-1], len(resize.inputs))
    for name in ("mean", "variance"):  # of a Normalization that was given its numbers
        if resize.inputs is not None and np.ndim(config.get(name)):
            config[name] = np.asarray(config[name])[..., np.array(resize.inputs, int)].tolist()
    made = type(layer).from_config(config)
    made.trainable = layer.trainable
    return made


def _copy(old: Any, new: Any, resize: Resize) -> None:
    """Copy what is known to be the same."""
    lies = weights_of(old) or {}
    for before, after in zip(old.variables, new.variables, strict=True):
        value, found = _array(before), _array(after).copy()
        weight = lies.get(before.name)
        here: list[Any] = [slice(None)] * value.ndim
        there: list[Any] = [slice(None)] * value.ndim
        for axis, columns in (
            (weight.inputs if weight else None, resize.inputs),
            (weight.outputs if weight else None, resize.outputs),
        ):
            if axis is not None and columns is not None:
                there[-axis] = np.array([n for n, one in enumerate(columns) if one is not None], int)
                here[-axis] = np.array([one for one in columns if one is not None], int)
        for axis, (source, target) in enumerate(zip(here, there, strict=True)):
            here[axis] = np.arange(value.shape[axis]) if isinstance(source, slice) else source
            there[axis] = np.arange(found.shape[axis]) if isinstance(target, slice) else target
        if value.ndim == 0:
            found = value
        elif all(len(one) for one in here):
            found[np.ix_(*there)] = value[np.ix_(*here)]
        after.assign(found)
        after._path = before.path  # a sequential model puts its name in front of it, and the copy has none
    if hasattr(new, "finalize_state"):  # a Normalization computes with what it makes of its variables
        new.finalize_state()


def _array(variable: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(variable.value))
