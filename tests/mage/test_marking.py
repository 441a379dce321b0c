"""Marks: what is found, what it belongs to, and what only looks like a mark."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_programs import CNN, SAGE, higgs, tree_of

from etude.mage.annotations import Annotation, Mark, Remark
from etude.mage.near import distance, nearest
from etude.mage.plan.marking import find_marks
from etude.mage.tree import Tree, digest_of


def marks_in(text: str | bytes) -> tuple[tuple[Annotation, ...], tuple[Remark, ...]]:
    """Return what is found in one file."""
    return find_marks(Tree({"train.py": text if isinstance(text, bytes) else text.encode()}))


def only(text: str | bytes) -> Annotation:
    """Return the one mark of a file without any remark."""
    found, remarks = marks_in(text)
    assert [str(one) for one in remarks] == []
    assert len(found) == 1
    return found[0]


def said(text: str | bytes) -> list[str]:
    """Return what is said of a file in which nothing is found."""
    found, remarks = marks_in(text)
    assert found == ()
    return [str(one) for one in remarks]


# --- the paper's spellings ------------------------------------------------------------------------


def test_listing_1_has_two_components() -> None:
    found, remarks = marks_in(CNN)
    assert remarks == ()
    assert [(one.names, one.scope, one.statement, one.along) for one in found] == [
        (("conv2",), "CIFAR10CNN.__init__", (14, 14), ()),
        (("fc1",), "CIFAR10CNN.__init__", (17, 17), ()),
    ]
    assert found[0].digest == digest_of(CNN.encode())
    assert found[0].text == "#ABLATABLE_COMPONENT"


def test_listing_3_has_one_hint_above_its_class() -> None:
    hint = only(SAGE)
    assert hint.mark is Mark.HINT
    assert hint.names == ("GraphSAGE",)
    lines = SAGE.splitlines()
    assert lines[hint.lines[0] - 1] == "#ABLATION_HINT_START"
    assert lines[hint.lines[1] - 1] == "# ABLATION_HINT_END"
    assert hint.text.splitlines()[1] == "- the second layer removed"
    assert hint.statement is not None
    assert lines[hint.statement[0] - 1].startswith("class GraphSAGE")


def test_listing_4_has_one_hint_inside_a_function() -> None:
    hint = only(higgs())
    assert hint.scope == "main"
    assert hint.names == ("Label",)
    assert hint.text.splitlines()[1] == "- remove 'DER_mass_transverse_met_lep'"


@pytest.mark.parametrize("mark", ["#ABLATABLE_COMPONENT", "# ABLATABLE_COMPONENT", "##  ABLATABLE_COMPONENT  "])
def test_blanks_and_signs_do_not_matter(mark: str) -> None:
    assert only(f"x = 1  {mark}\n").names == ("x",)


def test_brackets_say_a_name_and_what_goes_along() -> None:
    found = only("net = make()  # ABLATABLE_COMPONENT (name=conv2, with=[pool, 'bn2'])\n")
    assert (found.names, found.along) == (("conv2",), ("pool", "bn2"))
    assert only("a = f()  # ABLATABLE_COMPONENT(with=none)\n").along == ("none",)
    assert only("a = f()  # ABLATABLE_COMPONENT(name='encoder.block')\n").names == ("encoder.block",)


def test_a_mark_may_stand_beside_other_comments() -> None:
    assert only("a = f()  # type: ignore  # ABLATABLE_COMPONENT\n").names == ("a",)
    assert only("a = f()  # ABLATABLE_COMPONENT # noqa: E501\n").names == ("a",)


def test_text_inside_strings_is_no_mark() -> None:
    text = (
        'a = "#ABLATABLE_COMPONENT"\nb = """\n# ABLATION_HINT_START\n# ABLATABLE_CONPONENT\n"""\n'
        'c = f"{a}#ABLATABLE_COMPONENT"\n'
    )
    assert said(text) == []


