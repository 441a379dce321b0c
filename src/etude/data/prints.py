"""What data a trial had, as a fingerprint of each part: the same whatever the order of its rows.

It costs little with every trial: a part of up to ``MOST_B`` bytes is looked through whole, and of a larger one so many
bytes of rows, evenly spread. Of a whole part it is the sum of its rows' hashes, so that those of all parts can be
added: the same rows that are split otherwise have the same sum.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from etude.core.data import Data
from etude.data.hashes import UnknownRowsError, are_columns, hashes_of
from etude.data.seen import PARTS
from etude.frameworks import torch_data_adapter

Prints: TypeAlias = dict[str, list[Any]]
"""Part -> how many rows it has, the digest of those that were looked at, and whether these are all."""

MOST_B: Final = 16 << 20
PLAIN_ROW_B: Final = 1 << 10
"""A row of plain values is taken to have so many bytes: they are looked at one by one, which takes longer."""


def prints_of(found: Any) -> Prints:
    """Return the fingerprints of what the data function returned; nothing of a part whose rows cannot be told.

    Nothing is loaded for it, nor imported: where neither numpy nor torch is there, nothing is known.
    """
    if "numpy" not in sys.modules:
        return {}
    prints: Prints = {}
    for name, part in _parts(found):
        with contextlib.suppress(Exception):  # a data set of somebody else's raised: training will tell
            prints[name] = _print(part)
    return prints


def _parts(found: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts by name: of what is no ``etude.Data`` by their places."""
    if isinstance(found, Data):
        yield from ((name, part) for name in PARTS if (part := getattr(found, name)) is not None)
    elif isinstance(found, Mapping):
        yield from ((str(name), part) for name, part in found.items())
    elif isinstance(found, tuple):
        yield from ((str(place), part) for place, part in enumerate(found))
    elif found is not None:
        yield "0", found


def _print(part: Any) -> list[Any]:
    """Return the fingerprint of a part.

    Raises:
        UnknownRowsError: Its rows cannot be told.
    """
    import numpy as np

    n, row_b = _extent(part)
    whole = n * row_b <= MOST_B
    inside = _inside(part)
    if not whole or (inside is not None and len(inside.parts) == 1):  # a small subset may be one of a large set
        spread = np.arange(n) if whole else np.linspace(0, n - 1, max(1, MOST_B // row_b)).astype(np.int64)
        part = _rows(part, spread)
    digest = int(hashes_of(part).sum(dtype=np.uint64))
    return [n, f"{digest:016x}", whole]


def _extent(part: Any) -> tuple[int, int]:
    """Return how many rows a part has, and about how many bytes each of them."""
    if isinstance(part, Mapping) or (isinstance(part, tuple | list) and (isinstance(part, tuple) or are_columns(part))):
        each = [_extent(one) for one in (part.values() if isinstance(part, Mapping) else part)]
        if not each:
            raise UnknownRowsError("it is empty")
        return each[0][0], sum(row_b for _, row_b in each)
    if isinstance(part, list):
        return len(part), PLAIN_ROW_B
    if (inside := _inside(part)) is not None:
        each = [_extent(one) for one in inside.parts]
        n = sum(rows for rows, _ in each) if inside.rows is None else len(inside.rows)
        return n, max(row_b for _, row_b in each)
    n = len(part)
    width_b = getattr(part, "nbytes", None)
    return n, max(1, width_b // max(1, n)) if isinstance(width_b, int) else PLAIN_ROW_B


def _rows(part: Any, which: Any) -> Any:
    """Return some rows of a part, by their numbers.

    Raises:
        UnknownRowsError: They cannot be had by their numbers.
    """
    if isinstance(part, Mapping):
        return {name: _rows(one, which) for name, one in part.items()}
    if isinstance(part, tuple) or (isinstance(part, list) and are_columns(part)):
        return tuple(_rows(one, which) for one in part)
    if isinstance(part, list):
        return [part[number] for number in which]
    if (inside := _inside(part)) is not None:
        if len(inside.parts) != 1:
            raise UnknownRowsError("it is put together of several, and too large to be looked through")
        return _rows(inside.parts[0], which if inside.rows is None else _numbers(inside.rows)[which])
    return part.iloc[which] if hasattr(part, "iloc") else part[which]


def _numbers(rows: Any) -> Any:
    import numpy as np

    return np.asarray(rows, dtype=np.int64)


def _inside(part: Any) -> Any:
    torch = torch_data_adapter()
    try:
        return None if torch is None else torch.inside(part)
    except ValueError as error:
        raise UnknownRowsError(str(error)) from None
