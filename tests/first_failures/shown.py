"""What a script of a stranger's ended with, as Python would print it."""

from __future__ import annotations

import re
import runpy
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shown:
    """What a script ended with.

    Attributes:
        error: The last of what Python would print: the exception and its whole message; empty if there was none.
        above: How many lines of a traceback would stand above that, from the script on.
        printed: What the script and Étude printed.
        here: The folder.
    """

    error: str
    above: int
    printed: str
    here: Path


def run_here(source: str, here: Path, printed: Callable[[], Any]) -> Shown:
    """Run a script as ``__main__``, in this process: its trials have processes of their own all the same."""
    script = here / "script.py"
    script.write_text(source, encoding="utf-8")
    error, above = "", 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except Exception as raised:
        error = without_address("".join(traceback.format_exception_only(raised)).rstrip())
        whole = "".join(traceback.format_exception(raised))
        above = whole[whole.index(f'File "{script}"') :].count("\n") - error.count("\n")
    told = printed()
    return Shown(error, above, told.out + told.err, here)


def without_address(error: str) -> str:
    """Return the last lines of a traceback without the module of the exception and without addresses of objects."""
    return re.sub(r" at 0x\w+", " at ...", re.sub(r"^(\w+\.)+(?=\w+: )", "", error))
