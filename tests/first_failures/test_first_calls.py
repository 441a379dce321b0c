"""Mistakes of somebody who begins, in defining and calling: refused before anything starts, with what to write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from mistakes import CALLING, DEFINING, TUNE, Mistake
from shown import Shown, without_address

MOST_LINES: Final = 30
"""So many lines of a traceback may stand above the message, from the script on."""


@pytest.mark.parametrize("mistake", [*DEFINING, *CALLING], ids=lambda one: one.does)
def test_the_message_is_the_last_line_and_says_what_to_do(mistake: Mistake, stranger: Callable[[str], Shown]) -> None:
    shown = stranger(mistake.source)
    assert shown.error == mistake.shown.replace("{here}", str(shown.here))
    assert shown.above <= MOST_LINES
    begins = TUNE in mistake.script and not shown.error.startswith("ConfigError: The functions cannot be sent")
    if not begins and "name=" not in mistake.script:
        assert [path.name for path in shown.here.iterdir()] == ["script.py"], "something was started"


def test_python_itself_ends_with_the_same_line(tmp_path: Path) -> None:
    mistake = next(one for one in CALLING if one.does == "writes a range as a tuple")
    (tmp_path / "script.py").write_text(mistake.source)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
    )
    *above, last = done.stderr.splitlines()
    assert (done.returncode, without_address(last)) == (1, mistake.shown)
    assert len(above) <= MOST_LINES
