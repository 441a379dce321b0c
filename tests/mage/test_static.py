"""What a patch does to how files are read, and each rule on its own, with and without reason to speak."""

from __future__ import annotations

import pytest
from bases import CNN_FILES

from etude.mage.patch.blocks import Author
from etude.mage.patch.invisible import lookalike, numbered
from etude.mage.patch.making import PatchRefused, make_patch_of_trees
from etude.mage.static.checking import check
from etude.mage.static.constants import family_of
from etude.mage.static.policy import Rule
from etude.mage.tree import Tree
from etude.mage.variants import Thing, Variant, What
from etude.mage.verdicts import Outcome, Rung, Verdict
from etude.mage.witnesses import ColumnsGone, SettingValue

CNN = Tree({path: text.encode() for path, text in CNN_FILES.items()})


def checked(base: str | Tree, new: str | Tree, *things: str, file: str = "a.py") -> tuple[Verdict, Verdict]:
    """Return what both rungs say of a change that its plan allows."""
    before = base if isinstance(base, Tree) else Tree({file: base.encode()})
    after = new if isinstance(new, Tree) else before.with_files({file: new.encode()})
    patch = make_patch_of_trees(before, after, Author(name="somebody"))
    variant = Variant(
        name="v", intent="", things=tuple(Thing(name=one, what=What.OTHER, declared=("a.py", 1)) for one in things)
    )
    parse, policy = check(before, patch, variant, plan_files={*before, *after})
    assert (parse.rung, policy.rung) == (Rung.PARSE, Rung.POLICY)
    assert parse.patch == policy.patch == patch.digest
    return parse, policy


def claims(verdict: Verdict) -> set[str]:
    """Return the rules that are broken."""
    return {reason.claim for reason in verdict.reasons}


# --- whether it can be read -----------------------------------------------------------------------


def test_a_missing_import_is_told_with_its_line_in_context() -> None:
    new = CNN.with_files({"train.py": CNN.files["train.py"].replace(b"import torch.nn.functional as F\n", b"")})
    parse, _ = checked(CNN, new)
    assert parse.outcome is Outcome.FAILED
    assert parse.reasons[0].text == (
        "train.py, line 31: undefined name 'F'. Define or import it.\n"
        "    29  \n"
        "    30      def forward(self, x):\n"
        ">   31          x = self.pool(F.relu(self.conv1(x)))\n"
        "    32          x = self.pool(F.relu(self.conv2(x)))\n"
        "    33          x = self.pool(F.relu(self.conv3(x)))"
    )
    assert len(parse.reasons) == 1  # one name, however often it is used


def test_names_that_the_base_does_not_define_either_are_not_told_again() -> None:
    parse, _ = checked("def f():\n    return missing\n", "def f():\n    return missing + 1\n")
    assert parse.passed
    parse, _ = checked("def f():\n    return missing\n", "def f():\n    return missing + other\n")
    assert [reason.expected for reason in parse.reasons] == ["a definition or an import of other"]


def test_a_syntax_error_is_told_with_its_line_in_context() -> None:
    parse, policy = checked("x = 1\ny = 2\n", "x = 1\ny = (2\n")
    assert parse.reasons[0].text == "a.py, line 2: '(' was never closed.\n     1  x = 1\n>    2  y = (2"
    assert policy.passed  # there is nothing that rules could look at


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\nreturn x\n",
        "def f(a, a): pass\n",
        "await x\n",
        "break\n",
        "(" * 500 + ")" * 500 + "\n",
        "x: int = 1; x = *1\n",
    ],
)
def test_what_python_cannot_compile_is_found(text: str) -> None:
    parse, _ = checked("x = 0\n", text)
    assert parse.outcome is Outcome.FAILED


def test_a_file_that_could_not_be_read_before_is_nobody_s_fault() -> None:
    assert checked("print 'two'\n", "print 'three'\n")[0].passed


def test_warnings_of_the_compiler_are_no_errors() -> None:
    assert checked("x = 1\n", "x = '\\d'\ny = x is 'a'\n")[0].passed


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("a.json", '{"a": 1,}\n', "a.json, line 1"),
        ("a.toml", "a = \n", "a.toml, line 1"),
    ],
)
def test_configuration_files_have_to_be_readable_too(file: str, text: str, says: str) -> None:
    parse, _ = checked("", text, file=file)
    assert says in parse.reasons[0].text
    assert checked("", "# a remark\n" if file != "a.json" else "{}\n", file=file)[0].passed


