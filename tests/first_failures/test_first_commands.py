"""Mistakes on the command line: one message on standard error, and an exit code that says whose fault it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from mistakes import COMMANDS, ELSEWHERE, Mistake
from shown import Shown


@pytest.mark.parametrize("mistake", [*COMMANDS, *ELSEWHERE], ids=lambda one: one.does)
def test_the_message_says_what_to_do(mistake: Mistake, stranger: Callable[[str], Shown]) -> None:
    here = stranger(mistake.source if "{here}/studies" in mistake.command else "").here
    (here / "script.py").write_text(mistake.source, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from etude.cli import main; main()",
            *(a.replace("{here}", str(here)) for a in mistake.command),
        ],
        cwd=here,
        env={**os.environ, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == mistake.code
    told = [
        line for line in done.stderr.splitlines() if not line.startswith(("usage:", "script.py: error:", "-c: error:"))
    ]
    assert told == [mistake.shown.replace("{here}", str(here))]
