"""The judge: nothing wrong passes, nothing right is turned away, and each verdict says by which fact."""

from functools import cache

import programs
import pytest
from msgspec import structs
from variants_by_hand import CONV2_GONE, CONV3_FITS, CORRECT, NO_CONV2_MADE, RM_CONV2, WRONG, Case
from variants_of_a_saboteur import AGAIN, BEYOND, SABOTAGE
from watching import watch

from etude.mage.facts import Ended, Facts, FitFacts
from etude.mage.judge.baseline import Baseline, compare_runs
from etude.mage.judge.judging import judge, judge_baseline, judge_first_step
from etude.mage.patch.blocks import Author, Patch
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Rung, Verdict
from etude.mage.witnesses import ColumnsGone, ModuleGone

ENOUGH = 100
"""Steps: all of these programs end before."""


@cache
def base_of(program: str, steps: int = ENOUGH) -> Baseline:
    source = getattr(programs, program)
    return compare_runs([watch(source, steps=steps), watch(source, steps=steps)])


@cache
def verdict_on(case: Case, steps: int = ENOUGH) -> Verdict:
    return judge(case.variant, base_of(case.program, steps), watch(case.source, steps=steps))


def told(verdict: Verdict) -> str:
    return "\n".join(reason.text for reason in verdict.reasons)


@pytest.mark.parametrize("case", CORRECT, ids=lambda case: case.name)
def test_a_correct_variant_passes(case: Case) -> None:
    verdict = verdict_on(case)
    assert verdict.passed, told(verdict)
    assert verdict.rung is Rung.GONE


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_a_wrong_variant_does_not_pass_and_a_fact_says_why(case: Case) -> None:
    verdict = verdict_on(case)
    assert not verdict.passed
    assert verdict.rung is case.rung
    assert case.found in told(verdict)
    assert verdict.facts
    assert all(reason.claim for reason in verdict.reasons)


@pytest.mark.parametrize("case", SABOTAGE + AGAIN, ids=lambda case: case.name)
def test_what_a_saboteur_wrote_does_not_pass(case: Case) -> None:
    verdict = verdict_on(case)
    assert not verdict.passed
    assert case.found in told(verdict)


@pytest.mark.parametrize("case", BEYOND, ids=lambda case: case.name)
def test_what_facts_cannot_show_is_known(case: Case) -> None:
    assert verdict_on(case).passed  # once this fails, the judge sees more than it did: move the case up


def test_there_are_enough_of_both() -> None:
    assert len(CORRECT) >= 12
    assert len(WRONG) >= 25
    assert len({case.name for case in CORRECT + WRONG}) == len(CORRECT + WRONG)


@pytest.mark.parametrize("case", CORRECT[:3], ids=lambda case: case.name)
def test_the_first_three_steps_are_enough_for_a_correct_one(case: Case) -> None:
    assert verdict_on(case, 3).passed


def test_a_verdict_on_the_first_steps_alone_says_that_no_metric_was_seen() -> None:
    assert verdict_on(CORRECT[0], 3).not_run == (Rung.SHORT_RUN.name,)
    assert verdict_on(CORRECT[0]).not_run == ()


# --- messages -------------------------------------------------------------------------------------


def named(name: str) -> Case:
    return next(case for case in CORRECT + WRONG if case.name == name)


def test_what_is_still_called_and_has_its_table_is_not_removed_word_for_word() -> None:
    verdict = verdict_on(named("nothing is removed behind a flag"), 3)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reasons[0].text == (
        "Variant rm_conv2 still calls `conv2` (3 calls in 3 steps) and its parameter table equals the baseline's: the "
        "component is not removed."
    )
    assert verdict.reasons[0].claim == "`conv2` is gone"
    assert verdict.reasons[0].expected == "no parameter and no call"
    assert verdict.reasons[0].found == "2 of its parameters, 3 calls in 3 steps"


def test_a_cut_path_is_told_word_for_word() -> None:
    verdict = verdict_on(named("the path is cut"))
    assert verdict.reasons[0].text == (
        "conv1 gets no gradient in this variant, but does in the baseline. The removal cuts the path."
    )


def test_what_was_multiplied_by_zero_leaves_dead_gradients_behind() -> None:
    assert "get no gradient in this variant, but do in the baseline. The removal cuts the path." in told(
        verdict_on(named("multiplied by zero"))
    )