@pytest.mark.parametrize(
    ("file", "base", "new", "alarm"),
    [
        (
            "a.json",
            '{"o": {"lr": 1, "kind": "a"}}',
            '{"o": {"lr": 2, "kind": "b"}}',
            "kind in o was `'a'` and is `'b'`",
        ),
        ("a.toml", "[o]\nlr = 1\nkind = 'a'\n", "[o]\nlr = 2\nkind = 'b'\n", "kind in o was `'a'` and is `'b'`"),
        ("a.yaml", "o:\n  - lr: 1 # x\n    kind: a\n", "o:\n  - lr: 2\n    kind: b\n", "kind in o was `a` and is `b`"),
        ("a.yml", "o: {lr: 1, kind: a}\n", "o: {lr: 2, kind: b}\n", "kind in o was `a` and is `b`"),
        ("a.ini", "[o]\nlr = 1\nkind = a\n", "[o]\nlr=2\nkind = b\n", "kind in o was `a` and is `b`"),
    ],
)
def test_settings_in_files_are_told_by_path(file: str, base: str, new: str, alarm: str) -> None:
    _, policy = checked(base, new, file=file)
    assert claims(policy) == {Rule.LEARNING_RATE.value}
    assert policy.alarms == (f"{file}: {alarm}.",)


def test_a_patch_of_another_tree_is_refused() -> None:
    patch = make_patch_of_trees(CNN, CNN.with_files({"a.py": b"x = 1\n"}), Author(name="somebody"))
    with pytest.raises(PatchRefused, match="another tree"):
        check(Tree(), patch, Variant(name="v", intent=""))


def test_without_files_in_the_plan_every_file_is_for_a_person() -> None:
    patch = make_patch_of_trees(CNN, CNN.with_files({"evaluate.py": None}), Author(name="somebody"))
    _, policy = check(CNN, patch, Variant(name="v", intent=""))
    assert policy.outcome is Outcome.FOR_A_PERSON
    assert policy.reasons[0].text == (
        "This patch changes evaluate.py, which the plan does not allow. Sent to you, not to the model."
    )


# --- rules ----------------------------------------------------------------------------------------

PLAIN = """\
import os.path
import torch
import numpy as np
from torch import nn


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.a = nn.Linear(4, width)
        self.b = nn.Linear(width, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def evaluate(model, data):
    model.eval()
    x, y = data
    return float((model(x).argmax(1) == y).float().mean())


def main(seed=0, epochs=3):
    torch.manual_seed(seed)
    np.random.seed(seed)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for epoch in range(epochs):
        x = torch.randn(8, 4)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = evaluate(model, (torch.randn(8, 4), torch.zeros(8)))
    print("accuracy", accuracy)
    return {"accuracy": accuracy}
"""

