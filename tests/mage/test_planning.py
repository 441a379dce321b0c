"""Plans: what each variant is, how it is meant, by what it is known to be done, and what stops a plan."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_programs import CNN, COLUMNS, SAGE, SIX, built, facts_of_network, facts_of_source, higgs, tree_of

from etude.core.errors import ConfigError
from etude.mage.annotations import Annotation
from etude.mage.facts import Facts
from etude.mage.networks.removal import Way
from etude.mage.plan.marking import find_marks
from etude.mage.plan.pairs import name_of, pairs, safe, unique
from etude.mage.plan.planning import plan, told
from etude.mage.plan.replying import from_reply, schema
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Route, Thing, Variant, What
from etude.mage.witnesses import (
    CallChanged,
    CallGone,
    ColumnsGone,
    ModuleGone,
    SettingValue,
    Witness,
)

SEEN = facts_of_source(CNN, "CIFAR10CNN", batch=(8, 3, 32, 32))


def planned(source: str, entry: str = "train.py", **known: Any) -> Plan:
    """Return the plan of one file."""
    tree = tree_of(train=source)
    annotations, remarks = find_marks(tree)
    assert remarks == ()
    return plan(tree, entry, annotations, **known)


def only(source: str, **known: Any) -> Variant:
    """Return the one variant of a file that is clear."""
    found = planned(source, **known)
    assert [str(one) for one in found.remarks] == []
    assert len(found.variants) == 1
    assert found.variants[0].unclear == ()
    return found.variants[0]


def claims(source: str, **known: Any) -> tuple[Witness, ...]:
    """Return what its one variant claims."""
    return only(source, **known).witnesses


# --- modules --------------------------------------------------------------------------------------


def test_the_pooling_behind_a_layer_makes_two_readings_that_are_counted() -> None:
    found = planned(CNN, facts=SEEN)
    assert [str(one) for one in found.remarks] == [
        "train.py: Line 14: `conv2` removed: the pooling after it can stay (1,092,106 parameters) or go "
        "(4,237,834; 3.7 "
        "times the baseline). Choose with `with=pool`. It stays with `with=none`. Or "
        "leave the file as it is: --choose conv2=pool, or --choose conv2=none."
    ]
    assert found.variants[0].unclear == (
        "the pooling after it stays (1,092,106 parameters)",
        "the pooling after it goes (4,237,834; 3.7 times the baseline)",
    )
    assert found.variants[0].witnesses == ()
    assert found.variants[0].things[0] == Thing(
        name="conv2",
        what=What.MODULE,
        declared=("train.py", 14),
        used=(("train.py", 23),),
        evidence="self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  #ABLATABLE_COMPONENT",
    )


@pytest.mark.parametrize("way", ["choices", "mark"])
def test_who_chooses_gets_one_reading(way: str) -> None:
    for choice, resized, along, idle in (
        ("pool", {"conv3.weight": (128, 32, 3, 3), "fc1.weight": (512, 8192)}, ("relu", "pool"), ()),
        ("none", {"conv3.weight": (128, 32, 3, 3)}, (), ("relu",)),  # after that of conv1 it does nothing
    ):
        if way == "mark":
            source = CNN.replace("#ABLATABLE_COMPONENT", f"# ABLATABLE_COMPONENT (with={choice})", 1)
            found = planned(source, facts=SEEN)
        else:
            found = planned(CNN, facts=SEEN, choices={"conv2": choice})
        assert found.remarks == ()
        assert found.variants[0].witnesses == (ModuleGone(path="conv2", resized=resized, along=along, idle=idle),)
        assert found.variants[1].witnesses == (
            ModuleGone(path="fc1", resized={"fc2.weight": (10, 2048)}, along=("relu",)),
        )


POOL = "nn.MaxPool2d(2, 2)"
CALLED = CNN.replace("#ABLATABLE_COMPONENT", "# ABLATABLE_COMPONENT(name=second{})", 1)


@pytest.mark.parametrize(
    ("source", "choices"),
    [
        (CALLED.format(", with=pool"), None),
        (CALLED.format(""), {"conv2": "pool"}),
        (CALLED.format(""), {"second": "pool"}),
        (CALLED.format(", with=smaller").replace(POOL, f"{POOL}  # ABLATABLE_COMPONENT(name=smaller)"), None),
    ],
    ids=["with=", "chosen by its own name", "chosen by its label", "with= another label"],
)
def test_a_name_that_a_mark_gives_a_layer_is_only_what_its_variant_is_called(
    source: str, choices: dict[str, str] | None
) -> None:
    plain = planned(CNN, facts=SEEN, choices={"conv2": "pool"}).variants[0]
    found = planned(source, facts=SEEN, choices=choices).variants[0]
    assert (plain.name, found.name) == ("without-conv2", "without-second")
    assert [one.name for one in found.things] == ["conv2"]
    assert (found.witnesses, found.meaning, found.intent) == (plain.witnesses, plain.meaning, plain.intent)


def test_a_choice_for_what_is_called_otherwise_names_both() -> None:
    with pytest.raises(ConfigError) as refused:
        planned(CALLED.format(""), facts=SEEN, choices={"secnd": "pool"})
    assert str(refused.value) == (
        "A choice was made for 'secnd', which is no component of this plan. Did you mean `second`?"
    )


@pytest.mark.parametrize(
    ("text", "name", "claim"),
    [
        ("USE_CLIP = True  # ABLATABLE_COMPONENT(name=tame)\n", "tame", SettingValue(name="USE_CLIP", value=False)),
        (
            'data = data.copy()\ndata["age"] = data["age"].clip(0, 90)  # ABLATABLE_COMPONENT(name=years)\n',
            "years",
            ColumnsGone(columns=("age",)),
        ),
        (
            "loss = loss + 0.1 * w.pow(2).sum()  # ABLATABLE_COMPONENT(name=small)\n",
            "small",
            CallChanged(name="pow"),
        ),
    ],
    ids=["a setting", "a column", "a term of the loss"],
)
def test_a_name_that_a_mark_gives_anything_is_only_what_its_variant_is_called(
    text: str, name: str, claim: Witness
) -> None:
    found = planned(text).variants[0]
    assert (found.name, found.witnesses) == (f"without-{name}", (claim,))


def test_a_name_that_a_mark_gives_tells_which_of_several_is_meant() -> None:
    source = CNN.replace("        self.conv2 = nn", "        self.extra, self.conv2 = nn.Linear(2, 2), nn")
    source = source.replace("#ABLATABLE_COMPONENT", "# ABLATABLE_COMPONENT(name=conv2, with=none)", 1)
    assert [one.name for one in planned(source).variants[0].things] == ["conv2"]


def test_what_stays_behind_a_layer_and_does_nothing_more_is_no_part_of_what_goes() -> None:
    made = CNN.replace("F.relu(", "self.act(").replace(
        "        self.pool =", "        self.act = nn.ReLU()\n        self.pool ="
    )
    found = planned(made, facts=SEEN, choices={"conv2": "none", "fc1": "none"}).variants
    assert [variant.meaning.partition(".")[0] for variant in found] == [
        "It stays behind it: `pool`, `act`",
        "It stays behind it: `dropout`, `act`",
    ]
    for variant in found:
        [claim] = variant.witnesses
        assert isinstance(claim, ModuleGone)
        assert (claim.along, claim.idle) == ((), ("act",))


def test_what_is_claimed_of_both_readings_is_what_the_changed_programs_have() -> None:
    body = "        x = self.pool(F.relu(self.conv2(x)))\n"
    gone = CNN.replace("        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  #ABLATABLE_COMPONENT\n", "")
    gone = gone.replace("nn.Conv2d(64, 128", "nn.Conv2d(32, 128")
    stays = gone.replace(body, "        x = self.pool(x)\n")
    goes = gone.replace(body, "").replace("128 * 4 * 4", "128 * 8 * 8")
    for choice, source, total in (("none", stays, 1_092_106), ("pool", goes, 4_237_834)):
        net = built(source, "CIFAR10CNN")
        assert sum(one.numel() for one in net.parameters()) == total
        claim = planned(CNN, facts=SEEN, choices={"conv2": choice}).variants[0].witnesses[0]
        assert isinstance(claim, ModuleGone)
        before = {n: p.shape for n, p in SEEN.models[0].parameters.items() if not n.startswith("conv2.")}
        after = {n: p.shape for n, p in facts_of_network(net).models[0].parameters.items()}
        assert before | dict(claim.resized) == after


def test_the_numbers_may_be_counted_elsewhere_or_be_unknown() -> None:
    ways: list[Way] = []

    def count(way: Way) -> int:
        ways.append(way)
        return 1_000_000 * len(ways)

    assert (
        "can stay (1,000,000 parameters) or go (2,000,000; 1.7 times"
        in planned(CNN, facts=SEEN, count=count).remarks[0].text
    )
    assert [(way.text, way.gone, way.along) for way in ways] == [
        ("stay", ("conv2",), {"conv2": ("relu",)}),
        ("go", ("conv2",), {"conv2": ("relu", "pool")}),
    ]
    assert planned(CNN).remarks[0].text == (
        "`conv2` removed: the pooling after it can stay or go. Choose with `with=pool`. It stays with `with=none`. "
        "Or leave the file as it is: --choose conv2=pool, or --choose conv2=none."
    )


def test_odd_image_sizes_are_followed_exactly() -> None:
    source = CNN.replace("4 * 4", "3 * 3")  # 28, 14, 7, 3: a quarter is not a ninth
    facts = facts_of_source(source, "CIFAR10CNN", batch=(8, 3, 28, 28))
    claim = planned(source, facts=facts, choices={"conv2": "pool"}).variants[0].witnesses[0]
    assert claim == ModuleGone(
        path="conv2",
        resized={"conv3.weight": (128, 32, 3, 3), "fc1.weight": (512, 128 * 7 * 7)},
        along=("relu", "pool"),
    )


def test_without_the_size_of_images_what_depends_on_it_is_left_open() -> None:
    claim = planned(CNN, choices={"conv2": "pool"}).variants[0].witnesses[0]
    assert claim == ModuleGone(
        path="conv2", resized={"conv3.weight": (128, 32, 3, 3), "fc1.weight": None}, along=("relu", "pool")
    )


def test_a_normalisation_goes_with_its_layer_unless_nothing_is_to() -> None:
    source = NORMED
    facts = facts_of_source(source, "Net", batch=(4, 3, 8, 8))
    with_it = claims(source, facts=facts)
    resized = {"conv3.weight": (16, 4, 3, 3)}
    assert with_it == (
        ModuleGone(path="conv2", resized=resized, along=("act",)),
        ModuleGone(path="bn2", resized=resized),
    )
    alone = claims(source.replace("COMPONENT", "COMPONENT (with=none)"), facts=facts)
    assert alone == (ModuleGone(path="conv2", resized={**resized, "bn2.weight": (4,), "bn2.bias": (4,)}),)


NORMED = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3, padding=1)  # ABLATABLE_COMPONENT
        self.bn2 = nn.BatchNorm2d(8)
        self.act = nn.ReLU()
        self.conv3 = nn.Conv2d(8, 16, 3, padding=1)
        self.all = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 2)

    def forward(self, x):
        x = self.act(self.conv1(x))
        x = self.conv2(x)
        x = self.act(self.bn2(x))
        x = self.act(self.conv3(x))
        x = self.all(x).flatten(1)
        return self.fc(x)
"""