def test_a_switched_off_module_passes_with_a_warning_where_it_was_to_stay() -> None:
    verdict = verdict_on(named("batch norm stays and is not used"))
    assert verdict.passed
    assert "`bn` is switched off and not removed: its 2 parameters are still counted and decayed." in verdict.alarms


def test_a_model_that_grew_raises_an_alarm_with_both_numbers() -> None:
    verdict = verdict_on(named("conv2 goes with its pooling, as planned"))
    assert verdict.passed
    assert "9,978 parameters, 1.6 times the baseline (6,154)." in verdict.alarms
    assert not [one for one in verdict.alarms if "relu" in one or "pool" in one]


def test_a_planned_variant_that_keeps_to_its_plan_raises_no_alarm() -> None:
    assert verdict_on(named("conv2 goes, its pooling stays")).alarms == ()


def test_what_goes_along_and_was_not_planned_to_is_an_alarm() -> None:
    case = named("conv2 goes, its pooling stays")
    alone = structs.replace(
        case.variant, witnesses=tuple(structs.replace(one, along=()) for one in case.variant.witnesses)
    )
    verdict = judge(alone, base_of("CNN"), watch(case.source, steps=ENOUGH))
    assert verdict.passed
    assert verdict.alarms == ("the model runs relu 36 times, 48 times in the baseline.",)


ITS_OWN = programs.CNN.replace("        self.conv2 =", "        self.act2 = nn.ReLU()\n        self.conv2 =").replace(
    "F.relu(self.conv2(x))", "self.act2(self.conv2(x))"
)
"""The network with a module for one of its activations."""


@pytest.mark.parametrize("made", [True, False], ids=["not called", "not made"])
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unplanned"])
def test_an_activation_that_is_a_module_goes_along_where_that_was_planned(made: bool, planned: bool) -> None:
    source = ITS_OWN.replace("self.act2(self.conv2(x))", "x")
    for before, after in (NO_CONV2_MADE, CONV3_FITS):
        assert before in source
        source = source.replace(before, after)
    source = source if made else source.replace("        self.act2 = nn.ReLU()\n", "")
    claim = ModuleGone(path="conv2", resized={"conv3.weight": (16, 8, 3, 3)}, along=("act2",) if planned else ())
    base = compare_runs([watch(ITS_OWN, steps=ENOUGH), watch(ITS_OWN, steps=ENOUGH)])
    verdict = judge(structs.replace(RM_CONV2, witnesses=(claim,)), base, watch(source, steps=ENOUGH))
    assert verdict.passed is planned
    assert verdict.alarms == ()
    assert ("`act2`" in told(verdict)) is not planned


# --- what nobody can tell -------------------------------------------------------------------------


def test_a_program_of_no_known_framework_is_inconclusive() -> None:
    bare = Facts(ended=Ended(code=0, why="finished"), unseen=("models: no known framework was imported",))
    verdict = judge(RM_CONV2, compare_runs([bare, bare]), bare)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "no known framework was imported" in told(verdict)


def test_a_variant_without_a_claim_is_inconclusive() -> None:
    base = base_of("CNN")
    verdict = judge(Variant(name="odd", intent="odd"), base, base.facts)
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_a_claim_about_what_was_not_watched_is_inconclusive() -> None:
    fit = FitFacts(type="Model", rows=9, columns=("a", "b"))
    one = Facts(ended=Ended(code=0, why="finished"), fits=(fit,), unseen=("columns: the matrix is of a foreign type",))
    other = Facts(ended=Ended(code=0, why="finished"), fits=(FitFacts(type="Model", rows=9, columns=("b",)),))
    claim = Variant(name="rm_a", intent="", witnesses=(ColumnsGone(columns=("a",)),))
    verdict = judge(claim, compare_runs([one, one]), other)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "could not be watched" in told(verdict)


def test_a_module_that_the_baseline_does_not_have_is_inconclusive_at_best() -> None:
    base = base_of("CNN")
    claim = named("conv2 goes, its pooling stays").variant.witnesses[0]
    odd = Variant(name="rm_conv9", intent="", witnesses=(type(claim)(path="conv9"),))  # type: ignore[call-arg]
    verdict = judge(odd, base, base.facts)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "The baseline has no `conv9`" in told(verdict)


