"""Which layers of a model a component stands for: by path, by pattern, by class, by the order of calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from etude.ablate.arms import joined_layers
from etude.ablate.components import BetweenComponent, LayerComponent, PartComponent
from etude.ablate.listing import Layer, Listing, is_inside, outermost
from etude.ablate.naming import chosen, glob, is_glob, nearest
from etude.ablate.spelling import counted
from etude.core.errors import ConfigError
from etude.core.removal import Layers, Part, Whole
from etude.core.text import count, few

Found = tuple[Layers, tuple[str, ...], tuple[str, ...]]
OfModel = LayerComponent | BetweenComponent | PartComponent


def match_layers(component: OfModel, listing: Listing, *, elsewhere: str = "") -> Found:
    """Return what a component takes out of a model, what a plan should say of it, and what is odd about it.

    Args:
        component: The component.
        listing: Everything that could be taken away.
        elsewhere: What to say beside where nothing matches.

    Raises:
        ConfigError: It matches nothing, or several layers where one is meant, or the input or output of the model.
    """
    asked = str(component)
    if not listing.layers:
        raise ConfigError(
            f"{asked!r} cannot be taken away: the experiment has no model function whose layers are known. "
            "Pass Experiment(train, model=...), or write a variant: etude.custom(name, train=...)."
        )
    names = _Names(listing, asked, elsewhere)
    warns: list[str] = []
    says: list[str] = []
    targets: list[Whole] | list[Part]
    match component:
        case PartComponent():
            layer = names.one(component.name)
            layer = _attention(layer, listing.layers, asked) if component.of == "heads" else layer
            targets = [_part(component, layer, asked)]
        case BetweenComponent():
            paths, stays = _between(names.one(component.first), names.one(component.last), listing.layers, asked)
            says.append(f"{asked!r} is {count(len(paths), 'layer')}: {few(paths)}.")
            warns += [f"{path!r} is also called outside of {asked!r}, and stays." for path in stays]
            targets = [Whole(path) for path in paths]
        case LayerComponent():
            paths = outermost(_named(component, names))
            if component.pattern is not None or component.kind == "type" or any(map(is_glob, component.names)):
                says.append(f"{asked!r} is {count(len(paths), 'layer')}: {few(paths)}.")
            targets = [Whole(path) for path in paths]
    beside = [target.path for target in targets]
    along = [path for name in component.with_ for path in names.beside(name, beside)]
    _refuse_ends([target.path for target in targets if isinstance(target, Whole)] + along, listing.layers, asked)
    for path in along:
        if any(is_inside(target.path, path) for target in targets):
            raise ConfigError(
                f"{asked!r} would take along {path!r}, which holds what is taken away itself. "
                f"Take the block away instead: 'layer:{path}'."
            )
    warns += _idle([target.path for target in targets], listing.layers)
    warns += _reading([target.path for target in targets if isinstance(target, Whole)], listing.layers)
    layers = joined_layers([Layers(tuple(targets), component.repair, tuple(along))])
    assert layers is not None
    return layers, tuple(says), tuple(warns)


def nothing_left(taken: Layers, layers: Sequence[Layer]) -> bool:
    """Say whether no layer that learns is left."""
    gone = [target.path for target in taken.targets if isinstance(target, Whole)] + list(taken.along)
    blocks = {layer.path.rpartition(".")[0] for layer in layers}
    leaves = [layer for layer in layers if layer.path not in blocks]
    learn = [leaf for leaf in leaves if leaf.parameters] or leaves
    return all(any(leaf.path == path or is_inside(leaf.path, path) for path in gone) for leaf in learn)


def used_up(taken: Layers, layers: Sequence[Layer]) -> Part | None:
    """Return a part that is all that its layer has; None if there is none."""
    by_path = {layer.path: layer for layer in layers}
    parts = [target for target in taken.targets if isinstance(target, Part)]
    return next((part for part in parts if getattr(by_path[part.path], part.of) == len(part.indices)), None)


class _Names:
    """The layers of a model by their names.

    Args:
        listing: It has the layers.
        asked: The component as it is spelled, for messages.
        hint: What else to say where nothing matches.
    """

    def __init__(self, listing: Listing, asked: str, hint: str) -> None:
        self.layers = {layer.path: layer for layer in listing.layers}
        self.inputs = listing.inputs
        self.asked = asked
        self.hint = hint

    def beside(self, name: str, targets: Iterable[str]) -> list[str]:
        """Return the paths of the layers of that name that stand beside ``targets``; if none does, that of ``one``."""
        blocks = dict.fromkeys(path.rpartition(".")[0] for path in targets)
        there = [path for path in (f"{block}.{name}".removeprefix(".") for block in blocks) if path in self.layers]
        if not there and not any(path == name or path.endswith(f".{name}") for path in self.layers):
            raise ConfigError(
                f"{self.asked!r} would take along {name!r}, and there is no such layer. {nearest(name, self.layers)} "
                "What the model calls as a function, as torch.relu, is no layer and cannot go along: leave with= out."
            )
        return there or [self.one(name).path]

    def one(self, name: str) -> Layer:
        """Return the layer of that name: its path, or the end of one path."""
        if name in self.layers:
            return self.layers[name]
        found = [layer for layer in self.layers.values() if layer.path.endswith(f".{name}")]
        if len(found) > 1:
            listed = few(one.path for one in found)
            raise ConfigError(
                f"{self.asked!r} is ambiguous: {name!r} stands for {count(len(found), 'layer')}, {listed}. "
                f"Write the whole path of one of them, or 'layers:~(^|\\.){re.escape(name)}$' for all as one arm."
            )
        entered = next((one for one in self.inputs if re.fullmatch(rf"{re.escape(name)}(_\d+)?", one)), None)
        if not found and entered is not None:  # Keras counts those of all models
            raise ConfigError(
                f"{self.asked!r} cannot be taken away: {entered!r} is an input of the model, and without it no data "
                "reaches what comes after. Take away what reads it, or features of the data."
            )
        if not found:
            which = "" if self.asked.endswith(f":{name}") else f": there is no {name!r}"
            raise ConfigError(f"{self.asked!r} matches no layer{which}. {nearest(name, self.layers)}{self.hint}")
        return found[0]

    def where(self, says: Callable[[str], object]) -> list[str]:
        """Return the paths of which something can be said, or of an end of which it can."""
        return [path for path in self.layers if any(says(end) for end in _ends(path))]


def _named(component: LayerComponent, names: _Names) -> list[str]:
    """Return the paths that names or a pattern stand for, in the order of the model."""
    if component.kind == "type":
        types = (layer.type for layer in names.layers.values())
        wanted = chosen(component.names, component.pattern, types, names.asked, "type of layer", names.hint)
        return [path for path, layer in names.layers.items() if layer.type in wanted]
    if component.pattern is not None:
        pattern = re.compile(component.pattern)
        found = {path for path in names.layers if pattern.search(path)}
        if not found:
            raise ConfigError(f"{names.asked!r} matches no layer. There are: {few(names.layers)}.{names.hint}")
    else:
        found = set()
        for name in component.names:
            matched = names.where(glob(name, one=r"[^.]").fullmatch) if is_glob(name) else []
            found.update(matched or [names.one(name).path])
    return [path for path in names.layers if path in found]


def _between(first: Layer, last: Layer, layers: Sequence[Layer], asked: str) -> tuple[list[str], list[str]]:
    """Return the outermost layers that are called after ``first``, up to ``last``, and those that are also elsewhere.

    The end of a call counts: what holds ``last`` ends after it, and is not among them.
    """
    for layer in (first, last):
        if not layer.called:
            raise ConfigError(
                f"{asked!r} needs to know when {layer.path!r} is called, and with the example it never is. "
                f"Name the layers that are to go: 'layers:[...]'."
            )
    if first.path == last.path:
        raise ConfigError(
            f"{asked!r} is empty: {first.path!r} stays, and nothing is called between a layer and itself. Name a later "
            f"layer as the end, or take this one away: 'layer:{first.path}'."
        )
    start, end = max(first.called), max(last.called)
    if start >= end or is_inside(first.path, last.path):
        order = f"{last.path!r} holds it" if is_inside(first.path, last.path) else f"{last.path!r} is called before it"
        swapped = "" if is_inside(first.path, last.path) else f" Did you mean 'between:{last.path}..{first.path}'?"
        raise ConfigError(f"{asked!r} is empty: {first.path!r} stays, and {order}.{swapped or ' Name a later layer.'}")
    if min(last.called) <= start:
        raise ConfigError(
            f"{asked!r} cannot be: {last.path!r} is called several times, before and after {first.path!r}. "
            "Name the layers that are to go: 'layers:[...]'."
        )
    within, stays = [], []
    for layer in layers:
        if not layer.called or is_inside(first.path, layer.path) or is_inside(layer.path, first.path):
            continue
        inside = [start < when <= end for when in layer.called]
        if all(inside):
            within.append(layer.path)
        elif any(inside):
            stays.append(layer.path)
    found = outermost(within)
    return found, [path for path in outermost(stays) if not any(is_inside(path, outer) for outer in found)]


def _attention(block: Layer, layers: Sequence[Layer], asked: str) -> Layer:
    """Return the attention of which heads are meant: a layer that has some, or the only one in a block that does."""
    within = {layer.path: layer for layer in layers if layer.heads is not None and is_inside(layer.path, block.path)}
    if block.heads is not None or not within:
        return block
    found = outermost(within)
    if len(found) > 1:
        raise ConfigError(
            f"{asked!r} is ambiguous: {block.path!r} holds {count(len(found), 'attention')}, {few(found)}. Name one: "
            f"'heads:{found[0]}[...]'."
        )
    return within[found[0]]


def _part(component: PartComponent, layer: Layer, asked: str) -> Part:
    counts = {"filters": layer.filters, "units": layer.units, "heads": layer.heads}
    n = counts[component.of]
    if n is None:
        has = [f"{number} {of}" for of, number in counts.items() if number is not None]
        raise ConfigError(
            f"{asked!r} cannot be taken away: {layer.path!r} is a {layer.type}, which has no {component.of}. "
            f"It has: {', '.join(has) or 'no parts that could go alone'}."
        )
    indices = counted(component.indices, n)
    if not indices:
        what = "stands for none" if indices is not None else f"goes beyond the last, which is {n - 1}"
        raise ConfigError(
            f"{asked!r} cannot be taken away: {layer.path!r} has {n} {component.of}, and [{component.indices}] {what}. "
            f"Pass indices from 0 to {n - 1}."
        )
    if len(indices) == n:
        raise ConfigError(
            f"{asked!r} are all {n} {component.of} of {layer.path!r}. Take the layer away: 'layer:{layer.path}'."
        )
    if layer.role == "output":
        raise _output(asked, layer.path, layer.path)
    return Part(layer.path, component.of, indices)


def _refuse_ends(paths: Iterable[str], layers: Sequence[Layer], asked: str) -> None:
    ends = [layer for layer in layers if layer.role]
    for path in paths:
        for layer in ends:
            if layer.path != path and not is_inside(layer.path, path):
                continue
            if layer.role == "output":
                raise _output(asked, path, layer.path)
            what = "is the input layer" if layer.path == path else f"holds the input layer {layer.path!r}"
            raise ConfigError(
                f"{asked!r} cannot be taken away: {path!r} {what}, and without it no data reaches the model. "
                "Take away what comes after it, or features of the data."
            )


def _output(asked: str, path: str, output: str) -> ConfigError:
    what = "is the output layer" if path == output else f"holds the output layer {output!r}"
    return ConfigError(
        f"{asked!r} cannot be taken away: {path!r} {what}, which gives what the model returns. "
        "Take away a layer before it, or write a variant: etude.custom(name, model=...)."
    )


def _idle(paths: Iterable[str], layers: Sequence[Layer]) -> list[str]:
    """Return a warning for each path that is never called, nor anything in it, if calls are known at all."""
    alive = [layer.path for layer in layers if layer.called]
    return [
        f"{path!r} is never called with the example: a dead component, whose removal changes nothing."
        for path in paths
        if alive and not any(one == path or is_inside(one, path) for one in alive)
    ]


def _reading(paths: Sequence[str], layers: Sequence[Layer]) -> list[str]:
    """Return a warning if layers go that read the data itself."""
    found = [one.path for one in layers if one.reads_data and any(_holds(path, one.path) for path in paths)]
    if not found:
        return []
    read, them = ("reads", "it") if len(found) == 1 else ("read", "them")
    return [
        f"{few(map(repr, found))} {read} the data itself: without {them}, what comes after reads the data as it is. "
        "What a feature is worth is another question: 'feature:NAME'."
    ]


def _holds(outer: str, path: str) -> bool:
    return path == outer or is_inside(path, outer)


def _ends(path: str) -> Iterable[str]:
    """Yield a path, and what is left of it without its first names."""
    yield path
    while "." in path:
        path = path.partition(".")[2]
        yield path
