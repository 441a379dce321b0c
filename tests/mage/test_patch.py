"""Blocks are placed without doubt, or refused with what is there instead; files keep their own ways."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from bases import CNN_FILES

from etude.mage.patch.blocks import Author, Block, Patch, Search, Symbol, Whole
from etude.mage.patch.elisions import elided
from etude.mage.patch.making import PatchRefused, make_patch, make_patch_of_trees, patched, reversed_patch
from etude.mage.patch.paths import inside
from etude.mage.tree import Tree, digest_of
from etude.mage.verdicts import Outcome, Rung

AUTHOR = Author(name="somebody")


def tree_of(**files: str | bytes) -> Tree:
    """Return a tree of Python files by name."""
    return Tree({f"{name}.py": text if isinstance(text, bytes) else text.encode() for name, text in files.items()})


def put(tree: Tree, *blocks: Block, lost_ok: Sequence[str] = ()) -> Tree:
    """Return what blocks make of a tree."""
    patch = make_patch(tree, blocks, author=AUTHOR, lost_ok=lost_ok)
    assert patched(patched(tree, patch), reversed_patch(patch)) == tree
    return patched(tree, patch)


def refusal(tree: Tree, *blocks: Block, **more: object) -> PatchRefused:
    """Return why blocks are refused."""
    with pytest.raises(PatchRefused) as refused:
        make_patch(tree, blocks, author=AUTHOR, **more)  # type: ignore[arg-type]
    return refused.value


CNN = Tree({path: text.encode() for path, text in CNN_FILES.items()})


# --- symbols --------------------------------------------------------------------------------------

PLACES = '''\
# above f
@first
@second(1)
def f(x):
    """What it does.

    And more.
    """
    def g():
        return 1
    return g() + x
    # behind the last statement


class C:
    async def run(self):
        await self.x

    class D:
        def deep(self): return 1

try:
    import fast
except ImportError:
    def slow():
        return 2
else:
    with open("x") as one:
        def third():
            return 3
match 1:
    case 1:
        def fourth():
            return 4
'''


@pytest.mark.parametrize(
    ("name", "text", "gone", "comes"),
    [
        ("f.g", "def g():\n    return 7\n", "        return 1\n", "        return 7\n"),
        ("f.<locals>.g", "def g():\n    return 7\n", "        return 1\n", "        return 7\n"),
        ("C.run", "async def run(self):\n    await self.y\n", "self.x", "self.y"),
        (
            "C.run",
            "def run(self):\n    self.y()\n",
            "    async def run(self):\n        await self.x",
            "    def run(self):\n        self.y()",
        ),
        ("C.D.deep", "def deep(self):\n    return 9\n", " return 1\n\ntry", "\n            return 9\n\ntry"),
        ("slow", "def slow():\n    return 8\n", "return 2", "return 8"),
        ("third", "def third():\n    return 8\n", "return 3", "return 8"),
        ("fourth", "      def fourth():\n          return 8\n", "return 4", "return 8"),
        (
            "f",
            "@first\n@second(2)\ndef f(x):\n    return x\n",
            PLACES[10 : PLACES.index("    # behind")],
            "@first\n@second(2)\ndef f(x):\n    return x\n",
        ),
    ],
)
def test_a_definition_is_found_wherever_it_is(name: str, text: str, gone: str, comes: str) -> None:
    new = put(tree_of(a=PLACES), Symbol(file="a.py", name=name, text=text)).text("a.py")
    assert new == PLACES.replace(gone, comes, 1)


def test_a_definition_s_comments_above_stay_and_are_not_doubled() -> None:
    base = tree_of(a="# why\n# and how\ndef f():\n    return 1\n")
    new = put(base, Symbol(file="a.py", name="f", text="# why\n# and how\ndef f():\n    return 2\n"))
    assert new.text("a.py") == "# why\n# and how\ndef f():\n    return 2\n"
    new = put(base, Symbol(file="a.py", name="f", text="# then\ndef f():\n    return 2\n"))
    assert new.text("a.py") == "# why\n# and how\n# then\ndef f():\n    return 2\n"


OVERLOADED = """\
class P:
    @overload
    def f(self, x: int) -> int: ...
    @overload
    def f(self, x: str) -> str: ...
    def f(self, x):
        return x

    @property
    def size(self):
        return self._size

    @size.setter
    def size(self, value):
        self._size = value