def test_a_baseline_that_differs_from_itself_wants_more_runs_first() -> None:
    facts = base_of("CNN").facts
    odd = Facts(**{**{name: getattr(facts, name) for name in facts.__struct_fields__}, "losses": (9.0,) * 6})
    verdict = judge(
        RM_CONV2, compare_runs([facts, odd]), watch(named("conv2 goes, its pooling stays").source, steps=ENOUGH)
    )
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "using the spread of 5 runs. So far there are 2." in told(verdict)


# --- does it run ----------------------------------------------------------------------------------


def test_an_error_is_sent_back_with_its_type_shapes_and_place() -> None:
    verdict = verdict_on(named("the shapes were not mended"))
    assert verdict.rung is Rung.FIRST_STEP
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reasons[0].text.startswith("RuntimeError at train.py, line ")
    assert "Shapes: [16, 16, 3, 3]" in verdict.reasons[0].text


def test_a_missing_module_fails_at_the_import() -> None:
    assert verdict_on(named("a module that is not there")).rung is Rung.IMPORT


def test_a_time_limit_is_told_as_one() -> None:
    verdict = judge_first_step(Facts(ended=Ended(code=None, why="time limit"), steps=1))
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reasons[0].text == "The program ended before enough was seen after 1 steps: time limit."


def test_a_run_that_came_to_a_step_passes_its_rung() -> None:
    assert judge_first_step(base_of("CNN").facts).passed


# --- is the baseline untouched --------------------------------------------------------------------


def test_parametrised_code_that_is_switched_off_is_the_baseline() -> None:
    source = named("conv2 goes, its pooling stays")
    text = getattr(programs, source.program).replace("EPOCHS = 2", "EPOCHS = 2\nWITHOUT_CONV2 = False")
    verdict = judge_baseline(base_of("CNN"), watch(text, steps=ENOUGH))
    assert verdict.passed, told(verdict)
    assert verdict.rung is Rung.BASELINE


def test_parametrised_code_that_altered_the_baseline_is_told_by_its_first_row() -> None:
    text = programs.CNN
    for before, after in CONV2_GONE:
        text = text.replace(before, after)
    verdict = judge_baseline(base_of("CNN"), watch(text, steps=ENOUGH))
    assert verdict.outcome is Outcome.FAILED
    assert "`conv2.weight`" in verdict.reasons[0].text


def test_parametrised_code_that_learns_otherwise_is_told_by_its_first_step() -> None:
    text = programs.CNN.replace("F.cross_entropy(net(x), y)", "F.cross_entropy(net(x + 0), y)")
    assert not judge_baseline(base_of("CNN"), watch(text, steps=ENOUGH)).passed
    shifted = programs.CNN.replace("momentum=MOMENTUM", "momentum=MOMENTUM, nesterov=True")
    assert not judge_baseline(base_of("CNN"), watch(shifted, steps=ENOUGH)).passed


def test_the_spread_is_demanded_where_equality_cannot_be() -> None:
    def run(*losses: float) -> Facts:
        return Facts(ended=Ended(code=0, why="finished"), steps=len(losses), losses=losses)

    base = compare_runs([run(2.0, 1.0), run(2.0, 1.1), run(2.0, 1.05), run(2.0, 1.02), run(2.0, 1.08)])
    assert judge_baseline(base, run(2.0, 1.15)).passed
    verdict = judge_baseline(base, run(2.0, 1.4))
    assert verdict.outcome is Outcome.FAILED
    assert "the loss of step 2 is 1.4" in told(verdict)
    assert not judge_baseline(base, run(2.1, 1.05)).passed


# --- what a verdict binds to ----------------------------------------------------------------------


def test_a_verdict_names_its_patch_and_its_facts() -> None:
    base = base_of("CNN")
    patch = Patch(base="b", result="r", diff="d", digest="abc", author=Author(name="a person"))
    verdict = judge(RM_CONV2, base, base.facts, patch=patch)
    assert verdict.patch == "abc"
    assert verdict.facts == judge(RM_CONV2, base, base.facts).facts
    other = watch(named("conv2 goes, its pooling stays").source, steps=ENOUGH)
    assert judge(RM_CONV2, base, other).facts != verdict.facts


def test_verdicts_are_the_same_after_the_facts_were_in_a_journal() -> None:
    import msgspec

    case = named("another norm")
    facts = watch(case.source, steps=ENOUGH)
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(facts), type=Facts)
    base = msgspec.json.decode(msgspec.json.encode(base_of("CNN")), type=Baseline)
    assert judge(case.variant, base, back) == judge(case.variant, base_of("CNN"), facts)
