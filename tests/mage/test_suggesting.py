"""Suggestions: marks for files without any, as a diff that applies, and nothing that is not worth it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from marked_programs import CNN, SAGE, tree_of

from etude.mage.patch.blocks import Author
from etude.mage.patch.making import make_patch, patched
from etude.mage.plan.marking import find_marks
from etude.mage.plan.planning import plan
from etude.mage.plan.replying import from_reply
from etude.mage.plan.suggesting import as_diff, suggested, suggested_by
from etude.mage.rules.writing import write
from etude.mage.static.checking import check
from etude.mage.tree import Tree
from etude.mage.verdicts import Outcome

ENTRY = "python -m pkg.table"
PLAIN = CNN.replace("  #ABLATABLE_COMPONENT", "").replace("  # ABLATABLE_COMPONENT", "")

TABLE = '''\
import argparse
from dataclasses import dataclass

FEATURES = [
    "age",
    "fare",  # in pounds
    "sex",
]
SHORT = ["a", "b"]
USE_CLIP = True


@dataclass
class Config:
    smooth: bool = True
    verbose: bool = False
    epochs: int = 3


parser = argparse.ArgumentParser()
parser.add_argument("--augment", action="store_true")
parser.add_argument("--seed", type=int, default=0)
X = data[FEATURES]
text = """
self.conv = nn.Conv2d(1, 2, 3)
"""
'''


def suggest(tree: Tree) -> str:
    return as_diff(tree, suggested(tree))


def applied(tree: Tree, folder: Path, *command: str, diff: str | None = None) -> Tree:
    """Return a tree after a program has put a diff into its files."""
    for path in tree:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(tree.files[path])
    done = subprocess.run(
        command, cwd=folder, input=(suggest(tree) if diff is None else diff).encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return Tree({path: (folder / path).read_bytes() for path in tree})


def test_modules_with_weights_and_dropouts_are_proposed() -> None:
    found = suggested(tree_of(train=PLAIN))
    assert [one.names for one in found] == [("conv1",), ("conv2",), ("conv3",), ("fc1",), ("fc2",), ("dropout",)]
    assert found[0].why == "a module of CIFAR10CNN: Conv2d"


def test_columns_and_switches_are_proposed() -> None:
    found = suggested(tree_of(table=TABLE))
    assert [(one.line, one.names, one.why) for one in found] == [
        (5, ("age",), "a column that is selected"),
        (7, ("sex",), "a column that is selected"),
        (10, ("USE_CLIP",), "a constant that is on"),
        (15, ("smooth",), "a field that is on"),
        (21, ("augment",), "a flag that is on where the command gives it"),
    ]


@pytest.mark.parametrize("command", [("git", "apply", "-"), ("patch", "-p1", "-s")])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_diff_applies_and_its_marks_mean_what_was_proposed(
    tmp_path: Path, command: tuple[str, ...], ending: str
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    if command[0] == "patch" and ending == "\r\n":
        command = (*command, "--binary")
    tree = tree_of(train=PLAIN, pkg__table=TABLE)
    tree = Tree({path: tree.text(path).replace("\n", ending).encode() for path in tree})
    wanted = suggested(tree)
    marks, remarks = find_marks(applied(tree, tmp_path, *command))
    assert remarks == ()
    assert [(one.file, one.lines[0]) for one in marks] == [(one.file, one.line) for one in wanted]
    named = [(one.names, other.names) for one, other in zip(marks, wanted, strict=True)]
    assert all(one == other for one, other in named)


def test_what_rules_make_of_the_proposed_marks_breaks_no_rule(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    tree = applied(tree_of(train=PLAIN, pkg__table=TABLE), tmp_path, "git", "apply", "-")
    found = plan(tree, "python -m pkg.table --augment", find_marks(tree)[0])
    written = {one.name: blocks for one in found.variants if (blocks := write(one, tree)) is not None}
    assert list(written) == [f"without-{name}" for name in ("age", "sex", "USE_CLIP", "smooth", "dropout")]
    for one in found.variants:
        if one.name in written:
            patch = make_patch(tree, written[one.name], author=Author(name="a rule"))
            assert [(verdict.outcome, verdict.reasons) for verdict in check(tree, patch, one)] == [
                (Outcome.PASSED, ()),
                (Outcome.PASSED, ()),
            ]
            gone = {place for mark in find_marks(patched(tree, patch))[0] for place in mark.names}
            assert gone <= {name for mark in find_marks(tree)[0] for name in mark.names}


def test_a_last_line_without_an_end_keeps_none(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    tree = tree_of(train="a = 1\nUSE_CLIP = True")
    assert (
        applied(tree, tmp_path, "git", "apply", "-").text("train.py") == "a = 1\nUSE_CLIP = True  # ABLATABLE_COMPONENT"
    )


def test_nothing_is_proposed_where_marks_are_or_nothing_can_be() -> None:
    for source in (CNN, SAGE, "x = 1\n", "USE = True; b = 2\n", "def f(:\n", "A = (True\n", ""):
        assert suggested(tree_of(train=source)) == []
        assert suggest(tree_of(train=source)) == ""


def test_the_marks_of_a_plan_plan_its_removals_without_a_planner(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    tree = tree_of(train=PLAIN, pkg__table=TABLE)
    paper = "The second layer is the point. So is age, and smoothing. Age and sex go together. Be narrow."
    wanted = [
        item("The second layer is the point.", "conv2"),
        item("So is age, and smoothing.", "age"),
        item("So is age, and smoothing.", "smooth"),
        item("Age and sex go together.", "age", "sex"),
        item("Be narrow.", wish="resize", sizes=[{"name": "conv1", "outputs": 8}]),
    ]
    docs = {"paper.txt": paper.replace(". ", ".\n")}
    drafted = from_reply(json.dumps({"items": wanted}), tree, (), entry=ENTRY, columns=("age", "sex"), docs=docs)
    assert len(drafted.variants) == len(wanted)
    found = suggested_by(drafted, tree)
    assert [one.names for one in found] == [("age",), ("smooth",), ("conv2",)]

    tree = applied(tree, tmp_path, "git", "apply", "-", diff=as_diff(tree, found))
    marked = plan(tree, ENTRY, find_marks(tree)[0])
    same = {one.name: one.witnesses for one in drafted.variants if len(one.things) == 1 and "conv1" not in one.name}
    assert {one.name: one.witnesses for one in marked.variants} == same
    assert suggested_by(drafted, tree) == []  # they are there


def item(
    quote: str, *names: str, wish: str = "remove", sizes: Sequence[Mapping[str, object]] = ()
) -> dict[str, object]:
    return {"quote": quote, "wish": wish, "names": names, "sizes": sizes, "values": [], "each": False}


def test_a_comment_that_is_there_already_is_left_alone() -> None:
    assert suggested(tree_of(train="USE_CLIP = True  # always\n")) == []
    assert [one.line for one in suggested(tree_of(train="USE_CLIP = (\n    True\n)\n"))] == [3]


def test_nothing_is_written() -> None:
    tree = tree_of(train=PLAIN)
    before = tree.digest
    suggest(tree)
    assert Tree(dict(tree.files)).digest == before
