"""Digests of the first rows of data, by which two trainings are known to see the same: of each column and array."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from etude.data.hashes import are_columns
from etude.data.spots import DEEPEST, is_array, is_numpy, is_series, is_table
from etude.frameworks import torch_data_adapter

ROWS: Final = 4096
"""So many rows are looked at."""

PLAIN: Final = (type(None), bool, int, float, str, bytes, datetime.date, datetime.time, datetime.timedelta)
"""Values whose text is the same wherever they are made."""


def first_rows(part: Any) -> dict[str, str]:
    """Return digests of the first rows of a part of data, by where they lie in it; of what nobody can tell, none.

    Args:
        part: Arrays, tensors, tables, lists of plain values, and tuples, mappings and dataclasses of these.

    Example:
        >>> sorted(first_rows({"x": {"age": [31, 45]}, "y": [0, 1]}))
        ['x/age', 'y']
    """
    return {"/".join(path): digest for path, leaf in _leaves(part, ()) if (digest := _digest(leaf)) is not None}


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if len(path) > DEEPEST or is_array(value) or is_series(value):
        yield path, value
    elif is_table(value):
        import narwhals.stable.v2 as nw

        table = nw.from_native(value, eager_only=True)
        yield from (((*path, name), table[name].to_native()) for name in table.columns if isinstance(name, str))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, tuple) or (isinstance(value, list) and are_columns(value)):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*path, str(place)))
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _leaves(getattr(value, one.name), (*path, one.name))
    else:
        yield path, value


def _digest(leaf: Any) -> str | None:
    """Return a digest of the first rows of one leaf; None if their values are not plain."""
    torch = torch_data_adapter()
    if torch is not None and torch.is_tensor(leaf):
        leaf = torch.as_array(leaf[:ROWS] if leaf.ndim else leaf)
    elif is_series(leaf):
        leaf = _of_series(leaf)
    if is_numpy(leaf) and not leaf.dtype.hasobject:
        rows = leaf[:ROWS] if leaf.ndim else leaf
        return _hashed(f"{rows.dtype.str} {rows.shape} ".encode() + rows.tobytes())
    values = list(leaf[:ROWS].ravel()) if is_numpy(leaf) and leaf.ndim else leaf[:ROWS] if type(leaf) is list else None
    if not values or not all(isinstance(one, PLAIN) for one in values):
        return None
    return _hashed(repr(values).encode(errors="surrogatepass"))


def _of_series(series: Any) -> Any:
    """Return the first rows of a column of a table: as an array if they are numbers, else as a list."""
    import narwhals.stable.v2 as nw

    column = nw.from_native(series, series_only=True).head(ROWS)
    if column.dtype.is_numeric() or column.dtype.is_boolean():
        return column.to_numpy()
    return [None if one is None or one != one else one for one in column.to_list()]  # noqa: PLR0124  # NaN and NaT


def _hashed(told: bytes) -> str:
    return hashlib.sha256(told).hexdigest()[:16]