WRONG: list[tuple[str, str, Rule]] = [
    ("    np.random.seed(seed)\n", "", Rule.SEEDS),
    ("np.random.seed(seed)", "np.random.seed(seed + 1)", Rule.SEEDS),
    ("seed=0", "seed=1", Rule.SEEDS),
    ("    model = Net()\n", "    model = Net()\n    torch.manual_seed(7)\n", Rule.SEEDS),
    ("torch.randn(8, 4)\n", "torch.randn(8, 4, generator=torch.Generator().manual_seed(1))\n", Rule.SEEDS),
    ("SGD(model.parameters(), 0.1", "SGD(model.parameters(), 0.2", Rule.LEARNING_RATE),
    ("0.1, momentum", "lr=0.1 * 2, momentum", Rule.LEARNING_RATE),
    (
        "        optimizer.step()\n",
        "        optimizer.step()\n        optimizer.param_groups[0]['lr'] = 0.2\n",
        Rule.LEARNING_RATE,
    ),
    ("momentum=0.9", "momentum=0.0", Rule.TRAINING),
    ("epochs=3", "epochs=1", Rule.EPOCHS),
    ("range(epochs)", "range(epochs - 1)", Rule.EPOCHS),
    ("        optimizer.step()\n", "        optimizer.step()\n        if epoch:\n            break\n", Rule.EPOCHS),
    (
        "        optimizer.step()\n",
        "        optimizer.step()\n        with torch.no_grad():\n            return {}\n",
        Rule.EPOCHS,
    ),
    ("range(epochs):\n", "range(epochs):\n        for layer in (1, 2):\n            return {}\n", Rule.EPOCHS),
    ("    for epoch in range(epochs):\n", "    epoch = 0\n    while epoch < 1:\n        epoch += 1\n", Rule.EPOCHS),
    ("range(epochs):\n", "range(epochs):\n        if epoch:\n            continue\n", Rule.EPOCHS),
    ("loss = model(x)", "if epoch:\n            raise StopIteration\n        loss = model(x)", Rule.EPOCHS),
    ("    for epoch", "    if epochs > 1:\n        return {}\n    for epoch", Rule.EPOCHS),
    ("    model = Net()\n", "    model = Net()\n    max_steps = 2\n", Rule.EPOCHS),
    (".mean()\n        opt", ".mean() * 2\n        (3 * loss).backward()\n        opt", Rule.WEIGHTS),
    ("loss.backward()", "(2 * loss).backward()", Rule.WEIGHTS),
    ("loss = model(x)", "nn.CrossEntropyLoss(torch.ones(2))\n        loss = model(x)", Rule.WEIGHTS),
    ("loss = model(x)", "nn.BCEWithLogitsLoss(pos_weight=x)\n        loss = model(x)", Rule.WEIGHTS),
    ("    model = Net()\n", "    model = Net()\n    class_weight = 'balanced'\n", Rule.WEIGHTS),
    ("    model = Net()\n", "    model = Net().half()\n", Rule.PRECISION),
    ("    model = Net()\n", "    model = Net().to(torch.bfloat16)\n", Rule.PRECISION),
    ("    model = Net()\n", "    model = Net()\n    torch.set_default_dtype(torch.float64)\n", Rule.PRECISION),
    ("randn(8, 4)\n", "randn(8, 4, dtype=torch.float16)\n", Rule.PRECISION),
    (
        "        loss = model(x).square().mean()\n",
        "        with torch.autocast('cpu'):\n            loss = x\n",
        Rule.PRECISION,
    ),
    ("loss.backward()", "loss.backward()\n        nn.utils.clip_grad_value_(model.parameters(), 1)", Rule.CLIPPING),
    ("    model = Net()\n", "    model = Net()\n    max_grad_norm = 5.0\n", Rule.CLIPPING),
    ("    model = Net()\n", "    model = Net()\n    model.eval = lambda: model\n", Rule.TRAINED_ONCE),
    ("    model = Net()\n", "    model = Net()\n    setattr(model, 'forward', print)\n", Rule.TRAINED_ONCE),
    ("def main(", "evaluate = torch.no_grad()(evaluate)\n\n\ndef main(", Rule.TRAINED_ONCE),
    ("def main(", "@torch.enable_grad()\ndef main(", Rule.TRAINED_ONCE),
    (
        '    return {"accuracy": accuracy}\n',
        '    model.fit(accuracy)\n    return {"accuracy": accuracy}\n',
        Rule.TRAINED_ONCE,
    ),
    ("    model = Net()\n", "    model = Net()\n    torch.os.system('ls')\n", Rule.CALLS),
    (
        "    model = Net()\n",
        "    model = Net()\n    with open('m.json', 'w') as f:\n        print(1, file=f)\n",
        Rule.WRITES,
    ),
    ("    model = Net()\n", "    model = Net()\n    torch.save(model, 'a.pt')\n", Rule.WRITES),
    ("    model.eval()\n", "", Rule.EVALUATION),
    ('"accuracy", accuracy)', '"accuracy", 0.9)', Rule.EVALUATION),
    ("argmax(1) == y", "argmax(1) <= y", Rule.EVALUATION),
    ("evaluate(model, (torch.randn", "evaluate(model, (torch.zeros", Rule.EVALUATION),
    ('{"accuracy": accuracy}', '{"accuracy": max(accuracy, 0.9)}', Rule.EVALUATION),
    ('    return {"accuracy": accuracy}\n', '    return {"accuracy": 0.9}\n', Rule.METRIC),
    ('    return {"accuracy": accuracy}\n', '    return {"accuracy": round(0.9, 2)}\n', Rule.METRIC),
    ("    accuracy = evaluate(", "    accuracy = 0.9\n    evaluate(", Rule.METRIC),
    ("import torch\n", "import torch\nfrom urllib import request\n", Rule.IMPORTS),
    ("import torch\n", "import torch\nimport torch.hub as h\n", Rule.IMPORTS),
    ("import torch\n", "import torch\nfrom torch import hub\n", Rule.IMPORTS),
    ("    model = Net()\n", "    import importlib\n    model = Net()\n", Rule.IMPORTS),
    ("    model = Net()\n", "    model = Net()\n    run = exec\n", Rule.CALLS),
    ("    model = Net()\n", "    model = Net()\n    model.load_state_dict(torch.load('a.pt'))\n", Rule.CALLS),
    ("    model = Net()\n", "    model = Net()\n    np.load('a.npy', allow_pickle=True)\n", Rule.CALLS),
    ("    model = Net()\n", "    model = Net()\n    getattr(os, 'sys' + 'tem')('ls')\n", Rule.CALLS),
    ("    model = Net()\n", "    model = Net()\n    os.system('ls')\n", Rule.CALLS),
    ("    model = Net()\n", "    model = Net()\n    print(os.environ)\n", Rule.CALLS),
    ("    model = Net()\n", "    model = Net()\n    ｅｖａｌ('1')\n", Rule.CALLS),
    ("    model = Net()\n", "    model = Net()\n    print(main.__globals__)\n", Rule.CALLS),
    ("    model = Net()\n", "    model = Net()\n    np.random.seed = print\n", Rule.FOREIGN),
    ("    model = Net()\n", "    model = Net()\n    setattr(torch, 'relu', torch.sigmoid)\n", Rule.FOREIGN),
    ("    model = Net()\n", "    model = Net()\n    torch.backends.cudnn.benchmark = True\n", Rule.FOREIGN),
    ("    model = Net()\n", "    model = Net()\n    open('~/.ssh/id_rsa')\n", Rule.OUTSIDE),
    ("    model = Net()\n", "    model = Net()\n    open(f'/proc/{epochs}/status')\n", Rule.OUTSIDE),
    ("    model = Net()\n", "    model = Net()\n    print('https://example.org/x')\n", Rule.OUTSIDE),
    ("    model = Net()\n", "    model = Net()\n    print('a\u2066b')\n", Rule.INVISIBLE),
    ("    model = Net()\n", "    model = Net()\n    print('a\u00a0b')\n", Rule.INVISIBLE),
    ("    model = Net()\n", "    model = Net()\n    # \U000e0041\n", Rule.INVISIBLE),
]


