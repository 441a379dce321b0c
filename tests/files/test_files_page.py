"""The page about experiment files is true: its files are read against its script, and its errors are those it shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etude.core.errors import FileError

if TYPE_CHECKING:
    from .conftest import Files

PAGE = (Path(__file__).parents[2] / "docs" / "experiment-files.md").read_text()
SCRIPT = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ERRORS = re.search(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(files: Files) -> Files:
    assert SCRIPT is not None
    files.write(SCRIPT[1], "train.py")
    files.write("optimizer.lr: loguniform(1e-5, 1)\nwidth: integers(1, 9)\n", "spaces/wide.yaml")
    sys.modules.pop("train", None)
    return files


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_file_of_the_page_can_be_read(page: Files, number: int) -> None:
    asked = page.ask(BLOCKS[number])
    sys.modules.pop("train", None)
    assert asked.verb in ("run", "tune")
    assert asked.arguments


def test_the_errors_are_those_of_the_first_file(page: Files) -> None:
    assert ERRORS is not None
    page.write(BLOCKS[0].replace("  optimizer.lr:", "  optimizer.lrr:").replace("128]", "x]"))
    with pytest.raises(FileError) as refused:
        page.of("study.yaml")
    sys.modules.pop("train", None)
    assert str(refused.value) == ERRORS[1].rstrip("\n")


def test_what_the_page_calls_refused_is(page: Files) -> None:
    for word in re.findall(r"^\| `(no|010|1_000|12:30|None)`", PAGE, re.MULTILINE):
        page.write(f"experiment: train.py:experiment\nverb: run\nparameters: {{log: {word}}}\n")
        with pytest.raises(FileError, match=r"^study.yaml:3:19: "):
            page.of("study.yaml")
        sys.modules.pop("train", None)
