"""What is at hand depends on who is asked: each is told the form that it gets right, and held to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.mage.backends.naming import backend_of
from etude.mage.backends.protocol import Backend
from etude.mage.loop.at_hand import grammar_for, tools_at_hand
from etude.mage.loop.book import Setup
from etude.mage.loop.session import writing
from etude.mage.patch.blocks import Author, Whole
from etude.mage.patch.refusals import PatchRefused
from etude.mage.patch.rendering import GRAMMAR, WHOLE_FIRST
from etude.mage.sandbox.protocol import Sandbox
from etude.mage.tree import Tree

LARGE, SMALL = "anthropic:claude-sonnet-4-5", "openai:small@http://127.0.0.1:9/v1"


def no_sandbox() -> Sandbox:
    """Run nothing."""
    raise AssertionError("nothing is run here")


def whole_is_taken(folder: Path, asked: Backend | None) -> bool:
    """Say whether an answer that writes a long file again becomes a patch."""
    setup = Setup(root=".", entry="a.py", tag="t")
    with writing(folder / "study", environment={}) as book:
        tools = tools_at_hand(book, setup, sandbox=no_sandbox, tier="", backend=asked)
    assert tools.grammar == grammar_for(asked)
    tree = Tree({"a.py": b"x = 0\n" * 400})
    try:
        tools.make_patch(tree, (Whole(file="a.py", text="x = 0\n" * 399),), author=Author(name="somebody"), lost_ok=())
    except PatchRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "grammar", "taken"),
    [
        (LARGE, GRAMMAR, False),
        ("openai:gpt-4.1", GRAMMAR, False),
        (SMALL, WHOLE_FIRST, True),
        ("manual:answers", GRAMMAR, True),
        ("command:cat", GRAMMAR, True),
    ],
)
def test_only_a_model_that_can_do_better_is_refused_a_long_file(
    tmp_path: Path, name: str, grammar: str, taken: bool
) -> None:
    asked = backend_of(name, environment={})
    assert grammar_for(asked) == grammar
    assert whole_is_taken(tmp_path, asked) is taken


def test_where_nobody_is_asked_any_file_may_be_written_again(tmp_path: Path) -> None:
    assert grammar_for(None) == GRAMMAR
    assert whole_is_taken(tmp_path, None)