@pytest.mark.parametrize(("gone", "comes", "rule"), WRONG, ids=[f"{one[2].name}-{n}" for n, one in enumerate(WRONG)])
def test_a_rule_that_is_broken_is_named(gone: str, comes: str, rule: Rule) -> None:
    assert gone in PLAIN
    _, policy = checked(PLAIN, PLAIN.replace(gone, comes, 1))
    assert rule.value in claims(policy), policy
    assert not policy.passed


RIGHT: list[tuple[str, str]] = [
    ("        self.b = nn.Linear(width, 2)\n", "        self.b = nn.Linear(4, 2)\n"),
    ("return self.b(torch.relu(self.a(x)))", "return self.b(x[..., :4])"),
    ("loss = model(x).square().mean()", "loss = model(x).abs().mean()"),
    ("    model = Net()\n", "    model = nn.Identity()  # no network\n"),
    ("    model = Net()\n", "    model = torch.compile(Net())\n"),
    ("    model = Net()\n", "    model = Net(width=16)\n"),
    ("    model = Net()\n", "    model = Net()\n    best_accuracy = 0.0\n"),
    (
        "    model = Net()\n",
        "    model = Net()\n    for layer in (model.a, model.b):\n        if layer:\n            break\n",
    ),
    ("    model = Net()\n", "    model = Net()\n    print(f'{epochs}/data')\n"),
    ("import torch\n", "import math\nimport torch\n"),
    ("return self.b(torch.relu(self.a(x)))", "return nn.functional.linear(x, weight=self.b.weight[:, :4])"),
    ("return self.b(torch.relu(self.a(x)))", "return self.b(torch.relu(self.a(x)).float())"),
    ("self.b = nn.Linear(width, 2)", "self.b = nn.Linear(width, 2).to('cpu')"),
    ("        optimizer.zero_grad()\n", "        model.train()\n        optimizer.zero_grad()\n"),
    ("    model = Net()\n", "    model = Net()\n    weight = model.a.weight\n    print(weight.shape)\n"),
    ("    model = Net()\n", "    model = Net()\n    norm = nn.LayerNorm(4)\n    print(norm)\n"),
    (
        "class Net(nn.Module):\n",
        'class Net(nn.Module):\n    """As at https://example.org/net, /proc is not read."""\n\n',
    ),
]


