"""A study for other programs, ``etude export``: as a table, as the experiment file that reproduces it, ``--to`` a tool.

Equal studies give equal bytes: a row holds what was computed, and times and costs only if they are asked for.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli import complete
from etude.cli.shell import as_json as json_of
from etude.cli.shell import open_study, print_json
from etude.cli.studies import StudyName
from etude.core.errors import ConfigError

if TYPE_CHECKING:
    from etude.results.search import Search

Row = dict[str, Any]


class Format(StrEnum):
    """What a study can be written as: a table, or with ``yaml`` the file that ``etude run`` reproduces it from."""

    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    PARQUET = "parquet"
    YAML = "yaml"


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
    to: Annotated[
        str | None,
        typer.Option(
            help="A tool to export it to instead: tensorboard, mlflow or optuna.", autocompletion=complete.tools
        ),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            help="With --to, where: a folder for TensorBoard, a tracking URI for MLflow, a database's URL or a file "
            "for Optuna."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="With --to, what the study is called there; by default as here.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --format json; with --to, say as JSON what was done.")
    ] = False,
) -> None:
    """Write a study as a table, or give it to another tool.

    The table has its trials, or their reports. With --format yaml the study becomes an experiment file.

    Of a trial that was tried several times, the reports of its newest attempt count, and those that this one went on
    from. With --to, the whole study goes to another tool.
    """
    if to is not None:
        table = {"--format": form, "--output": output, "--reports": reports, "--times": times}
        _to(
            study, to, into=into, name=name, table=[option for option, given in table.items() if given], as_json=as_json
        )
        return
    if into is not None or name is not None:
        raise ConfigError(
            f"{'--into' if into is not None else '--name'} is for exports to a tool. Say which one, --to tensorboard, "
            "or write a table with --output FILE."
        )
    form = _format(form, output, as_json=as_json)
    if form is Format.PARQUET:
        _check_parquet()
    search = open_study(study)
    if form is Format.YAML:
        if reports or times:
            raise ConfigError(
                "yaml is the study as an experiment file, which has no rows. Leave --reports and --times out."
            )
        content = _file(search, output).encode()
    else:
        content = WRITERS[form](search.rows(reports=reports, times=times))
    if output is not None:
        replace_file(output, content)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _to(study: str, to: str, *, into: str | None, name: str | None, table: list[str], as_json: bool) -> None:
    """Export a study to a tool, and say what was done; what is not there as it is here stands on standard error."""
    if table:
        raise ConfigError(f"{table[0]} is for tables, and --to {to} writes none. Leave one of them.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are the notes, which are printed
        done = open_study(study).export(to, into=into, name=name)  # type: ignore[arg-type]  # it says what there is
    if as_json:
        print_json({**vars(done), "notes": list(done.notes)})
        return
    print(done.place)
    for note in done.notes:
        typer.echo(f"Note: {note}", err=True)


def _format(form: Format | None, output: Path | None, *, as_json: bool) -> Format:
    """Return what to write, by what was asked for, else by the file's name."""
    if as_json:
        if form not in (None, Format.JSON):
            raise ConfigError(f"--json and --format {form} are two formats. Leave one of them.")
        return Format.JSON
    if form is not None:
        return form
    suffix = output.suffix.replace(".yml", ".yaml") if output is not None else ""
    if not suffix:
        return Format.CSV
    if suffix[1:].lower() not in set(Format):
        told = ", ".join(f".{form}" for form in Format)
        raise ConfigError(
            f"--output {output} ends in {suffix!r}, which is no format that can be written. "
            f"End it in one of {told}, or say the format: --format csv."
        )
    return Format(suffix[1:].lower())


# --- an experiment file ---------------------------------------------------------------------------


def _file(search: Search, output: Path | None) -> str:
    """Return the file from which a study can be run again, as it stands at a place."""
    from etude.cli.place import find_script
    from etude.files.writing import as_file, as_yaml
    from etude.store.provenance import newest_run
    from etude.store.shared import home_of

    if search.simulated:
        raise ConfigError(
            f"Study {search.name} is simulated: what its trials reported came from functions, which no file holds. Run "
            "its script again instead."
        )
    meta = search.meta
    newest = newest_run(meta)
    said = as_file(newest.get("call") or meta["call"], meta["question"], name=search.name)
    script, base = find_script(
        meta, home_of(search.folder).absolute(), command="export", instead="No file can name it; run it there again."
    )
    place, _, name = script.rpartition(":")
    folder = (output.parent if output is not None else Path()).absolute()
    experiment = f"{Path(os.path.relpath(base / place, folder)).as_posix()}:{name}"
    return as_yaml({"experiment": experiment, **said}, comments=(*_for_editors(experiment), *_origin(search, newest)))


def _for_editors(experiment: str) -> tuple[str, ...]:
    schema = Path(experiment.rpartition(":")[0]).with_suffix(".schema.json").name
    return (
        f"# yaml-language-server: $schema={schema}",
        f"# The editor's schema is written by: etude schema {experiment} -o {schema}",
    )


def _origin(search: Search, run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what no file can fix, as comments: the numbers hang on it as well."""
    from etude.core.text import count

    git, python = run.get("git") or {}, run.get("python") or {}
    packages = run.get("packages") or {}
    commit = f", commit {git['commit']}{' with changes' if git.get('dirty') else ''}" if git.get("commit") else ""
    threads = f", {count(run['threads'], 'thread')} for each process" if run.get("threads") else ""
    return (
        f"# Study {search.name}: {search.meta.get('code', '')[:16]} is the digest of its code{commit}.",
        f"# It was run with Étude {packages.get('etude', '?')}, Python {python.get('version', '?')}{threads}.",
    )


# --- formats --------------------------------------------------------------------------------------


def _csv(rows: list[Row]) -> bytes:
    from etude.results.tables import columns_of

    text = io.StringIO(newline="")
    columns = columns_of(rows)
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
    from etude.results.tables import columns_of, frame_of

    content = io.BytesIO()
    columns = {name: _of_one_type([row.get(name) for row in rows]) for name in columns_of(rows)}
    frame_of(columns).to_parquet(content, index=False)
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


def replace_file(path: Path, content: bytes) -> None:
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