"""


def test_of_several_definitions_the_reply_has_to_say_which() -> None:
    base = tree_of(a=OVERLOADED)
    block = Symbol(file="a.py", name="P.f", text="def f(self, x):\n    return -x\n")
    assert str(refusal(base, block)) == (
        "`P.f` is defined 3 times in a.py (lines 2, 4, 6); nothing applied. Say which by nth=1 to nth=3."
    )
    third = Symbol(file="a.py", name="P.f", text=block.text, nth=3)
    assert put(base, third).text("a.py") == OVERLOADED.replace("        return x\n", "        return -x\n")
    setter = "@size.setter\ndef size(self, value):\n    self._size = 2 * value\n"
    new = put(base, Symbol(file="a.py", name="P.size", text=setter, nth=2)).text("a.py")
    assert new == OVERLOADED.replace("= value", "= 2 * value")
    beyond = Symbol(file="a.py", name="P.f", text=block.text, nth=4)
    assert "no definition number 4 in a.py: there are 3" in str(refusal(base, beyond))


def test_a_decorator_is_not_lost_silently() -> None:
    base = tree_of(a="@no_grad()\ndef f():\n    return 1\n")
    bare = Symbol(file="a.py", name="f", text="def f():\n    return 2\n")
    assert "is decorated with @no_grad(), and the block has no decorator" in str(refusal(base, bare))
    assert put(base, bare, lost_ok=["no_grad"]).text("a.py") == "def f():\n    return 2\n"
    assert put(base, Search(file="a.py", search="@no_grad()\n", text="")).text("a.py") == "def f():\n    return 1\n"


STRINGS = '''\
class A:
    def f(self):
        """Say it.

        In two lines.
        """
        text = """
        kept
    as it is
"""
        return f"""{text}
  and {
            text
        }
"""
'''


def test_strings_keep_their_meaning_when_a_method_is_moved_to_its_indentation() -> None:
    at_left = '''\
def f(self):
    """Say it.

    In two lines.
    """
    text = """
        kept
    as it is
"""
    return f"""{text}
  and {
            text
        }