def test_where_a_network_branches_nothing_is_claimed_of_neighbours() -> None:
    source = NORMED.replace("        x = self.conv2(x)\n", "        x = x + self.conv2(x)\n")
    found = only(source)
    assert found.witnesses == (ModuleGone(path="conv2", others_stay=False),)
    assert found.meaning == "What is before it goes straight into what is behind it."


def test_the_layer_before_the_last_one_gives_what_the_last_one_gave() -> None:
    source = NORMED.replace("  # ABLATABLE_COMPONENT", "").replace(
        "nn.Linear(16, 2)", "nn.Linear(16, 2)  # ABLATABLE_COMPONENT"
    )
    facts = facts_of_source(source, "Net", batch=(4, 3, 8, 8))
    found = only(source, facts=facts)
    assert found.witnesses == (ModuleGone(path="fc", resized={"conv3.weight": (2, 8, 3, 3), "conv3.bias": (2,)}),)
    assert "`conv3` gives 2 numbers." in found.meaning


BLOCKS = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)  # ABLATABLE_COMPONENT

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.second(self.first(x)))
"""


@pytest.mark.parametrize("seen", [False, True])
def test_a_class_that_is_used_twice_loses_its_module_at_both_places(seen: bool) -> None:
    facts = facts_of_source(BLOCKS, "Net", batch=(8, 4)) if seen else None
    paths = [one.path for one in claims(BLOCKS, facts=facts) if isinstance(one, ModuleGone)]
    assert paths == ["first.two", "second.two"]


def test_a_marked_class_means_all_its_modules() -> None:
    source = BLOCKS.replace("  # ABLATABLE_COMPONENT", "").replace(
        "class Block(nn.Module):", "class Block(nn.Module):  # ABLATABLE_COMPONENT"
    )
    paths = [one.path for one in claims(source) if isinstance(one, ModuleGone)]
    assert paths == ["first", "second"]


def test_a_mark_where_a_module_is_called_means_that_module() -> None:
    source = CNN.replace("ABLATABLE_COMPONENT", "x").replace(
        "F.relu(self.fc1(x)))", "F.relu(self.fc1(x)))  # ABLATABLE_COMPONENT"
    )
    assert claims(source, facts=SEEN) == (ModuleGone(path="fc1", resized={"fc2.weight": (10, 2048)}, along=("relu",)),)


def test_a_sequence_is_a_network_of_its_own() -> None:
    source = (
        "from torch import nn\nnet = nn.Sequential(\n    nn.Linear(4, 8),\n"
        "    nn.Linear(8, 8),  # ABLATABLE_COMPONENT\n    nn.Linear(8, 2),\n)\n"
    )
    assert claims(source) == (ModuleGone(path="1"),)


HEADED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))  # ABLATABLE_COMPONENT

    def encode(self, x):
        return F.relu(self.body(x))

    def forward(self, x):
        code = self.encode(x)
        return self.head(code)
"""


