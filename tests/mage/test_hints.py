"""Hints: what an item says, the paper's three texts, and names that are not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_programs import CNN, COLUMNS, SAGE, SIX, facts_of_source, facts_of_table, higgs, tree_of

from etude.mage.annotations import Annotation, Mark
from etude.mage.plan.hints import Item, Wish, items_of
from etude.mage.plan.marking import find_marks
from etude.mage.plan.planning import plan
from etude.mage.variants import Plan, Route, What
from etude.mage.witnesses import (
    CallGone,
    ColumnsGone,
    GroupValue,
    ModuleGone,
    ModuleValue,
    Resized,
    SettingValue,
)


def items(*lines: str) -> tuple[Item, ...]:
    """Return the items of a hint with some lines."""
    return items_of(Annotation(mark=Mark.HINT, file="train.py", lines=(10, 11 + len(lines)), text="\n".join(lines)))


def only(line: str) -> Item:
    """Return the item of a hint of one line."""
    (found,) = items(line)
    return found


def planned(source: str, **known: object) -> Plan:
    """Return the plan of one file."""
    tree = tree_of(train=source)
    annotations, remarks = find_marks(tree)
    assert remarks == ()
    return plan(tree, "train.py", annotations, **known)  # type: ignore[arg-type]


def hinted(source: str, *lines: str) -> str:
    """Return a source with a hint at its beginning."""
    text = "\n".join(f"# {line}" for line in lines)
    return f"# ABLATION_HINT_START\n{text}\n# ABLATION_HINT_END\n{source.replace('ABLATABLE_COMPONENT', '')}"


def told(plan: Plan) -> list[str]:
    """Return what is said of a plan."""
    return [one.text for one in plan.remarks]


# --- what an item says ----------------------------------------------------------------------------


@pytest.mark.parametrize("bullet", ["-", "*", "+", "•", "1.", "12)", "a)", "(b)", "i)", "iv."])
def test_bullets_of_all_kinds_begin_items(bullet: str) -> None:
    found = items("The study:", f"{bullet} remove conv2", f"{bullet} remove fc1")
    assert [(one.number, one.names, one.kind) for one in found] == [
        (1, ("conv2",), Wish.REMOVE),
        (2, ("fc1",), Wish.REMOVE),
    ]


def test_an_item_knows_its_line_in_the_file() -> None:
    assert [one.line for one in items("", "- a_1", "", "  going on", "- a_2")] == [12, 15]


def test_lines_that_go_on_belong_to_their_item() -> None:
    found = items("- remove conv2", "  and fc1", "- remove fc2")
    assert [one.names for one in found] == [("conv2", "fc1"), ("fc2",)]


def test_items_may_be_inside_others() -> None:
    found = items("Remove:", "1. conv2", "2. the dense part:", "   a) fc1", "   b) fc2", "3. conv3")
    assert [(one.names, one.kind) for one in found] == [
        ((name,), Wish.REMOVE) for name in ("conv2", "fc1", "fc2", "conv3")
    ]
    assert found[1].about == "Remove: the dense part:"


def test_without_bullets_each_line_is_an_item() -> None:
    assert [one.names for one in items("Remove conv2.", "Remove fc1 and fc2.")] == [("conv2",), ("fc1", "fc2")]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("- remove `conv2`", ("conv2",)),
        ("- remove 'DER mass' and \"PRI tau\"", ("DER mass", "PRI tau")),
        ("- remove ‘age’ and “fare”", ("age", "fare")),
        ("- remove `age, fare`", ("age", "fare")),
        ("- remove DER_mass_vis, DER_pt_h", ("DER_mass_vis", "DER_pt_h")),
        ("- without conv2, fc1 and encoder.block3.", ("conv2", "fc1", "encoder.block3")),
        ("- drop clip_grad_norm_", ("clip_grad_norm_",)),
        ("- remove the 'größe' column", ("größe",)),
    ],
)
def test_names_stand_in_quotes_or_between_commas(line: str, names: tuple[str, ...]) -> None:
    assert (only(line).kind, only(line).names) == (Wish.REMOVE, names)


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("- the second layer removed", (2,)),
        ("- remove layers 2 and layer 4", (2, 4)),
        ("- remove the 2nd, 3rd and last layers", (2, 3, -1)),
        ("- the first and tenth layers are dropped", (1, 10)),
    ],
)
def test_layers_may_be_counted(line: str, places: tuple[int, ...]) -> None:
    assert (only(line).kind, only(line).places) == (Wish.REMOVE, places)


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("- use 64 neurons in the first layer", (("1", 64),)),
        ("- the number of output neurons of the first layer is 8", (("1", 8),)),
        ("- conv3 with 16 channels", (("conv3", 16),)),
        ("- set the width of `fc1` to 32", (("fc1", 32),)),
        ("- fc1 has 16 units", (("fc1", 16),)),
    ],
)
def test_sizes_are_read(line: str, sizes: tuple[tuple[str, int], ...]) -> None:
    assert (only(line).kind, only(line).sizes, only(line).names) == (Wish.RESIZE, sizes, ())


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("- set dropout to 0", (("dropout", "0"),)),
        ("- set `lr` to 1e-3.", (("lr", "1e-3"),)),
        ("- use_clip = False", (("use_clip", "False"),)),
    ],
)
def test_settings_are_read(line: str, values: tuple[tuple[str, str], ...]) -> None:
    assert (only(line).kind, only(line).values) == (Wish.SET, values)


@pytest.mark.parametrize(
    ("line", "each", "pairs", "kind"),
    [
        ("- remove a_1, a_2", False, False, Wish.REMOVE),
        ("- remove each of a_1, a_2", True, False, Wish.REMOVE),
        ("- remove a_1, a_2 one at a time", True, False, Wish.REMOVE),
        ("- remove pairs of the above features, one pair at a time", False, True, Wish.PAIRS),
        ("- remove each pair of the features above", False, True, Wish.PAIRS),
        ("- remove a_1, a_2, a_3 individually and pairwise", True, True, Wish.REMOVE),
    ],
)
def test_one_at_a_time_together_and_in_pairs_are_told_apart(line: str, each: bool, pairs: bool, kind: Wish) -> None:
    found = only(line)
    assert (found.each, found.pairs, found.kind) == (each, pairs, kind)


@pytest.mark.parametrize(
    "line",
    [
        "- replace ReLU by tanh",
        "- remove conv2 and double the channels of conv3",
        "- keep only the first layer",
        "- try something with attention",
        "- remove fc1, but keep its activation",
    ],
)
def test_what_is_no_removal_is_not_taken_for_one(line: str) -> None:
    assert only(line).kind is Wish.OTHER


@given(st.text(max_size=80))
def test_no_text_makes_it_fail(text: str) -> None:
    for one in items(*text.split("\n")):
        assert one.line > 10


# --- the paper's three texts ----------------------------------------------------------------------


def test_the_hint_for_graphsage_removes_layers_and_varies_neurons() -> None:
    found = planned(SAGE, facts=facts_of_source(SAGE, "GraphSAGE", 10, 7))
    assert told(found) == []
    assert [(one.name, one.quote) for one in found.variants] == [
        ("without-sage2", "the second layer removed"),
        ("without-sage3", "the third layer removed"),
        ("without-sage4", "the fourth layer removed"),
        (
            "without-sage2-sage3-sage4-sage1-8",
            "the second, third, and fourth layers removed, while the number of output neurons of the first layer is 8",
        ),
        (
            "without-sage2-sage3-sage4-sage1-64",
            "the second, third, and fourth layers removed, while the number of output neurons of the first layer is 64",
        ),
    ]
    assert found.variants[0].witnesses == (
        ModuleGone(
            path="sage2", resized={"sage3.lin_l.weight": (8, 32), "sage3.lin_r.weight": (8, 32)}, along=("relu",)
        ),
    )
    assert found.variants[2].witnesses == (ModuleGone(path="sage4", along=("relu",)),)
    first = {"sage1.lin_l.weight": (64, 10), "sage1.lin_l.bias": (64,), "sage1.lin_r.weight": (64, 10)}
    last = {"sage5.lin_l.weight": (7, 64), "sage5.lin_r.weight": (7, 64)}
    assert found.variants[4].witnesses == tuple(
        ModuleGone(path=path, resized={**first, **last}, along=("relu",)) for path in ("sage2", "sage3", "sage4")
    )
    assert found.variants[4].intent == "`sage2`, `sage3`, `sage4` are removed, and `sage1` gives 64 numbers."


def test_what_the_hint_for_graphsage_claims_is_what_the_changed_program_has() -> None:
    found = planned(SAGE, facts=facts_of_source(SAGE, "GraphSAGE", 10, 7))
    without = SAGE.replace("        self.sage2 = SAGEConv(32, 16)\n", "").replace("SAGEConv(16, 8)", "SAGEConv(32, 8)")
    alone = SAGE.replace("SAGEConv(dim_in, 32)", "SAGEConv(dim_in, 64)").replace(
        "SAGEConv(8, dim_out)", "SAGEConv(64, dim_out)"
    )
    for line in ("SAGEConv(32, 16)", "SAGEConv(16, 8)", "SAGEConv(8, 8)"):
        name = next(text.split("=")[0] for text in alone.splitlines() if line in text)
        alone = alone.replace(f"{name}= {line}\n", "")
    for variant, source in ((found.variants[0], without), (found.variants[4], alone)):
        before = facts_of_source(SAGE, "GraphSAGE", 10, 7).models[0].parameters
        after = facts_of_source(source, "GraphSAGE", 10, 7).models[0].parameters
        claims = [one for one in variant.witnesses if isinstance(one, ModuleGone)]
        gone = tuple(f"{one.path}." for one in claims)
        expected = {name: row.shape for name, row in before.items() if not name.startswith(gone)} | dict(
            claims[0].resized
        )
        assert {name: row.shape for name, row in after.items()} == expected


def test_without_facts_a_size_that_nobody_can_tell_is_not_planned() -> None:
    found = planned(SAGE)
    assert [bool(one.unclear) for one in found.variants] == [False, False, False, True, True]
    assert found.variants[0].witnesses == (ModuleGone(path="sage2", others_stay=False, along=("relu",)),)
    assert (
        told(found)
        == ["What becomes of `sage1` can be told only once the program was run untouched. Run the baseline first."] * 2
    )


def test_the_hint_for_the_higgs_challenge_is_21_trials() -> None:
    found = planned(higgs(), columns=COLUMNS)
    assert told(found) == []
    claims = [one.witnesses for one in found.variants]
    assert claims[:6] == [(ColumnsGone(columns=(name,)),) for name in SIX]
    assert claims[6:] == [(ColumnsGone(columns=(one, other)),) for n, one in enumerate(SIX) for other in SIX[n + 1 :]]
    assert {one.route for one in found.variants} == {Route.RULE}  # not one call of a model
    assert len({one.name for one in found.variants}) == 21
    assert found.variants[-1].quote == "remove pairs of the above features, one pair at a time"


def test_columns_are_known_by_what_reached_fit() -> None:
    assert len(planned(higgs(), facts=facts_of_table()).variants) == 21


def test_a_column_that_is_not_there_stops_the_hint() -> None:
    names = (*SIX[:3], "DER_dilatei_jet_jet", *SIX[4:])
    found = planned(higgs(names), columns=COLUMNS)
    assert found.variants == ()
    assert told(found) == [
        "Hint item 4 names column `DER_dilatei_jet_jet`; the data has `DER_deltaeta_jet_jet`. Nothing was planned."
    ]
    assert found.remarks[0].line == 12


def test_a_name_that_is_listed_twice_is_said_and_counts_once() -> None:
    found = planned(higgs((*SIX[:4], SIX[3], *SIX[4:])), columns=COLUMNS)
    assert told(found) == ["Hint items 4 and 5 both name `DER_deltaeta_jet_jet`. It counts once."]
    assert len(found.variants) == 21


def test_columns_that_nobody_knows_are_planned_and_it_is_said() -> None:
    found = planned(higgs(SIX[:2]))
    assert len(found.variants) == 3
    assert told(found) == [
        "`DER_mass_transverse_met_lep`, `DER_mass_vis`: the columns of the data are not known, so these "
        "names could not be "
        "checked. Run the baseline first, or name the columns."
    ]


# --- other hints ----------------------------------------------------------------------------------


def test_names_together_are_one_variant_and_each_of_them_are_several() -> None:
    one = planned(
        hinted(higgs(()), f"- remove '{SIX[0]}' and '{SIX[1]}'").replace("#ABLATION_HINT", "#"), columns=COLUMNS
    )
    assert [claim for variant in one.variants for claim in variant.witnesses] == [ColumnsGone(columns=SIX[:2])]
    text = f"- remove each of the features {', '.join(SIX[:3])}, individually and pairwise"
    many = planned(hinted(higgs(()), text).replace("#ABLATION_HINT", "#"), columns=COLUMNS)
    assert [len(variant.things) for variant in many.variants] == [1, 1, 1, 2, 2, 2]


def test_a_layer_that_is_not_there_is_told_with_the_nearest() -> None:
    found = planned(hinted(CNN, "- remove the layer conv4"))
    assert told(found) == [
        "Hint item 1 names layer `conv4`; `CIFAR10CNN` has `conv1`, `conv2`, `conv3`. Nothing was planned."
    ]
    found = planned(
        hinted(
            SAGE.replace("#ABLATION_HINT", "#").replace("# ABLATION_HINT", "#"),
            "- remove the seventh layer of GraphSAGE",
        )
    )
    assert told(found) == [
        "Hint item 1 names layer 7; `GraphSAGE` has 5 (`sage1`, `sage2`, `sage3`, `sage4`, `sage5`). "
        "Nothing was planned."
    ]


def test_layers_of_nobody_knows_which_network_are_told() -> None:
    two = CNN + CNN.replace("CIFAR10CNN", "Other")
    found = planned(hinted(two, "- remove the second layer"))
    assert told(found) == [
        "Hint item 1 counts layers, and it is not known of which network (`CIFAR10CNN`, `Other`). Name it "
        "in the hint, or put "
        "the hint above its class. Nothing was planned."
    ]


def test_functions_flags_and_modules_may_be_named() -> None:
    source = CNN.replace(
        "    torch.manual_seed", "    parser.add_argument('--use-aug', default=True)\n    torch.manual_seed"
    )
    found = planned(
        hinted(source, "- without clip_grad_norm_", "- remove the dropout", "- remove use_aug", "- remove conv2")
    )
    assert [one.witnesses for one in found.variants] == [
        (CallGone(name="torch.nn.utils.clip_grad_norm_"),),
        (ModuleGone(path="dropout"),),
        (SettingValue(name="use_aug", value=False),),
        (),
    ]
    assert [one.things[0].what for one in found.variants] == [What.TRICK, What.MODULE, What.SETTING, What.MODULE]
    assert [one.route for one in found.variants] == [Route.RULE, Route.RULE, Route.RULE, Route.MODEL]
    assert found.variants[3].unclear


def test_widths_and_values_have_claims_of_their_own() -> None:
    source = CNN.replace(
        "    torch.manual_seed", "    parser.add_argument('--epochs', type=int, default=5)\n    torch.manual_seed"
    )
    lines = ("- fc1 has 16 units", "- set dropout to 0", "- set epochs to 2", "- set weight_decay to 0.1")
    found = planned(hinted(source, *lines))
    assert told(found) == []
    assert [one.witnesses for one in found.variants] == [
        (Resized(shapes={"fc1.weight": (16, 2048), "fc1.bias": (16,), "fc2.weight": (10, 16)}),),
        (ModuleValue(path="dropout", name="p", value=0.0),),
        (SettingValue(name="epochs", value=2),),
        (GroupValue(name="weight_decay", value=0.1),),
    ]
    assert [one.name for one in found.variants] == [
        "with-fc1-16",
        "with-dropout-0",
        "with-epochs-2",
        "with-weight_decay-0.1",
    ]


def test_modules_that_go_in_pairs_have_neighbours_of_their_own() -> None:
    facts = facts_of_source(SAGE, "GraphSAGE", 10, 7)
    source = SAGE.replace("#ABLATION_HINT", "#").replace("# ABLATION_HINT", "#")
    found = planned(hinted(source, "- remove sage2", "- remove sage3", "- pairs of the above"), facts=facts)
    assert found.variants[2].witnesses == tuple(
        ModuleGone(path=path, resized={"sage4.lin_l.weight": (8, 32), "sage4.lin_r.weight": (8, 32)}, along=("relu",))
        for path in ("sage2", "sage3")
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ("- replace relu by tanh",),
            "Hint item 1 could not be read: `replace relu by tanh`. Nothing was planned of it. Say "
            "what is to be removed, by its name in quotes; or let a model plan it.",
        ),
        (
            ("- remove 'warm_up'",),
            "Hint item 1 names `warm_up`; the program has no name like it, but `conv1`, `conv2`, `conv3`, "
            "`pool`, `fc1`, `fc2` and 2 more. Nothing was planned.",
        ),
        (
            ("- remove conv1", "- remove pairs"),
            "Hint item 2 asks for pairs, and there is 1 thing above it to pair. Nothing was planned.",
        ),
        (
            ("- set warmup_steps to 3",),
            "Hint item 1 names setting `warmup_steps`; the program has no name like it, but `seed`. "
            "Nothing was planned.",
        ),
        (("- remove `fc1` and `fc1`",), "Hint item 1 names `fc1` twice. It counts once."),
    ],
)
def test_what_cannot_be_planned_is_told(lines: tuple[str, ...], said: str) -> None:
    assert said in told(planned(hinted(CNN.replace("conv2(x)", "conv2(x)"), *lines)))
