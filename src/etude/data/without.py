"""Data without some of its features: dropped, shuffled among the examples, or replaced by a constant.

The same is done to each part. What was given stays as it was, since a data function may return the same thing twice.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from etude.core.data import Data
from etude.core.errors import ConfigError, ResultError
from etude.core.removal import Features
from etude.core.streams import stream_seed
from etude.data import changes
from etude.data.changes import CannotChangeError
from etude.data.counted import counted_without
from etude.data.spots import Spot, find, is_array, is_series
from etude.frameworks import torch_features_adapter

PARTS: Final = ("train", "valid", "test")
BY_HAND: Final = "let data() take without: frozenset[str] and leave them out itself"


def without(found: Any, taken: Features, *, seed: int) -> Any:
    """Return what the data function returned, without some features, in all its parts.

    Args:
        found: A ``Data``; a tuple, list or dict of parts; or one part: a table, arrays, tensors, a data set, a loader.
        taken: Which features, and how: ``drop`` leaves them out, ``permute`` shuffles their values among the examples
            of each part (all of them alike, so that only what links them to the rest is broken), ``constant`` puts one
            value in their place, which is zero or an empty text if none was said.
        seed: The trial's. Equal seeds shuffle alike.

    Raises:
        ConfigError: Some part does not have them, or they cannot be taken out of it; or one is the label or an id.
    """
    told = found if isinstance(found, Data) else Data(None)
    for name in taken.names:
        if name in told.target or name in told.ids:
            what = "the label" if name in told.target else "an id"
            raise ConfigError(f"{name!r} cannot be taken out: it is {what}, by etude.Data. Take another feature.")
    parts = parts_of(found)
    spots = {name: find(part, told) for name, part in parts.items()}
    for name, part in parts.items():
        _check(name, part, spots[name], taken.names)
    known: dict[int, tuple[Any, Any]] = {}  # several parts are often subsets of one data set
    made = {}
    for name, part in parts.items():
        try:
            made[name] = _Taker(taken, seed, name, known).part(part, spots[name])
        except CannotChangeError as error:
            names = ", ".join(map(repr, taken.names))
            raise ConfigError(
                f"{_called(name)} cannot be had {_how(taken)} {names}: {error}. Take something else away, or {BY_HAND}."
            ) from error
    rest = _with_parts(found, made)
    if isinstance(rest, Data) and taken.how == "drop":
        counted_without(rest, next(iter(spots.values()), ()), frozenset(taken.names))
    return rest


def check_left_out(found: Any, taken: Features) -> None:
    """Refuse what a data function returned that was asked to leave features out itself, and did not.

    Raises:
        ResultError: A feature is there by its name. Of data whose features have no names nothing can be told.
    """
    told = found if isinstance(found, Data) else Data(None)
    for part in parts_of(found).values():
        there = frozenset[str]().union(*(spot.all_names for spot in find(part, told)))
        left = [name for name in taken.names if name in there]
        if left:
            raise ResultError(
                f"data() was called with without={set(taken.names)!r}, and what it returned has "
                f"{', '.join(map(repr, left))}. Leave these out of every part."
            )


def parts_of(found: Any) -> dict[str, Any]:
    """Return the parts of what a data function returned, by name; of a tuple, by number."""
    if isinstance(found, Data):
        return {name: getattr(found, name) for name in PARTS if getattr(found, name) is not None}
    if isinstance(found, Mapping) and set(found) & set(PARTS):
        return dict(found)
    if isinstance(found, tuple | list):
        return {str(place): part for place, part in enumerate(found)}
    return {"": found}


def _with_parts(found: Any, made: Mapping[str, Any]) -> Any:
    if isinstance(found, Data):
        return found.with_parts(*(made.get(name) for name in PARTS))
    if isinstance(found, Mapping) and made.keys() == found.keys():
        return changes.with_items(found, made)
    if isinstance(found, tuple | list):
        return changes.with_items(found, {int(place): part for place, part in made.items()})
    return made[""]


def _check(name: str, part: Any, spots: Sequence[Spot], names: Sequence[str]) -> None:
    """Refuse if a part that has features does not have these, or if nobody knows which it has."""
    there = frozenset[str]().union(*(spot.all_names for spot in spots))
    missing = [each for each in names if each not in there]
    if not missing or (not there and name not in PARTS and _is_label(part)):
        return
    asked = ", ".join(map(repr, missing))
    if there:
        raise ConfigError(
            f"{asked} cannot be taken out of {_called(name)}: it has {', '.join(map(repr, sorted(there)))}. "
            f"Let each part have all features, or {BY_HAND}."
        )
    shape = f" of shape {tuple(part.shape)}" if is_array(part) else ""
    raise ConfigError(
        f"{asked} cannot be taken out of {_called(name)}: nothing names the features of what is there "
        f"({type(part).__name__}{shape}). Name them, etude.Data(train, valid, features=[...]), "
        f"one name for each column of an array, or fields=[...] for the items of an example; or {BY_HAND}."
    )


def _is_label(part: Any) -> bool:
    """Say whether something without features may be what is to be predicted, or a number."""
    return is_series(part) or (is_array(part) and len(part.shape) <= 1) or isinstance(part, int | float | str | None)


def _called(name: str) -> str:
    if name.isdigit():
        return f"item {name} of what data() returned"
    return f"the {name} part of the data" if name else "what data() returned"


def _how(taken: Features) -> str:
    return {"drop": "without", "permute": "with shuffled", "constant": "with a constant for"}[taken.how]


@dataclass(frozen=True)
class EditItem:
    """Takes features out of one example; it travels to loader workers.

    Attributes:
        taken: Which, and how.
        spots: Where they are.
    """

    taken: Features
    spots: tuple[Spot, ...]

    def __call__(self, item: Any, other: Any) -> Any:
        """Return an example without its features; ``other`` is the one that it gets others' from, if it does."""
        return _edited(item, self.spots, self.taken, lambda _, path: _at(other, path))


