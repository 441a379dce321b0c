"""Rows known by hashes of 64 bits, which are the same on every machine.

The bytes of a row are taken as words of 64 bits. Each is multiplied by an odd number of its place, mixed, and all are
added; columns are put together likewise. A word of zeros adds nothing, so that text is the same however wide its array.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from etude.core.text import brief
from etude.frameworks import torch_data_adapter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Hashes: TypeAlias = npt.NDArray[np.uint64]

Known: TypeAlias = "dict[int, tuple[Any, Hashes]]"
"""The id of a data set -> the data set, so that no other one gets its id, and the hashes of its rows in order."""

BLOCK_B: Final = 1 << 20
"""Bytes that are mixed at a time: they stay in the cache."""

MOST_B: Final = 4 << 30
"""An array with more bytes is not hashed: nobody should wait for that."""

MOST_COLUMNS: Final = 16
"""A list of more arrays is one of rows."""

DEEPEST: Final = 20
WORD_B: Final = 8
SALT: Final = 0x9E3779B97F4A7C15
FIRST: Final = 0xBF58476D1CE4E5B9
SECOND: Final = 0x94D049BB133111EB


class UnknownRowsError(Exception):
    """Which rows a part has cannot be told; the message, part of a sentence, says why."""


def rows_of(part: Any, known: Known | None = None) -> Hashes:
    """Return the hashes of the rows of a part, ascending, each once.

    Args:
        part: Arrays, tensors, tables, tuples or dicts of them with a row of each making a row; a list of rows; data
            sets of torch that are made of these, and loaders of them.
        known: What data sets were looked through for other parts of the same data, which is added to.

    Raises:
        UnknownRowsError: It is something else, or changes with each look.
    """
    import numpy as np

    found = np.sort(_hashes(part, 0, {} if known is None else known))
    distinct: Hashes = found[
        np.append(True, found[1:] != found[:-1])[: len(found)]
    ]  # np.unique takes ten times as long
    return distinct


def hashes_of(part: Any) -> Hashes:
    """Return the hash of each row of a part, in order, also of those that are there several times.

    Raises:
        UnknownRowsError: As of ``rows_of``.
    """
    return _hashes(part, 0, {})


def _hashes(part: Any, depth: int, known: Known) -> Hashes:
    """Return the hash of each row, in order."""
    if depth == DEEPEST:
        raise UnknownRowsError("it is nested too deep")
    found = _of_arrays(part)
    if found is not None:
        return found
    if isinstance(part, Mapping):
        return _side_by_side([part[name] for name in sorted(part, key=str)], depth, known)
    if isinstance(part, tuple) or (isinstance(part, list) and are_columns(part)):
        return _side_by_side(part, depth, known)
    if isinstance(part, list):
        return _one_by_one(part)
    if id(part) not in known:  # several parts are often subsets of one data set
        known[id(part)] = part, _of_data_set(part, depth, known)
    return known[id(part)][1]


def _of_arrays(part: Any) -> Hashes | None:
    """Return the hashes of the rows of an array, a tensor or a table; None if it is none of these."""
    import numpy as np

    pandas, torch = sys.modules.get("pandas"), torch_data_adapter()
    if pandas is not None and isinstance(part, pandas.DataFrame | pandas.Series):
        return _of_table(pandas, part)
    if torch is not None and torch.is_tensor(part):
        return _of_array(torch.as_array(part))
    return _of_array(part) if isinstance(part, np.ndarray) else None


def _of_data_set(part: Any, depth: int, known: Known) -> Hashes:
    """Return the hashes of the rows of a data set or a loader of torch."""
    import numpy as np

    try:
        inside = torch.inside(part) if (torch := torch_data_adapter()) is not None else None
    except ValueError as error:
        raise UnknownRowsError(str(error)) from None
    if inside is None:
        raise UnknownRowsError(f"nothing is known of the rows of {brief(part)}")
    found = np.concatenate([_hashes(one, depth + 1, known) for one in inside.parts])
    return found if inside.rows is None else found[np.asarray(inside.rows, dtype=np.int64)]


def are_columns(part: Sequence[Any]) -> bool:
    """Say whether the items of a list are columns of one table, and not its rows."""
    if not 1 <= len(part) <= MOST_COLUMNS or not all(getattr(item, "shape", ()) for item in part):
        return False
    return len({item.shape[0] for item in part}) == 1


def _side_by_side(columns: Sequence[Any], depth: int, known: Known) -> Hashes:
    """Return the hash of each row of several columns."""
    import numpy as np

    if not columns:
        raise UnknownRowsError("it is empty")
    each = [_hashes(column, depth + 1, known) for column in columns]
    if len({len(one) for one in each}) > 1:
        raise UnknownRowsError(f"its columns differ in length: {', '.join(str(len(one)) for one in each)} rows")
    found = each[0]
    for one in each[1:]:
        found = _finished(found * np.uint64(FIRST) + one)
    return found


def _of_array(values: Any) -> Hashes:
    import numpy as np

    if values.ndim == 0:
        raise UnknownRowsError(f"{brief(values)} is one value, and no rows")
    if values.dtype.hasobject:
        return _one_by_one(values)
    if values.nbytes > MOST_B:
        raise UnknownRowsError(f"an array of {values.nbytes / 2**30:.0f} GB is too large to be looked through")
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    n, width_b = len(values), values.nbytes // max(1, len(values))
    words = -(-width_b // WORD_B)
    places = _finished(np.arange(1, words + 1, dtype=np.uint64) * np.uint64(SALT)) | np.uint64(1)
    found = np.empty(n, dtype=np.uint64)
    size = max(1, BLOCK_B // max(1, words * WORD_B))
    for start in range(0, n, size):
        block = np.ascontiguousarray(values[start : start + size])
        block = block.reshape(len(block), -1).view(np.uint8) if width_b else np.zeros((len(block), 0), np.uint8)
        if width_b % WORD_B:
            block = np.pad(block, ((0, 0), (0, words * WORD_B - width_b)))
        mixed = block.view("<u8").astype(np.uint64, copy=False) * places
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(SECOND)
        found[start : start + size] = mixed.sum(axis=1, dtype=np.uint64)
    return _finished(found)


def _finished(numbers: Hashes) -> Hashes:
    """Return numbers in which each bit hangs on all bits.

    Source:
        Steele et al. 2014, "Fast splittable pseudorandom number generators", doi:10.1145/2660193.2660195: the mixer of
        SplitMix64, with the constants that it is commonly used with.
    """
    import numpy as np

    found = numbers + np.uint64(SALT)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(FIRST)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(SECOND)
    return found ^ (found >> np.uint64(31))


def _of_table(pandas: Any, table: Any) -> Hashes:
    import numpy as np

    try:
        found = pandas.util.hash_pandas_object(table, index=False)
    except TypeError as error:
        raise UnknownRowsError(f"a column of its table has what cannot be hashed ({error})") from None
    return _finished(np.asarray(found, dtype=np.uint64))


def _one_by_one(rows: Iterable[Any]) -> Hashes:
    """Return the hash of each of some rows: anything made of plain values and arrays."""
    import numpy as np

    found = bytearray()
    for row in rows:
        digest = hashlib.blake2b(digest_size=WORD_B)
        _feed(digest, row, 0)
        found += digest.digest()
    return np.frombuffer(found, dtype="<u8").astype(np.uint64)


def _feed(digest: Any, value: Any, depth: int) -> None:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        told = value if isinstance(value, bytes) else repr(value).encode(errors="surrogatepass")
        digest.update(b"%s %d %s" % (type(value).__name__.encode(), len(told), told))
        return
    if isinstance(value, Mapping | list | tuple) and depth < DEEPEST:
        items = list(value)
        if isinstance(value, Mapping):
            items = [one for name in sorted(value, key=str) for one in (name, value[name])]
        digest.update(b"%d of " % len(items))
        for item in items:
            _feed(digest, item, depth + 1)
        return
    import numpy as np

    if (torch := torch_data_adapter()) is not None and torch.is_tensor(value):
        value = torch.as_array(value)
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.hasobject:
        raise UnknownRowsError(f"nothing is known of {brief(value)}, which is in one of its rows")
    little = np.asarray(value.astype(value.dtype.newbyteorder("<"), copy=False))
    digest.update(f"{little.dtype.str} {little.shape} ".encode() + little.tobytes())
