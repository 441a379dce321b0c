"""Where in a part of data its features are: found once, in the whole part or in one example of it.

A spot says which names are where. All axes count from the end, so that what was found in one example holds for a batch
of them, and for all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from etude.core.data import Data
from etude.data.hashes import are_columns
from etude.frameworks import torch_features_adapter

Columns: TypeAlias = "tuple[str, ...] | None"

TABLES: Final = {"pandas", "polars", "pyarrow"}
DEEPEST: Final = 10
CHANNEL: Final = "channel:"
"""How the address of a channel begins, as ``core.removal.Features`` has it."""

MOST_CHANNELS: Final = 4
"""Red, green, blue and how much of them is seen. Of more nobody can tell whether they are channels."""

IMAGE_AXES: Final = 3


@dataclass(frozen=True)
class Spot:
    """Where some features are.

    Attributes:
        path: The keys and places that lead to what holds them.
        kind: A ``table``, the ``fields`` of a mapping or tuple, places along an ``axis`` of an array, the fields of
            numpy's ``record`` arrays, or the ``items`` of a data set, a loader or a list.
        names: What they are called; of an axis, one for each place.
        keys: By what key each is found, or at what place.
        axis: Which axis, from the end.
        modality: In which field they are.
        inner: Of items, where they are in each.
    """

    path: tuple[Any, ...]
    kind: Literal["table", "fields", "axis", "record", "items"]
    names: tuple[str, ...] = ()
    keys: tuple[Any, ...] = ()
    axis: int = -1
    modality: str = ""
    inner: tuple[Spot, ...] = ()

    @property
    def all_names(self) -> frozenset[str]:
        """Return all names that are here."""
        return frozenset(self.names).union(*(spot.all_names for spot in self.inner))


def find(part: Any, told: Data, *, item: bool = False) -> tuple[Spot, ...]:
    """Return where the features of a part are.

    Args:
        part: A part of data, or one example of it.
        told: What the data function says of its features.
        item: Whether it is an example.
    """
    names = told.features if isinstance(told.features, tuple) else None
    return tuple(_find(part, (), told, names, "", item))


def _find(value: Any, path: tuple[Any, ...], told: Data, columns: Columns, modality: str, item: bool) -> list[Spot]:
    if is_table(value):
        return [_in_table(value, path, told, columns, modality)]
    if is_array(value) or len(path) > DEEPEST:
        return _in_array(value, path, told, columns, modality, item) if is_array(value) else []
    if isinstance(value, Mapping):
        entries = [(key, key, inner) for key, inner in value.items() if isinstance(key, str)]
        return _in_fields(entries, path, told, columns, item)
    if isinstance(value, tuple) or (isinstance(value, list) and (item or are_columns(value))):
        called = getattr(value, "_fields", None) or told.fields
        if called is not None and len(called) == len(value):
            return _in_fields(list(zip(called, range(len(value)), value, strict=True)), path, told, columns, item)
        return _in_order(value, path, told, columns, modality, item)
    return [] if item else _in_items(value, path, told, modality)


def _in_table(value: Any, path: tuple[Any, ...], told: Data, columns: Columns, modality: str) -> Spot:
    listed = {str(key): key for key in (value.schema.names if _is_arrow(value) else value.columns)}
    chosen = set(listed) if columns is None else {*columns, *told.target, *told.ids}
    names = tuple(name for name in listed if name in chosen)
    return Spot(path, "table", names, tuple(listed[name] for name in names), modality=modality)


def _in_items(value: Any, path: tuple[Any, ...], told: Data, modality: str) -> list[Spot]:
    torch = torch_features_adapter()
    if isinstance(value, list):
        first = value[:1]
    else:
        first = torch.first(value) if torch is not None and torch.is_data_set(value) else []
    inner = tuple(spot for one in first for spot in find(one, told, item=True))
    return [Spot(path, "items", modality=modality, inner=inner)] if inner else []


def _in_fields(
    entries: list[tuple[str, Any, Any]], path: tuple[Any, ...], told: Data, columns: Columns, item: bool
) -> list[Spot]:
    """Return where features are among named fields: a field is one, unless it has some in itself."""
    entries = [(name, key, value) for name, key, value in entries if item or has_rows(value)]
    known = {name for name, _, _ in entries}
    chosen = None
    if columns is not None and known.issuperset(columns):  # they say which fields are features
        chosen, columns = set(columns), None
    is_given = columns is not None
    fields: list[tuple[str, Any]] = []
    spots: list[Spot] = []
    for name, key, value in entries:
        if name in told.target or name in told.ids:
            fields.append((name, key))
            continue
        mine = told.features.get(name) if isinstance(told.features, Mapping) else columns
        inner = _find(value, (*path, key), told, mine, name, item)
        is_image = any(_of_channels(spot) for spot in inner)
        if is_image and any(_of_channels(spot) for spot in spots):
            inner = []  # the channels of one image have names, and not those of two
        spots += inner
        if is_given:
            columns = None if inner else columns
        elif (is_image or not inner) and (chosen is None or name in chosen):
            fields.append((name, key))
    if fields:
        spots.append(Spot(path, "fields", tuple(name for name, _ in fields), tuple(key for _, key in fields)))
    return spots


def _in_order(
    values: Any, path: tuple[Any, ...], told: Data, columns: Columns, modality: str, item: bool
) -> list[Spot]:
    """Return where features are in a tuple without names: in the first that has any, and never in the last of several.

    What comes last is the label.
    """
    for place, value in enumerate(values[:-1] if len(values) > 1 else values):
        found = _find(value, (*path, place), told, columns, modality, item)
        if found:
            return found
    return []


def _in_array(value: Any, path: tuple[Any, ...], told: Data, columns: Columns, modality: str, item: bool) -> list[Spot]:
    axes = len(value.shape) - (0 if item else 1)
    if getattr(value.dtype, "names", None):
        names = value.dtype.names
        return [Spot(path, "record", names, names, modality=modality)]
    if columns is not None:
        fits = axes >= 1 and value.shape[-1] == len(columns)
        return [Spot(path, "axis", columns, axis=-1, modality=modality)] if fits else []
    if axes != IMAGE_AXES or told.channels == 0:
        return []
    wanted = told.channels if isinstance(told.channels, int) else len(told.channels or ())
    for axis in (-1, -IMAGE_AXES) if is_numpy(value) else (-IMAGE_AXES, -1):
        there = value.shape[axis]
        if there == wanted or (not wanted and 1 <= there <= MOST_CHANNELS):
            called = told.channels if isinstance(told.channels, tuple) else tuple(map(str, range(there)))
            return [Spot(path, "axis", tuple(CHANNEL + name for name in called), axis=axis, modality=modality)]
    return []


def _of_channels(spot: Spot) -> bool:
    return spot.kind == "axis" and spot.names[:1] != () and spot.names[0].startswith(CHANNEL)


def walk(spots: tuple[Spot, ...]) -> Iterator[Spot]:
    """Yield spots, and in place of items those in each of them."""
    for spot in spots:
        yield from walk(spot.inner) if spot.kind == "items" else (spot,)


def is_table(value: Any) -> bool:
    """Say whether something is a table of pandas, polars or pyarrow."""
    roots = {cls.__module__.partition(".")[0] for cls in type(value).__mro__} & TABLES
    if not roots:
        return False
    import narwhals.stable.v2 as nw

    return bool(nw.dependencies.is_into_dataframe(value))


def is_series(value: Any) -> bool:
    """Say whether something is one column of such a table."""
    if not {cls.__module__.partition(".")[0] for cls in type(value).__mro__} & TABLES:
        return False
    import narwhals.stable.v2 as nw

    return bool(nw.dependencies.is_into_series(value))


def is_numpy(value: Any) -> bool:
    """Say whether something is an array of numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_array(value: Any) -> bool:
    """Say whether something is an array of numpy, or a tensor of torch."""
    torch = torch_features_adapter()
    return is_numpy(value) or (torch is not None and torch.is_tensor(value))


def has_rows(value: Any) -> bool:
    """Say whether something may hold a value for each example."""
    if is_array(value):
        return len(value.shape) > 0
    torch = torch_features_adapter()
    is_data_set = torch is not None and torch.is_data_set(value)
    return is_data_set or isinstance(value, list | tuple | Mapping) or is_table(value) or is_series(value)


def _is_arrow(value: Any) -> bool:
    return any(cls.__module__.partition(".")[0] == "pyarrow" for cls in type(value).__mro__)