# --- what a mark belongs to -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("self.conv2 = nn.Conv2d(3, 4, 1)", ("conv2",)),
        ("self.encoder.conv2 = nn.Conv2d(3, 4, 1)", ("encoder.conv2",)),
        ("model.fc = nn.Linear(3, 4)", ("fc",)),
        ("a, (b, *c) = f()", ("a", "b", "c")),
        ("a = b = f()", ("a", "b")),
        ("a: int = 3", ("a",)),
        ("loss += 0.1 * penalty(w)", ("loss",)),
        ("data['age'] = data['age'].clip(0, 90)", ("age",)),
        ("rows[i] = 3", ("rows",)),
        ("scheduler.step()", ("scheduler.step",)),
        ("self.warm_up()", ("warm_up",)),
        ("print(x)", ("print",)),
        ("make()[0].step()", ("step",)),
        ("größe = maß(3)", ("größe",)),
        ("f = lambda x: x + 1", ("f",)),
    ],
)
def test_a_statement_has_the_names_that_a_user_would_give_it(statement: str, names: tuple[str, ...]) -> None:
    assert only(f"{statement}  # ABLATABLE_COMPONENT\n").names == names
    assert only(f"# ABLATABLE_COMPONENT\n{statement}\n").names == names


def test_a_function_of_a_library_is_called_by_its_last_name() -> None:
    found = only("from torch import nn\nnn.utils.clip_grad_norm_(p, 1.0)  # ABLATABLE_COMPONENT\n")
    assert found.names == ("clip_grad_norm_",)


@pytest.mark.parametrize("line", [2, 3, 4])
def test_behind_any_line_of_a_statement_all_of_it_is_meant(line: int) -> None:
    lines = ["import x", "self.conv2 = nn.Conv2d(", "    32, 64,", "    kernel_size=3)", "y = 1"]
    lines[line - 1] += "  # ABLATABLE_COMPONENT"
    found = only("\n".join(lines))
    assert (found.names, found.statement, found.lines) == (("conv2",), (2, 4), (line, line))


def test_inside_brackets_the_statement_around_is_meant() -> None:
    found = only("self.conv2 = nn.Conv2d(\n    # ABLATABLE_COMPONENT\n    32, 64, 3)\n")
    assert (found.names, found.statement) == (("conv2",), (1, 3))


def test_on_a_line_of_a_list_what_stands_there_is_meant() -> None:
    text = (
        "features = [\n    'age',\n    'fare',  # ABLATABLE_COMPONENT\n    # ABLATABLE_COMPONENT\n    'sex',\n]\n"
        "self.net = nn.Sequential(\n    nn.Linear(3, 3),\n    nn.ReLU(),  # ABLATABLE_COMPONENT\n)\n"
        "net = nn.Sequential(OrderedDict([\n    ('fc', nn.Linear(3, 3)),\n"
        "    ('drop', nn.Dropout()),  # ABLATABLE_COMPONENT\n]))\n"
    )
    found, remarks = marks_in(text)
    assert remarks == ()
    assert [one.names for one in found] == [("fare",), ("sex",), ("net.1",), ("drop",)]


def test_between_a_comment_and_its_statement_may_be_others() -> None:
    found = only("# ABLATABLE_COMPONENT\n\n# The second one.\n\nx = f()\n")
    assert (found.names, found.statement, found.lines) == (("x",), (5, 5), (1, 1))


def test_scopes_are_qualified_names() -> None:
    text = (
        "class Net:\n    class Block:\n        def make(self):\n            async def inner():\n"
        "                x = 1  # ABLATABLE_COMPONENT\n"
    )
    assert only(text).scope == "Net.Block.make.inner"


def test_definitions_may_be_marked_at_their_heads_and_decorators() -> None:
    assert only("class Block(nn.Module):  # ABLATABLE_COMPONENT\n    x = 1\n").names == ("Block",)
    assert only("# ABLATABLE_COMPONENT\n@decorated\nasync def augment(x):\n    return x\n").statement == (2, 4)
    found = only("class A:\n    @decorated  # ABLATABLE_COMPONENT\n    def augment(x):\n        return x\n")
    assert (found.names, found.scope) == (("augment",), "A")