@pytest.mark.parametrize(("gone", "comes"), RIGHT)
def test_a_change_that_breaks_no_rule_passes(gone: str, comes: str) -> None:
    assert gone in PLAIN
    parse, policy = checked(PLAIN, PLAIN.replace(gone, comes, 1))
    assert parse.passed
    assert policy.passed, policy.reasons


@pytest.mark.parametrize(
    ("gone", "comes", "thing"),
    [
        ("momentum=0.9", "momentum=0.0", "momentum"),
        ("    model.eval()\n", "", "evaluate"),
        ("seed=0", "seed=1", "seed"),
        ("epochs=3", "epochs=1", "--epochs"),
        ("SGD(model.parameters(), 0.1", "SGD(model.parameters(), 0.2", "SGD"),
        ("loss.backward()", "(loss + 0 * penalty).backward()", "penalty"),
        ("    model = Net()\n", "    model = Net()\n    max_grad_norm = 5.0\n", "max_grad_norm"),
    ],
)
def test_what_the_plan_takes_away_is_no_broken_rule(gone: str, comes: str, thing: str) -> None:
    new = PLAIN.replace(gone, comes, 1)
    assert not checked(PLAIN, new)[1].passed
    assert checked(PLAIN, new, thing)[1].passed


def test_what_the_base_does_itself_is_not_told() -> None:
    base = "import os\nimport pickle\n\n\ndef f():\n    os.system('ls /tmp/x')\n    return eval('1'), open('/tmp/x')\n"
    assert checked(base, base.replace("return eval", "return 2, eval"))[1].passed
    twice = base.replace("    os.system('ls /tmp/x')\n", "    os.system('ls /tmp/x')\n    os.system('ls')\n")
    assert claims(checked(base, twice)[1]) == {Rule.CALLS.value}


def test_a_new_file_is_under_the_same_rules() -> None:
    parse, policy = checked(CNN, CNN.with_files({"helper.py": b"import socket\nx = undefined\n"}))
    assert "undefined name 'undefined'" in parse.reasons[0].text
    assert claims(policy) == {Rule.IMPORTS.value}
    assert checked(CNN, CNN.with_files({"helper.py": b"import math\n\nWIDTH = math.pi\n"}))[1].passed


TABLE = """\
def main(frame, model, columns):
    model.fit(frame[columns], frame["label"])
    return {"accuracy": model.score(frame[columns], frame["label"])}
"""


@pytest.mark.parametrize(
    ("comes", "passes"),
    [
        ("frame[[c for c in columns if c != 'a']]", True),
        ("frame[columns].drop(columns=['a'])", True),
        ("frame.loc[:, kept]", True),
        ("frame[columns][:10]", False),
        ("other[columns]", False),
        ("frame['guess']", False),
    ],
)
def test_where_columns_go_the_evaluation_may_be_given_fewer_of_them_and_nothing_else(comes: str, passes: bool) -> None:
    base, new = ({"a.py": f"kept = other = []\n{text}"} for text in (TABLE, TABLE.replace("frame[columns]", comes)))
    patch = make_patch_of_trees(*(Tree({"a.py": one["a.py"].encode()}) for one in (base, new)), Author(name="x"))
    variant = Variant(name="v", intent="", files=("a.py",), witnesses=(ColumnsGone(columns=("a",)),))
    _, policy = check(Tree({"a.py": base["a.py"].encode()}), patch, variant)
    assert policy.passed is passes, policy.reasons


@pytest.mark.parametrize(
    ("gone", "comes", "passes"),
    [
        ("make(9)", "make(3)", False),
        ("loader(make(9))", "loader(train)", False),
        ("make(40)", "make(40, width=2)", True),
    ],
)
def test_data_that_is_judged_on_stays(gone: str, comes: str, passes: bool) -> None:
    base = "def main(make, loader):\n    train = make(40)\n    test_loader = loader(make(9))\n    return train"
    _, policy = checked(base, base.replace(gone, comes))
    assert policy.passed is passes, policy.reasons
    assert claims(policy) <= {Rule.EVALUATION.value}