def test_a_marked_sequence_within_a_network_goes_as_one() -> None:
    found = only(f"from torch import nn\nimport torch.nn.functional as F\n{HEADED}")
    assert found.witnesses == (ModuleGone(path="head", others_stay=False),)  # its ``forward`` is no straight chain
    assert [(thing.name, thing.what) for thing in found.things] == [("head", What.MODULE)]


def test_definitions_that_only_the_component_needs_may_go_with_it() -> None:
    source = "from torch import nn\nimport torch.nn.functional as F\n" + HEADED.replace(
        "nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))", "Head(8)"
    )
    assert set(only(source).goes) == {"head", "Head"}


def test_what_is_chosen_has_to_be_there() -> None:
    source = CNN.replace("#ABLATABLE_COMPONENT", "# ABLATABLE_COMPONENT (with=pol)", 1)
    assert planned(source, facts=SEEN).remarks[0].text == (
        "`with=pol` names nothing that `CIFAR10CNN` has. Did you mean `pool`? Nothing was planned."
    )
    with pytest.raises(ConfigError) as refused:
        planned(CNN, choices={"conv9": "pool"})
    assert str(refused.value) == (
        "A choice was made for 'conv9', which is no component of this plan. Did you mean `conv2`?"
    )


# --- everything else ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "witness", "what"),
    [
        (
            "from torch import nn\nnn.utils.clip_grad_norm_(p, 1.0)  # ABLATABLE_COMPONENT\n",
            CallGone(name="torch.nn.utils.clip_grad_norm_"),
            What.TRICK,
        ),
        (
            "import torch\nscheduler = torch.optim.lr_scheduler.StepLR(o, 3)\n"
            "scheduler.step()  # ABLATABLE_COMPONENT\n",
            CallGone(name="torch.optim.lr_scheduler.StepLR.step"),
            What.TRICK,
        ),
        (
            "import torch\nscheduler = torch.optim.lr_scheduler.StepLR(o, 3)  # ABLATABLE_COMPONENT\n"
            "scheduler.step()\n",
            CallGone(name="torch.optim.lr_scheduler.StepLR.step"),
            What.TRICK,
        ),
        (
            "def augment(x):\n    return x\nx = augment(x)  # ABLATABLE_COMPONENT\n",
            CallGone(name="train.py:augment"),
            What.AUGMENTATION,
        ),
        (
            "def augment(x):  # ABLATABLE_COMPONENT\n    return x\n",
            CallGone(name="train.py:augment"),
            What.AUGMENTATION,
        ),
        (
            "from torchvision import transforms\nt = transforms.Compose([\n"
            "    transforms.RandomCrop(3),  # ABLATABLE_COMPONENT\n"
            "    transforms.ToTensor(),\n])\n",
            CallGone(name="torchvision.transforms.RandomCrop"),
            What.AUGMENTATION,
        ),
        (
            "def smooth(x):\n    return x\nloss = f(x)\nloss += 0.1 * smooth(x)  # ABLATABLE_COMPONENT\n",
            CallGone(name="train.py:smooth"),
            What.LOSS_TERM,
        ),
        (  # a function of the program, which has the name of a method of tensors
            "def size(x):\n    return x.mean()\ndef draw(x):\n    return x\nb = draw(a)\n"
            "loss = loss + 0.1 * size(b)  # ABLATABLE_COMPONENT\n",
            CallGone(name="train.py:size"),
            What.LOSS_TERM,
        ),
        (
            "import torch.nn.functional as F\nextra = F.l1_loss(a, b)\n"
            "loss = loss + 0.1 * extra  # ABLATABLE_COMPONENT\n",
            CallGone(name="torch.nn.functional.l1_loss"),
            What.LOSS_TERM,
        ),
        ("loss = loss + 0.1 * w.pow(2).sum()  # ABLATABLE_COMPONENT\n", CallChanged(name="pow"), What.LOSS_TERM),
        (
            "import torch\ntorch.relu(a)\ntorch.relu(b)  # ABLATABLE_COMPONENT\n",
            CallChanged(name="torch.relu"),
            What.TRICK,
        ),
        (
            "import torch\nwith torch.autocast('cpu'):  # ABLATABLE_COMPONENT\n    f()\n",
            CallGone(name="torch.autocast"),
            What.TRICK,
        ),
        (
            "from torch.nn.utils import clip_grad_norm_\nclip = True  # ABLATABLE_COMPONENT\nif clip:\n"
            "    clip_grad_norm_(p, 1.0)\n",
            CallGone(name="torch.nn.utils.clip_grad_norm_"),
            What.TRICK,
        ),
        ("USE_CLIP = True  # ABLATABLE_COMPONENT\n", SettingValue(name="USE_CLIP", value=False), What.SETTING),
        ("WEIGHT = 0.5  # ABLATABLE_COMPONENT\n", SettingValue(name="WEIGHT", value=0.0), What.SETTING),
        (
            "@dataclass\nclass Config:\n    clip: bool = True  # ABLATABLE_COMPONENT\n",
            SettingValue(name="clip", value=False),
            What.SETTING,
        ),
        (
            "parser.add_argument('--mix-up', type=float, default=0.2)  # ABLATABLE_COMPONENT\n",
            SettingValue(name="mix_up", value=0.0),
            What.SETTING,
        ),
        (
            "features = [\n    'age',\n    'fare',  # ABLATABLE_COMPONENT\n    'sex',\n]\nX = data[features]\n",
            ColumnsGone(columns=("fare",)),
            What.COLUMNS,
        ),
        ("data['age2'] = data['age'] ** 2  # ABLATABLE_COMPONENT\n", ColumnsGone(columns=("age2",)), What.COLUMNS),
        ("JETS = ['a', 'b']  # ABLATABLE_COMPONENT\n", ColumnsGone(columns=("a", "b")), What.COLUMNS),
    ],
)
def test_each_kind_of_component_has_a_claim(source: str, witness: Witness, what: What) -> None:
    found = only(source)
    assert found.witnesses == (witness,)
    assert found.things[0].what is what
    assert found.files == ("train.py",)