def test_bodies_of_classes_and_cases_are_statements_too() -> None:
    assert only("class Config:\n    dropout: float = 0.5  # ABLATABLE_COMPONENT\n").scope == "Config"
    text = "match kind:\n    case 'a':\n        x = warm()  # ABLATABLE_COMPONENT\n    case _:\n        pass\n"
    assert only(text).names == ("x",)
    assert only("with autocast():  # ABLATABLE_COMPONENT\n    x = 1\n").names == ("autocast",)
    assert only("if args.clip and ready:  # ABLATABLE_COMPONENT\n    x = 1\n").names == ("args.clip", "ready")
    assert only("try:\n    x = 1\nexcept ValueError:\n    y = 2  # ABLATABLE_COMPONENT\n").names == ("y",)


def test_of_several_statements_on_a_line_the_last_one_is_meant_and_that_is_said() -> None:
    found, remarks = marks_in("a = 1; b = 2  # ABLATABLE_COMPONENT\n")
    assert [one.names for one in found] == [("b",)]
    assert [str(one) for one in remarks] == [
        "train.py: Line 1: `#ABLATABLE_COMPONENT` stands behind 2 statements; it is about the last one, `b = 2`."
    ]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_byte_order_marks_and_tabs_change_nothing(ending: str, mark: bytes) -> None:
    lines = [
        "class Größe:",
        "\tdef __init__(self):",
        "\t\tself.größe = f('ä')  # ABLATABLE_COMPONENT",
        "\t\tself.b = 1",
        "",
    ]
    found = only(mark + ending.join(lines).encode())
    assert (found.names, found.scope, found.lines) == (("größe",), "Größe.__init__", (3, 3))


def test_a_form_feed_ends_no_line() -> None:
    assert only("a = 1\n\x0c\nb = 2  # ABLATABLE_COMPONENT\n").statement == (3, 3)


# --- what only looks like a mark ------------------------------------------------------------------


def test_a_near_miss_is_told_and_is_no_mark() -> None:
    text = "\n" * 40 + "self.conv3 = nn.Conv2d(64, 128, 3) #ABLATABLE_CONPONENT\n"
    found, remarks = marks_in(text)
    assert found == ()
    assert str(remarks[0]) == (
        "train.py: Line 41: `#ABLATABLE_CONPONENT` looks like ABLATABLE_COMPONENT. Not treated as an annotation."
    )


@pytest.mark.parametrize(
    ("comment", "meant"),
    [
        ("#ABLATABLE_COMPONENTS", "ABLATABLE_COMPONENT"),
        ("# ablatable_component", "ABLATABLE_COMPONENT"),
        ("# ABLATABLE COMPONENT", "ABLATABLE_COMPONENT"),
        ("# ABLATABLE-COMPONENT (with=pool)", "ABLATABLE_COMPONENT"),
        ("#ABLATION_HINT_STRAT", "ABLATION_HINT_START"),
        ("# Ablation hint end", "ABLATION_HINT_END"),
        ("#ABLATION_HINTS_END", "ABLATION_HINT_END"),
    ],
)
def test_near_misses_are_recognised(comment: str, meant: str) -> None:
    plain = comment.lstrip("# ")
    assert said(f"x = 1  {comment}\n") == [
        f"train.py: Line 1: `#{plain}` looks like {meant}. Not treated as an annotation."
    ]


