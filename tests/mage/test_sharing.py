"""Variants that share one change: it is asked for once, judged first, mended for all, and binds approvals of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from stand_ins import ENTRY, TRAIN, TREE, Backend, bench, patch_of_trees, plan, removing, variant

from etude.mage.loop.book import Approval, Record, digest_of_verdicts
from etude.mage.loop.machine import Tries
from etude.mage.loop.session import read
from etude.mage.loop.states import Stage
from etude.mage.patch.blocks import Author
from etude.mage.patch.making import with_arguments
from etude.mage.plan.planning import told
from etude.mage.plan.sharing import FLAGS, NAME, shared
from etude.mage.review.screen import screen
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Route, Variant
from etude.mage.verdicts import Outcome, Rung
from etude.mage.witnesses import ColumnsGone, ModuleGone, Untouched

LAYERS = ("conv1", "conv2", "conv3", "fc")
TRIALS = tuple(f"without-{layer}" for layer in LAYERS)
PLACE = "noise = 0.0\n"
GOOD = removing(PLACE, 'import sys\nfor name in sys.argv[2:]:\n    del layers[f"{name}.weight"]\nnoise = 0.0\n')
UNUSED = removing(PLACE, "import sys\nwithout = sys.argv[2:]\nnoise = 0.0\n")
ALTERED = removing(PLACE, "noise = 0.1\n")
CHANGE = Variant(name=NAME, intent="an argument", files=("train.py",), witnesses=(Untouched(),))
SHARING = Plan(
    base=TREE.digest,
    entry=ENTRY,
    variants=(
        CHANGE,
        *(
            replace(
                variant(f"without-{layer}", Route.SHARED),
                shares=NAME,
                arguments=("--without", layer),
                witnesses=(ModuleGone(path=layer),),
            )
            for layer in LAYERS
        ),
    ),
)


def run(folder: Path, *replies: str, tries: Tries = Tries()) -> tuple[Record, Backend]:  # noqa: B008 - it is frozen
    backend = Backend(list(replies))
    with bench(folder, backend, wanted=SHARING, tries=tries) as at:
        at.work.run()
    return read(folder), backend


def stages(record: Record) -> dict[str, Stage]:
    return {name: one.stage for name, one in record.standings.items()}


ALL_WAIT = {NAME: Stage.SHARED, **dict.fromkeys(TRIALS, Stage.AWAITING_REVIEW)}


# --- the plan -------------------------------------------------------------------------------------


def columns(*names: str, route: Route = Route.MODEL) -> Variant:
    return Variant(
        name="without-" + "-".join(names),
        intent="",
        files=("train.py",),
        witnesses=(ColumnsGone(columns=names),),
        route=route,
    )


def of(*variants: Variant, entry: str = ENTRY) -> Plan:
    return Plan(base=TREE.digest, entry=entry, variants=variants)


ALIKE = (columns("a"), columns("b"), columns("a", "b"), columns("c"))


def test_variants_that_lack_columns_and_nothing_else_share_one_change() -> None:
    other = variant("without-conv2")
    found = shared(of(other, *ALIKE), TREE)
    assert [one.name for one in found.variants] == ["without-conv2", NAME, *(one.name for one in ALIKE)]
    assert found.variants[0] == other
    assert found.variants[1].serves
    assert "`--without a,b`" in found.variants[1].intent
    assert [one.arguments for one in found.variants[2:]] == [("--without", names) for names in ("a", "b", "a,b", "c")]
    assert "nobody: it is parametrised, called with --without a,b" in told(found)


@pytest.mark.parametrize(
    "left",
    [
        of(*ALIKE[:3]),
        of(*ALIKE[:3], columns("c", route=Route.RULE)),
        of(*ALIKE[:3], columns("c,d")),
        of(*ALIKE[:3], replace(columns("c"), unclear=("one way", "another"))),
        of(*ALIKE, entry="train.py:experiment"),
    ],
    ids=["too few", "a rule writes one", "a comma in a name", "one is unclear", "it takes no arguments"],
)
def test_others_stay_as_they_are(left: Plan) -> None:
    assert shared(left, TREE) == left


def test_the_argument_is_none_that_the_program_knows_already() -> None:
    def flag(text: str) -> str:
        return shared(of(*ALIKE), Tree({"train.py": text.encode()})).variants[1].arguments[0]

    assert flag(TRAIN) == "--without"
    assert flag('parser.add_argument("--without")') == "--leave-out"
    every = Tree({"train.py": " ".join(FLAGS).encode()})
    assert shared(of(*ALIKE), every) == of(*ALIKE)


def test_arguments_make_a_patch_another_one() -> None:
    new = TREE.with_files({"train.py": b"pass\n"})
    patch = patch_of_trees(TREE, new, Author(name="somebody"))
    first, second = with_arguments(patch, ("--without", "a b")), with_arguments(patch, ("--without", "a", "b"))
    assert len({patch.digest, first.digest, second.digest}) == 3
    assert first.result == patch.result
    assert with_arguments(patch, ("--without", "a b")) == first


# --- the loop -------------------------------------------------------------------------------------


def test_one_reply_serves_all_and_each_waits_for_a_person(tmp_path: Path) -> None:
    record, backend = run(tmp_path / "s", GOOD)
    assert stages(record) == ALL_WAIT
    assert len(backend.asked) == 1
    assert {record.standings[name].outcome for name in record.standings} == {Outcome.PASSED}
    assert record.verdicts_of(NAME)[-2].rung is Rung.BASELINE
    patches = [record.patch_of(name) for name in TRIALS]
    assert [one.arguments for one in patches if one is not None] == [("--without", layer) for layer in LAYERS]
    assert len({one.digest for one in patches if one is not None}) == len(TRIALS)
    assert "called with --without conv2" in screen(record, "without-conv2")


def test_a_change_that_alters_the_baseline_is_mended_before_anybody_takes_it(tmp_path: Path) -> None:
    record, backend = run(tmp_path / "s", ALTERED, GOOD)
    assert stages(record) == ALL_WAIT
    assert "the baseline was changed" in backend.asked[1].messages[3].text
    assert {len(record.standings[name].patches) for name in TRIALS} == {1}


def test_a_change_that_does_nothing_costs_one_run_and_is_mended_for_all(tmp_path: Path) -> None:
    record, backend = run(tmp_path / "s", UNUSED, GOOD)
    assert stages(record) == ALL_WAIT
    assert "Called for without-conv1: " in backend.asked[1].messages[3].text
    assert [len(record.standings[name].patches) for name in TRIALS] == [2, 1, 1, 1]
    assert record.standings[NAME].calls == 2
    assert {record.standings[name].calls for name in TRIALS} == {0}


def test_what_cannot_be_mended_is_given_up_for_each_that_it_fails_for(tmp_path: Path) -> None:
    only_some = GOOD.replace("sys.argv[2:]", "[n for n in sys.argv[2:] if n != 'conv2']")
    record, backend = run(tmp_path / "s", only_some, tries=Tries(repairs=0, drafts=1))
    assert stages(record) == {**ALL_WAIT, "without-conv2": Stage.GAVE_UP}
    assert "conv2" in record.standings["without-conv2"].why
    assert len(backend.asked) == 1


def test_where_a_change_cannot_be_mended_any_more_what_is_begun_anew_is_asked_for_by_itself(tmp_path: Path) -> None:
    fails = 'if name == "conv3":\n        raise ValueError("conv3 cannot go")\n    '
    failing = removing(
        PLACE, f'import sys\nfor name in sys.argv[2:]:\n    {fails}del layers[f"{{name}}.weight"]\nnoise = 0.0\n'
    )
    once = Tries(repairs=0, drafts=1)
    record, _ = run(tmp_path / "one", failing, tries=once)
    assert stages(record) == {**ALL_WAIT, "without-conv3": Stage.GAVE_UP}
    own = Backend([removing('layers["conv3.weight"] = [4, 4]\n')])
    with bench(tmp_path / "one", own, wanted=SHARING, tries=once) as at:
        at.work.try_again("without-conv3")
        at.work.run()
    record = read(tmp_path / "one")
    assert len(own.asked) == 1
    assert stages(record) == ALL_WAIT
    assert record.standings["without-conv3"].route is Route.MODEL


def test_where_the_first_one_cannot_be_the_others_are_tried_all_the_same(tmp_path: Path) -> None:
    all_but_first = GOOD.replace("sys.argv[2:]", "[n for n in sys.argv[2:] if n != 'conv1']")
    record, _ = run(tmp_path / "s", all_but_first, tries=Tries(repairs=0, drafts=1))
    assert stages(record) == {**ALL_WAIT, "without-conv1": Stage.GAVE_UP}


def test_those_that_passed_keep_a_change_that_fails_for_another_and_the_others_take_the_mended_one(
    tmp_path: Path,
) -> None:
    only_some = GOOD.replace("sys.argv[2:]", "[n for n in sys.argv[2:] if n != 'conv2']")
    record, backend = run(tmp_path / "s", only_some, GOOD)
    assert stages(record) == ALL_WAIT
    assert len(backend.asked) == 2
    assert len(record.standings["without-conv1"].patches) == 1
    assert len(record.standings["without-conv2"].patches) == 2


def test_if_the_change_comes_to_nothing_the_others_wait_and_a_persons_own_serves_them(tmp_path: Path) -> None:
    record, _ = run(tmp_path / "s", ALTERED, tries=Tries(repairs=0, drafts=1))
    assert stages(record) == {NAME: Stage.GAVE_UP, **dict.fromkeys(TRIALS, Stage.DRAFTING)}
    assert {record.standings[name].why for name in TRIALS} == {
        "waits for parametrised, the change that it shares with others"
    }
    good = TRAIN.replace(
        PLACE, 'import sys\nfor name in sys.argv[2:]:\n    del layers[f"{name}.weight"]\nnoise = 0.0\n'
    )
    own = patch_of_trees(TREE, TREE.with_files({"train.py": good.encode()}), Author(name="me"))
    with bench(tmp_path / "s") as at:
        at.work.hand_in(NAME, own)
        at.work.run()
    record = read(tmp_path / "s")
    assert stages(record) == ALL_WAIT
    assert {record.standings[name].why for name in TRIALS} == {""}


def test_one_that_is_rejected_with_a_note_is_written_by_itself(tmp_path: Path) -> None:
    run(tmp_path / "s", GOOD)
    backend = Backend([removing('layers["conv2.weight"] = [4, 4]  # ABLATABLE_COMPONENT\n')])
    with bench(tmp_path / "s", backend) as at:
        at.work.reject("without-conv2", "by itself, please", by="me")
        at.work.run()
    record = read(tmp_path / "s")
    patch = record.patch_of("without-conv2")
    assert patch is not None
    assert patch.arguments == ()
    assert stages(record) == ALL_WAIT


def test_each_is_approved_by_itself_and_the_change_is_no_variant(tmp_path: Path) -> None:
    run(tmp_path / "s", GOOD)
    with bench(tmp_path / "s") as at:
        record = at.book.record
        for name in TRIALS:
            patch = record.patch_of(name)
            assert patch is not None
            verdict = digest_of_verdicts(record.verdicts_of(name))
            at.work.accept(name, Approval(by="me", patch=patch.digest, verdict=verdict))
    record = read(tmp_path / "s")
    assert stages(record) == {NAME: Stage.SHARED, **dict.fromkeys(TRIALS, Stage.ACCEPTED)}
    assert list(record.accepted()) == list(TRIALS)


def test_a_study_that_is_taken_up_goes_on_with_those_that_wait(tmp_path: Path) -> None:
    class Stopped(RuntimeError):
        pass

    seen: list[str] = []

    def stop(text: str) -> None:
        seen.append(text)
        if text == "without-conv3: running it":
            raise Stopped

    with bench(tmp_path / "s", Backend([GOOD]), wanted=SHARING) as at:
        at.work._say = stop  # as a kill does, in the middle of it
        with pytest.raises(Stopped):
            at.work.run()
    backend = Backend([])
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
    assert stages(read(tmp_path / "s")) == ALL_WAIT
    assert plan("without-conv2").variants[0].shares == ""
    assert backend.asked == []


# --- by the commands ------------------------------------------------------------------------------

HINTED = """\
import json
import sys
from pathlib import Path