def test_a_flag_that_the_command_gives_can_be_taken_away() -> None:
    source = "parser.add_argument('--clip', action='store_true')  # ABLATABLE_COMPONENT\n"
    found = planned(source, "python train.py --clip")
    assert found.variants[0].witnesses == (SettingValue(name="clip", value=False),)
    assert found.variants[0].meaning == "`clip` is False in place of True, and nothing else changes."
    off = planned(source)
    told = (
        "it is off already, since the command does not give `--clip`. "
        "Say in a hint what it is to be, as in `set clip to 1`"
    )
    assert off.variants[0].unclear == (told,)
    assert off.remarks[0].text == f"`clip` (line 1): {told}."


@pytest.mark.parametrize(
    ("arguments", "given", "now"),
    [
        ("'--aug', action='store_true'", "", False),
        ("'--aug', action='store_true'", "--aug", True),
        ("'--no-aug', dest='aug', action='store_false'", "", True),
        ("'--no-aug', dest='aug', action='store_false'", "--no-aug", False),
        ("'--aug', action=argparse.BooleanOptionalAction", "", None),
        ("'--aug', action=argparse.BooleanOptionalAction", "--aug", True),
        ("'--aug', action=argparse.BooleanOptionalAction, default=True", "", True),
        ("'--aug', action=argparse.BooleanOptionalAction, default=True", "--no-aug", False),
    ],
)
def test_what_a_marked_flag_is_depends_on_the_command_as_argparse_has_it(
    arguments: str, given: str, now: bool | None
) -> None:
    space: dict[str, Any] = {}
    source = f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument({arguments})"
    exec(source, space)
    assert space["parser"].parse_args(given.split()).aug is now
    found = planned(f"{source}  # ABLATABLE_COMPONENT\n", f"python train.py {given}")
    assert found.variants[0].name == "without-aug"
    assert found.variants[0].witnesses == ((SettingValue(name="aug", value=False),) if now else ())
    assert bool(found.variants[0].unclear) is not bool(now)