""".strip()
'''
    new = put(tree_of(a=STRINGS), Symbol(file="a.py", name="A.f", text=at_left)).text("a.py")
    assert new == STRINGS.removesuffix('"""\n') + '""".strip()\n'
    # Somebody who moved the whole text to the left moved the strings as well.
    moved = "\n".join(line.removeprefix("    ") for line in STRINGS.split("\n")[1:-1])
    moved = moved.replace('\n"""\n    return', '\n"""\n    print()\n    return')
    new = put(tree_of(a=STRINGS), Symbol(file="a.py", name="A.f", text=moved)).text("a.py")
    assert "        print()\n" in new
    fresh = 'def f(self):\n    return """\n  two\n"""\n'
    new = put(tree_of(a=STRINGS), Symbol(file="a.py", name="A.f", text=fresh)).text("a.py")
    assert new == 'class A:\n    def f(self):\n        return """\n  two\n"""\n'


def test_tabs_and_lines_inside_brackets_survive() -> None:
    base = tree_of(a="class A:\n\tdef f(self):\n\t\treturn 1\n\n\tdef g(self):\n\t\treturn 2\n")
    new = put(base, Symbol(file="a.py", name="A.f", text="def f(self):\n\treturn (\n3\n\t)\n")).text("a.py")
    assert new == "class A:\n\tdef f(self):\n\t\treturn (\n\t3\n\t\t)\n\n\tdef g(self):\n\t\treturn 2\n"


@pytest.mark.parametrize(
    ("name", "says", "found"),
    [
        ("forward", "Did you mean `CNN.forward`?", "CNN.forward"),
        ("CNN.foward", "Did you mean `CNN.forward`?", "CNN.forward"),
        ("zzz", "Did you mean `CNN` or `CNN.__init__` or `CNN.forward`?", "CNN, CNN.__init__, CNN.forward"),
    ],
)
def test_a_symbol_that_is_missing_is_told_with_the_nearest_names(name: str, says: str, found: str) -> None:
    refused = refusal(CNN, Symbol(file="train.py", name=name, text="def forward():\n    pass\n"))
    assert str(refused).startswith(f"train.py has no definition `{name}`; nothing applied.")
    assert says in str(refused)
    assert refused.reasons[0].found.startswith(found)


def test_a_symbol_is_in_a_python_file_that_can_be_read() -> None:
    base = Tree({"a.yaml": b"f: 1\n", "b.py": b"def f(:\n"})
    assert "a.yaml is no Python" in str(refusal(base, Symbol(file="a.yaml", name="f", text="def f(): pass\n")))
    assert "b.py cannot be read" in str(refusal(base, Symbol(file="b.py", name="f", text="def f(): pass\n")))


def test_a_block_whose_indentation_does_not_fit_together_is_no_python() -> None:
    refused = refusal(CNN, Symbol(file="train.py", name="CNN.forward", text="    def forward(self, x):\n  return x\n"))
    assert refused.rung is Rung.PARSE
    assert "is no Python" in str(refused)


# --- search ---------------------------------------------------------------------------------------

TRAIN = b"".join(b"loss.backward()\n" if n in (88, 131, 174) else b"line %d\n" % n for n in range(1, 200))


def test_a_search_text_that_is_found_several_times_is_told_word_for_word() -> None:
    refused = refusal(tree_of(train=TRAIN), Search(file="train.py", search="loss.backward()\n", text=""))
    assert str(refused) == "Search text found 3 times in train.py (lines 88, 131, 174); nothing applied."
    part = refusal(tree_of(train=TRAIN), Search(file="train.py", search="loss.back", text=""))
    assert str(part) == str(refused)


def test_texts_that_overlap_themselves_count_each_time() -> None:
    refused = refusal(tree_of(a="x\nx\nx\n"), Search(file="a.py", search="x\nx\n", text=""))
    assert "found 2 times in a.py (lines 1, 2)" in str(refused)
    assert "found 2 times in a.py (lines 1, 1)" in str(
        refusal(tree_of(a="aaa\n"), Search(file="a.py", search="aa", text=""))
    )


def test_a_search_text_that_is_not_there_is_told_with_the_nearest_lines() -> None:
    refused = refusal(CNN, Search(file="train.py", search="        x = F.relu(self.fc3(x))\n", text=""))
    text = str(refused)
    assert text.startswith("Search text not found in train.py; nothing applied. What is most like it:\n")
    assert "x = F.relu(self.fc1(x))" in text
    assert text.count("\n") == 3
    assert "nearest: line" in refused.reasons[0].found


def test_whole_lines_do_not_match_the_end_of_a_longer_line() -> None:
    base = tree_of(a="if x:\n    y = 1\n")
    refused = refusal(base, Search(file="a.py", search="y = 1\n", text="y = 2\nz = 3\n"))
    assert "It stands in line 2 with another indentation" in str(refused)
    assert put(base, Search(file="a.py", search="y = 1", text="y = 2")).text("a.py") == "if x:\n    y = 2\n"


def test_white_space_at_the_ends_of_lines_is_tolerated_and_told() -> None:
    base = tree_of(a="a = 1  \nb = 2\nc = 3\n")
    patch = make_patch(base, [Search(file="a.py", search="a = 1\nb = 2 \n", text="d = 4\n")], author=AUTHOR)
    assert patched(base, patch).text("a.py") == "d = 4\nc = 3\n"
    assert patch.mended == ("a.py, line 1: white space at the ends of lines",)
    twice = tree_of(a="a = 1 \na = 1\t\n")
    assert "found 2 times" in str(refusal(twice, Search(file="a.py", search="a = 1\n", text="")))
    exact = tree_of(a="a = 1 \na = 1\n")
    assert put(exact, Search(file="a.py", search="a = 1\n", text="")).text("a.py") == "a = 1 \n"


def test_a_search_text_has_to_say_something() -> None:
    for nothing in ("", "\n", "  \n\t\n"):
        assert "is empty" in str(refusal(tree_of(a="x = 1\n\n"), Search(file="a.py", search=nothing, text="y\n")))


# --- how files are written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        Symbol(file="a.py", name="f", text="def f():\n    return 'ü'\n"),
        Search(file="a.py", search="    return 'é'\n", text="    return 'ü'\n"),
        Search(file="a.py", search="'é'", text="'ü'"),
        Whole(file="a.py", text="x = 1\ndef f():\n    return 'ü'\n"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_byte_order_marks_and_an_unended_last_line_survive(
    block: Block, end: str, bom: str, last: bool
) -> None:
    text = bom + end.join(["x = 1", "def f():", "    return 'é'"]) + end * last
    new = put(tree_of(a=text), block).text("a.py")
    assert new == text.replace("é", "ü")


def test_carriage_returns_of_a_reply_do_not_get_into_a_file_without() -> None:
    base = tree_of(a="def f():\n    return 1\n")
    patch = make_patch(base, [Symbol(file="a.py", name="f", text="def f():\r\n    return 2\r\n")], author=AUTHOR)
    assert patched(base, patch).text("a.py") == "def f():\n    return 2\n"
    assert patch.mended == ("a.py, line 1: line ends",)


def test_lines_that_stay_keep_their_own_ends_in_a_mixed_file() -> None:
    base = tree_of(a="def f():\r\n    x = 1\n    y = 2\r\n    return x\n")
    new = put(base, Symbol(file="a.py", name="f", text="def f():\n    x = 1\n    y = 3\n    return x\n"))
    assert new.files["a.py"].startswith(b"def f():\r\n    x = 1\n    y = 3")
    assert new.files["a.py"].endswith(b"    return x\n")


def test_a_file_that_is_no_text_is_not_changed() -> None:
    base = Tree({"a.py": "# -*- coding: latin-1 -*-\n# é\n".encode("latin-1"), "b.bin": b"x\0y"})
    assert "a.py is no UTF-8" in str(refusal(base, Search(file="a.py", search="# \n", text="")))
    assert "b.bin holds a zero byte" in str(refusal(base, Whole(file="b.bin", text="x")))


# --- all or nothing -------------------------------------------------------------------------------


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_applied() -> None:
    base = tree_of(a="x = 1\ny = 2\n", b="z = 3\n")
    refused = refusal(
        base,
        Search(file="a.py", search="x = 1\n", text="x = 2\n"),
        Search(file="a.py", search="w = 1\n", text=""),
        Symbol(file="a.py", name="f", text="def f(): pass\n"),
        Whole(file="../c.py", text=""),
    )
    assert len(refused.reasons) == 3
    assert refused.verdict.outcome is Outcome.FAILED
    assert refused.verdict.rung is Rung.APPLY
    assert base == tree_of(a="x = 1\ny = 2\n", b="z = 3\n")


def test_blocks_about_the_same_lines_are_refused() -> None:
    refused = refusal(
        CNN,
        Symbol(file="train.py", name="CNN.forward", text="def forward(self, x):\n    return x\n"),
        Search(file="train.py", search="        x = self.dropout(x)\n", text=""),
    )
    assert str(refused) == (
        "Two blocks change the same lines of train.py (line 37); nothing applied. Send one for both."
    )
    both = refusal(CNN, Whole(file="train.py", text="x = 1\n"), Search(file="train.py", search="EPOCHS = 2\n", text=""))
    assert "a block for all of train.py and 1 more" in str(both)


def test_a_patch_changes_something() -> None:
    base = tree_of(a="x = 1\n")
    for blocks in ([], [Whole(file="a.py", text="x = 1\n")], [Search(file="a.py", search="x = 1\n", text="x = 1\n")]):
        with pytest.raises(PatchRefused, match="nothing"):
            make_patch(base, blocks, author=AUTHOR)


def test_a_file_that_is_not_allowed_goes_to_a_person_word_for_word() -> None:
    block = Search(file="evaluate.py", search="    model.eval()\n", text="")
    refused = refusal(CNN, block, allowed=["train.py"])
    assert (
        str(refused) == "This patch changes evaluate.py, which the plan does not allow. Sent to you, not to the model."
    )
    assert refused.outcome is Outcome.FOR_A_PERSON
    assert make_patch(CNN, [block], author=AUTHOR, allowed=["evaluate.py"]).files == ("evaluate.py",)


def test_a_definition_is_not_lost_unless_the_plan_names_it() -> None:
    base = tree_of(
        a="def f():\n    def inner():\n        return 1\n    return inner\n\n\n"
        "class C:\n    def m(self):\n        pass\n"
    )
    assert "loses `f`, `C`, which" in str(refusal(base, Whole(file="a.py", text="x = 1\n")))
    kept = "class C:\n    def m(self):\n        pass\n"
    assert put(base, Whole(file="a.py", text=kept), lost_ok=["f"]).text("a.py") == kept
    assert "loses `C.m`" in str(refusal(base, Symbol(file="a.py", name="C", text="class C:\n    x = 1\n")))
    gone = put(base, Symbol(file="a.py", name="C", text="class C:\n    x = 1\n"), lost_ok=["m"])
    assert gone.text("a.py").endswith("class C:\n    x = 1\n")
    inner = put(base, Symbol(file="a.py", name="f", text="def f():\n    return 1\n"))
    assert "inner" not in inner.text("a.py")


def test_a_new_file_may_come() -> None:
    new = put(CNN, Whole(file="models/small.py", text="x = 1"))
    assert new.files["models/small.py"] == b"x = 1"


# --- elisions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "# ... rest unchanged",
        "# ...",
        "# … (same as before)",
        "# existing code here",
        "# [existing code]",
        "# rest of the code remains the same",
        "# The rest of the class is unchanged",
        "# rest of the function",
        "# other methods unchanged",
        "# (previous implementation goes here)",
        "# original training code here",
        "# remaining layers stay the same",
        "# code omitted for brevity",
        "# Keep the rest as is",
        "# same as before ...",
        "# unchanged",
        "# No changes",
    ],
)
def test_a_comment_in_the_place_of_code_is_an_elision(line: str) -> None:
    text = f"def f(x):\n    y = x\n    {line}\n"
    base = "def f(x):\n    y = x + 1\n    z = y\n    return z\n"
    assert elided(text, base, python=True) == [(3, line)]
    refused = refusal(tree_of(a=base), Symbol(file="a.py", name="f", text=text))
    assert refused.rung is Rung.REPLY
    assert line in str(refused)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    # the rest of the batch is dropped\n    return x\n",
        "def f(x):\n    # unchanged: only conv3 is another\n    return x\n",
        "def f(x):\n    # unchanged\n    return x\n",
        "def f(x):\n    return x  # same as before\n",
        "def f(x):\n    # previous hidden state, or zeros\n    return x\n",
        "def f(x):\n    # keep the remaining mass\n    return x\n",
        "def f(x):\n    # existing rows win\n    return x\n",
        'def f(x):\n    return "# ... rest unchanged"\n',
        "def f(x):\n    return x[..., 0]\n",
        "def f(x):\n    # wait for it ...\n    return x\n",
        "def f(x):\n    # other features are scaled here\n    return x\n",
    ],
)
def test_a_remark_is_no_elision(text: str) -> None:
    assert elided(text, "def f(x):\n    return x + 1\n", python=True) == []


def test_what_the_base_has_itself_is_no_elision() -> None:
    base = "class P(Protocol):\n    def f(self): ...\n\n    # ... and so on\n    def g(self):\n        return 1\n"
    assert elided(base.replace("return 1", "return 2"), base, python=True) == []
    assert elided("class P(Protocol):\n    def new(self): ...\n", base, python=True) == []
    assert elided("class P(Protocol):\n    def g(self): ...\n", base, python=True) == [(2, "...")]
    assert elided("a: 1\n...\n", "a: 2\nb: 3\n", python=False) == [(2, "...")]
    assert elided("a: 1\n# rest of the file unchanged\n", "a: 2\nb: 3\n", python=False)


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../x.py", "leads out"),
        ("a/../../x.py", "leads out"),
        ("/etc/passwd", "is absolute"),
        ("//host/x.py", "is absolute"),
        ("C:\\x.py", "names a drive"),
        ("c:x.py", "names a drive"),
        ("a\\b.py", "has a backslash"),
        ("a\0.py", "holds a zero byte"),
        ("a\n.py", "has a character"),
        ("train.py:stream", "has a character"),
        ("./x.py", "has an empty part"),
        ("a//x.py", "has an empty part"),
        ("a/", "has an empty part"),
        ("", "is empty"),
        ("x.py.", "ends in a dot or a blank"),
        ("x.py ", "ends in a dot or a blank"),
        ("aux.py", "is the name of a device"),
        ("Nul", "is the name of a device"),
        (".git/config", "git keeps"),
        ("a/.GIT/config", "git keeps"),
        (".g\u200cit/config", "that nobody sees"),
        ("a\u202eyp.x", "that nobody sees"),
        ("Train.py", "differs from train.py"),
        ("LIB/new.py", "differs from lib"),
        ("lib/E\u0301.py", "differs from lib/\u00e9.py"),
        ("train.py/x.py", "is in train.py, which is a file"),
        ("lib", "is a folder"),
    ],
)
def test_a_block_can_never_lead_outside(path: str, why: str) -> None:
    base = Tree({"train.py": b"x = 1\n", "lib/a.py": b"", "lib/\u00e9.py": b""})
    refused = refusal(base, Whole(file=path, text="y = 1\n"))
    assert why in str(refused)
    with pytest.raises(PatchRefused):
        make_patch_of_trees(base, base.with_files({path: b"y = 1\n"}), AUTHOR)


def test_two_new_files_that_some_systems_take_for_one_are_refused() -> None:
    refused = refusal(CNN, Whole(file="new.py", text="x = 1\n"), Whole(file="NEW.py", text="x = 2\n"))
    assert len(refused.reasons) == 2


def test_a_symbolic_link_on_the_way_is_refused_on_disk(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    (project / "link").symlink_to(elsewhere)
    (project / "file.py").symlink_to(elsewhere / "file.py")
    assert inside(project, "a/b.py") == project.resolve() / "a" / "b.py"
    for path in ("link/x.py", "file.py"):
        with pytest.raises(PatchRefused, match="leads through the symbolic link"):
            inside(project, path)
    with pytest.raises(PatchRefused, match="leads out"):
        inside(project, "../elsewhere/x.py")


# --- patches as values ----------------------------------------------------------------------------


def test_a_person_s_own_edit_is_a_patch_as_others_are() -> None:
    new = CNN.with_files({"train.py": CNN.files["train.py"].replace(b"EPOCHS = 2", b"EPOCHS = 3"), "evaluate.py": None})
    patch = make_patch_of_trees(CNN, new, AUTHOR)
    assert patched(CNN, patch) == new
    assert patch.files == ("evaluate.py", "train.py")
    assert patch.digest == digest_of(patch.diff.encode())
    assert patched(new, reversed_patch(patch)) == CNN
    with pytest.raises(PatchRefused, match="change nothing"):
        make_patch_of_trees(CNN, CNN, AUTHOR)


def test_a_patch_applies_to_its_own_base_and_leads_to_one_result() -> None:
    import msgspec

    patch = make_patch(CNN, [Search(file="train.py", search="EPOCHS = 2\n", text="EPOCHS = 3\n")], author=AUTHOR)
    with pytest.raises(PatchRefused, match="was made for another tree"):
        patched(CNN.with_files({"notes.md": b"x"}), patch)
    damaged = msgspec.structs.replace(patch, diff=patch.diff.replace("EPOCHS = 3", "EPOCHS = 9"))
    with pytest.raises(PatchRefused, match="does not lead where it led"):
        patched(CNN, damaged)
    assert msgspec.json.decode(msgspec.json.encode(patch), type=Patch) == patch


def test_a_long_file_is_not_written_again_by_a_model_that_gets_pieces_right() -> None:
    long, short = "x = 0\n" * 151, "x = 0\n" * 150
    tree = Tree({"a.py": long.encode(), "b.py": short.encode(), "c.yaml": b"a: 1\n" * 200})
    refused = refusal(tree, Whole(file="a.py", text=f"{long}y = 1\n"), most_whole=150)
    assert refused.rung is Rung.APPLY
    assert str(refused) == (
        "The block for a.py holds all of a file of 151 lines; nothing applied. Files of more than 150 lines are "
        "changed in pieces: send a `symbol=NAME` block for each definition that changes, and a `search` block with its "
        "`replace` for other lines."
    )
    told = str(refusal(tree, Whole(file="c.yaml", text="a: 2\n"), most_whole=150))
    assert told.endswith("are changed in pieces: send a `search` block with its `replace` for other lines.")
    new = "x = 0\n" * 151 + "y = 1\n"
    for file in ("b.py", "new.py"):  # what is short may be long afterwards
        assert make_patch(tree, [Whole(file=file, text=new)], author=AUTHOR, most_whole=150).files == (file,)
    assert make_patch(tree, [Whole(file="a.py", text=new)], author=AUTHOR).files == ("a.py",)  # a person's
