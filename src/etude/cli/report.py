"""Reports: ``etude report`` writes one of a study, ``etude compare`` puts two studies side by side."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Annotated

import typer

from etude.cli import complete
from etude.cli.shell import AsJson, open_study, print_json, print_table
from etude.cli.studies import StudyName
from etude.core.errors import ConfigError

Into = Annotated[
    Path | None,
    typer.Option("--into", help="The folder to write to; by default 'report' in the study's.", file_okay=False),
]
Png = Annotated[bool, typer.Option("--png", help="Write figures as PNG as well.")]
Open = Annotated[bool, typer.Option("--open", help="Show it in the browser.")]


def report(
    study: StudyName,
    *,
    into: Into = None,
    png: Png = False,
    sections: Annotated[
        Path | None,
        typer.Option(
            help="A script of yours with functions that give parts of it: @etude.report_section.", dir_okay=False
        ),
    ] = None,
    show: Open = False,
    as_json: AsJson = False,
) -> None:
    """Write a report of a study: a page with figures and tables.

    The page needs no network; figures and tables are files as well.
    """
    search = open_study(study)
    if sections is not None:
        _load(sections)
    _tell(search.report(into, png=png), show=show, as_json=as_json)


def compare(
    one: StudyName,
    other: Annotated[str, typer.Argument(metavar="STUDY", help="The other study.", autocompletion=complete.studies)],
    *,
    into: Annotated[
        Path | None, typer.Option("--into", help="A folder, for a report of both.", file_okay=False)
    ] = None,
    png: Png = False,
    show: Open = False,
    as_json: AsJson = False,
) -> None:
    """Put two studies side by side, and say what of them compares."""
    from etude.reported.comparing import compared

    if into is None and (png or show):
        raise ConfigError("--png and --open are for a report of both. Say where it goes: --into FOLDER.")
    both = compared(open_study(one), open_study(other))
    page = both.write(into, png=png) if into is not None else None
    if as_json:
        rows = [dict(zip(("what", "one", "other", "says"), row, strict=True)) for row in both.rows()]
        print_json({"result": both.result, "comparable": both.comparable, "rows": rows, "page": page and str(page)})
    else:
        print(both.result)
        print_table(["", both.one.name, both.other.name, ""], both.rows())
    if page is not None and not as_json:
        print(page)
    if page is not None and show:
        typer.launch(page.absolute().as_uri())


def _load(script: Path) -> None:
    """Run a script for the functions that it registers.

    Raises:
        ConfigError: It is not there, or raises.
    """
    try:
        runpy.run_path(str(script), run_name="__etude_report__")
    except Exception as error:
        raise ConfigError(f"--sections {script} could not be loaded: {type(error).__name__}: {error}") from error


def _tell(page: Path, *, show: bool, as_json: bool) -> None:
    if as_json:
        print_json({"page": str(page)})
    else:
        print(page)
    if show:
        typer.launch(page.absolute().as_uri())
