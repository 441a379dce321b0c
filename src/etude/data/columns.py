"""Tables in files, as columns: CSV by Python's own reader, Parquet by whatever library is there.

CSV is read here and not by the library at hand, since each of them sees other words as missing, and other columns as
numbers: a study has to give the same results wherever it runs.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import io
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from etude.core.errors import ConfigError
from etude.core.text import count

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.float64]

Column: TypeAlias = "Numbers | list[str | None]"
"""Numbers, NaN where one is missing; or texts, None where one is."""

MISSING: Final = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"})
"""What stands in a CSV where a value is missing."""

READERS: Final[tuple[Literal["polars", "pyarrow", "pandas"], ...]] = ("polars", "pyarrow", "pandas")
CSV: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET: Final = (".parquet", ".pq")


def digest_of(path: str) -> str:
    """Return what tells the content of a file from any other.

    Raises:
        ConfigError: There is no such file, or no table is in files of its kind.
    """
    if not path.lower().endswith((*CSV, *PARQUET)):
        raise ConfigError(
            f"{path!r} is no table that could be read. Pass a CSV ({', '.join(CSV)}) or a Parquet file "
            f"({', '.join(PARQUET)})."
        )
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(
            f"{path!r} cannot be read ({type(error).__name__}). Pass the path of a table, absolute or from the folder "
            f"that the script is started in, which is {str(Path.cwd())!r}."
        ) from error


def read_columns(path: str, *, missing: Collection[str] = MISSING) -> dict[str, Column]:
    """Return the columns of a table in a file, by name, in order.

    Args:
        path: The file.
        missing: What stands in a CSV where a value is missing, blanks around it left aside.

    Raises:
        ConfigError: It is no table, or there is nothing to read it with.
    """
    columns = _parquet(path) if path.lower().endswith(PARQUET) else _csv(path, missing)
    lengths = {len(column) for column in columns.values()}
    if not columns or lengths == {0}:
        raise ConfigError(f"{path!r} has no rows. Pass a table with a line of names and a line for each example.")
    return columns


def names_in(path: str) -> list[str]:
    """Return what the columns of a table in a file are called.

    Raises:
        ConfigError: It is no table, or there is nothing to read it with.
    """
    if path.lower().endswith(PARQUET):
        return list(_parquet(path))
    with _opened(path) as lines:
        return _names(next((row for row in _rows(path, lines) if row), []), path)


def _csv(path: str, missing: Collection[str]) -> dict[str, Column]:
    with _opened(path) as lines:
        first, *rows = [row for row in _rows(path, lines) if row] or [[]]
    names = _names(first, path)
    uneven = next((n for n, row in enumerate(rows, start=2) if len(row) != len(names)), None)
    if uneven is not None:
        raise ConfigError(
            f"{path!r} has {count(len(names), 'name')} in its first row, and {count(len(rows[uneven - 2]), 'value')} "
            f"in row {uneven}. Let each row have a value for each column."
        )
    values = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {name: _read([_value(text, missing) for text in column]) for name, column in zip(names, values, strict=True)}


def _opened(path: str) -> io.TextIOBase:
    opened: Any = gzip.open if path.lower().endswith(".gz") else open
    text: io.TextIOBase = opened(path, "rt", encoding="utf-8-sig", newline="")
    return text


def _rows(path: str, lines: io.TextIOBase) -> Iterator[list[str]]:
    return csv.reader(lines, delimiter="\t" if ".tsv" in Path(path.lower()).suffixes else ",")


def _names(row: list[str], path: str) -> list[str]:
    names = [name.strip() for name in row]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path!r} has several columns called {', '.join(map(repr, twice))}. Rename all but one.")
    return names


def _value(text: str, missing: Collection[str]) -> str | None:
    text = text.strip()
    return None if text in missing else text


def _read(texts: list[str | None]) -> Column:
    """Return a column as numbers if all that is there is one, else as texts."""
    import numpy as np

    try:
        return np.array(["nan" if text is None else text for text in texts]).astype(np.float64)
    except ValueError:
        return texts


def _parquet(path: str) -> dict[str, Column]:
    reader = next((name for name in READERS if importlib.util.find_spec(name) is not None), None)
    if reader is None:
        raise ConfigError(f"Nothing here reads {path!r}. Install one of {', '.join(READERS)}, or pass a CSV.")
    import narwhals.stable.v2 as nw

    table = nw.read_parquet(path, backend=reader)
    return {name: _plain(table[name]) for name in table.columns}


def _plain(column: Any) -> Column:
    import narwhals.stable.v2 as nw
    import numpy as np

    if column.dtype.is_numeric() or column.dtype.is_boolean():
        values = column.cast(nw.Float64).to_list()
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return [None if value is None else str(value) for value in column.to_list()]
