"""Training and validation part as one, for a final training that nothing is chosen in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from etude.core.data import Data, Joined
from etude.core.errors import ResultError
from etude.core.text import brief
from etude.data.hashes import are_columns
from etude.frameworks import torch_data_adapter

DEEPEST: Final = 20
MEND: Final = "Join them yourself, where data() makes them, or train with on='train'."


class CannotJoinError(Exception):
    """Two parts cannot be joined; the message, part of a sentence, says why."""


def joined(found: Any) -> Joined:
    """Return data whose training part is the one that was given and the validation part.

    Args:
        found: What the data function returned.

    Raises:
        ResultError: It is no ``Data`` with all three parts, or they cannot be joined.
    """
    if not isinstance(found, Data):
        raise ResultError(
            f"on='train+valid' got {brief(found)} from data(), and nothing says which part of that is which. Return "
            "etude.Data(train, valid, test)."
        )
    missing = [name for name in ("valid", "test") if getattr(found, name) is None]
    if missing:
        why = "there is nothing to join" if "valid" in missing else "nothing would be left to judge the model by"
        raise ResultError(
            f"on='train+valid' got {found!r} from data(), without {' and '.join(missing)}: {why}. Return "
            "etude.Data(train, valid, test), or train with on='train'."
        )
    return Joined.of(found, join(found.train, found.valid))


def join(train: Any, valid: Any) -> Any:
    """Return two parts as one, the rows of the first before those of the second; neither is changed.

    Args:
        train: Arrays, tensors, tables, lists of rows, data sets or loaders of torch, or tuples, lists and dicts of
            them. A loader of both has the settings of this one.
        valid: The same.

    Raises:
        ResultError: They cannot be joined.
    """
    try:
        return _join(train, valid, "", 0)
    except CannotJoinError as error:
        raise ResultError(f"on='train+valid' cannot join the two parts: {error}. {MEND}") from None


def _join(train: Any, valid: Any, where: str, depth: int) -> Any:
    if depth == DEEPEST:
        raise CannotJoinError("they are nested too deep")
    for kind, join_two in _CONTAINERS.items():
        if isinstance(train, kind) and isinstance(valid, kind):
            return join_two(train, valid, where, depth)
    found = _join_arrays(train, valid, where)
    if found is not None or (train is None and valid is None):
        return found
    if isinstance(train, bool | int | float | str) and type(train) is type(valid) and train == valid:
        return train  # it is said of both
    raise CannotJoinError(f"{_at(where)}nobody knows how to join {brief(train)} and {brief(valid)}")


def _join_mappings(train: Any, valid: Any, where: str, depth: int) -> Any:
    if set(train) != set(valid):
        raise CannotJoinError(f"{_at(where)}the names are {sorted(map(str, train))} and {sorted(map(str, valid))}")
    items = {name: _join(train[name], valid[name], f"{where}[{name!r}]", depth + 1) for name in train}
    return items if type(train) is dict else _made_like(train, items, where)


def _join_tuples(train: Any, valid: Any, where: str, depth: int) -> Any:
    columns = _columns(train, valid, where, depth)
    return type(train)(*columns) if hasattr(train, "_fields") else _made_like(train, columns, where)


def _join_lists(train: Any, valid: Any, where: str, depth: int) -> Any:
    if not (are_columns(train) and are_columns(valid) and len(train) == len(valid)):
        return [*train, *valid]
    if len(train[0]) == len(valid[0]):
        raise CannotJoinError(
            f"{_at(where)}lists of {len(train)} arrays of {len(valid[0])} items each could be rows or columns; make "
            "columns a tuple"
        )
    return _columns(train, valid, where, depth)


_CONTAINERS: Final = {Mapping: _join_mappings, tuple: _join_tuples, list: _join_lists}


def _columns(train: Any, valid: Any, where: str, depth: int) -> list[Any]:
    if len(train) != len(valid):
        raise CannotJoinError(f"{_at(where)}one has {len(train)} columns, and the other {len(valid)}")
    return [
        _join(one, other, f"{where}[{n}]", depth + 1) for n, (one, other) in enumerate(zip(train, valid, strict=True))
    ]


def _join_arrays(train: Any, valid: Any, where: str) -> Any:
    """Return two arrays, tables, or things of torch as one; None if they are none of these."""
    pandas, numpy, torch = sys.modules.get("pandas"), sys.modules.get("numpy"), torch_data_adapter()
    try:
        if pandas is not None and isinstance(train, pandas.DataFrame | pandas.Series) and type(train) is type(valid):
            return _join_tables(pandas, train, valid, where)
        if numpy is not None and isinstance(train, numpy.ndarray) and isinstance(valid, numpy.ndarray):
            return numpy.concatenate([train, valid])
        return torch.join(train, valid) if torch is not None else None
    except (ValueError, TypeError, RuntimeError) as error:
        raise CannotJoinError(f"{_at(where)}{error}") from error


def _join_tables(pandas: Any, train: Any, valid: Any, where: str) -> Any:
    columns = [list(getattr(table, "columns", ())) for table in (train, valid)]
    if columns[0] != columns[1]:
        raise CannotJoinError(f"{_at(where)}the columns are {columns[0]} and {columns[1]}")
    numbered = all(isinstance(table.index, pandas.RangeIndex) for table in (train, valid))
    return pandas.concat([train, valid], ignore_index=numbered)


def _made_like(train: Any, items: Any, where: str) -> Any:
    try:
        return type(train)(items)
    except TypeError as error:
        raise CannotJoinError(
            f"{_at(where)}no {type(train).__name__} can be made of what is joined ({error})"
        ) from error


def _at(where: str) -> str:
    return f"at {where}, " if where else ""
