"""A study as a table for other programs: ``etude export``.

Equal studies give equal bytes: a row holds what was computed, and times and costs only if they are asked for.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli.shell import as_json as json_of
from etude.cli.shell import open_study
from etude.cli.studies import StudyName
from etude.core.errors import ConfigError

if TYPE_CHECKING:
    from etude.results import Search

Row = dict[str, Any]


class Format(StrEnum):
    """What a table can be written as."""

    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"


def export(
    study: StudyName,
    *,
    form: Annotated[
        Format | None, typer.Option("--format", help="By default what the file's name says, else csv.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; by default standard output.", dir_okay=False)
    ] = None,
    reports: Annotated[bool, typer.Option("--reports", help="A row for each report instead of each trial.")] = False,
    times: Annotated[bool, typer.Option("--times", help="With times and what each trial cost.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Write the trials of a study, or their reports, as a table.

    Of a trial that was tried several times, the reports of its newest attempt count.
    """
    form = _format(form, output, as_json=as_json)
    if form is Format.PARQUET:
        _check_parquet()
    search = open_study(study)
    rows = list(_reports(search, times=times) if reports else _trials(search, times=times))
    content = WRITERS[form](rows)
    if output is not None:
        _replace(output, content)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _format(form: Format | None, output: Path | None, *, as_json: bool) -> Format:
    """Return what to write, by what was asked for, else by the file's name."""
    if as_json:
        if form not in (None, Format.JSON):
            raise ConfigError(f"--json and --format {form} are two formats. Leave one of them.")
        return Format.JSON
    if form is not None:
        return form
    suffix = output.suffix if output is not None else ""
    if not suffix:
        return Format.CSV
    if suffix[1:].lower() not in set(Format):
        told = ", ".join(f".{form}" for form in Format)
        raise ConfigError(
            f"--output {output} ends in {suffix!r}, which is no format that can be written. "
            f"End it in one of {told}, or say the format: --format csv."
        )
    return Format(suffix[1:].lower())


# --- rows -----------------------------------------------------------------------------------------


def _trials(search: Search, *, times: bool) -> Iterator[Row]:
    for trial, row in zip(search.trials, search.rows(), strict=True):
        used = trial.usage
        cost = {
            "duration_s": used.wall_s if used is not None else None,
            "cpu_s": used.cpu_s if used is not None else None,
            "memory_mb": used.memory_mb if used is not None else None,
        }
        yield (
            {**row, **{f"usage.{name}" if name in row else name: value for name, value in cost.items()}}
            if times
            else row
        )


def _reports(search: Search, *, times: bool) -> Iterator[Row]:
    from etude.store.journal import Journal

    with contextlib.closing(Journal.read(search.folder)) as journal:
        for trial in search.trials:
            for attempt, step, at, metrics in journal.reports_of(trial.number):
                if attempt == trial.attempts:
                    row = {"trial": trial.number, "step": step, **({"at": at} if times else {})}
                    mark = {"simulated": True} if search.simulated else {}
                    taken = {*row, *mark}
                    yield {**row, **{f"metrics.{n}" if n in taken else n: v for n, v in metrics.items()}, **mark}


def _columns(rows: list[Row]) -> list[str]:
    """Return all columns in the order in which they first occur."""
    return list(dict.fromkeys(name for row in rows for name in row))


# --- formats --------------------------------------------------------------------------------------


def _csv(rows: list[Row]) -> bytes:
    text = io.StringIO(newline="")
    columns = _columns(rows)
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Return what stands in a cell: lists and the like as JSON, and so True and False."""
    return json_of(value) if isinstance(value, bool | list | tuple | Mapping) else value


def _json(rows: list[Row]) -> bytes:
    return (json_of(rows, indent=2) + "\n").encode()


def _jsonl(rows: list[Row]) -> bytes:
    return "".join(json_of(row) + "\n" for row in rows).encode()


def _parquet(rows: list[Row]) -> bytes:
    import pandas as pd

    columns = {name: _of_one_type([row.get(name) for row in rows]) for name in _columns(rows)}
    whole = {name: "Int64" for name, column in columns.items() if {type(v) for v in column} == {int, type(None)}}
    content = io.BytesIO()
    pd.DataFrame(columns).astype(whole).to_parquet(content, index=False)  # else 3 beside nothing would be 3.0
    return content.getvalue()


def _of_one_type(column: list[Any]) -> list[Any]:
    """Return a column as parquet can hold it: what is of several types, or nested, as JSON."""
    types = {type(value) for value in column if value is not None}
    if types <= {int, float} or types in ({bool}, {str}):
        return column
    return [None if value is None else json_of(value) for value in column]


WRITERS: Final[Mapping[Format, Callable[[list[Row]], bytes]]] = {
    Format.CSV: _csv,
    Format.JSON: _json,
    Format.JSONL: _jsonl,
    Format.PARQUET: _parquet,
}


def _check_parquet() -> None:
    missing = [name for name in ("pandas", "pyarrow") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"--format parquet needs {' and '.join(missing)}, not installed here: pip install {' '.join(missing)}. "
            "Or write csv, json or jsonl."
        )


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that there is either the old or the new one, whatever happens meanwhile.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Name another place with --output.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        Path(aside).chmod(0o666 & ~umask)
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
