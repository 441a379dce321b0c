"""Answers are read strictly, and what we write down ourselves is read as the same blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.mage.patch.blocks import Block, Search, Symbol, Whole
from etude.mage.patch.refusals import BadReply
from etude.mage.patch.rendering import GRAMMAR, WHOLE_FIRST, render
from etude.mage.patch.reply import read_reply
from etude.mage.verdicts import Outcome, Rung

LINES = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            *("```", "````", "``````", "```python file=a.py whole", "~~~", "   ```", "CANNOT: no", "<<<<<<< SEARCH"),
            *("=======", ">>>>>>> REPLACE", "replace", "\r", "a\r", "\t", " ", "é \u202e", "```\r", "\x0c", "\u2028"),
        ]
    ),
    st.integers(0, 20_000).map(lambda length: "x" * length),
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(LINES, max_size=6), st.sampled_from(["", "\n"]))
NAMES = st.one_of(
    st.sampled_from(["train.py", "a b.py", "conf.yaml", 'q"`.py', "é.py"]), st.text(min_size=1, max_size=9)
)
BLOCKS = st.one_of(
    st.builds(lambda f, n, t, k: Symbol(file=f, name=n, text=t, nth=k), NAMES, NAMES, TEXTS, st.integers(0, 9)),
    st.builds(lambda f, s, t: Search(file=f, search=s, text=t), NAMES, TEXTS, TEXTS),
    st.builds(lambda f, t: Whole(file=f, text=t), NAMES, TEXTS),
)


def target(block: Block) -> object:
    """Return what may be there only once."""
    if isinstance(block, Symbol):
        return "symbol", block.file, block.name.replace(".<locals>", ""), block.nth
    return type(block), block.file, block.search if isinstance(block, Search) else ""


@given(st.lists(BLOCKS, min_size=1, max_size=4, unique_by=target))
def test_what_is_written_down_is_read_as_the_same_blocks(blocks: list[Block]) -> None:
    assert read_reply(render(blocks)).blocks == tuple(blocks)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        written = read_reply(text)
    except BadReply as one:
        refused = one
    else:
        assert written.blocks or written.cannot
        return
    assert refused.verdict.rung is Rung.REPLY
    assert refused.verdict.outcome is Outcome.FAILED
    assert "nothing applied" in refused.reason.text


@given(st.lists(st.sampled_from(["```", "````", "```python file=a.py symbol=f", "```replace", "x", "~~~", " ```"])))
def test_fences_in_any_order_are_read_or_refused(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        blocks = read_reply(text).blocks
    except BadReply:
        return
    assert len(blocks) == 1
    assert isinstance(blocks[0], Symbol)


def test_the_example_that_models_are_shown_is_read_as_it_is_meant() -> None:
    _, _, rest = GRAMMAR.partition("<example>\n")
    written = read_reply(rest.partition("</example>")[0])
    symbol, search = written.blocks
    assert isinstance(symbol, Symbol)
    assert (symbol.file, symbol.name) == ("net.py", "Net.__init__")
    assert search == Search(file="net.py", search="import torch\n", text="import math\n\nimport torch\n")
    assert written.prose == "The layer after `conv` is removed, and `head` gets what `conv` gives."


def test_a_small_model_is_told_and_shown_whole_files_first() -> None:
    kinds = [line for line in WHOLE_FIRST.splitlines() if line[:2] in ("1.", "2.", "3.")]
    assert [line.partition("`")[2].partition("`")[0] for line in kinds] == [
        "file=PATH whole",
        "file=PATH symbol=NAME",
        "file=PATH search",
    ]
    written = read_reply(WHOLE_FIRST.partition("<example>\n")[2].partition("</example>")[0])
    assert [type(block) for block in written.blocks] == [Whole]
    assert written.blocks[0].text.startswith("import math\n")
    assert max(map(len, WHOLE_FIRST.splitlines())) <= max(map(len, GRAMMAR.splitlines()))


def test_prose_is_kept_and_carriage_returns_around_blocks_do_not_matter() -> None:
    text = "First.\n\n```python file=a.py whole\nx = 1\n```\n\nThat is all."
    written = read_reply(text.replace("\n", "\r\n"))
    assert written.blocks == (Whole(file="a.py", text="x = 1\r\n"),)
    assert "First." in written.prose
    assert written.prose.endswith("That is all.")


def test_a_longer_fence_holds_shorter_ones() -> None:
    inner = "```python\nprint()\n```\n"
    (block,) = read_reply(f"````text file=notes.md whole\n{inner}````\n").blocks
    assert block == Whole(file="notes.md", text=inner)


def test_that_it_cannot_be_done_is_an_answer() -> None:
    written = read_reply("I looked at it.\nCANNOT: conv2 is all there is.\n")
    assert written.cannot == "conv2 is all there is."
    assert written.blocks == ()
    assert read_reply("CANNOT:\nit is needed\nelsewhere").cannot == "it is needed elsewhere"
    assert read_reply("CANNOT:").cannot == "no reason was given"


def test_a_reply_that_was_cut_off_is_never_a_patch() -> None:
    with pytest.raises(BadReply) as refused:
        read_reply("```python file=a.py whole\nx = 1\n```\n", cut_off=True, most_tokens=8192)
    assert str(refused.value) == "Reply cut off at 8,192 output tokens; nothing applied. Asking for fewer blocks."
    with pytest.raises(BadReply, match=r"^Reply cut off; nothing applied\. Asking for fewer blocks\.$"):
        read_reply("", cut_off=True)


@pytest.mark.parametrize(
    ("info", "word"),
    [
        ("python file=a.py file=b.py symbol=f", "file="),
        ("python file=a.py symbol=f whole", "whole"),
        ("python file=a.py search whole", "whole"),
        ("python file=a.py symbol=f nth=x", "nth=x"),
        ("python file=a.py symbol=f nth=0", "nth=0"),
        ("python file=a.py whole nth=1", "nth="),
        ('python file="a.py symbol=f', '"a.py'),
        ("python please file=a.py symbol=f", "please"),
        ("python file=a.py, symbol=f more", "more"),
    ],
)
def test_what_is_not_known_in_the_line_that_opens_a_block_is_named(info: str, word: str) -> None:
    with pytest.raises(BadReply, match="which is not known there") as refused:
        read_reply(f"```{info}\nx\n```\n")
    assert word in refused.value.reason.found


def test_a_search_block_takes_the_replacement_of_its_own_file() -> None:
    text = "```python file=a.py search\nx\n```\n```python file={} replace\ny\n```\n"
    assert read_reply(text.format("a.py")).blocks == (Search(file="a.py", search="x\n", text="y\n"),)
    with pytest.raises(BadReply, match="has no replace block right after it"):
        read_reply(text.format("b.py"))
