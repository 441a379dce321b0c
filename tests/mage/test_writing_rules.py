"""Rules: what they write applies exactly once and does what the variant says, and where they are not sure they pass."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_programs import CNN, COLUMNS, SIX, built, facts_of_source, higgs, tree_of

from etude.mage.patch.blocks import Search
from etude.mage.patch.editing import Edit, edited, searches
from etude.mage.plan.marking import find_marks
from etude.mage.plan.planning import plan
from etude.mage.rules.writing import write
from etude.mage.tree import Tree
from etude.mage.variants import Route, Thing, Variant, What
from etude.mage.witnesses import CallGone, ColumnsGone, Holds, ModuleGone, SettingValue, Witness


def variant(*witnesses: Witness, **changes: Any) -> Variant:
    """Return a variant with some claims."""
    return Variant(name="v", intent="", witnesses=witnesses, **changes)


def applied(tree: Tree, found: Any) -> Tree:
    """Return a tree with blocks put in, by the strict rules: each text occurs exactly once."""
    assert found
    for block in found:
        assert isinstance(block, Search)
        text = tree.text(block.file)
        assert text.count(block.search) == 1
        tree = tree.with_files({block.file: text.replace(block.search, block.text).encode()})
    return tree


def written(source: str, *witnesses: Witness, file: str = "train.py", **changes: Any) -> str | None:
    """Return what a rule makes of a file; None if no rule is sure."""
    tree = Tree({file: source.encode()})
    found = write(variant(*witnesses, **changes), tree)
    return None if found is None else applied(tree, found).text(file)


def by_marks(source: str, **known: Any) -> list[str | None]:
    """Return what rules make of the variants of a marked file."""
    tree = tree_of(train=source)
    found = plan(tree, "train.py", find_marks(tree)[0], **known)
    made = [write(one, tree, known.get("facts")) for one in found.variants]
    assert [one.route is Route.RULE for one in found.variants] == [blocks is not None for blocks in made]
    return [None if blocks is None else applied(tree, blocks).text("train.py") for blocks in made]


# --- columns --------------------------------------------------------------------------------------


def test_columns_join_those_that_are_dropped() -> None:
    source = higgs()
    found = by_marks(source, columns=COLUMNS)
    assert len(found) == 21
    before = "X = data.drop(columns=['EventId', 'Weight', 'Label'])"
    assert found[0] == source.replace(before, f"X = data.drop(columns=['EventId', 'Weight', 'Label', '{SIX[0]}'])")
    assert found[6] == source.replace(
        before, f"X = data.drop(columns=['EventId', 'Weight', 'Label', '{SIX[0]}', '{SIX[1]}'])"
    )


def test_what_is_written_for_columns_is_true_of_a_real_table() -> None:
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame([[1.0] * len(COLUMNS)] * 2, columns=list(COLUMNS))
    source = "def select(data):\n    return data.drop(['EventId', \"Weight\"], axis=1)\n"
    new = written(source, ColumnsGone(columns=SIX[:2]))
    space: dict[str, Any] = {}
    exec(new or "", space)
    assert set(space["select"](data).columns) == set(COLUMNS) - {"EventId", "Weight", *SIX[:2]}


@pytest.mark.parametrize(
    ("source", "names", "wanted"),
    [
        ("X = data[['a', 'b', 'c']]\n", ("b",), "X = data[['a', 'c']]\n"),
        ("X = data[['a', 'b', 'c']]\n", ("a", "c"), "X = data[['b']]\n"),
        ("X = data[['a', 'b', 'c']]\n", ("c",), "X = data[['a', 'b']]\n"),
        ("F = ('a', 'b')\nX = data.loc[:, F]\n", ("b",), "F = ('a', )\nX = data.loc[:, F]\n"),
        ("F = ['a', 'b',]\nX = data[F]\n", ("b",), "F = ['a',]\nX = data[F]\n"),
        ("X = read(f, usecols=['a', 'b'])\n", ("a",), "X = read(f, usecols=['b'])\n"),
        (
            "F = [\n    'a',\n    'b',  # why\n    'c'\n]\nX = data[F]\n",
            ("b",),
            "F = [\n    'a',\n      # why\n    'c'\n]\nX = data[F]\n",
        ),
        ("F = [\n    'a',\n    'b',\n    'c'\n]\nX = data[F]\n", ("b", "c"), "F = [\n    'a',\n]\nX = data[F]\n"),
        ("F = [\r\n  'a',\r\n  'b',\r\n]\r\nX = d[F]\r\n", ("a",), "F = [\r\n  'b',\r\n]\r\nX = d[F]\r\n"),
        ("# ä\nF = ['ä', 'ö', 'ü']; X = data[F]\n", ("ö",), "# ä\nF = ['ä', 'ü']; X = data[F]\n"),
        (
            "F = [c for c in data.columns if c not in ('id', \"label\")]\n",
            ("it's",),
            'F = [c for c in data.columns if c not in (\'id\', "label", "it\'s")]\n',
        ),
        (
            'OUT = ["id"]\nF = [c for c in d if c not in OUT]\n',
            ("x", "y"),
            'OUT = ["id", "x", "y"]\nF = [c for c in d if c not in OUT]\n',
        ),
        (
            "a = a.drop(columns=['id'])\nb = b.drop(columns=['id'])\n",
            ("x",),
            "a = a.drop(columns=['id', 'x'])\nb = b.drop(columns=['id', 'x'])\n",
        ),
        (
            "a = a.drop(\n    columns=[\n        'id',\n    ])\n",
            ("x",),
            "a = a.drop(\n    columns=[\n        'id', 'x',\n    ])\n",
        ),
    ],
)
def test_columns_leave_or_join_lists(source: str, names: tuple[str, ...], wanted: str) -> None:
    assert written(source, ColumnsGone(columns=names)) == wanted
    ast.parse(wanted)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("X = data\n", ("a",)),  # no list at all
        ("X = data[['a']]\n", ("a",)),  # nothing would be left
        ("X = data[['a', 'b']]\ny = data['a']\n", ("a",)),  # used elsewhere
        ("X = data[['a', 'b']]\ny = data.a\n", ("a",)),
        ("X = data[['a', 'b']]\nprint(f'a{data}')\n", ("a",)),
        ("LOG = ['a', 'b']\ndata[LOG] = f(data)\n", ("a",)),  # changes columns, and selects none
        ("LOG = ['a', 'b']\nf(LOG)\n", ("a",)),
        ("X = data[['a', 'b']]\nZ = data[['a', 'c']]\n", ("a",)),
        ("X = data[['a', 'b', 'a']]\n", ("a",)),
        ("a = a.drop(columns=['id'])\nb = a.drop(columns=['label'])\n", ("x",)),  # which of them?
        ("a = a.drop(['x', 'y'])\n", ("z",)),  # rows
        ("X = data[['a', 'b']]\n", ("a", "z")),
        ("t = pandas.DataFrame(numbers, columns=['a', 'b'])\n", ("a",)),  # it names them
        ("t = pandas.read_csv('t.csv', names=['a', 'b'])\n", ("a",)),
        ("C = ['a', 'b']\nt = DataFrame(numbers, columns=C)\nX = t[C]\n", ("a",)),
    ],
)
def test_where_it_is_not_clear_how_columns_come_in_no_rule_is_sure(source: str, names: tuple[str, ...]) -> None:
    assert written(source, ColumnsGone(columns=names)) is None


@given(
    st.lists(st.text("abcäö '\"\\\n", min_size=1, max_size=4), min_size=2, max_size=6, unique=True),
    st.data(),
    st.sampled_from([", ", ",\n    ", " ,"]),
    st.sampled_from(["", ","]),
)
def test_what_is_left_of_a_list_is_what_was_meant(names: list[str], data: Any, between: str, end: str) -> None:
    gone = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=len(names) - 1, unique=True))
    source = f"F = [{between.join(map(repr, names))}{end}]\nX = table[F]\n"
    new = written(source, ColumnsGone(columns=tuple(gone)))
    if new is not None:  # a name that something else has, too, is left to others
        space: dict[str, Any] = {"table": {}}
        exec(new.partition("\nX")[0], space)
        assert space["F"] == [name for name in names if name not in gone]


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "source", "name", "value", "wanted"),
    [
        ("a.py", "USE = True\n", "USE", False, "USE = False\n"),
        ("a.py", "RATE: float = 0.5  # why\n", "RATE", 0.0, "RATE: float = 0.0  # why\n"),
        (
            "a.py",
            "p.add_argument('--mix-up', type=float, default=0.2)\n",
            "mix_up",
            0.0,
            "p.add_argument('--mix-up', type=float, default=0.0)\n",
        ),
        (
            "a.py",
            "p.add_argument('--no-aug', dest='aug', action='store_false')\n",
            "aug",
            False,
            "p.add_argument('--no-aug', dest='aug', action='store_false', default=False)\n",
        ),
        (
            "a.py",
            "p.add_argument('-n', '--epochs', default=10)\n",
            "epochs",
            1,
            "p.add_argument('-n', '--epochs', default=1)\n",
        ),
        (
            "a.py",
            "@dataclass\nclass C:\n    clip: bool = True\n    other: bool = True\n",
            "C.clip",
            False,
            "@dataclass\nclass C:\n    clip: bool = False\n    other: bool = True\n",
        ),
        (
            "a.py",
            "@dataclass\nclass C:\n    clip: bool = field(default=True)\n",
            "C.clip",
            False,
            "@dataclass\nclass C:\n    clip: bool = field(default=False)\n",
        ),
        (
            "a.yaml",
            "train:\n  clip: true  # why\n  lr: 0.1\n",
            "train.clip",
            False,
            "train:\n  clip: false  # why\n  lr: 0.1\n",
        ),
        ("a.yaml", "clip: yes\r\nlr: 0.1\r\n", "clip", False, "clip: no\r\nlr: 0.1\r\n"),
        ("a.toml", "[train]\nclip = true\nlr = 0.1\n", "train.lr", 0.0, "[train]\nclip = true\nlr = 0.0\n"),
        (
            "a.json",
            '{\n  "train": {\n    "clip": true,\n    "n": 3\n  }\n}\n',
            "train.clip",
            False,
            '{\n  "train": {\n    "clip": false,\n    "n": 3\n  }\n}\n',
        ),
    ],
)
def test_settings_get_another_value_where_they_stand(
    file: str, source: str, name: str, value: Any, wanted: str
) -> None:
    claim = SettingValue(name=name.rpartition(".")[2], value=value)
    assert written(source, claim, file=file, settings={name: value}) == wanted


@pytest.mark.parametrize(
    ("source", "name", "value"),
    [
        ("USE = True\nUSE = f()\n", "USE", False),
        ("USE = f()\n", "USE", False),
        ("USE = False\n", "USE", False),
        ("def main():\n    global USE\n    USE = False\nUSE = True\n", "USE", False),
        ("p.add_argument('--clip', default=True)\nargs.clip = True\n", "clip", False),
        ("p.add_argument('--clip', default=True)\np.set_defaults(clip=True)\n", "clip", False),
        ("p.add_argument('--clip', default=True)\nq.add_argument('--clip', default=True)\n", "clip", False),
        ("p.add_argument('--clip', action='store_true')\n", "clip", False),
        ("@dataclass\nclass C:\n    clip: bool = True\nc = C(clip=True)\n", "C.clip", False),
        ("@dataclass\nclass C:\n    clip: bool = True\nc = C(**values)\n", "C.clip", False),
        ("USE = True\n", "OTHER", False),
    ],
)
def test_a_setting_that_something_else_decides_is_left_to_others(source: str, name: str, value: Any) -> None:
    assert written(source, SettingValue(name=name.rpartition(".")[2], value=value), settings={name: value}) is None


def test_a_flag_that_is_written_is_what_argparse_gives() -> None:
    source = (
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--no-aug', dest='aug', action='store_false')\nargs = p.parse_args([])\n"
    )
    new = written(source, SettingValue(name="aug", value=False), settings={"aug": False})
    for text, wanted in ((source, True), (new or "", False)):
        space: dict[str, Any] = {}
        exec(text, space)
        assert space["args"].aug is wanted


# --- modules --------------------------------------------------------------------------------------


def net(
    made: str, body: str, imports: str = "import torch\nfrom torch import nn\nimport torch.nn.functional as F"
) -> str:
    """Return a network with some modules and a way through them."""
    made, body = textwrap.indent(textwrap.dedent(made), " " * 8), textwrap.indent(textwrap.dedent(body), " " * 8)
    return (
        f"{imports}\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n{made}\n    def forward(self, x):\n{body}\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("self.drop = nn.Dropout(0.5)  # ABLATABLE_COMPONENT", "self.drop = nn.Identity()  # ABLATABLE_COMPONENT"),
        (
            "self.drop = nn.BatchNorm1d(\n    4)  # ABLATABLE_COMPONENT",
            "self.drop = nn.Identity()  # ABLATABLE_COMPONENT",
        ),
        (
            "self.drop = torch.nn.GELU()  # ABLATABLE_COMPONENT",
            "self.drop = torch.nn.Identity()  # ABLATABLE_COMPONENT",
        ),
        ("self.drop = nn.Linear(4, 4)  # ABLATABLE_COMPONENT", "self.drop = nn.Identity()  # ABLATABLE_COMPONENT"),
    ],
)
def test_modules_that_change_no_shape_become_identities(before: str, after: str) -> None:
    made = "self.fc = nn.Linear(4, 4)\n{}\nself.out = nn.Linear(4, 2)\n"
    body = "x = self.fc(x)\nx = self.drop(x)\nreturn self.out(x)\n"
    source = net(made.format(before), body)
    assert by_marks(source) == [net(made.format(after), body)]
    facts = facts_of_source(source, "Net")
    (new,) = by_marks(source, facts=facts)
    torch = pytest.importorskip("torch")
    changed = built(new or "", "Net")
    assert type(changed.drop).__name__ == "Identity"
    assert changed(torch.zeros(3, 4)).shape == (3, 2)


def test_a_module_that_was_imported_by_name_needs_an_identity_that_is_there() -> None:
    for imports, wanted in (
        ("from torch.nn import Dropout, Linear, Module\nfrom torch import nn", "nn.Identity()"),
        ("from torch.nn import Dropout, Identity, Linear, Module\nfrom torch import nn as tnn", "Identity()"),
        ("import torch\nfrom torch.nn import Dropout", "torch.nn.Identity()"),
        ("from torch.nn import Dropout", None),
        ("from layers import Dropout\nfrom torch import nn", None),
    ):
        source = net("self.drop = Dropout(0.5)  # ABLATABLE_COMPONENT\n", "return self.drop(x)\n", imports)
        (new,) = by_marks(source)
        assert (new is None) == (wanted is None)
        assert new is None or f"self.drop = {wanted}  #" in new


@pytest.mark.parametrize(
    ("made", "body"),
    [
        ("self.a = nn.Linear(4, 8)  # ABLATABLE_COMPONENT\nself.b = nn.Linear(8, 2)\n", "return self.b(self.a(x))\n"),
        (
            "self.a = nn.Conv2d(4, 4, 3)  # ABLATABLE_COMPONENT\nself.b = nn.Conv2d(4, 2, 1)\n",
            "return self.b(self.a(x))\n",
        ),
        ("self.a = nn.LSTM(4, 4)  # ABLATABLE_COMPONENT\nself.b = nn.Linear(4, 2)\n", "return self.b(self.a(x))\n"),
        (
            "self.a = nn.Linear(4, 4)  # ABLATABLE_COMPONENT\nself.b = nn.Linear(4, 2)\n",
            "return self.b(torch.tanh(self.a(x)))\n",
        ),
        (
            "self.z = nn.Linear(4, 4)\nself.a = nn.Linear(4, 4)  # ABLATABLE_COMPONENT\n",
            "return torch.relu(self.a(self.z(x)))\n",
        ),
        (
            "self.a = nn.Linear(4, 4)  # ABLATABLE_COMPONENT\nself.b = nn.Linear(4, 2)\n",
            "return self.b(self.a(x) + x)\n",
        ),
        (
            "self.a = nn.Linear(4, 4)  # ABLATABLE_COMPONENT\nnn.init.zeros_(self.a.weight)\n"
            "self.b = nn.Linear(4, 2)\n",
            "return self.b(self.a(x))\n",
        ),
    ],
)
def test_modules_that_change_more_are_left_to_others(made: str, body: str) -> None:
    assert by_marks(net(made, body)) == [None]


def test_behind_a_relu_the_relu_of_what_goes_may_stay() -> None:
    made = "self.z = nn.Linear(4, 4)\nself.a = nn.Linear(4, 4)  # ABLATABLE_COMPONENT\nself.b = nn.Linear(4, 2)\n"
    body = "x = F.relu(self.z(x))\nx = F.relu(self.a(x))\nreturn self.b(x)\n"
    (new,) = by_marks(net(made, body))
    assert new == net(made.replace("nn.Linear(4, 4)  #", "nn.Identity()  #"), body)
    torch = pytest.importorskip("torch")
    changed, x = built(new, "Net"), torch.randn(3, 4)
    assert torch.equal(changed(x), changed.b(torch.relu(changed.z(x))))


def test_a_class_that_makes_a_module_for_others_too_is_left_to_others() -> None:
    source = (
        net("self.a = nn.Dropout(0.1)\n", "return self.a(x)\n")
        + "\n\nclass Both(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.one = Net()\n        self.two = Net()\n"
    )
    assert written(source, ModuleGone(path="one.a"), ModuleGone(path="two.a")) is not None
    assert written(source, ModuleGone(path="one.a")) is None


# --- calls ----------------------------------------------------------------------------------------

CLIP = CallGone(name="torch.nn.utils.clip_grad_norm_")


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("a()\nnn.utils.clip_grad_norm_(p, 1)\nb()\n", "a()\nb()\n"),
        ("a()\nnn.utils.clip_grad_norm_(\n    p,\n    1,\n)\nb()\n", "a()\nb()\n"),
        ("if x:\n    nn.utils.clip_grad_norm_(p, 1)\nb()\n", "if x:\n    pass\nb()\n"),
        (
            "if x:\n    nn.utils.clip_grad_norm_(p, 1)  # ABLATABLE_COMPONENT\nb()\n",
            "if x:\n    pass\nb()\n",
        ),
        (
            "if x:\n    a()\n    nn.utils.clip_grad_norm_(p, 1)  # ABLATABLE_COMPONENT\nb()\n",
            "if x:\n    a()\nb()\n",
        ),
        (
            "if x:\n    # ABLATABLE_COMPONENT\n    nn.utils.clip_grad_norm_(p, 1)\nb()\n",
            "if x:\n    pass\nb()\n",
        ),
        (
            "a()\r\n# why\r\n# ABLATABLE_COMPONENT (name=clip)\r\nnn.utils.clip_grad_norm_(\r\n    p, 1\r\n"
            ")  # small  # ABLATABLE_COMPONENT\r\nb()\r\n",
            "a()\r\n# why\r\nb()\r\n",
        ),
        ("a()\nnn.utils.clip_grad_norm_(p, 1)  # small\nb()\n", "a()\n# small\nb()\n"),
        ("for x in y: nn.utils.clip_grad_norm_(p, 1)\n", "for x in y: pass\n"),
        ("a()\r\nnn.utils.clip_grad_norm_(p, 1)\r\nb()\r\n", "a()\r\nb()\r\n"),
        ("nn.utils.clip_grad_norm_(p, 'ä')\nb()", "b()"),
        ("a()\n\tif_ = 'ä'\n".replace("\t", "") + "nn.utils.clip_grad_norm_(p, 1)", "a()\nif_ = 'ä'\n"),
        (
            "f = 1\nif a:\n  nn.utils.clip_grad_norm_(p, 1)\n  c()\nelse:\n  nn.utils.clip_grad_norm_(p, 1)\n",
            "f = 1\nif a:\n  c()\nelse:\n  pass\n",
        ),
    ],
)
def test_statements_that_are_a_call_go(source: str, wanted: str) -> None:
    imports = "from torch import nn\n"
    assert written(imports + source, CLIP) == imports + wanted
    ast.parse(wanted)


@pytest.mark.parametrize(
    "source",
    [
        "norm = nn.utils.clip_grad_norm_(p, 1)\n",
        "a(); nn.utils.clip_grad_norm_(p, 1)\n",
        "nn.utils.clip_grad_norm_(p, 1)\nx = nn.utils.clip_grad_norm_(p, 1)\n",
        "nn.utils.clip_grad_norm_(\n    p,  # all of them\n    1)\n",
        "nn.utils.clip_grad_norm_((n := p), 1)\n",
        "x = 1\n",
        "nn.utils.clip_grad_norm_(p, 1)\nother.clip_grad_norm_(p, 1)\n",
    ],
)
def test_calls_that_are_more_than_a_statement_are_left_to_others(source: str) -> None:
    assert written("from torch import nn\n" + source, CLIP) is None


def test_of_several_calls_only_the_marked_one_goes() -> None:
    source = "from torch import nn\nnn.init.zeros_(a)\nnn.init.zeros_(b)  # ABLATABLE_COMPONENT\nnn.init.ones_(c)\n"
    assert by_marks(source) == [source.replace("nn.init.zeros_(b)  # ABLATABLE_COMPONENT\n", "")]
    assert by_marks(source.replace("nn.init.zeros_(b)", "b = nn.init.zeros_(b)")) == [None]


def test_a_mark_stays_where_it_could_be_of_a_line_that_stays() -> None:
    same = "nn.init.zeros_(a)"
    source = f"from torch import nn\n{same}\nnn.init.ones_(a)\n{same}  # ABLATABLE_COMPONENT\nnn.init.ones_(b)\n"
    assert by_marks(source) == [source.replace(f"{same}  #", "#")]


@pytest.mark.parametrize(
    ("held", "left"),
    [
        ("    'a',  # ABLATABLE_COMPONENT\n    'b',  # why\n", "    'b',  # why\n"),
        ("    # ABLATABLE_COMPONENT\n    'a',\n    'b',\n", "    'b',\n"),
        ("    'a', 'b',  # ABLATABLE_COMPONENT\n    'c',\n", "    'c',\n"),
        ("    'a',  # why\n    'b'  # ABLATABLE_COMPONENT\n", "    'a',  # why\n"),
        ("    'a',  # why\n    'b', 'c'  # ABLATABLE_COMPONENT\n", "    'a',  # why\n"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_mark_of_columns_goes_with_them(held: str, left: str, ending: str) -> None:
    source = f"F = [\n{held}]\nX = data[F]\n".replace("\n", ending)
    assert by_marks(source) == [source.replace(held.replace("\n", ending), left.replace("\n", ending))]


def test_a_scheduler_is_no_optimizer_that_steps_too() -> None:
    source = CNN.replace("ABLATABLE_COMPONENT", "x").replace(
        "    scheduler.step()", "    scheduler.step()  # ABLATABLE_COMPONENT"
    )
    assert by_marks(source) == [source.replace("    scheduler.step()  # ABLATABLE_COMPONENT\n", "")]


def test_a_scheduler_goes_with_its_steps_unless_making_it_sets_something() -> None:
    source = (
        "import torch\ns = torch.optim.lr_scheduler.{}(o, 3)\nfor e in range(3):\n    train()\n"
        "    s.step()  # ABLATABLE_COMPONENT\n"
    )
    assert by_marks(source.format("StepLR")) == [
        source.format("StepLR").replace("    s.step()  # ABLATABLE_COMPONENT\n", "")
    ]
    assert by_marks(source.format("OneCycleLR")) == [None]


def test_the_clipping_of_the_papers_program_goes() -> None:
    source = CNN.replace("ABLATABLE_COMPONENT", "x").replace(
        "net.parameters(), 1.0)", "net.parameters(), 1.0)  # ABLATABLE_COMPONENT"
    )
    (new,) = by_marks(source)
    assert new == source.replace("        nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # ABLATABLE_COMPONENT\n", "")


# --- all rules ------------------------------------------------------------------------------------


def test_what_is_unclear_or_claims_what_no_rule_knows_is_left_to_others() -> None:
    source = "from torch import nn\nnn.utils.clip_grad_norm_(p, 1)\n"
    assert written(source, CLIP) is not None
    assert written(source, CLIP, unclear=("one", "other")) is None
    assert written(source, CLIP, Holds(expression="True")) is None
    assert written(source) is None


def test_rules_of_several_kinds_work_together() -> None:
    source = "from torch import nn\nUSE = True\na()\nnn.utils.clip_grad_norm_(p, 1)\n"
    new = written(source, CLIP, SettingValue(name="USE", value=False), settings={"USE": False})
    assert new == "from torch import nn\nUSE = False\na()\n"


def test_files_of_other_kinds_and_with_byte_order_marks_are_left_as_they_are() -> None:
    tree = Tree({"a.py": "\ufeffUSE = True\r\nb = 'ä'\r\n".encode(), "c.md": b"USE = True"})
    thing = Thing(name="USE", what=What.SETTING, declared=("a.py", 1))
    found = write(variant(SettingValue(name="USE", value=False), settings={"USE": False}, things=(thing,)), tree)
    assert applied(tree, found).files == {"a.py": "\ufeffUSE = False\r\nb = 'ä'\r\n".encode(), "c.md": b"USE = True"}


@given(st.lists(st.text("ab\n", min_size=1, max_size=3), min_size=1, max_size=12), st.data())
def test_blocks_have_a_text_that_occurs_once_and_put_in_what_was_meant(parts: list[str], data: Any) -> None:
    text = "".join(parts)
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=6)))
    edits = [
        Edit(start, end, data.draw(st.text("xy", max_size=2)))
        for start, end in zip(places[::2], places[1::2], strict=False)
    ]
    found = searches("f.py", text, edits)
    wanted = edited(text, edits)
    if found is None:
        return
    placed = []
    for block in found:
        assert text.count(block.search) == 1
        at = text.index(block.search)  # in the untouched text, where each block is placed
        placed.append(Edit(at, at + len(block.search), block.text))
    assert edited(text, placed) == wanted
