"""Reviews: what is shown, what keys do, and that Enter alone approves nothing; on a real terminal, too."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stand_ins import CONV2, CONV3, EVALUATION, GOOD, TREE, Backend, bench, patch_of_trees, patched, removing

from etude.core.errors import ConfigError
from etude.core.text import visible, visible_lines
from etude.mage.facts import Ended, Facts, ModelFacts, ParameterFacts
from etude.mage.loop.session import read
from etude.mage.loop.states import Stage
from etude.mage.review.reviewing import Editing, go_through
from etude.mage.review.screen import (
    Choice,
    Decision,
    Terminal,
    changes,
    coloured_diff,
    edited,
    rows,
    screen,
    table,
)
from etude.mage.verdicts import Outcome

NAME = "without-conv2"
PATIENCE_S = 60.0


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """Give a study with one variant that waits."""
    with bench(tmp_path / "s", Backend([GOOD])) as at:
        at.work.run()
    return tmp_path / "s"


def editing(editor: str = "") -> Editing:
    return Editing(patch_of_trees=patch_of_trees, patched=patched, environment={"EDITOR": editor} if editor else {})


def reviewed(folder: Path, typed: list[str], backend: Backend | None = None, how: Editing | None = None) -> str:
    """Review a study by lines that are typed; return what was shown."""
    into, lines = io.StringIO(), iter(typed)

    def read_line(prompt: str) -> str:
        into.write(prompt)
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    with bench(folder, backend) as at:
        terminal = Terminal(into, read_line, coloured=False)
        go_through(at.book, at.work, terminal, by="me", editing=how or editing())
    return into.getvalue()


# --- what is shown --------------------------------------------------------------------------------


def test_a_screen_has_intent_diff_changed_facts_verdicts_and_cost(waiting: Path) -> None:
    shown = screen(read(waiting), NAME).splitlines()
    assert shown[0] == "── without-conv2 ── conv2 is removed"
    assert "-" + CONV2.rstrip() in shown
    assert any(line.split() == ["parameters", "44", "28"] for line in shown)
    assert any(line.split()[:1] == ["conv2.weight"] for line in shown)
    assert not any(line.split()[:1] == ["conv1.weight"] for line in shown)  # it did not change
    assert "gone: passed" in shown
    assert shown[-1] == "so far: 1 call for this variant, 1 in all; 100 tokens in, 10 out"
    every = screen(read(waiting), NAME, all_facts=True).splitlines()
    assert any(line.split()[:1] == ["conv1.weight"] for line in every)


def test_colours_are_only_where_a_terminal_shows_them() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n same\n"
    assert coloured_diff(diff) == diff.splitlines()
    coloured = coloured_diff(diff, coloured=True)
    assert coloured[4] == "\x1b[32m+two\x1b[0m"
    assert coloured[3] == "\x1b[31m-one\x1b[0m"
    assert coloured[5] == " same"


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert visible("a\x1b[2Jb\u202ec\u200bd\re\x00") == r"a\x1b[2Jb\u202ec\u200bd\re\x00"
    assert visible_lines("café 日本 \t ✓") == "café 日本 \t ✓"
    assert coloured_diff("+x = 1 \u202e# evil\n", coloured=True) == ["\x1b[32m+x = 1 \\u202e# evil\x1b[0m"]
    assert visible_lines("a\x07\nb") == "a\\x07\nb"


@given(st.text())
def test_no_text_can_move_a_cursor_or_turn_around(text: str) -> None:
    shown = visible(text)
    assert not any(ord(one) < 32 for one in shown)
    assert not set(shown) & set("\x7f\x9b\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def test_only_rows_that_differ_are_in_the_table() -> None:
    def facts(shape: tuple[int, ...], gradient: bool) -> Facts:
        one = {"a": ParameterFacts(shape=shape), "b": ParameterFacts(shape=(1,), got_gradient=gradient)}
        return Facts(ended=Ended(code=0, why="enough seen"), models=(ModelFacts(type="N", parameters=one),))

    found = changes(facts((2, 3), True), facts((2, 4), False))
    assert found == [("parameters", "7", "9"), ("a", "[2, 3]", "[2, 4]"), ("b", "[1]", "[1], no gradient")]
    assert table(found) == [
        "fact        before  after",
        "parameters  7       9",
        "a           [2, 3]  [2, 4]",
        "b           [1]     [1], no gradient",
    ]
    assert table([]) == ["no fact differs"]
    assert rows(None) == {}
    assert table(found, most=1)[-1] == "... and 2 more"


# --- what keys do ---------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", ["", " ", "\t", "y", "yes", "ok", "1", "approved?", "ar"])
def test_enter_alone_and_other_words_approve_nothing(waiting: Path, typed: str) -> None:
    shown = reviewed(waiting, [typed, typed, typed])
    assert shown.count("Nothing was chosen") == 3
    assert read(waiting).standings[NAME].stage is Stage.AWAITING_REVIEW


@pytest.mark.parametrize("typed", ["a", "A", "approve", " a "])
def test_an_approval_is_written_with_who_and_what(waiting: Path, typed: str) -> None:
    reviewed(waiting, [typed])
    record = read(waiting)
    standing = record.standings[NAME]
    assert standing.stage is Stage.ACCEPTED
    approval = record.approvals[NAME]
    assert (approval.by, approval.patch, approval.verdict) == ("me", standing.patch, standing.verdict)


def test_rejected_with_a_note_is_repaired_and_shown_again(waiting: Path) -> None:
    backend = Backend([removing(CONV2, "# conv2 is gone\n")])
    shown = reviewed(waiting, ["r", "leave a comment", "a"], backend)
    assert "+# conv2 is gone" in shown
    assert "note: leave a comment" in shown
    assert "leave a comment" in backend.asked[0].messages[3].text
    assert read(waiting).standings[NAME].stage is Stage.ACCEPTED


def test_rejected_without_a_note_is_rejected_for_good(waiting: Path) -> None:
    reviewed(waiting, ["r", ""])
    assert read(waiting).standings[NAME].stage is Stage.REJECTED


def test_all_facts_are_shown_on_demand_and_the_question_comes_again(waiting: Path) -> None:
    shown = reviewed(waiting, ["f", "q"])
    assert shown.count("── without-conv2 ──") == 2
    assert any(line.split()[:1] == ["conv1.weight"] for line in shown.splitlines())


def test_skipped_and_quit_wait_and_can_be_reviewed_later(tmp_path: Path) -> None:
    names = ("without-conv2", "without-conv3")
    with bench(tmp_path / "s", Backend([GOOD, removing(CONV3)]), names=names) as at:
        at.work.run()
    reviewed(tmp_path / "s", ["s", "a"])
    assert [standing.stage for standing in read(tmp_path / "s").standings.values()] == [
        Stage.AWAITING_REVIEW,
        Stage.ACCEPTED,
    ]
    reviewed(tmp_path / "s", ["q"])
    assert read(tmp_path / "s").standings["without-conv2"].stage is Stage.AWAITING_REVIEW
    reviewed(tmp_path / "s", ["a"])
    assert read(tmp_path / "s").standings["without-conv2"].stage is Stage.ACCEPTED


def test_what_has_not_passed_is_approved_by_a_word_and_not_by_a_key(tmp_path: Path) -> None:
    both = GOOD[:-1] + ", " + EVALUATION[1:]
    with bench(tmp_path / "s", Backend([both])) as at:
        at.work.run()
    shown = reviewed(tmp_path / "s", ["a", "a", "a", "", "q"])
    assert "It is for a person, which is no pass." in shown
    assert shown.count("Not approved.") == 2
    assert read(tmp_path / "s").standings[NAME].stage is Stage.AWAITING_REVIEW
    reviewed(tmp_path / "s", ["a", "despite"])
    record = read(tmp_path / "s")
    assert record.standings[NAME].stage is Stage.ACCEPTED
    assert record.approvals[NAME].despite


# --- editing --------------------------------------------------------------------------------------


def editor(tmp_path: Path, code: str) -> str:
    """Return an editor that is a Python script, which is given the paths."""
    path = tmp_path / "editor.py"
    path.write_text("import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n" + textwrap.dedent(code))
    return f"{sys.executable} -S {path}"


def test_an_edit_goes_through_all_rungs_and_its_author_is_the_person(waiting: Path, tmp_path: Path) -> None:
    how = editing(editor(tmp_path, "path.write_text('# by hand\\n' + path.read_text())"))
    shown = reviewed(waiting, ["e", "a"], how=how)
    assert "written by me;" in shown
    assert "+# by hand" in shown
    record = read(waiting)
    assert record.standings[NAME].stage is Stage.ACCEPTED
    patch = record.patch_of(NAME)
    assert patch is not None
    assert patch.author.name == "me"
    assert record.standings[NAME].outcome is Outcome.PASSED


def test_an_edit_that_breaks_it_is_told(waiting: Path, tmp_path: Path) -> None:
    shown = reviewed(waiting, ["e"], how=editing(editor(tmp_path, "path.write_text('1 / 0\\n')")))
    assert "without-conv2: gave up:" in shown
    assert "ZeroDivisionError" in shown


def test_an_edit_that_changes_nothing_or_fails_leaves_all_as_it_was(waiting: Path, tmp_path: Path) -> None:
    before = read(waiting).standings
    assert "Nothing was edited." in reviewed(waiting, ["e"], how=editing("true"))
    assert "ended with code 1. Nothing was changed." in reviewed(waiting, ["e"], how=editing("false"))
    assert "neither VISUAL nor EDITOR is set" in reviewed(waiting, ["e"])
    undone = editor(tmp_path, f"path.write_bytes({TREE.files['train.py']!r})")
    assert "Nothing was changed." in reviewed(waiting, ["e"], how=editing(undone))
    assert read(waiting).standings == before


def test_without_an_editor_it_is_said_how_to_name_one() -> None:
    with pytest.raises(ConfigError) as refused:
        edited(TREE, ["train.py"], environment={})
    assert str(refused.value) == ("There is no editor: neither VISUAL nor EDITOR is set. Set one, such as EDITOR=nano.")


def test_the_end_of_the_input_is_a_quit(waiting: Path) -> None:
    def ended(_: str) -> str:
        raise EOFError

    assert Terminal(io.StringIO(), ended).decide(read(waiting), NAME) == Decision(choice=Choice.QUIT)


# --- a real terminal ------------------------------------------------------------------------------

PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from stand_ins import bench, patch_of_trees, patched
from etude.mage.review.screen import Terminal
from etude.mage.review.reviewing import Editing, go_through
with bench(Path({folder!r})) as at:
    how = Editing(patch_of_trees=patch_of_trees, patched=patched, environment={{}})
    go_through(at.book, at.work, Terminal(), by="me", editing=how)
print("left")
"""


