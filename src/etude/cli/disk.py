"""What studies take on the disk, and room made there: ``etude du`` and ``gc``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from etude.cli import complete
from etude.cli.shell import AsJson, print_json, print_table
from etude.core.errors import EtudeError, StudyInUseError

if TYPE_CHECKING:
    from etude.results.housekeeping import Cleared

Studies = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STUDY...]", help="Names or folders; by default all studies here.", autocompletion=complete.studies
    ),
]
UNITS: Final = ("B", "kB", "MB", "GB", "TB")
STEP: Final = 1024


def du(studies: Studies = None, as_json: AsJson = False) -> None:
    """Show what studies take on the disk, by what it is."""
    from etude.results.housekeeping import usage

    rows: list[dict[str, Any]] = []
    problems: list[dict[str, str]] = []
    for study in studies or _all_here():
        try:
            found = usage(study)
        except EtudeError as error:
            if studies:
                raise
            problems.append({"study": Path(study).name, "problem": str(error)})  # it must not hide the others
        else:
            rows.append({**asdict(found), "total": found.total})
    head = ["study", "journal", "logs", "files", "states", "weights", "surplus", "total"]
    totals = {title: sum(row[title] for row in rows) for title in head[1:]}
    if as_json:
        print_json({"studies": rows, "all": totals, "unreadable": problems})
        return
    if rows:
        last = [{"study": "all", **totals}] if len(rows) > 1 else []
        print_table(head, [[row["study"], *(in_units(row[title]) for title in head[1:])] for row in [*rows, *last]])
    for one in problems:
        print(f"{one['study']} cannot be read: {one['problem']}")
    if not rows and not problems:
        _say_there_are_none()


def gc(
    studies: Studies = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove files of checkpoints that killed studies left behind.

    A study that is at work does this by itself, and is left alone.
    """
    from etude.results.housekeeping import clear

    done: list[Cleared] = []
    skipped: list[dict[str, str]] = []
    for study in studies or _all_here():
        try:
            done.append(clear(study, dry_run=dry_run))
        except EtudeError as error:
            if studies:
                raise
            why = "is at work" if isinstance(error, StudyInUseError) else str(error)
            skipped.append({"study": Path(study).name, "why": why})
    if as_json:
        print_json({"dry_run": dry_run, "studies": [_for_programs(one) for one in done], "skipped": skipped})
        return
    for one in done:
        _tell(one, dry_run=dry_run)
    for left in skipped:
        print(f"{left['study']} was left alone: it {left['why']}." if left["why"] == "is at work" else left["why"])
    if not done and not skipped:
        _say_there_are_none()


def in_units(size_b: int) -> str:
    """Return a size as people say it.

    Example:
        >>> in_units(0), in_units(2000), in_units(3 * 2**30)
        ('0 B', '2.0 kB', '3.0 GB')
    """
    size, unit = float(size_b), 0
    while size >= STEP and unit < len(UNITS) - 1:
        size, unit = size / STEP, unit + 1
    return f"{size:.1f} {UNITS[unit]}" if unit else f"{size_b} B"


def _all_here() -> Iterator[str]:
    """Yield the folders of all studies here, by name; a mirror that lies among them is none."""
    from etude.results.finding import is_study, studies_folder
    from etude.store.fetch import is_mirror

    for folder in sorted(studies_folder().glob("*/")):
        if is_study(folder) and not is_mirror(folder):
            yield str(folder)


def _for_programs(one: Cleared) -> dict[str, Any]:
    files = [{"trial": file.trial, "file": file.name, "bytes": file.size_b} for file in one.found]
    return {"study": one.study, "bytes": one.size_b, "files": files}


def _tell(one: Cleared, *, dry_run: bool) -> None:
    from etude.core.text import count

    if not one.found:
        print(f"Study {one.study} has nothing that is of no use.")
        return
    for file in one.found:
        print(f"trials/{file.trial:05d}/{file.name}  {in_units(file.size_b)}")
    what = f"{count(len(one.found), 'file')}, {in_units(one.size_b)}"
    print(f"Of study {one.study} {what}, {'would be removed' if dry_run else 'were removed'}.")


def _say_there_are_none() -> None:
    from etude.results.finding import studies_folder

    print(f"There are no studies in {studies_folder()}.")
