"""Laws of patches: all or nothing, in any order, there and back, and never outside."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.mage.patch.blocks import Author, Block, Patch, Search, Symbol, Whole
from etude.mage.patch.making import PatchRefused, make_patch, make_patch_of_trees, patched, reversed_patch
from etude.mage.patch.rendering import render
from etude.mage.patch.reply import read_reply
from etude.mage.sources.definitions import definitions, parsed
from etude.mage.sources.indenting import flush
from etude.mage.tree import Tree, digest_of

AUTHOR = Author(name="somebody")
ENDS = st.sampled_from(["\n", "\r\n"])
BODIES = st.sampled_from(
    [
        "return 1",
        'return """a\n  b\n"""',
        '"""Doc.\n\n    More.\n    """\n    return "é"',
        "x = [\n1,\n    ]\n    return x",
        "if x:\n\n        return 2  # c",
        "def inner():\n        return 3\n    return inner",
        "pass",
    ]
)
NAMES = ["f", "g", "h", "K.a", "K.b"]


def function(name: str, body: str) -> str:
    """Return a function's source at the left edge."""
    return f"def {name.rpartition('.')[2]}(x=0):\n    {body}\n"


@st.composite
def sources(draw: st.DrawFn) -> str:
    """Draw a file with all of ``NAMES``, in its own way."""
    end, bom, last = draw(ENDS), draw(st.sampled_from(["", "\ufeff"])), draw(st.booleans())
    parts = [f"# {name}\n{function(name, draw(BODIES))}" for name in NAMES[:3]]
    methods = [function(name, draw(st.sampled_from(["return 1", "pass", "y = 2\n    return y"]))) for name in NAMES[3:]]
    inner = "\n".join("".join(f"    {line}\n" for line in text.splitlines()) for text in methods)
    text = "\n\n".join([*parts, f"class K:\n{inner}", "x = 1\n"])
    return bom + (text if last else text.rstrip("\n")).replace("\n", end)


SYMBOLS = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, BODIES)).map(
    lambda bodies: [Symbol(file="a.py", name=name, text=function(name, body)) for name, body in bodies.items()]
)


@settings(max_examples=150)
@given(sources(), SYMBOLS)
def test_blocks_on_different_symbols_commute_and_are_where_they_belong(text: str, blocks: list[Block]) -> None:
    tree = Tree({"a.py": text.encode(), "b.py": b"other\n"})
    results = set()
    for order in itertools.islice(itertools.permutations(blocks), 6):
        results.add(put(tree, order))
    assert len(results) == 1
    found = results.pop()
    if found is None:
        return
    new = found.decode()
    assert new.startswith("\ufeff") == text.startswith("\ufeff")
    assert ("\r\n" in new) == ("\r\n" in text)
    assert new.count("\n") == new.count("\r\n") or "\r\n" not in text
    assert new.endswith("\n") == text.endswith("\n")
    by_name = {one.name: ast.dump(one.node) for one in definitions(parsed(new.removeprefix("\ufeff")))}
    was = {one.name: ast.dump(one.node) for one in definitions(parsed(text.removeprefix("\ufeff")))}
    for block in blocks:
        assert isinstance(block, Symbol)
        assert docless(by_name[block.name]) == docless(ast.dump(parsed(block.text).body[0]))
    changed = {block.name for block in blocks if isinstance(block, Symbol)}
    for name in NAMES:
        assert name in changed or by_name[name] == was[name]


def put(tree: Tree, blocks: Sequence[Block]) -> bytes | None:
    """Return the file after all blocks; None if they change nothing."""
    try:
        return patched(tree, make_patch(tree, blocks, author=AUTHOR)).files["a.py"]
    except PatchRefused as refused:
        if {reason.claim for reason in refused.reasons} <= {"a patch changes something"}:
            return None
        raise


def docless(dump: str) -> str:
    """Return a dump in which white space inside strings does not count: docstrings move with their code."""
    return "".join(dump.replace("\\n", " ").split())


TREES = st.dictionaries(st.sampled_from(["a.py", "b.py", "c/d.py"]), sources().map(str.encode), max_size=3).map(Tree)