import numpy
import pandas
from sklearn.linear_model import LogisticRegression


def wanted(table):
    return table[sorted(set(table) - {"label"})]


# ABLATION_HINT_START
# - remove `first`, `second` and `third`, one at a time and in pairs
# ABLATION_HINT_END
draw = numpy.random.default_rng(int(sys.argv[2]))
table = pandas.DataFrame(draw.normal(size=(200, 4)), columns=["first", "second", "third", "fourth"])
table["label"] = (table["first"] + table["second"] > 0).astype(int)
features = wanted(table)
found = LogisticRegression().fit(features, table["label"]).score(features, table["label"])
Path("metrics.json").write_text(json.dumps({"accuracy": found}))
"""


def test_the_commands_plan_one_change_for_all_and_ask_for_no_other(tmp_path: Path) -> None:
    from etude.cli.mage_planning import planned, would_be_asked
    from etude.mage.loop import preparing
    from etude.mage.loop.book import Setup

    (tmp_path / "train.py").write_text(HINTED)
    columns = ("first", "second", "third", "fourth")
    setup = Setup(root=str(tmp_path), entry=ENTRY, metric="metrics.json:accuracy", columns=columns)
    project = preparing.look(tmp_path, entry=ENTRY)
    plan = planned(project, setup)
    assert [one.route for one in plan.variants] == [Route.MODEL, *[Route.SHARED] * 6]
    asked, by_rule, unclear = would_be_asked(None, project, setup, None, None, study="s", for_plan=False)
    assert (list(asked), by_rule, unclear) == ([NAME], (), {})
