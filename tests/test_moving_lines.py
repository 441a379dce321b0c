"""What it takes to move a script: counted as it is said, and the page says what the scripts give that lie there."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks import moving_lines
from benchmarks.moving_lines import PAIRS, Count, code, count, counted
from benchmarks.page import LINES

ARGS = {"original": "functions", "moved": "functions_moved"}


def test_a_line_that_takes_anothers_place_counts_once() -> None:
    assert count(["a", "b", "c"], ["a", "x", "c"]) == Count(changed=1, added=0, removed=0)
    assert count(["a", "b", "c"], ["a", "x", "y", "c"]) == Count(changed=1, added=1, removed=0)
    assert count(["a", "b", "c", "d"], ["a", "x", "d"]) == Count(changed=1, added=0, removed=1)
    assert count(["a", "b"], ["a", "    b"]).lines == 1
    assert count(["a"], ["a"]) == Count(0, 0, 0)


def test_blank_lines_and_comments_do_not_count() -> None:
    assert code("a = 1  # one\n\n    # alone\n    \nb\n") == ["a = 1  # one", "b"]


def test_of_lines_that_are_others_those_are_told_that_are_only_indented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving_lines, "SCRIPTS", tmp_path)
    (tmp_path / "flat.py").write_text("a = 1\nprint(a)\nprint(2)\n")
    (tmp_path / "moved.py").write_text("def f():\n    a = 1\n    print(a)\n    print(3)\n\n\nf()\n")
    found = counted("flat", "moved")
    assert found == {"original": 3, "lines": 5, "only_indented": 2, "changed": 3, "added": 2, "removed": 0}


def test_the_kept_line_says_what_the_scripts_give() -> None:
    kept = json.loads((LINES / "moving_lines.json").read_text())
    assert not kept["small"]
    rows = {row["name"]: row["median"] for row in kept["rows"]}
    for what, pair in PAIRS.items():
        for quantity, number in counted(*pair).items():
            assert rows[f"étude, {what}: {quantity}"] == number, f"run the benchmark: {what}, {quantity}"
        assert rows[f"étude, {what}: accuracy"] == rows[f"étude, {what}: accuracy_moved"] > 0.8
    (target,) = kept["targets"]
    assert target["measured"] == counted(*PAIRS["functions"])["lines"]
    assert target["met"] == (target["measured"] <= moving_lines.TARGET)


def test_a_script_that_fails_or_leaves_no_studies_ends_the_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving_lines, "SCRIPTS", tmp_path)
    (tmp_path / "bad.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(SystemExit, match=r"what is counted: bad.py ended with code 3\."):
        moving_lines.accuracy_of("bad", tmp_path / "place")
    (tmp_path / "good.py").write_text("print('accuracy', 0.5)\n")
    assert moving_lines.accuracy_of("good", tmp_path / "other") == 0.5
    (tmp_path / "other" / "etude-studies").mkdir()
    with pytest.raises(SystemExit, match=r"the studies are \[\]"):
        moving_lines.studied(tmp_path / "other")


@pytest.mark.parametrize(
    ("said", "fitted", "called", "told"),
    [(0.9, 0.9, 0.8, "the function of functions_moved.py returned 0.8"), (0.9, 0.7, 0.9, "its fit came to 0.7")],
)
def test_other_numbers_end_the_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: float, fitted: float, called: float, told: str
) -> None:
    studies = {"fit": SimpleNamespace(value=fitted), "tune": SimpleNamespace(best=None)}
    monkeypatch.setattr(moving_lines, "accuracy_of", lambda script, place: said)
    monkeypatch.setattr(moving_lines, "studied", lambda place: studies)
    monkeypatch.setattr(moving_lines, "plainly", lambda moved, place, best: called)
    with pytest.raises(SystemExit, match=told):
        moving_lines.work(ARGS, tmp_path)