@given(TREES, TREES)
def test_a_patch_of_trees_leads_there_and_back(base: Tree, new: Tree) -> None:
    try:
        patch = make_patch_of_trees(base, new, AUTHOR)
    except PatchRefused:
        assert base == new
        return
    assert patched(base, patch) == new
    back = reversed_patch(patch)
    assert patched(new, back) == base
    assert reversed_patch(back).diff == patch.diff


@given(TREES)
def test_an_empty_patch_changes_no_byte(tree: Tree) -> None:
    empty = Patch(base=tree.digest, result=tree.digest, diff="", digest=digest_of(b""), author=AUTHOR)
    assert patched(tree, empty) == tree


LINES = st.lists(st.sampled_from(["a", "b", "  a", "a ", "", "é"]), max_size=12).map(
    lambda lines: [f"{x}\n" for x in lines]
)


@settings(max_examples=200)
@given(LINES, st.lists(st.sampled_from(["a\n", "b\n", "  a\n", "é\n", "c\n"]), min_size=1, max_size=3))
def test_a_search_changes_the_one_place_where_it_stands_or_no_byte(lines: list[str], wanted: list[str]) -> None:
    tree = Tree({"a.txt": "".join(lines).encode()})
    size = len(wanted)
    exact = [n for n in range(len(lines)) if lines[n : n + size] == wanted]
    loose = [n for n in range(len(lines)) if [x.rstrip() for x in lines[n : n + size]] == [x.rstrip() for x in wanted]]
    places = exact or loose
    block = Search(file="a.txt", search="".join(wanted), text="new\n")
    if len(places) != 1:
        with pytest.raises(PatchRefused, match="not found" if not places else f"found {len(places)} times"):
            make_patch(tree, [block], author=AUTHOR)
        return
    patch = make_patch(tree, [block], author=AUTHOR)
    (at,) = places
    assert patched(tree, patch).text("a.txt") == "".join([*lines[:at], "new\n", *lines[at + size :]])
    assert bool(patch.mended) is not bool(exact)


PARTS = st.sampled_from(
    ["..", ".", "", "a", "A", "b.py", "B.py", "~", "C:", "\\", "\0", ".git", "con", "x ", "é", "e\u0301"]
)


@settings(max_examples=300)
@given(st.one_of(st.lists(PARTS, min_size=1, max_size=4).map("/".join), st.text(max_size=12)))
def test_a_block_never_leads_outside(path: str) -> None:
    base = Tree({"a/b.py": b"x = 1\n"})
    try:
        new = patched(base, make_patch(base, [Whole(file=path, text="y = 2\n")], author=AUTHOR))
    except PatchRefused:
        return
    place = PurePosixPath(path)
    assert place.as_posix() == path
    assert not place.is_absolute()
    assert ".." not in place.parts
    assert "\\" not in path
    assert new.files[path] == b"y = 2\n"
    folded = [one.casefold() for one in new]
    assert len(set(folded)) == len(folded)


@given(st.text())
def test_any_text_as_a_symbol_block_is_that_definition_or_refused(text: str) -> None:
    tree = Tree({"a.py": b"def f():\n    return 1\n\n\nx = 1\n"})
    try:
        new = patched(tree, make_patch(tree, [Symbol(file="a.py", name="f", text=text)], author=AUTHOR))
    except PatchRefused:
        return
    assert [one.name for one in definitions(parsed(new.text("a.py")))] == ["f"]
    assert new.text("a.py").endswith("\n\n\nx = 1\n")


@given(SYMBOLS)
def test_what_is_rendered_read_and_applied_is_what_was_meant(blocks: list[Block]) -> None:
    text = "\n\n".join(
        [*(function(name, "return 0") for name in NAMES[:3]), "class K:\n    def a(self): 0\n    def b(self): 0\n"]
    )
    tree = Tree({"a.py": text.encode()})
    if not blocks:
        return
    read = read_reply(render(blocks)).blocks
    assert make_patch(tree, read, author=AUTHOR).diff == make_patch(tree, blocks, author=AUTHOR).diff


@given(BODIES, st.sampled_from(["", "  ", "    ", "\t", "            "]))
def test_a_source_at_any_indentation_comes_back_to_the_left_edge(body: str, indent: str) -> None:
    at_left = function("f", body if '"""' not in body else "return 1")
    moved = "\n".join(indent + line if line.strip() else line for line in at_left.split("\n"))
    assert flush(moved) == at_left
