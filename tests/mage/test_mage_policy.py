"""The catalogue: every bad reply is caught at its rung, with a fact; every right one passes."""

from __future__ import annotations

import msgspec
import programs
import pytest
from bad_replies import BAD, FILES, GOOD, WITHOUT_CONV2, BadReply, also, search
from climbing import read_and_checked
from variants_by_hand import Case
from variants_of_a_saboteur import BEYOND

from etude.mage.patch.blocks import Author, Search
from etude.mage.patch.making import make_patch, make_patch_of_trees
from etude.mage.static import policy
from etude.mage.static.checking import check
from etude.mage.static.policy import GOES_TO, Rule
from etude.mage.tree import Tree
from etude.mage.variants import Thing, Variant, What
from etude.mage.verdicts import Outcome, Verdict
from etude.mage.witnesses import CallGone, GroupValue

TREE = Tree({path: text.encode() for path, text in FILES.items()})
AUTHOR = Author(name="authored")


def climbed(text: str, variant: Variant = WITHOUT_CONV2, *, cut_off: bool = False) -> list[Verdict]:
    """Return what the rungs from REPLY to POLICY say, up to the first that stops it."""
    return read_and_checked(TREE, text, variant, cut_off=cut_off)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_a_bad_reply_is_caught_at_its_rung_with_a_fact(bad: BadReply) -> None:
    variant = msgspec.structs.replace(WITHOUT_CONV2, files=bad.files)
    last = climbed(bad.text, variant, cut_off=bad.cut_off)[-1]
    texts = [reason.text for reason in last.reasons]
    assert (last.rung, last.outcome) == (bad.rung, bad.outcome), texts
    assert any(bad.says in text for text in texts), texts
    if bad.claim:
        # The rule is the right one, and no other one was broken by accident.
        assert {reason.claim for reason in last.reasons} == {bad.claim, *bad.others}, texts
    assert all(reason.claim and (reason.expected or reason.found) for reason in last.reasons)


def test_no_bad_reply_is_in_the_catalogue_twice() -> None:
    assert len({bad.name for bad in BAD}) == len({(bad.text, bad.cut_off) for bad in BAD}) == len(BAD)


@pytest.mark.parametrize("name", GOOD)
def test_a_right_reply_passes_without_a_reason_or_an_alarm(name: str) -> None:
    for verdict in climbed(GOOD[name]):
        assert verdict.passed
        assert not verdict.reasons
        assert not verdict.alarms
        assert verdict.patch


def test_every_rule_goes_to_somebody_and_is_broken_in_the_catalogue() -> None:
    assert set(GOES_TO) == set(Rule)
    elsewhere = {Rule.BESIDE.value}  # variants of the catalogue are about a layer: test_static has it
    assert {bad.claim for bad in BAD if bad.claim} == {rule.value for rule in Rule} - elsewhere
    for bad in BAD:
        if bad.claim:
            assert GOES_TO[Rule(bad.claim)] is bad.outcome


def test_the_table_in_the_text_is_that_of_the_module() -> None:
    rows = [line for line in (policy.__doc__ or "").splitlines() if line.startswith("| ") and "goes to" not in line]
    to = {Outcome.FAILED: "the writer", Outcome.FOR_A_PERSON: "a person"}
    assert [row.split("|")[2].strip() for row in rows] == [to[GOES_TO[rule]] for rule in Rule]


def test_what_only_a_person_may_allow_does_not_hide_what_the_writer_has_to_mend() -> None:
    both = also("import json\n", "import json\nimport socket\n") + search("EPOCHS = 2\n", "EPOCHS = 1\n")
    verdict = climbed(both)[-1]
    assert verdict.outcome is Outcome.FAILED
    assert {reason.claim for reason in verdict.reasons} == {Rule.IMPORTS.value, Rule.EPOCHS.value}


def test_what_the_variant_names_may_change() -> None:
    reply = search("LEARNING_RATE = 1e-3\n", "LEARNING_RATE = 3e-3\n")
    named = msgspec.structs.replace(
        WITHOUT_CONV2, things=(Thing(name="LEARNING_RATE", what=What.SETTING, declared=("train.py", 16)),)
    )
    assert climbed(reply)[-1].outcome is Outcome.FOR_A_PERSON
    assert climbed(reply, named)[-1].passed
    claimed = msgspec.structs.replace(WITHOUT_CONV2, witnesses=(GroupValue(name="weight_decay", value=0.0),))
    decay = search(OPTIMIZER, OPTIMIZER.replace("1e-4", "0.0"))
    assert climbed(decay)[-1].outcome is Outcome.FOR_A_PERSON
    assert climbed(decay, claimed)[-1].passed


def test_other_constants_that_change_are_alarms() -> None:
    reply = search("EPOCHS = 2\n", "EPOCHS = 2\nWIDTH = 32\n")
    wider = search("def make_images(count, draws):\n", "def make_images(count, draws, noise=1.0):\n")
    assert not climbed(reply + wider)[-1].alarms
    twice = Tree({"a.py": b"WIDTH = 32\nDEPTH = 2\n"})
    patch = make_patch(twice, [Search(file="a.py", search="WIDTH = 32\n", text="WIDTH = 16\n")], author=AUTHOR)
    _, verdict = check(twice, patch, WITHOUT_CONV2, plan_files=["a.py"])
    assert verdict.passed
    assert verdict.alarms == ("a.py, line 1: WIDTH was `32` and is `16`.",)


