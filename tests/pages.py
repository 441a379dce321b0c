"""Pages of the docs as tests read them: the code of their blocks, and commands in them.

A block of Python runs with its page, in ``tests/test_docs.py``. On the line above one that does not, a comment says why
not, or which test runs it instead, since it takes a preparation, a process of its own or somebody's cluster::

    <!-- not run: it needs Databricks -->
    <!-- run by tests/test_snippets.py::test_a_table_in_a_file_is_read -->
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import typer.main

from etude.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ABOVE = re.compile(r"^<!-- *((?:not run|run by)\b.*?) *-->\n+\Z", re.MULTILINE)
"""A mark directly above what follows; `.` takes no end of line, so it is none of the comments further up."""
REASON = re.compile(r"not run: (\S.*)")
TEST = re.compile(r"run by (tests/[\w/]+\.py)::(test_\w+)")


def mark_above(before: str) -> str:
    """Return the mark that ends a part of a page, empty if there is none; one that says too little is an error."""
    if (found := ABOVE.search(before)) is None:
        return ""
    mark = found[1]
    assert REASON.fullmatch(mark) or TEST.fullmatch(mark), (
        f"{mark!r}: a block that is not run says why, <!-- not run: reason -->, or which test runs it, "
        "<!-- run by tests/FILE.py::test_NAME -->"
    )
    return mark


def as_script(page: str) -> str:
    """Return the code of a page's python blocks, each line where it stands on the page."""
    lines = [""] * page.count("\n")
    for block in FENCE.finditer(page):
        before = page[: block.start()]
        if block[1] != "python" or mark_above(before):
            continue
        first = before.count("\n") + 1
        code = block[2].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines).rstrip()


def marked(page: str) -> list[tuple[str, str]]:
    """Return the marks of a page's blocks, each with the code below it."""
    found = [(mark_above(page[: block.start()]), block[2]) for block in FENCE.finditer(page)]
    return [(mark, code) for mark, code in found if mark]


def blocks_of(file: str, test: str) -> list[str]:
    """Return the blocks of all pages that are marked as run by a test, in their order."""
    mark = f"run by {file}::{test}"
    return [code for page in PAGES for named, code in marked(page.read_text()) if named == mark]


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, with studies beside what it runs."""
    shown = {**os.environ, "ETUDE_STUDIES": str(cwd / "studies"), "ETUDE_PROGRESS": "0", **environment}
    return subprocess.run(command, cwd=cwd, env=shown, capture_output=True, text=True, timeout=600, check=False)


def etude_command(line: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours as it stands on a page."""
    words = shlex.split(line)
    assert words[0] == "etude"
    return run(sys.executable, "-c", "from etude.cli import main; main()", *words[1:], cwd=cwd, **environment)


def check_command(line: str, *, whole: bool = False) -> None:
    """Fail if the command is none of ours, or has options that there are not.

    Args:
        line: The command as it stands on a page; what may be left out stands in brackets.
        whole: Whether it could be typed so: then it has all arguments that it needs, and values that fit.
    """
    plain = re.sub(r"\bTRIAL\b", "0", line) if whole else re.sub(r"[\[\]]|\.\.\.", "", line)
    command, rest = typer.main.get_command(app), shlex.split(plain)[1:]
    while commands := getattr(command, "commands", None):
        if not rest and not whole:
            return
        assert rest, f"{line!r} names no command"
        assert rest[0] in commands, f"{line!r} is no command of ours"
        command, rest = commands[rest[0]], rest[1:]
    if whole:
        command.make_context(command.name, list(rest))
        return
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    assert given <= options, f"{line!r} has options that there are not: {given - options}"