@dataclass(frozen=True)
class _Taker:
    """Takes features out of one part."""

    taken: Features
    seed: int
    name: str
    known: dict[int, tuple[Any, Any]] = field(repr=False)

    def part(self, part: Any, spots: tuple[Spot, ...]) -> Any:
        for spot in spots:
            if spot.kind == "items" and not spot.all_names.isdisjoint(self.taken.names):
                part = changes.changed_at(part, spot.path, functools.partial(self._items, spot.inner))
        plain = tuple(spot for spot in spots if spot.kind != "items")
        return _edited(part, plain, self.taken, self._shuffled)

    def _shuffled(self, leaf: Any, path: tuple[Any, ...]) -> Any:
        return changes.rows(leaf, self._order(changes.length_of(leaf)))

    def _order(self, n: int, drawn: Sequence[int] | None = None) -> Any:
        """Return for each of n rows which one it gets features from; rows that are never drawn keep their own."""
        import numpy as np

        order = np.arange(n)
        mixed = order.copy() if drawn is None else np.unique(np.asarray(drawn, dtype=np.int64))
        order[mixed] = np.random.default_rng(stream_seed(self.seed, "permute", self.name)).permutation(mixed)
        return order

    def _items(self, inner: tuple[Spot, ...], value: Any) -> Any:
        edit = EditItem(self.taken, inner)
        mixes = self.taken.how == "permute"
        if isinstance(value, list):
            order = self._order(len(value)) if mixes else range(len(value))
            return [edit(item, value[int(other)]) for item, other in zip(value, order, strict=True)]
        torch = torch_features_adapter()
        if mixes and torch.is_stream(value):
            raise CannotChangeError(f"{type(value).__name__} gives its examples one after the other, in its own order")
        drawn = torch.rows_drawn(value)
        change = (lambda data_set: self._mixed(data_set, edit, drawn)) if mixes else self._rebuilder(edit)
        return torch.with_data_set(value, change)

    def _mixed(self, data_set: Any, edit: EditItem, drawn: Sequence[int] | None) -> Any:
        order = self._order(len(data_set), drawn)
        return torch_features_adapter().mixed(
            data_set,
            edit,
            order,
            lambda tensors: _edited(tensors, edit.spots, self.taken, lambda leaf, _: changes.rows(leaf, order)),
        )

    def _rebuilder(self, edit: EditItem) -> Any:
        def change(data_set: Any) -> Any:
            if id(data_set) not in self.known:
                made = torch_features_adapter().rebuilt(data_set, change, edit, lambda tensors: edit(tensors, None))
                self.known[id(data_set)] = data_set, made
            return self.known[id(data_set)][1]

        return change


def _edited(value: Any, spots: Sequence[Spot], taken: Features, source: Any) -> Any:
    """Return a value without features, where ``source`` gives others' values of what stands at a path."""
    names = frozenset(taken.names)
    for spot in sorted(spots, key=lambda spot: -len(spot.path)):  # a tuple that loses an item moves those behind it
        if not names.isdisjoint(spot.names):
            change = functools.partial(_CHANGES[spot.kind], spot=spot, names=names, taken=taken, source=source)
            value = changes.changed_at(value, spot.path, change)
    return value


def _in_table(table: Any, spot: Spot, names: frozenset[str], taken: Features, source: Any) -> Any:
    keys = [key for name, key in zip(spot.names, spot.keys, strict=True) if name in names]
    if taken.how == "drop":
        return changes.without_columns(table, keys)
    if taken.how == "constant":
        return changes.with_constant_columns(table, keys, taken.value)
    return changes.with_columns_from(table, keys, source(table, spot.path))


def _on_axis(array: Any, spot: Spot, names: frozenset[str], taken: Features, source: Any) -> Any:
    places = [place for place, name in enumerate(spot.names) if name in names]
    if array.shape[spot.axis] != len(spot.names):
        raise CannotChangeError(f"an array has {array.shape[spot.axis]} columns or channels, not {len(spot.names)}")
    if taken.how == "drop":
        return changes.without_places(array, spot.axis, places)
    if taken.how == "constant":
        return changes.with_constant_places(array, spot.axis, places, taken.value)
    return changes.with_places_of(array, spot.axis, places, source(array, spot.path))


def _in_fields(holder: Any, spot: Spot, names: frozenset[str], taken: Features, source: Any) -> Any:
    keys = [key for name, key in zip(spot.names, spot.keys, strict=True) if name in names]
    if taken.how == "drop":
        return changes.without_items(holder, keys)
    if taken.how == "constant":
        return changes.with_items(holder, {key: changes.constant_like(holder[key], taken.value) for key in keys})
    return changes.with_items(holder, {key: source(holder[key], (*spot.path, key)) for key in keys})


def _in_record(array: Any, spot: Spot, names: frozenset[str], taken: Features, source: Any) -> Any:
    keys = [name for name in spot.names if name in names]
    if taken.how == "drop":
        return changes.without_record_fields(array, keys)
    if taken.how == "constant":
        values = {name: changes.constant_like(array[name], taken.value) for name in keys}
        return changes.with_record_fields(array, values)
    other = source(array, spot.path)
    return changes.with_record_fields(array, {name: other[name] for name in keys})


_CHANGES: Final = {"table": _in_table, "axis": _on_axis, "fields": _in_fields, "record": _in_record}


def _at(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value