def test_a_marked_argument_that_is_no_flag_is_not_planned_as_a_call_that_goes() -> None:
    found = planned("import argparse\np = argparse.ArgumentParser()\np.add_argument('data')  # ABLATABLE_COMPONENT\n")
    assert found.variants[0].witnesses == ()
    assert found.variants[0].unclear[0].startswith("nothing is known by which one could see that it is gone.")


@pytest.mark.parametrize(
    "source",
    [
        "x = 3 * y  # ABLATABLE_COMPONENT\n",
        "import numpy  # ABLATABLE_COMPONENT\n",
        "name = 'a'  # ABLATABLE_COMPONENT\n",
    ],
)
def test_what_nobody_could_see_to_be_gone_is_not_planned_to_be_written(source: str) -> None:
    found = planned(source)
    assert found.variants[0].witnesses == ()
    assert found.variants[0].unclear == (
        "nothing is known by which one could see that it is gone. Mark the call, the module or the "
        "setting that does it, or "
        "write the variant by hand",
    )


def test_functions_of_other_files_are_called_by_their_file() -> None:
    tree = tree_of(
        train="from pkg.aug import flip as turn\nx = turn(x)  # ABLATABLE_COMPONENT\n",
        pkg__aug="def flip(x):\n    return x\n",
    )
    found = plan(tree, "train.py", find_marks(tree)[0])
    assert found.variants[0].witnesses == (CallGone(name="pkg/aug.py:flip"),)


