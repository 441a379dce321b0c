"""Completion as a person gets it: installed by bash's own call, and asked by a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Etude

ASKED = """
source "$HOME/.bashrc"
words=$(complete -p etude)
COMP_WORDS=({line} "{last}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_LINE="{line} {last}"
$(sed 's/.*-F \\([^ ]*\\).*/\\1/' <<<"$words") etude "{last}"  # bash itself calls it with the command and the word
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which completion was installed."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    folder = tmp_path / "home"
    folder.mkdir()
    done = in_bash("etude --install-completion; true", folder, tmp_path)
    assert "bash completion installed" in done.stdout, done.stdout + done.stderr
    return folder


def in_bash(script: str, home: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    here = Path(sys.executable).parent
    return subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=folder,
        env={**os.environ, "HOME": str(home), "PATH": f"{here}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def offered(home: Path, folder: Path, line: str, last: str) -> list[str]:
    """Return what bash offers for the last word of a line."""
    done = in_bash(ASKED.format(line=line, last=last), home, folder)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_studies_and_trials(tuned: Etude, home: Path) -> None:
    def ask(line: str, last: str) -> list[str]:
        return offered(home, tuned.folder, line, last)

    assert ask("etude", "vi") == ["view"]
    assert {"ls", "show", "view"} <= set(ask("etude", ""))
    assert ask("etude view", "") == ask("etude show", "o") == ["one"]
    assert ask("etude logs one", "3") == ["3"]
    assert ask("etude show", "nothing") == []
    assert ask("etude mage", "pre") == ["preview"]