@contextmanager
def on_a_terminal(folder: Path) -> Iterator[int]:
    """Run a review on a terminal of its own; give our end of it."""
    ours, theirs = pty.openpty()
    program = PROGRAM.format(tests=str(Path(__file__).parent), folder=str(folder))
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield ours
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def until(terminal: int, text: str) -> str:
    """Read from a terminal until a text has come."""
    got = b""
    while text.encode() not in got:
        assert select.select([terminal], [], [], PATIENCE_S)[0], f"{text!r} did not come: {got!r}"
        try:
            more = os.read(terminal, 4096)
        except OSError:  # the other end was closed
            more = b""
        assert more, f"{text!r} did not come: {got!r}"
        got += more
    return got.decode()


def test_on_a_real_terminal_enter_asks_again_and_a_approves(waiting: Path) -> None:
    with on_a_terminal(waiting) as terminal:
        shown = until(terminal, "\n> ")
        assert "\x1b[31m-" in shown  # a terminal has colours
        os.write(terminal, b"\n")
        until(terminal, "Nothing was chosen")
        os.write(terminal, b"\n\n")
        until(terminal, "Nothing was chosen")
        os.write(terminal, b"a\n")
        until(terminal, "left")
    assert read(waiting).standings[NAME].stage is Stage.ACCEPTED


def test_on_a_real_terminal_the_end_of_input_quits_and_approves_nothing(waiting: Path) -> None:
    with on_a_terminal(waiting) as terminal:
        until(terminal, "\n> ")
        os.write(terminal, b"\x04")
        until(terminal, "left")
    assert read(waiting).standings[NAME].stage is Stage.AWAITING_REVIEW