def test_a_trick_may_go_with_all_that_it_was_made_with() -> None:
    base = PLAIN.replace(
        "    for epoch", "    scheduler = torch.optim.lr_scheduler.OneCycleLR(max_lr=1, epochs=2)\n    for epoch"
    )
    assert claims(checked(base, PLAIN)[1]) == {Rule.LEARNING_RATE.value, Rule.EPOCHS.value}
    assert checked(base, PLAIN, "scheduler")[1].passed
    assert checked(base, PLAIN, "OneCycleLR")[1].passed


def test_the_command_line_is_read_as_before() -> None:
    base = "import argparse\n\nargs = argparse.ArgumentParser().parse_args()\n"
    assert claims(checked(base, base.replace("parse_args()", "parse_args(['--epochs', '1'])"))[1]) == {
        Rule.TRAINING.value
    }


def test_what_is_too_deep_to_be_looked_at_is_for_a_person() -> None:
    _, policy = checked("x = 1\n", f"x = {' + '.join(['1'] * 2000)}\nimport socket\n")
    assert policy.outcome is Outcome.FOR_A_PERSON
    assert "nested too deeply" in policy.reasons[0].text


# --- reformatting ---------------------------------------------------------------------------------


def test_a_file_that_was_formatted_anew_is_told_with_the_count() -> None:
    _, policy = checked(PLAIN, PLAIN.replace("    ", "  ").replace("Linear(width, 2)", "Linear(width, 3)"))
    assert claims(policy) == {Rule.FORMAT.value}
    (reason,) = policy.reasons
    idle, _, rest = reason.found.partition(" of ")
    assert int(idle) + 2 == int(rest.split()[0])


@pytest.mark.parametrize(
    "new",
    [
        PLAIN.replace('"accuracy"', "'accuracy'"),  # two lines only
        PLAIN.replace("    model = Net()\n", "    # why\n" * 20 + "    model = Net()\n"),
        PLAIN.replace(
            PLAIN[PLAIN.index("    for epoch") : PLAIN.index("    accuracy")],
            "    if width:\n"
            + "".join(
                f"    {x}\n" for x in PLAIN[PLAIN.index("    for epoch") : PLAIN.index("    accuracy")].splitlines()
            ),
        ).replace("main(seed=0, ", "main(seed=0, width=1, "),
    ],
)
def test_a_few_lines_comments_and_code_under_a_condition_are_no_reformatting(new: str) -> None:
    _, policy = checked(PLAIN, new)
    assert Rule.FORMAT.value not in claims(policy)


def test_definitions_in_another_order_are_told() -> None:
    at = PLAIN.index("class Net"), PLAIN.index("def evaluate"), PLAIN.index("def main")
    moved = PLAIN[: at[0]] + PLAIN[at[2] :] + "\n\n" + PLAIN[at[0] : at[2]].rstrip() + "\n"
    assert claims(checked(PLAIN, moved)[1]) == {Rule.FORMAT.value}


# --- marks ----------------------------------------------------------------------------------------

MARKED = """\
class Net:
    def __init__(self):
        self.a = 1  # ABLATABLE_COMPONENT
        # ABLATABLE_COMPONENT (name=second)
        self.b = 2
        self.c = 3

    # ABLATION_HINT_START
    # - drop a
    # ABLATION_HINT_END
    def forward(self):
        text = "# ABLATABLE_COMPONENT"
        return self.a + self.b
"""


@pytest.mark.parametrize(
    ("gone", "comes", "broken"),
    [
        ("self.a = 1  # ABLATABLE_COMPONENT", "self.a = 1", True),
        ("self.a = 1  # ABLATABLE_COMPONENT", "self.a = 5  # ABLATABLE_COMPONENT", False),
        ("self.a = 1  # ABLATABLE_COMPONENT", "self.a = 5", True),
        ("        self.a = 1  # ABLATABLE_COMPONENT\n", "", False),
        ("        # ABLATABLE_COMPONENT (name=second)\n        self.b = 2\n", "", False),
        ("        # ABLATABLE_COMPONENT (name=second)\n", "", True),
        ("self.c = 3", "self.c = 3  # ABLATABLE_COMPONENT", True),
        ("# - drop a", "# - drop b", True),
        ("    # ABLATION_HINT_START\n    # - drop a\n    # ABLATION_HINT_END\n", "", True),
        ("    def forward", "    # ABLATION_HINT_START\n    # - c\n    # ABLATION_HINT_END\n    def forward", True),
        ('text = "# ABLATABLE_COMPONENT"', 'text = ""', False),
    ],
)
def test_marks_stay_where_what_they_mark_stays(gone: str, comes: str, broken: bool) -> None:
    assert gone in MARKED
    _, policy = checked(MARKED, MARKED.replace(gone, comes, 1))
    assert (Rule.MARKS.value in claims(policy)) is broken, policy
    if gone.startswith("self.a = 1") and comes == "self.a = 5":
        assert checked(MARKED, MARKED.replace(gone, comes, 1), "a")[1].passed


