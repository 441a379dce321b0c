"""What all commands share: exit codes, errors as messages, tables, and studies as people name them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from etude.core.errors import ConfigError, EtudeError

if TYPE_CHECKING:
    from etude.results import Search


class Code(IntEnum):
    """How a command ended, for scripts."""

    OK = 0
    STUDY = 1
    USAGE = 2
    SOME_FAILED = 3
    INTERRUPTED = 130


class Shell(TyperGroup):
    """Commands whose errors are messages: a traceback would only point into Étude."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command and turn what it raises into an exit code."""
        try:
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
    import difflib

    from etude.core.errors import NotAStudyError
    from etude.results import read, studies_folder
    from etude.store.journal import FILE

    try:
        return read(study)
    except NotAStudyError as error:
        known = [path.parent.name for path in studies_folder().glob(f"*/{FILE}")]
        near = difflib.get_close_matches(study, known, n=1)
        if not near:
            raise
        raise NotAStudyError(f"{error} Did you mean {near[0]!r}?") from None


def print_json(value: Any) -> None:
    """Print plain values for programs. NaN has no place in JSON and becomes null, infinity a text."""
    print(json.dumps(_strict(value), indent=2, default=str, allow_nan=False))


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for people; numbers to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    texts = [list(row) for row in rows]
    for i, title in enumerate(head):
        is_number = all(_is_number(row[i]) for row in texts if row[i])
        table.add_column(title, justify="right" if is_number else "left", overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))
    console = Console()
    # A pipe has no width: whoever reads it wants lines that are whole.
    console.print(table, width=None if console.is_terminal else 10_000)


def _complained(error: EtudeError, code: Code) -> typer.Exit:
    from rich.console import Console

    Console(stderr=True).print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
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