def test_a_setting_in_a_configuration_file_is_under_the_same_rules() -> None:
    base = Tree({"conf.yaml": b"optim:\n  lr: 0.1\n  name: sgd\nseed: 1\n"})
    new = base.with_files({"conf.yaml": b"optim:\n  lr: 0.2\n  name: adam\nseed: 1\n"})
    patch = make_patch_of_trees(base, new, AUTHOR)
    parse, verdict = check(base, patch, WITHOUT_CONV2, plan_files=["conf.yaml"])
    assert parse.passed
    assert [reason.claim for reason in verdict.reasons] == [Rule.LEARNING_RATE.value]
    assert verdict.alarms == ("conf.yaml: name in optim was `sgd` and is `adam`.",)


CLIPPED_BY_A_SETTING = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


def test_what_a_claim_licenses_may_change_under_the_rules_about_training() -> None:
    gone = search(CLIPPED_BY_A_SETTING, "")
    assert {reason.claim for reason in climbed(gone)[-1].reasons} == {Rule.CLIPPING.value}
    clip = CallGone(name="torch.nn.utils.clip_grad_norm_")
    assert climbed(gone, msgspec.structs.replace(WITHOUT_CONV2, witnesses=(clip,)))[-1].passed
    heavier = search(
        "        loss = F.cross_entropy(model(images), labels)\n",
        "        loss = F.cross_entropy(model(images), labels, weight=torch.ones(10))\n",
    )
    weighed = msgspec.structs.replace(WITHOUT_CONV2, settings={"weight": True})
    assert climbed(heavier)[-1].outcome is Outcome.FOR_A_PERSON
    assert climbed(heavier, weighed)[-1].passed


# --- what facts of a run cannot show --------------------------------------------------------------

CAUGHT: dict[str, Rule | None] = {
    "images by numpy flipped": None,
    "accuracy times two": Rule.EVALUATION,
    "best of epochs": Rule.EVALUATION,
    "the metric is lifted": Rule.EVALUATION,
    "scored on fewer points": Rule.EVALUATION,
}
"""Cases that the judge cannot tell -> the rule that does; None where none does, and only a reader of the diff can."""


@pytest.mark.parametrize("case", BEYOND, ids=lambda case: case.name)
def test_what_the_judge_cannot_tell_meets_a_rule_or_is_known_to_meet_none(case: Case) -> None:
    before = Tree({"train.py": getattr(programs, case.program).encode()})
    patch = make_patch_of_trees(before, before.with_files({"train.py": case.source.encode()}), AUTHOR)
    parse, verdict = check(before, patch, case.variant, plan_files=["train.py"])
    assert parse.passed
    rule = CAUGHT[case.name]
    assert {reason.claim for reason in verdict.reasons} == ({rule.value} if rule else set()), verdict.reasons
    assert verdict.outcome is (GOES_TO[rule] if rule else Outcome.PASSED)


def test_each_case_that_the_judge_cannot_tell_has_its_rule() -> None:
    assert {case.name for case in BEYOND} == set(CAUGHT)


AROUND = """
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.skip = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        first = F.relu(self.up(x))
        second = F.relu(self.up(first) + self.skip(x))
        third = second + self.dropout(first)
        return self.up(third)
"""
NO_SKIP = (("        self.skip = nn.Linear(4, 4)\n", ""),)
NO_DROPOUT = (("        self.dropout = nn.Dropout(0.1)\n", ""), ("self.dropout(first)", "first"))


@pytest.mark.parametrize(
    ("gone", "edits", "said"),
    [
        ("skip", (*NO_SKIP, (" + self.skip(x)", "")), ""),
        ("dropout", NO_DROPOUT, ""),  # what is added goes on: a dropout does no more to it
        (
            "skip",
            (*NO_SKIP, ("self.skip(x)", "x")),
            "`x` stands where the component's result did (`F.relu(self.up(first) + self.skip(x))`): what is around",
        ),
        (
            "skip",
            (*NO_SKIP, (" + self.skip(x)", ""), ("return self.up(third)", "return x + self.up(third)")),
            "`x + self.up(third)` is calculated with `x` besides what it was (`self.up(third)`)",
        ),
        (
            "dropout",
            (*NO_DROPOUT, ("return self.up(third)", "return self.up(third) * 0.5")),
            "is calculated with `0.5` besides what it was",
        ),
    ],
    ids=["the sum goes", "what is added goes on", "an identity is added", "added elsewhere", "scaled elsewhere"],
)
def test_what_goes_around_a_layer_goes_with_it_and_nothing_is_added_elsewhere(
    gone: str, edits: tuple[tuple[str, str], ...], said: str
) -> None:
    after = AROUND
    for old, new in edits:
        assert after.count(old) == 1, old
        after = after.replace(old, new)
    before = Tree({"train.py": AROUND.encode()})
    patch = make_patch_of_trees(before, before.with_files({"train.py": after.encode()}), AUTHOR)
    thing = Thing(name=gone, what=What.MODULE, declared=("train.py", 9))
    variant = Variant(name=f"without-{gone}", intent="", things=(thing,), files=("train.py",))
    _, verdict = check(before, patch, variant, plan_files=["train.py"])
    texts = [reason.text for reason in verdict.reasons]
    assert (verdict.outcome is Outcome.FOR_A_PERSON) is bool(said), texts
    assert all(said in text for text in texts)


OPTIMIZER = "    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=1e-4)\n"