def test_a_mark_with_a_name_goes_with_what_it_names_and_with_nothing_else() -> None:
    before = (
        "def main(batch):\n    batch = load(batch)\n    batch = shift(batch)  # ABLATABLE_COMPONENT(name=[shift, x])\n"
    )
    after = before.replace("    batch = shift(batch)  # ABLATABLE_COMPONENT(name=[shift, x])\n", "")
    assert Rule.MARKS.value not in claims(checked(before, after, "shift")[1])
    assert Rule.MARKS.value in claims(checked(before, after, "load")[1])


# --- small parts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("seed", Rule.SEEDS),
        ("--random-state", Rule.SEEDS),
        ("LR", Rule.LEARNING_RATE),
        ("base_lr", Rule.LEARNING_RATE),
        ("lr_max", Rule.LEARNING_RATE),
        ("num_epochs", Rule.EPOCHS),
        ("n_estimators", Rule.EPOCHS),
        ("BATCH_SIZE", Rule.TRAINING),
        ("lr_scheduler", None),
        ("hidden", None),
        ("epoch_loss", None),
        ("beta", None),
        ("seeded", None),
    ],
)
def test_numbers_are_known_by_their_names(name: str, rule: Rule | None) -> None:
    assert family_of(name) is rule


def test_what_nobody_sees_is_shown_by_number() -> None:
    assert numbered("a\u202eb\u00e9\t\n") == "a⟨U+202E⟩b\u00e9\t\n"
    assert numbered("\x1b[31m") == "⟨U+001B⟩[31m"
    assert lookalike("mоdel = 1") == "mоdel"
    assert lookalike("Δt = größe + модель") == ""


# --- what stands in the place of a component ------------------------------------------------------

WRITER = """\
class Writer(nn.Module):
    def forward(self, state, memory, target):
        written = []
        for place in range(3):
            context = self.attention(state, memory)
            written.append(self.output(torch.cat([state, context], dim=1)))
            letter = teach(written[-1], target[:, place])
            state = self.cell(letter) + self.skip(state)[0]
        return self.head(state)
"""


@pytest.mark.parametrize(
    ("gone", "comes"),
    [
        ("            context = self.attention(state, memory)\n", ""),
        ("context = self.attention(state, memory)", "context = state"),
        ("torch.cat([state, context], dim=1)", "state"),
        ("teach(written[-1], target[:, place])", "written[-1]"),
        (" + self.skip(state)[0]", ""),
        ("self.skip(state)[0]", "state"),
        ("return self.head(state)", "return state"),
        ("state = self.cell(letter)", "state = self.cell(letter.detach())"),  # nothing that is about it
    ],
)
def test_what_went_into_a_component_may_go_on_in_its_place(gone: str, comes: str) -> None:
    new = WRITER.replace(gone, comes)
    if "context" in gone:
        new = new.replace("            context = self.attention(state, memory)\n", "").replace(
            "torch.cat([state, context], dim=1)", "state"
        )
    names = ("attention", "teach", "skip", "head") if "detach" not in comes else ("attention",)
    _, policy = checked(WRITER, new, *names)
    assert Rule.STAND_IN.value not in claims(policy), policy.reasons


@pytest.mark.parametrize(
    ("gone", "comes", "told"),
    [
        ("self.attention(state, memory)", "memory[:, -1]", "`memory[:, -1]` stands where the component was used"),
        ("self.attention(state, memory)", "memory", "`memory` stands where the component was used"),
        ("self.attention(state, memory)", "torch.zeros_like(state)", "`torch.zeros_like(state)` stands"),
        ("teach(written[-1], target[:, place])", "target[:, place]", "`target[:, place]` stands"),
        ("return self.head(state)", "return state[:, :4]", "`state[:, :4]` stands"),
        ("self.skip(state)[0]", "state.mean(1)", "stands where the component was used"),
    ],
)
def test_what_takes_the_place_of_a_component_is_for_a_person(gone: str, comes: str, told: str) -> None:
    _, policy = checked(WRITER, WRITER.replace(gone, comes), "attention", "teach", "skip", "head")
    assert policy.outcome is Outcome.FOR_A_PERSON
    (reason,) = [one for one in policy.reasons if one.claim == Rule.STAND_IN.value]
    assert told in reason.text


