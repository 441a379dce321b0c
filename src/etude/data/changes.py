"""What taking features out does to one thing that holds some: a table, an array, a mapping, a tuple.

Nothing is changed where it is: whoever made the data may use it again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any

from etude.core.text import brief
from etude.data.hashes import are_columns
from etude.data.spots import is_array, is_numpy, is_series, is_table
from etude.frameworks import torch_features_adapter


class CannotChangeError(Exception):
    """Something cannot be changed so; the message, a sentence without its point, says why."""


def changed_at(value: Any, path: Sequence[Any], change: Callable[[Any], Any]) -> Any:
    """Return a value in which what stands at a path is changed; containers on the way are copies."""
    if not path:
        return change(value)
    inner = changed_at(value[path[0]], path[1:], change)
    return with_items(value, {path[0]: inner})


def with_items(value: Any, items: Mapping[Any, Any]) -> Any:
    """Return a mapping, list or tuple with other items at some keys or places."""
    if isinstance(value, MutableMapping):
        made = copy.copy(value)
        made.update(items)
        return made
    if isinstance(value, Mapping):
        return {**value, **items}
    listed = [items.get(place, item) for place, item in enumerate(value)]
    return type(value)(*listed) if hasattr(value, "_fields") else type(value)(listed)


def without_items(value: Any, keys: Collection[Any]) -> Any:
    """Return a mapping, list or tuple without what stands at some keys or places."""
    if isinstance(value, MutableMapping):
        made = copy.copy(value)
        for key in keys:
            del made[key]
        return made
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if key not in keys}
    if hasattr(value, "_fields"):
        raise CannotChangeError(f"{type(value).__name__} is a named tuple, and would lose a field")
    return type(value)(item for place, item in enumerate(value) if place not in keys)


def without_columns(table: Any, keys: Sequence[Any]) -> Any:
    """Return a table without some columns."""
    import narwhals.stable.v2 as nw

    return nw.from_native(table, eager_only=True).drop(list(keys)).to_native()


def with_columns_from(table: Any, keys: Sequence[Any], other: Any) -> Any:
    """Return a table that has in some columns what another one of the same size has."""
    import narwhals.stable.v2 as nw

    frame, others = (nw.from_native(each, eager_only=True) for each in (table, other))
    columns = (_at_labels_of(others.get_column(key), frame.get_column(key)) for key in keys)
    return frame.with_columns(*columns).to_native()


def with_constant_columns(table: Any, keys: Sequence[Any], value: Any) -> Any:
    """Return a table in which some columns have one value throughout, of the type that they have."""
    import narwhals.stable.v2 as nw

    frame = nw.from_native(table, eager_only=True)
    return frame.with_columns(*(_constant(frame.get_column(key), value) for key in keys)).to_native()


def _at_labels_of(column: Any, like: Any) -> Any:
    """Return a column with the labels of another one: pandas puts values where these are, not where they stand."""
    import narwhals.stable.v2 as nw

    native = column.to_native()
    if hasattr(native, "set_axis"):
        native = native.set_axis(like.to_native().index)
    return nw.from_native(native, series_only=True).alias(like.name)  # those of arrow have no name


def _constant(column: Any, value: Any) -> Any:
    import narwhals.stable.v2 as nw

    dtype = column.dtype
    if value is None:
        value = False if dtype.is_boolean() else 0 if dtype.is_numeric() else ""
    try:
        made = nw.new_series(column.name, [value] * len(column), dtype, backend=column.implementation)
        told = made[0] if len(made) else value
    except Exception as error:  # each library has errors of its own
        raise CannotChangeError(
            f"{column.name!r} holds {dtype}, and cannot be {value!r} throughout ({type(error).__name__})"
        ) from error
    if told != value and not (told is None and value == ""):
        raise CannotChangeError(f"{column.name!r} holds {dtype}, which has no {value!r}")
    return _at_labels_of(made, column)


def without_places(array: Any, axis: int, places: Collection[int]) -> Any:
    """Return an array without some places along an axis."""
    kept = [place for place in range(array.shape[axis]) if place not in places]
    return array[_index(array, axis, kept)]


def with_places_of(array: Any, axis: int, places: Sequence[int], other: Any) -> Any:
    """Return an array that has, at some places along an axis, what another one has."""
    made = _copied(array)
    index = _index(array, axis, list(places))
    made[index] = other[index]
    return made


def with_constant_places(array: Any, axis: int, places: Sequence[int], value: Any) -> Any:
    """Return an array that has one value at some places along an axis."""
    made = _copied(array)
    made[_index(array, axis, list(places))] = _fill_value(array, value)
    return made


def without_record_fields(array: Any, keys: Sequence[str]) -> Any:
    """Return a record array of numpy without some fields."""
    from numpy.lib import recfunctions

    return recfunctions.repack_fields(array[[name for name in array.dtype.names if name not in keys]])


def with_record_fields(array: Any, values: Mapping[str, Any]) -> Any:
    """Return a record array of numpy with other values in some fields."""
    made = array.copy()
    for name, value in values.items():
        made[name] = value
    return made


def rows(value: Any, order: Any) -> Any:
    """Return the rows of something, in another order."""
    if is_array(value):
        return value[order]
    if is_table(value) or is_series(value):
        import narwhals.stable.v2 as nw

        whole = nw.from_native(value, eager_only=True, allow_series=True)
        made = whole[list(map(int, order))]
        return (_at_labels_of(made, whole) if is_series(value) else made).to_native()
    if isinstance(value, Mapping):
        return with_items(value, {key: rows(inner, order) for key, inner in value.items()})
    if isinstance(value, tuple) or (isinstance(value, list) and are_columns(value)):
        return with_items(value, {place: rows(inner, order) for place, inner in enumerate(value)})
    if isinstance(value, list):
        return [value[int(place)] for place in order]
    raise CannotChangeError(f"nobody knows the rows of {type(value).__name__}")


def constant_like(value: Any, constant: Any) -> Any:
    """Return something of the same type and shape, that has one value throughout."""
    if is_array(value):
        made = _copied(value)
        made[...] = _fill_value(value, constant)
        return made
    if is_series(value):
        import narwhals.stable.v2 as nw

        return _constant(nw.from_native(value, series_only=True), constant).to_native()
    if isinstance(value, bool | int | float | str):
        made = type(value)() if constant is None else constant
        if isinstance(made, str) != isinstance(value, str) or (made != type(value)(made)):
            raise CannotChangeError(f"{brief(value)} cannot be {constant!r}")
        return type(value)(made)
    if isinstance(value, list | tuple):
        return with_items(value, {place: constant_like(inner, constant) for place, inner in enumerate(value)})
    if isinstance(value, Mapping):
        return with_items(value, {key: constant_like(inner, constant) for key, inner in value.items()})
    raise CannotChangeError(f"nobody knows what {type(value).__name__} would be, had it one value throughout")


def length_of(value: Any) -> int:
    """Return how many rows something has."""
    if is_array(value) or is_table(value):
        return int(value.shape[0])
    if isinstance(value, Mapping):
        return length_of(next(iter(value.values())))
    if isinstance(value, tuple) or (isinstance(value, list) and are_columns(value)):
        return length_of(value[0])
    return len(value)


def _index(array: Any, axis: int, places: list[int]) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * len(array.shape)
    index[axis] = places
    return tuple(index)


def _copied(array: Any) -> Any:
    return array.copy() if is_numpy(array) else array.clone()


def _fill_value(array: Any, value: Any) -> Any:
    """Return a value in the type of an array.

    Raises:
        CannotChangeError: The type has no such value.
    """
    if not is_numpy(array):
        try:
            return torch_features_adapter().fill_value(array, 0 if value is None else value)
        except (ValueError, TypeError, RuntimeError) as error:
            raise CannotChangeError(str(error)) from error
    import numpy as np

    if array.dtype.hasobject:
        return "" if value is None else value
    try:
        made = np.zeros((), array.dtype) if value is None else np.asarray(value).astype(array.dtype)
    except (ValueError, TypeError) as error:
        raise CannotChangeError(f"{array.dtype} has no {value!r}") from error
    whole = value is not None and array.dtype.kind in "iub"
    if (whole and made != value) or (isinstance(value, str) != (array.dtype.kind in "US") and value is not None):
        raise CannotChangeError(f"{array.dtype} has no {value!r}")
    return made
