"""A Keras model without the inputs of features that are dropped; all else keeps its name and its values.

The model is built for all features, and cut afterwards, so that the weights of the others are those that they have
beside the dropped ones. Which columns of which first layers are theirs is followed through the graph: through layers of
which it is known where their weights have their inputs, and concatenations. Where features are read in another way,
nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import keras
import msgspec
import numpy as np

from etude.core.rungs import Rung
from etude.frameworks.cutting import CannotCutError, Kept
from etude.frameworks.keras_removal.build import Built
from etude.frameworks.keras_removal.edits import Edit, Join, Output, Resize, Step
from etude.frameworks.keras_removal.graph import Graph
from etude.frameworks.keras_removal.kinds import Columns
from etude.frameworks.keras_removal.models import batches, few, fits, with_graph
from etude.frameworks.keras_removal.override import zeroed
from etude.frameworks.keras_removal.swap import Swap
from etude.frameworks.keras_removal.widths import CoupledError, MisfitError, Widths

CLOSE: Final = 1e-4
"""Results are equal if they differ by no more than this share of the largest."""


def without_inputs(model: Any, whole: Any, rest: Any, kept: Sequence[Kept]) -> Step:
    """Cut off a model what reads dropped features, and return what was done.

    Args:
        model: It, whole; it is changed in place.
        whole: The data with all features.
        rest: The data without some.
        kept: What stays of columns or channels, as far as names tell it.

    Raises:
        CannotCutError: Nobody can tell; the model may have been changed.
    """
    model = with_graph(model)
    before, after = _called_with(model, whole, rest)
    graph = Graph(model)
    step = _step(graph, _columns(model, before, after, kept))
    if not step.edits:
        return step
    want = _masked(model, graph, step, before)
    cut(model, step)
    try:
        have = _results(model, after)
    except Exception as broken:
        said = str(broken).strip().partition("\n")[0][:200]
        raise CannotCutError(f"the model does not run without them: {type(broken).__name__}: {said}") from broken
    if _rows(before, after) and any(not _close(a, b) for a, b in zip(want, have, strict=True)):
        raise CannotCutError("without them the model gives something else than with them counting for nothing")
    return step


def cut(model: Any, step: Step) -> None:
    """Cut inputs off a model, in place.

    Raises:
        CannotCutError: It has other inputs than were planned for.
    """
    graph = Graph(model)
    for one in step.edits:
        if isinstance(one, Resize) and _width(graph, one) != (one.was_inputs, one.was_outputs):
            raise CannotCutError(
                f"{graph.operations[one.operation].name!r} has another width than the ablation was planned for. The "
                "model function and the data function have to give the same shapes under each seed."
            )
    swap = Swap([model], graph, Built(graph, step, seed=0))
    swap.do()
    swap.settle()


def replay_cuts(model: Any, plain: Mapping[str, Any]) -> None:
    """Cut inputs off a model, in place.

    Args:
        model: What the model function gave.
        plain: What ``without_inputs`` returned, as plain data.
    """
    cut(with_graph(model), msgspec.convert(plain, Step))


def _width(graph: Graph, one: Resize) -> tuple[int, int]:
    call = next(call for call in graph.calls if call.place == one.operation)
    out = int(graph.shape(call.outputs[0])[-1] or 0)
    return (int(graph.shape(call.inputs[0])[-1] or 0) if call.inputs else out), out


# --- what is dropped ------------------------------------------------------------------------------


def _called_with(model: Any, whole: Any, rest: Any) -> tuple[Any, Any]:
    """Return what a model is called with, some examples of it, with all features and without some."""
    for one, other in zip(batches(whole), batches(rest), strict=False):
        x, y = (each[0] if isinstance(each, list | tuple) and each else each for each in (one, other))
        example, left = few(x), few(y)
        if example is not None and left is not None and fits(model, example):
            return example, left
    raise CannotCutError("nobody can tell what the model is called with")


def _columns(model: Any, before: Any, after: Any, kept: Sequence[Kept]) -> dict[int, Columns]:
    """Return for each input of a model that changes which of its columns are left."""
    there = {_key(path): value for path, value in keras.tree.flatten_with_path(after)}
    struct = keras.tree.flatten_with_path(before)
    if there.keys() - {_key(path) for path, _ in struct}:
        raise CannotCutError("the model is called in another way without them")
    graph = Graph(model)
    places = {id(call.node.outputs[0]): call.place for call in graph.calls if call.is_input}
    found: dict[int, Columns] = {}
    for (path, value), tensor in zip(struct, graph.function._inputs, strict=True):
        left = there.get(_key(path))
        if left is None:
            found[places[id(tensor)]] = ()
        elif left.shape[1:] != value.shape[1:]:
            found[places[id(tensor)]] = _left(value, left, kept)
    return found


def _key(path: Any) -> str:
    return ".".join(map(str, path))


def _left(value: Any, left: Any, kept: Sequence[Kept]) -> Columns:
    if value.ndim == left.ndim and value.shape[1:-1] == left.shape[1:-1]:
        of, n = value.shape[-1], left.shape[-1]
        fits_it = [one.places for one in dict.fromkeys(kept) if (one.of, len(one.places)) == (of, n)]
        same = [one for one in fits_it if np.array_equal(value[..., list(one)], left)]
        if len(same or fits_it) == 1:
            return (same or fits_it)[0]
    raise CannotCutError(
        f"the model is called with {'x'.join(map(str, left.shape[1:]))} in place of "
        f"{'x'.join(map(str, value.shape[1:]))} for each example, and no names tell which of these are left. Give them "
        "names, etude.Data(..., features=[...]), one for each column"
    )


# --- what reads it --------------------------------------------------------------------------------


def _step(graph: Graph, columns: Mapping[int, Columns]) -> Step:
    """Return what is done to a graph whose inputs have fewer columns."""
    gone: set[Output] = set()
    joins: dict[Output, tuple[int, ...]] = {}
    lost: list[str] = []
    learning = {place for place, layer in enumerate(graph.operations) if getattr(layer, "weights", [])}
    for call in graph.calls:
        left = tuple(n for n, one in enumerate(call.inputs) if one not in gone)
        if columns.get(call.place) == () or (call.inputs and not left):
            gone.update(call.outputs)
            lost += [call.operation.name] if call.place in learning else []
        elif len(left) < len(call.inputs):
            if call.kind != "Concatenate":
                raise CannotCutError(f"{call.operation.name}, a {call.kind}, is given them and others")
            joins[call.outputs[0]] = left
    if any(output in gone for output in graph.results):
        raise CannotCutError("a result of the model depends on nothing else")
    widths = Widths(graph, {}, joins, graph.left({}, joins), set())
    try:
        widths.follow({place: one for place, one in columns.items() if one})
    except (MisfitError, CoupledError) as misfit:
        why = str(misfit) or "features of different numbers meet"
        raise CannotCutError(f"they are read by their place: {why}") from None
    resizes = [one for one in widths.resizes() if one.inputs is not None or one.outputs]
    for place in (place for place, one in columns.items() if not one):
        call = next(call for call in graph.calls if call.place == place)
        width = int(graph.shape(call.outputs[0])[-1] or 0) if graph.shape(call.outputs[0]) else 0
        resizes.append(Resize(place, None, (), width, width))
    edits: list[Edit] = [*(Join(output, left) for output, left in joins.items()), *resizes]
    changes = (*(f"{name} goes with it" for name in lost), *_fewer(graph, resizes))
    return Step((), tuple(lost), tuple(edits), Rung.SPLICE, changes, 0, 0)


def _fewer(graph: Graph, resizes: Sequence[Resize]) -> Iterator[str]:
    for one in resizes:
        layer = graph.operations[one.operation]
        if one.inputs is not None and getattr(layer, "weights", []):
            yield f"{layer.name} {one.was_inputs}->{len(one.inputs)} inputs"


# --- whether it is what was meant -----------------------------------------------------------------


def _masked(model: Any, graph: Graph, step: Step, example: Any) -> list[Any]:
    """Return what the whole model gives when the inputs that go count for nothing."""
    resizes = [one for one in step.edits if isinstance(one, Resize) and one.inputs is not None]
    with zeroed(graph, resizes):
        return _results(model, example)


def _results(model: Any, example: Any) -> list[Any]:
    given = model(keras.tree.map_structure(keras.ops.convert_to_tensor, example), training=False)
    arrays = (keras.ops.convert_to_numpy(keras.ops.stop_gradient(one)) for one in keras.tree.flatten(given))
    return [np.array(one) for one in arrays]


def _rows(before: Any, after: Any) -> bool:
    """Whether both have the same examples: a loader that draws gives others each time."""
    there = {_key(path): value for path, value in keras.tree.flatten_with_path(after)}
    pairs = [(value, there[_key(path)]) for path, value in keras.tree.flatten_with_path(before) if _key(path) in there]
    return all(np.array_equal(a, b) if a.shape == b.shape else {*np.ravel(b)} <= {*np.ravel(a)} for a, b in pairs)


def _close(one: Any, two: Any) -> bool:
    largest = float(np.abs(two).max(initial=0.0))
    return one.shape == two.shape and bool(np.abs(one - two).max(initial=0.0) <= CLOSE * max(largest, 1e-12))