def test_what_was_made_by_a_component_that_goes_is_not_made_up_for_elsewhere() -> None:
    new = WRITER.replace("            context = self.attention(state, memory)\n", "").replace("context]", "state]")
    _, policy = checked(WRITER, new, "attention")
    assert claims(policy) == {Rule.STAND_IN.value}
    assert "`written.append(self.output(torch.cat([state, state], dim=1)))` stands" in policy.reasons[0].text


GATES = """\
class Gates(nn.Module):
    def forward(self, x, y):
        x = x * torch.sigmoid(self.gate(x))
        y = y * y + self.mix(y)
        return x + self.skip(x) + y
"""


@pytest.mark.parametrize(
    ("gone", "comes", "doubled"),
    [
        ("self.gate(x)", "x", "x"),
        ("self.skip(x)", "x", "x"),
        (" * torch.sigmoid(self.gate(x))", "", ""),
        (" + self.skip(x)", "", ""),
        (" + self.mix(y)", "", ""),  # it was multiplied with itself before
    ],
)
def test_what_is_calculated_of_something_with_itself_where_a_component_stood_is_for_a_person(
    gone: str, comes: str, doubled: str
) -> None:
    _, policy = checked(GATES, GATES.replace(gone, comes), "gate", "skip", "mix")
    told = [one.text for one in policy.reasons if one.claim == Rule.STAND_IN.value]
    assert len(told) == bool(doubled)
    assert all(f"has `{doubled}` on both sides, where the component stood between them" in text for text in told)


# --- what changes beside a setting ----------------------------------------------------------------

SET = """\
"Trains."
import argparse

CARRIED = True
WIDTH, DEPTH = 3, 4

def options(parser, carried=True):
    parser.add_argument("--carried", action="store_true")
    return {"carried": True, "width": WIDTH}

def train(state):
    "Trains."
    return state if CARRIED else None
"""


def beside(new: str, *, file: str = "a.py", base: str = SET) -> set[str]:
    before = Tree({file: base.encode()})
    patch = make_patch_of_trees(before, before.with_files({file: new.encode()}), Author(name="somebody"))
    setting = SettingValue(name="CARRIED", value=False)
    variant = Variant(name="v", intent="", witnesses=(setting,), files=(file,))
    _, policy = check(before, patch, variant)
    assert policy.outcome is not Outcome.FAILED, policy.reasons
    return claims(policy)


@pytest.mark.parametrize(
    ("gone", "comes"),
    [
        ("CARRIED = True", "CARRIED = False"),
        ("CARRIED = True", "CARRIED = False  # each stretch begins afresh"),
        ("carried=True", "carried=False"),
        ('"carried": True', '"carried": False'),
        ('action="store_true"', 'action="store_false"'),
        ('"Trains."', '"Trains, and forgets."'),
    ],
)
def test_a_setting_may_have_its_value_wherever_it_is_given(gone: str, comes: str) -> None:
    assert not beside(SET.replace(gone, comes))


@pytest.mark.parametrize(
    ("gone", "comes"),
    [
        ("return state if CARRIED else None", "return state"),
        ("return state if CARRIED else None", "return state if not CARRIED else None"),
        ("WIDTH, DEPTH = 3, 4", "WIDTH, DEPTH = 3, 5"),
        ("import argparse\n", "import argparse\nimport math\n"),
        ("WIDTH, DEPTH = 3, 4\n", "WIDTH, DEPTH = 3, 4\nLAST = None\n"),
    ],
)
def test_what_changes_beside_a_setting_is_for_a_person(gone: str, comes: str) -> None:
    assert Rule.BESIDE.value in beside(SET.replace("CARRIED = True", "CARRIED = False").replace(gone, comes))


def test_a_setting_in_a_file_of_another_kind_may_have_its_value_and_its_neighbours_stay() -> None:
    base = "width: 3\ncarried: true\n"
    assert not beside("width: 3\ncarried: false\n", file="a.yaml", base=base)
    assert beside("width: 4\ncarried: false\n", file="a.yaml", base=base) == {Rule.BESIDE.value}
