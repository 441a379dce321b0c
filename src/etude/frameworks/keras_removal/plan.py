"""How a component is taken out of a Keras model: the public side of the ladder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part, Target, Whole
from etude.core.rungs import Rung
from etude.frameworks.keras_removal.branches import meetings, passes, regions
from etude.frameworks.keras_removal.build import Built
from etude.frameworks.keras_removal.edits import KerasPlan
from etude.frameworks.keras_removal.graph import Graph, at, nested
from etude.frameworks.keras_removal.kinds import weights_of, width_setting
from etude.frameworks.keras_removal.ladder import Ladder
from etude.frameworks.keras_removal.swap import Swap
from etude.frameworks.repair_words import parameters_in_words, part_of, with_mend


def plan(model: Any, layers: Layers) -> KerasPlan:
    """Say how a component is taken out of a model; the model is not touched.

    Args:
        model: A functional or sequential model that is built.
        layers: What is taken out.

    Raises:
        RemovalRefused: It cannot be; it names the smallest enclosing block that can.
    """
    try:
        return _plan(model, layers)
    except RemovalRefused as refused:
        if refused.code in (RefusalCode.NOT_FOUND, RefusalCode.EVERYTHING, RefusalCode.DEAD):
            raise
        why, instead, part = with_mend(refused, layers), _enclosing(model, layers), part_of(refused, layers)
        raise RemovalRefused(refused.code, refused.what, why, instead=instead, part=part) from None


def _enclosing(model: Any, layers: Layers) -> str:
    path = layers.targets[0].path.rpartition(".")[0]
    while path:
        try:
            _plan(model, Layers((Whole(path),), layers.repair))
        except RemovalRefused:
            path = path.rpartition(".")[0]
        else:
            return path
    return ""


def _plan(model: Any, layers: Layers) -> KerasPlan:
    targets = [*layers.targets, *(Whole(path) for path in layers.along)]
    what = ", ".join(target.path for target in targets)
    steps = []
    for places, (inner, mine) in sorted(_by_model(model, targets).items(), key=lambda item: -len(item[0])):
        graph = Graph(inner)
        where = "".join(f"{one.name}." for one in at(model, places)[1:])
        gone, parts = [], []
        for target, name in mine:
            place = graph.place(name)
            if place is None:
                raise RemovalRefused(RefusalCode.NOT_FOUND, target.path, _why_not_found(graph, name))
            if isinstance(target, Part):
                parts.append(_checked(graph, target, place))
            else:
                gone.append(place)
        steps.append(msgspec.structs.replace(Ladder(graph, layers, what, where).step(gone, parts), model=places))
        _is_joined_by_none(model, places, graph, set(gone), what)
    before = model.count_params()
    after = before - sum(step.before - step.after for step in steps)
    changes = (*(one for step in steps for one in step.changes), parameters_in_words(before, after))
    rebuilt = tuple(name for step in steps for name in step.rebuilt)
    idle = tuple(name for step in steps for name in step.idle)
    resized = tuple(name for step in steps for name in step.resized)
    rung = max(step.rung for step in steps)
    found = KerasPlan(layers, tuple(steps), rung, changes, before, after, rebuilt, idle, resized)
    return _with_adapters(model, found) if rung is Rung.LEARNED else found


def _with_adapters(model: Any, planned: KerasPlan) -> KerasPlan:
    """Return a plan that counts the weights of its learned adapters, too: these are known when they are built."""
    with in_place(model, planned, seed=0) as done:
        after = planned.after + sum(layer.count_params() for swap in done for layer in swap.added)
    changes = (*planned.changes[:-1], parameters_in_words(planned.before, after))
    return msgspec.structs.replace(planned, changes=changes, after=after)


def _is_joined_by_none(model: Any, places: tuple[int, ...], graph: Graph, gone: set[int], what: str) -> None:
    """Refuse what leaves a nested model that gives what goes in, if that meets the same outside.

    Raises:
        RemovalRefused: It does.
    """
    models = at(model, places)
    for place, holder in zip(reversed(places), reversed(models[:-1]), strict=True):
        numbers = {call.n for call in graph.calls if call.place in gone}
        if not any(passes(graph, region, numbers) for region in regions(graph, numbers)):
            return
        graph, gone = Graph(holder), {place}
        block = graph.operations[place].name
        numbers = {call.n for call in graph.calls if call.place == place}
        for region in regions(graph, numbers):
            for meeting in meetings(graph, region, numbers):
                why = (
                    f"{block!r} would be left without a layer that mixes, and what it gives meets a branch beside it "
                    f"in {meeting.join.operation.name}. Take out {block!r} as a whole, or give variants: "
                    "etude.custom(name, model=...)."
                )
                raise RemovalRefused(RefusalCode.UNTRACEABLE, what, why)


def _by_model(model: Any, targets: list[Target]) -> dict[tuple[int, ...], tuple[Any, list[tuple[Target, str]]]]:
    """Return the targets by the innermost model that holds them, with their names in it."""
    wholes = {target.path for target in targets if isinstance(target, Whole)}
    found: dict[tuple[int, ...], tuple[Any, list[tuple[Target, str]]]] = {}
    for target in targets:
        if not target.path:
            raise RemovalRefused(RefusalCode.EVERYTHING, "the model", "it is the whole model.")
        if not any(target.path.startswith(f"{path}.") for path in wholes):
            inner, places, name = nested(model, target.path)
            found.setdefault(places, (inner, []))[1].append((target, name))
    return found


def _why_not_found(graph: Graph, name: str) -> str:
    first = name.partition(".")[0]
    place = graph.place(first)
    if place is not None:
        kind = type(graph.operations[place]).__name__
        return f"{first} is a {kind}, and what is inside of a layer without a graph of its own cannot be taken out."
    return "the model has no such layer."


def _checked(graph: Graph, part: Part, place: int) -> tuple[int, Part]:
    """Return a part with the place of its layer.

    Raises:
        RemovalRefused: The layer has no such part.
    """
    layer = graph.operations[place]
    if part.of == "heads" or not width_setting(layer) or weights_of(layer) is None:
        why = f"the outputs of a {type(layer).__name__} of Keras cannot go one by one."
        raise RemovalRefused(RefusalCode.NOT_FOUND, part.path, why)
    width = layer.get_config()[width_setting(layer)]
    if not all(0 <= n < width for n in part.indices):
        raise RemovalRefused(RefusalCode.NOT_FOUND, part.path, f"it has {width} {part.of}, counted from 0.")
    if len(set(part.indices)) == width:
        raise RemovalRefused(RefusalCode.EVERYTHING, part.path, f"these are all its {part.of}.")
    return place, part


def apply(model: Any, planned: KerasPlan, *, seed: int) -> None:
    """Carry out a plan, in place.

    Args:
        model: The model for which it was made, or another that the same function made.
        planned: What ``plan`` gave.
        seed: Of the trial.
    """
    for swap in swaps(model, planned, seed=seed):
        swap.do()
        swap.settle()


@contextmanager
def in_place(model: Any, planned: KerasPlan, *, seed: int) -> Iterator[list[Swap]]:
    """Carry out a plan on a model for a while, and take it back; arguments are those of ``apply``.

    Yields:
        What was put in place.
    """
    done: list[Swap] = []
    try:
        for swap in swaps(model, planned, seed=seed):
            swap.do()
            done.append(swap)
        yield done
    finally:
        for swap in reversed(done):
            swap.undo()
            swap.forget()


def swaps(model: Any, planned: KerasPlan, *, seed: int) -> Iterator[Swap]:
    """Yield what is put in place, step by step; each is built when it is asked for."""
    for step in planned.steps:
        models = at(model, step.model)
        graph = Graph(models[-1])
        yield Swap(models, graph, Built(graph, step, seed=seed))