@pytest.mark.parametrize(
    "comment", ["# ablation study", "# a component", "# hint: start here", "#", "# HINT END", "#!"]
)
def test_ordinary_comments_are_no_near_misses(comment: str) -> None:
    assert said(f"x = 1  {comment}\n") == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "# ABLATION_HINT_START\n# - a\nx = 1\n",
            "Line 1: `#ABLATION_HINT_START` is never closed. Not treated as an annotation: add `#ABLATION_HINT_END`.",
        ),
        (
            "x = 1\n# ABLATION_HINT_END\n",
            "Line 2: `#ABLATION_HINT_END` without `#ABLATION_HINT_START`. Not treated as an annotation.",
        ),
        (
            "# ABLATION_HINT_START\n#\n# ABLATION_HINT_END\nx = 1\n",
            "Line 1: The hint is empty. Not treated as an annotation: say in it what is to be removed.",
        ),
        (
            "def f():\n    x = 1\n    # ABLATABLE_COMPONENT\ny = 2\n",
            "Line 3: `#ABLATABLE_COMPONENT` stands at the end of a block, where nothing follows. Not treated as an "
            "annotation: put it behind or above a statement.",
        ),
        (
            "x = 1\n# ABLATABLE_COMPONENT\n",
            "Line 2: `#ABLATABLE_COMPONENT` stands at the end of the file, where nothing follows. Not treated as an "
            "annotation: put it behind or above a statement.",
        ),
        (
            "x = f()  # ABLATABLE_COMPONENT (wiht=pool)\n",
            "Line 1: `#ABLATABLE_COMPONENT (wiht=pool)`: There is no option `wiht`. Did you mean `with`? "
            "Not treated as an "
            "annotation.",
        ),
        (
            "x = f()  # ABLATABLE_COMPONENT (colour=red)\n",
            "Line 1: `#ABLATABLE_COMPONENT (colour=red)`: There is no option `colour`. There are `name` "
            "and `with`. Not "
            "treated as an annotation.",
        ),
        (
            "x = f()  # ABLATABLE_COMPONENT (with=pool, dropout)\n",
            "Line 1: `#ABLATABLE_COMPONENT (with=pool, dropout)`: `dropout` is no option. Write "
            "`(name=..., with=...)`; "
            "several names in [ ]. Not treated as an annotation.",
        ),
        (
            "x = f()  # ABLATABLE_COMPONENT the second one\n",
            "Line 1: `#ABLATABLE_COMPONENT the second one`: Only brackets with `name=` and `with=` may "
            "follow. Put other text "
            "on a line of its own. Not treated as an annotation.",
        ),
        (
            "x = f()  # ABLATABLE_COMPONENT (name=)\n",
            "Line 1: `#ABLATABLE_COMPONENT (name=)`: `name=` has no value. Name something, or leave it "
            "out. Not treated as "
            "an annotation.",
        ),
        (
            "for x in y:  # ABLATABLE_COMPONENT\n    pass\n",
            "Line 1: `#ABLATABLE_COMPONENT` stands at a statement that has no name. Not treated as an "
            "annotation: give it "
            "one, as in `#ABLATABLE_COMPONENT (name=warmup)`.",
        ),
        (
            "# ABLATION_HINT_START: remove a\n# ABLATION_HINT_END\nx = 1\n",
            "Line 1: `#ABLATION_HINT_START: remove a` says more than ABLATION_HINT_START. Not treated as "
            "an annotation: put "
            "the text on the next line.",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_the_mend(text: str, told: str) -> None:
    assert f"train.py: {told}" in said(text)


def test_of_nested_hints_only_the_inner_one_counts() -> None:
    text = (
        "# ABLATION_HINT_START\n# - a\n# ABLATION_HINT_START\n# - b\n# ABLATION_HINT_END\n# ABLATION_HINT_END\nx = 1\n"
    )
    found, remarks = marks_in(text)
    assert [one.text for one in found] == ["- b"]
    assert [str(one) for one in remarks] == [
        "train.py: Line 1: `#ABLATION_HINT_START` is not closed before another one begins in line 3. "
        "Hints cannot be inside "
        "each other. Not treated as an annotation: add `#ABLATION_HINT_END`.",
        "train.py: Line 6: `#ABLATION_HINT_END` without `#ABLATION_HINT_START`. Not treated as an annotation.",
    ]


def test_marks_and_code_inside_a_hint_are_told() -> None:
    text = "# ABLATION_HINT_START\n# - a\n# ABLATABLE_COMPONENT\nx = 1  # what\n# ABLATION_HINT_END\ny = 2\n"
    found, remarks = marks_in(text)
    assert [(one.mark, one.text) for one in found] == [(Mark.HINT, "- a\n\n")]
    assert [one.line for one in remarks] == [3, 4]


def test_marking_twice_counts_once_and_contradicting_oneself_is_told() -> None:
    _, remarks = marks_in("# ABLATABLE_COMPONENT\nx = f()  # ABLATABLE_COMPONENT\n")
    assert [one.text for one in remarks] == ["`x` is marked twice; line 1 has it already. It counts once."]
    _, remarks = marks_in("# ABLATABLE_COMPONENT (with=pool)\nx = f()  # ABLATABLE_COMPONENT (with=none)\n")
    assert [one.text for one in remarks] == [
        "`x` is marked twice, in line 1 (with=pool) and in line 2 (with=none): these contradict each "
        "other. Leave one of "
        "them."
    ]


@pytest.mark.parametrize(
    "text",
    [
        "x = f()  # ABLATABLE_COMPONENT\ny = = 2\n",
        "x = f()  # ABLATABLE_COMPONENT\n  y = 2\n",
        "x = f()  # ABLATABLE_COMPONENT\ny = '''\n",
        "print 'two'\nself.x = f(\n  1)  # ABLATABLE_COMPONENT\nz = 1\n",
    ],
)
def test_a_file_that_does_not_parse_is_read_as_far_as_it_goes(text: str) -> None:
    found, remarks = marks_in(text)
    assert [one.names for one in found] == [("x",)]
    assert len(remarks) == 1
    assert "does not parse" in remarks[0].text


def test_behind_an_open_bracket_nothing_is_taken_for_a_mark() -> None:
    found, remarks = marks_in("x = f(\ny = 2  # ABLATABLE_COMPONENT\n")
    assert found == ()
    assert "does not parse" in remarks[0].text
    assert "stands where the file can no longer be read" in remarks[1].text


def test_what_is_no_utf_8_or_no_python_is_told() -> None:
    files = {"a.py": b"x = '\xe4'  # ABLATABLE_COMPONENT\n", "b.yaml": b"lr: 0.1  # ABLATABLE_COMPONENT\n"}
    found, remarks = find_marks(Tree(files))
    assert found == ()
    assert [str(one) for one in remarks] == [
        "a.py: Line 1: The file is no UTF-8, so its marks were not read. Save it as UTF-8.",
        "b.yaml: Line 1: Marks are read in Python files only. Mark the statement that reads this value instead.",
    ]


# --- laws -----------------------------------------------------------------------------------------

NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=6).map(lambda text: f"v_{text}")