# --- plans as a whole -----------------------------------------------------------------------------


def test_without_any_mark_nothing_is_planned_and_the_mend_is_said() -> None:
    with pytest.raises(ConfigError) as refused:
        plan(tree_of(train="x = 1\n", model="y = 1\n"), "train.py", ())
    assert str(refused.value) == (
        "nothing is marked: there is no #ABLATABLE_COMPONENT and no #ABLATION_HINT_START in 2 Python "
        "files, so it is not "
        "known what is to be removed. Mark it, or run `etude mage suggest` to see what could be."
    )


def test_marks_that_contradict_each_other_stop_the_plan() -> None:
    tree = tree_of(train="# ABLATABLE_COMPONENT (with=pool)\nx = f()  # ABLATABLE_COMPONENT (with=none)\n")
    with pytest.raises(ConfigError) as refused:
        plan(tree, "train.py", find_marks(tree)[0])
    assert str(refused.value) == (
        "train.py: `x` is marked twice, in line 1 (with=pool) and in line 2 (with=none): these contradict "
        "each other. Leave "
        "one of them."
    )


def test_an_entry_that_is_not_there_stops_the_plan() -> None:
    tree = tree_of(train=CNN)
    with pytest.raises(ConfigError, match=r"Did you mean `train\.py`"):
        plan(tree, "trian.py", find_marks(tree)[0])


def test_a_plan_is_the_same_each_time_and_knows_its_base() -> None:
    one, other = planned(CNN, facts=SEEN), planned(CNN, facts=SEEN)
    assert one == other
    assert one.base == tree_of(train=CNN).digest
    assert msgspec.json.decode(msgspec.json.encode(one), type=Plan) == one


def test_a_plan_is_told_to_a_person() -> None:
    text = told(planned(CNN, facts=SEEN, choices={"conv2": "pool"}))
    assert text == (
        f"2 variants of train.py (base {tree_of(train=CNN).digest[:12]})\n"
        "\n"
        "without-conv2: `conv2` is removed.\n"
        "  module         conv2 (train.py, line 14; used in line 23)\n"
        "  meant          What is called behind it goes along: `relu`, `pool`. Others take new shapes: `conv3.weight` "
        "128x32x3x3, `fc1.weight` 512x8192.\n"
        "  known by       `conv2` has no parameter and no call; `conv3.weight` is 128x32x3x3; "
        "`fc1.weight` is 512x8192; all "
        "other shapes stay\n"
        "  written by     a language model, a program or a person; may change train.py\n"
        "\n"
        "without-fc1: `fc1` is removed.\n"
        "  module         fc1 (train.py, line 17; used in line 26)\n"
        "  meant          What is called behind it goes along: `relu`. It stays behind it: `dropout`. "
        "Others take new shapes: "
        "`fc2.weight` 10x2048.\n"
        "  known by       `fc1` has no parameter and no call; `fc2.weight` is 10x2048; all other shapes stay\n"
        "  written by     a language model, a program or a person; may change train.py\n"
    )
    asked = told(planned(CNN, facts=SEEN))
    assert "  may be         the pooling after it stays (1,092,106 parameters)\n" in asked
    assert "  not written    until it is chosen\n" in asked
    assert "To know:\n  train.py: Line 14: `conv2` removed:" in asked


