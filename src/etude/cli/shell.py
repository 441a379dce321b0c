"""What all commands share: exit codes, errors as messages, tables, JSON, and studies as people name them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from etude.cli.wording import CALLS, verb_in_a_command
from etude.core.errors import ConfigError, EtudeError
from etude.core.text import visible_lines

if TYPE_CHECKING:
    from etude.results.search import Search, TrialResult

LONGEST_WHOLE: Final = 20
"""Characters of a cell that a narrow terminal does not break, unless such cells alone are wider than it is."""

GAP: Final = 3
"""Columns between two cells."""

BY_A_PROGRAM: Final = "etude.by_a_program"

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]


class Code(IntEnum):
    """How a command ended, for scripts."""

    OK = 0
    STUDY = 1
    USAGE = 2
    SOME_FAILED = 3
    LIMIT = 4
    INTERRUPTED = 130


class Shell(TyperGroup):
    """Commands whose errors are messages: a traceback would only point into Étude."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep in mind whether a program has called: a command may end before its options are read."""
        ctx.meta[BY_A_PROGRAM] = "--json" in args
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands below the headings that they were given, in one row of columns."""
        shown = [(name, command) for name, command in self.commands.items() if not command.hidden]
        widest = max((len(name) for name, _ in shown), default=0)
        below: dict[str, list[tuple[str, str]]] = {}
        for name, command in shown:
            told = command.get_short_help_str(formatter.width - 6 - widest)
            below.setdefault(_heading(command), []).append((name.ljust(widest), told))
        for heading, rows in below.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was named; a verb of Python that is none says how it is run from here."""
        if args[0] not in self.commands and args[0] in CALLS:
            raise ConfigError(verb_in_a_command(args[0], args[1:]))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command and turn what it raises into an exit code, and into a document for a program."""
        try:
            with _error_as_document(ctx.meta[BY_A_PROGRAM]):
                return super().invoke(ctx)
        except ConfigError as error:
            raise _complained(error, Code.USAGE) from None
        except EtudeError as error:
            raise _complained(error, Code.STUDY) from None
        except KeyboardInterrupt:
            raise typer.Exit(Code.INTERRUPTED) from None
        except BrokenPipeError:  # the reader of our output has left, as `head` does
            sys.stderr.close()
            raise typer.Exit(Code.OK) from None


def _heading(command: Any) -> str:
    given = getattr(command, "rich_help_panel", None)
    return given if isinstance(given, str) else "Commands"


def print_version(wanted: bool) -> None:
    """Print the version and leave, if that was asked for."""
    if wanted:
        from etude import __version__

        print(f"etude {__version__}")
        raise typer.Exit


def open_study(study: str) -> Search:
    """Return a study that is given by its path or its name.

    Raises:
        NotAStudyError: There is none; the message names the nearest.
    """
    from etude.results.reading import read

    return read(study)


def trial_of(search: Search, number: int) -> TrialResult:
    """Return a trial by its number.

    Raises:
        ConfigError: There is none; the message says which there are.
    """
    from etude.core.text import count

    trials = search.trials
    if not 0 <= number < len(trials):
        told = f"trials 0 to {len(trials) - 1}" if trials else "no trials yet"
        raise ConfigError(f"Study {search.name} has no trial {number}: it has {told}, {count(len(trials), 'trial')}.")
    return trials[number]


def print_json(value: Any) -> None:
    """Print plain values for programs."""
    print(as_json(value, indent=2))


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Return plain values as JSON. NaN has no place in it and becomes null, infinity a text."""
    return json.dumps(_strict(value), indent=indent, default=str, allow_nan=False)


@contextlib.contextmanager
def standard_output_kept(wanted: bool) -> Iterator[None]:
    """Send what others print to standard error, if wanted: standard output is for one JSON document alone."""
    if not wanted:
        yield
        return
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)  # what libraries and processes of theirs print goes by no sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, most: int | None = None) -> None:
    """Print a table for people; numbers to the right.

    Args:
        head: The titles.
        rows: The cells of each row.
        most: Columns that it may take where nobody says how wide a line is; without it lines stay whole there.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=most or 10_000)  # a pipe has no width: whoever reads it wants lines that are whole
    texts = [list(row) for row in rows]
    columns = [(title, [row[i] for row in texts if row[i]]) for i, title in enumerate(head)]
    widths = {title: max(map(len, "\n".join((title, *cells)).split("\n"))) for title, cells in columns}
    whole = {
        title
        for title, cells in columns
        if all(len(line) <= LONGEST_WHOLE for cell in cells for line in cell.split("\n"))
    }
    if sum(widths[title] + GAP for title in whole) > console.width:
        whole -= {title for title, cells in columns if any(" " in text for text in (title, *cells))}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, cells in columns:
        justify: Literal["left", "right"] = "right" if all(map(_is_number, cells)) else "left"
        table.add_column(title, justify=justify, overflow="fold", no_wrap=title in whole)
    for row in texts:
        table.add_row(*map(Text, row))
    console.print(table)


@contextlib.contextmanager
def _error_as_document(wanted: bool) -> Iterator[None]:
    """Print what ends a command as the one document that was wanted, besides what is done about it."""
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):  # it has printed its own, or nobody reads any
        raise
    except Exception as error:
        if wanted:
            said = getattr(error, "format_message", error.__str__)()  # of a word that is no option: which one
            print_json({"error": said or type(error).__name__})
        raise


def _complained(error: EtudeError, code: Code) -> typer.Exit:
    from rich.console import Console

    Console(stderr=True).print(visible_lines(str(error)), style="red", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(code)


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {str(name): _strict(inner) for name, inner in value.items()}
    return [_strict(inner) for inner in value] if isinstance(value, list | tuple) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