@given(st.lists(st.tuples(NAMES, st.booleans(), st.booleans()), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_every_mark_is_found_once_wherever_it_stands(rows: list[tuple[str, bool, bool]], ending: str) -> None:
    lines: list[str] = []
    wanted = []
    for n, (name, is_marked, above) in enumerate(rows):
        unique = f"{name}{n}"
        if is_marked and above:
            lines.append("# ABLATABLE_COMPONENT")
        lines.append(f"{unique} = f({n})" + ("  # ABLATABLE_COMPONENT" if is_marked and not above else ""))
        if is_marked:
            wanted.append((unique, len(lines)))
    found, remarks = find_marks(tree_of(train=ending.join(lines)))
    assert remarks == ()
    assert [(one.names[0], one.statement[0]) for one in found if one.statement] == wanted


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(content: bytes) -> None:
    found, _ = find_marks(Tree({"a.py": content, "b.py": b"#ABLATABLE_COMPONENT\n" + content}))
    assert all(one.file in ("a.py", "b.py") for one in found)


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distances_are_symmetric_and_zero_only_for_equals(one: str, other: str) -> None:
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)
    assert distance(one, other) <= max(len(one), len(other))


def test_the_nearest_names_are_those_with_the_fewest_wrong_letters() -> None:
    assert nearest("con2", ["conv1", "conv2", "fc1"]) == ("conv2",)
    assert nearest("conv9", ["conv1", "conv2", "fc1"]) == ("conv1", "conv2")
    assert nearest("zzz", ["conv1"]) == ()
    assert nearest("x", []) == ()