# --- pairs and names ------------------------------------------------------------------------------


def column(name: str) -> Variant:
    """Return a variant without a column."""
    thing = Thing(name=name, what=What.COLUMNS, declared=("train.py", 1))
    return Variant(
        name=name_of([name]), intent="", things=(thing,), witnesses=(ColumnsGone(columns=(name,)),), route=Route.RULE
    )


@given(st.lists(st.text(min_size=1, max_size=8), max_size=8))
def test_pairs_are_all_twos_of_different_things(names: list[str]) -> None:
    found = pairs([column(name) for name in names])
    wanted = [(one, other) for n, one in enumerate(names) for other in names[n + 1 :] if one != other]
    assert [tuple(thing.name for thing in one.things) for one in found] == wanted
    assert all(one.witnesses == (ColumnsGone(columns=pair),) for one, pair in zip(found, wanted, strict=True))
    assert all(one.route is Route.RULE for one in found)


@given(st.lists(st.text(max_size=120), max_size=6))
def test_names_of_variants_are_names_of_files_and_unique(names: list[str]) -> None:
    found = unique([column(name) for name in names])
    assert len({one.name.lower() for one in found}) == len(names)
    for one in found:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", one.name)
        assert len(one.name) <= 110


def test_names_keep_what_files_may_have() -> None:
    assert name_of(["encoder.conv2", "DER mass (GeV)"]) == "without-encoder.conv2-DER_mass_GeV"
    assert safe("../etc/passwd") == "etc_passwd"
    assert name_of(["größe"]) == "without-gr_e"


def test_unclear_variants_pair_with_nothing_and_shared_neighbours_are_left_open() -> None:
    def module(name: str, **resized: Any) -> Variant:
        thing = Thing(name=name, what=What.MODULE, declared=("a.py", 1))
        return Variant(name=name, intent="", things=(thing,), witnesses=(ModuleGone(path=name, resized=resized),))

    unclear = msgspec.structs.replace(module("c"), unclear=("one", "other"))
    (found,) = pairs([module("a", **{"b.weight": (1, 2)}), module("b", **{"d.weight": (3, 4)}), unclear])
    assert found.witnesses == tuple(ModuleGone(path=path, resized={"d.weight": None}) for path in ("a", "b"))
    (apart,) = pairs([module("a", **{"x.weight": (1, 2)}), module("b", **{"y.weight": (3, 4)})])
    assert apart.witnesses[0] == ModuleGone(path="a", resized={"x.weight": (1, 2), "y.weight": (3, 4)})


# --- plans that a model made ----------------------------------------------------------------------


def row(**changes: Any) -> dict[str, Any]:
    """Return an item of an answer."""
    return {
        "quote": "- remove pairs of the above features, one pair at a time",
        "wish": "pairs",
        "names": [],
        "sizes": [],
        "values": [],
        "each": False,
    } | changes


def replied(*rows: Any, source: str = higgs(), facts: Facts | None = None, text: str | None = None) -> Plan:
    """Return the plan that an answer makes."""
    tree = tree_of(train=source)
    annotations, _ = find_marks(tree)
    return from_reply(
        text or json.dumps({"items": rows}), tree, annotations, entry="train.py", columns=COLUMNS, facts=facts
    )


def test_a_model_may_say_what_a_hint_means() -> None:
    found = replied(row(names=list(SIX)))
    assert [one.witnesses for one in found.variants] == [
        (ColumnsGone(columns=(one, other)),) for n, one in enumerate(SIX) for other in SIX[n + 1 :]
    ]
    assert {one.quote for one in found.variants} == {"remove pairs of the above features, one pair at a time"}
    sizes = replied(
        row(quote="the second layer removed", wish="remove", names=["sage2"], sizes=[{"name": "sage1", "outputs": 16}]),
        source=SAGE,
        facts=facts_of_source(SAGE, "GraphSAGE", 10, 7),
    )
    assert sizes.variants[0].name == "without-sage2-sage1-16"
    fenced = (
        "Here it is:\n```json\n"
        + json.dumps({"items": [row(quote=f"remove '{SIX[0]}'", wish="remove", names=[SIX[0]])]})
        + "\n```\n"
    )
    assert replied(text=fenced).variants[0].name == "without-DER_mass_transverse_met_lep"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row(quote="- remove everything")], "item 1 quotes '- remove everything', which is no line of a hint"),
        ([row(quote="remove")], "item 1 quotes 'remove', which is no line of a hint"),
        (
            [row(wish="remove", names=["DER_mass_viz"])],
            "Hint item 1 names column `DER_mass_viz`; the data has `DER_mass_vis`. Nothing was planned.",
        ),
        ([row(wish="explode")], "Item 1 of the plan that came back has the wish 'explode'"),
        ([row(extra=1)], "has 'extra', which is not in the schema"),
        ([{"quote": "x"}], "lacks 'wish'"),
        ([row(names="x")], "has names that are no list of texts"),
        ([row(sizes=[{"name": "a", "outputs": True}])], "has sizes that are not as the schema says"),
        ([row(each=1)], "has an 'each' that is neither true nor false"),
        ([row(quote=" ")], "has no quote"),
        (["x"], "is no object"),
    ],
)
def test_what_a_model_invents_is_refused(rows: list[Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        replied(*rows)
    assert told in str(refused.value)
    assert "Nothing was planned" in str(refused.value)


def test_a_quote_may_be_a_line_of_a_document_or_of_code_that_names_what_goes() -> None:
    source = (
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        self.fc1 = nn.Linear(4, 4)\n"
    )
    tree = tree_of(train=source + "        self.fc2 = nn.Linear(4, 2)\n")
    docs = {"train.py": "1 Method\n\n- The first layer is the point.\n"}  # called as a file of the project is

    def read(quote: str) -> Plan:
        text = json.dumps({"items": [row(quote=quote, wish="remove", names=["fc1"])]})
        return from_reply(text, tree, (), entry="train.py", docs=docs)

    (of_document,) = read("The first layer is the point.").variants
    assert of_document.quote == "The first layer is the point.  (document train.py)"
    (of_code,) = read("self.fc1 = nn.Linear(4, 4)").variants
    assert of_code.quote == "self.fc1 = nn.Linear(4, 4)  (train.py)"
    for one in (of_document, of_code):
        assert (one.files, one.things[0].declared) == (("train.py",), ("train.py", 4))
    with pytest.raises(ConfigError, match="no line of a hint or a document, nor one of the code that names fc1"):
        read("self.fc2 = nn.Linear(4, 2)")


def test_what_a_document_says_of_columns_is_placed_in_the_project() -> None:
    tree = tree_of(train="import pandas\ntrain = pandas.read_csv('t.csv')\nx = train[['age', 'height']]\n")
    text = json.dumps({"items": [row(quote="Age tells most.", wish="remove", names=["age"])]})
    found = from_reply(text, tree, (), entry="train.py", columns=("age", "height"), docs={"p.txt": "Age tells most."})
    (variant,) = found.variants
    assert variant.files == ("train.py",)
    assert variant.things[0].declared[0] == "train.py"


@pytest.mark.parametrize("text", ["no", "[]", '{"items": 3}', "```\n{}\n```\n```\n{}\n```\n", "[" * 100_000])
def test_an_answer_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="The plan that came back"):
        replied(text=text)


def test_the_schema_is_strict_and_an_answer_of_its_shape_is_taken() -> None:
    said = schema()
    item = said["properties"]["items"]["items"]
    assert item["required"] == list(row())
    assert item["additionalProperties"] is False
    assert item["properties"]["wish"]["enum"] == ["remove", "pairs", "resize", "set"]
    json.dumps(said)


@given(st.text(max_size=60), st.sampled_from(["", "# ABLATION_HINT_START\n# - remove conv2\n# ABLATION_HINT_END\n"]))
def test_no_source_makes_planning_fail_otherwise_than_by_saying_so(text: str, before: str) -> None:
    tree = Tree({"train.py": f"{before}{text}\nx = f()  # ABLATABLE_COMPONENT\n".encode("utf-8", "replace")})
    annotations: tuple[Annotation, ...] = find_marks(tree)[0]
    with suppress(ConfigError):
        assert told(plan(tree, "train.py", annotations)).startswith(("1 variant", "2 variant", "0 variant"))
