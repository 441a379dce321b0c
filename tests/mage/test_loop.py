"""The loop: who is asked what, how often, and that no order of events leads where it must not."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core.errors import TransitionError
from etude.mage.asking.evidence import Evidence
from etude.mage.loop import events as loop
from etude.mage.loop.events import Check, Complete, Draft, Judge, MeasureBaseline, Probe, Review
from etude.mage.loop.machine import APPROVABLE, NOBODY, Machine, Tries
from etude.mage.loop.standing import Standing
from etude.mage.loop.states import BY_HAND, ENDS, FINAL, NEXT, Stage, Turn, after, diagram
from etude.mage.variants import Route
from etude.mage.verdicts import Outcome, Rung

USUAL = Tries()


def evidence(signature: str, rung: Rung = Rung.FIRST_STEP) -> Evidence:
    return Evidence(rung=rung, text=f"because of {signature}", signature=signature)


def begun(*names: str, route: Route = Route.MODEL, tries: Tries = USUAL) -> Machine:
    """Return a machine whose variants are being drafted."""
    machine = Machine(tries=tries)
    for name in names:
        machine.handle(loop.Planned(variant=name, digest=f"d-{name}", route=route))
        machine.handle(loop.PlanApproved(variant=name))
    machine.handle(loop.BaselineHeld())
    return machine


def judged(machine: Machine, name: str, patch: str, outcome: Outcome = Outcome.PASSED) -> None:
    """Lead a variant from its draft to its review."""
    if machine.standings[name].route is Route.MODEL:
        machine.handle(loop.Asked(variant=name))
    machine.handle(loop.Patched(variant=name, patch=patch))
    machine.handle(loop.Checked(variant=name))
    machine.handle(loop.Probed(variant=name))
    machine.handle(loop.Judged(variant=name, patch=patch, verdict=f"g-{patch}", outcome=outcome))
    machine.handle(loop.Completed(variant=name, patch=patch, verdict=f"v-{patch}", outcome=outcome))


# --- the table ------------------------------------------------------------------------------------


def test_every_stage_can_be_reached() -> None:
    assert {Stage.SCANNED, *NEXT.values()} == set(Stage)


def test_only_people_and_their_trials_lead_out_of_an_end() -> None:
    assert {turn for stage, turn in NEXT if stage in ENDS} <= BY_HAND
    assert {Stage.REJECTED, Stage.UNCLEAR} == FINAL
    assert FINAL < ENDS


def test_a_turn_that_cannot_be_is_told_with_those_that_can() -> None:
    with pytest.raises(TransitionError) as refused:
        after(Stage.ACCEPTED, Turn.PATCHED, variant="without-conv2")
    assert str(refused.value) == (
        "variant without-conv2 is accepted, and got 'patched'. From here it takes: voided, handed over, trial failed."
    )


def test_the_diagram_has_every_row_of_the_table() -> None:
    lines = diagram().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> scanned"]
    assert "    awaiting_review --> accepted: accepted" in lines
    assert len(lines) == 2 + len(NEXT) + len(FINAL | {Stage.HANDED_OVER})


# --- the course of a variant ----------------------------------------------------------------------


def test_the_untouched_program_is_measured_once_and_before_anybody_is_asked() -> None:
    machine = Machine()
    for name in ("a", "b"):
        machine.handle(loop.Planned(variant=name, digest=name))
    assert machine.handle(loop.PlanApproved(variant="a")) == [MeasureBaseline()]
    assert machine.handle(loop.PlanApproved(variant="b")) == []
    with pytest.raises(TransitionError):
        machine.handle(loop.Asked(variant="a"))
    assert machine.handle(loop.BaselineHeld()) == [
        Draft(variant="a", route=Route.MODEL),
        Draft(variant="b", route=Route.MODEL),
    ]


def test_a_baseline_that_fails_ends_all_variants_before_money_is_spent() -> None:
    machine = Machine()
    for name in ("a", "b"):
        machine.handle(loop.Planned(variant=name, digest=name))
        machine.handle(loop.PlanApproved(variant=name))
    machine.handle(loop.BaselineBroke(why="your code, not the patch"))
    assert {(s.stage, s.why, s.calls) for s in machine.standings.values()} == {
        (Stage.BASELINE_BROKEN, "your code, not the patch", 0)
    }
    assert machine.handle(loop.TakenUp(variant="a")) == [MeasureBaseline()]


def test_a_good_patch_goes_through_all_rungs_to_a_person() -> None:
    machine = begun("a")
    machine.handle(loop.Asked(variant="a"))
    assert machine.handle(loop.Patched(variant="a", patch="p")) == [Check(variant="a")]
    assert machine.handle(loop.Checked(variant="a")) == [Probe(variant="a")]
    assert machine.handle(loop.Probed(variant="a")) == [Judge(variant="a")]
    passed = loop.Judged(variant="a", patch="p", verdict="g", outcome=Outcome.PASSED)
    assert machine.handle(passed) == [Complete(variant="a")]
    with pytest.raises(TransitionError):  # nothing is approved before it was run to its end, or is known why not
        machine.handle(loop.Accepted(variant="a", patch="p", verdict="g"))
    ended = loop.Completed(variant="a", patch="p", verdict="v", outcome=Outcome.PASSED)
    assert machine.handle(ended) == [Review(variant="a")]
    machine.handle(loop.Accepted(variant="a", patch="p", verdict="v"))
    machine.handle(loop.HandedOver(variant="a"))
    assert machine.standings["a"].stage is Stage.HANDED_OVER


@pytest.mark.parametrize("handed_over", [False, True], ids=["in its first trial", "with a later seed"])
def test_a_trial_that_failed_voids_the_approval_and_another_one_has_to_know_of_it(handed_over: bool) -> None:
    machine = begun("a")
    judged(machine, "a", "p")
    machine.handle(loop.Accepted(variant="a", patch="p", verdict="v-p"))
    if handed_over:
        machine.handle(loop.HandedOver(variant="a"))
    failed = loop.TrialFailed(variant="a", verdict="w", outcome=Outcome.FOR_A_PERSON, why="sizes differ\nat line 4")
    assert machine.handle(failed) == [Review(variant="a")]
    standing = machine.standings["a"]
    assert (standing.stage, standing.why) == (Stage.AWAITING_REVIEW, "sizes differ")
    for approval in (("v-p", True), ("w", False)):
        with pytest.raises(TransitionError):
            machine.handle(loop.Accepted(variant="a", patch="p", verdict=approval[0], despite=approval[1]))
    repaired = machine.handle(loop.Rejected(variant="a", note="sizes differ"))
    assert repaired == [Draft(variant="a", route=Route.MODEL)]
    judged(machine, "a", "q")
    machine.handle(loop.Accepted(variant="a", patch="q", verdict="v-q"))


@pytest.mark.parametrize("tries", [Tries(repairs=0, drafts=1), USUAL], ids=["one call", "as usual"])
def test_a_variant_whose_calls_are_used_up_is_written_again_after_a_failed_trial(tries: Tries) -> None:
    machine = begun("a", tries=tries)
    for n in range(tries.calls - 1):
        machine.handle(loop.Asked(variant="a"))
        machine.handle(loop.Patched(variant="a", patch=f"p{n}"))
        machine.handle(loop.Failed(variant="a", evidence=evidence(f"s{n}"), patch=f"p{n}"))
    judged(machine, "a", "p")
    assert machine.standings["a"].calls == tries.calls
    machine.handle(loop.Accepted(variant="a", patch="p", verdict="v-p"))
    machine.handle(loop.TrialFailed(variant="a", verdict="w", outcome=Outcome.FOR_A_PERSON, why="sizes differ"))
    assert machine.handle(loop.TriedAgain(variant="a", note="sizes differ")) == [Draft(variant="a", route=Route.MODEL)]
    standing = machine.standings["a"]
    assert (standing.stage, standing.calls, standing.draft, standing.again) == (Stage.DRAFTING, 0, 1, 1)
    assert standing.notes == ("sizes differ",)
    assert standing.repairs == min(1, tries.repairs)


def test_what_came_to_nothing_is_begun_anew_if_somebody_wants_that_and_no_patch_is_tried_twice() -> None:
    machine = begun("a", "b", tries=Tries(repairs=0, drafts=1))
    for name in ("a", "b"):
        machine.handle(loop.Asked(variant=name))
        machine.handle(loop.Patched(variant=name, patch=f"p-{name}"))
        machine.handle(loop.Failed(variant=name, evidence=evidence("s"), patch=f"p-{name}"))
        assert machine.standings[name].stage is Stage.GAVE_UP
    assert machine.resume() == []
    assert machine.handle(loop.TriedAgain(variant="a")) == [Draft(variant="a", route=Route.MODEL)]
    assert machine.standings["b"].stage is Stage.GAVE_UP
    machine.handle(loop.Asked(variant="a"))
    machine.handle(loop.Patched(variant="a", patch="p-a"))
    assert machine.standings["a"].stage is Stage.GAVE_UP
    machine.handle(loop.TriedAgain(variant="a"))
    judged(machine, "a", "q")
    assert machine.standings["a"].stage is Stage.AWAITING_REVIEW
    with pytest.raises(TransitionError):
        machine.handle(loop.TriedAgain(variant="a"))


def test_what_fails_at_its_end_is_repaired_as_what_fails_at_any_other_rung() -> None:
    machine = begun("a")
    machine.handle(loop.Asked(variant="a"))
    machine.handle(loop.Patched(variant="a", patch="p"))
    machine.handle(loop.Checked(variant="a"))
    machine.handle(loop.Probed(variant="a"))
    machine.handle(loop.Judged(variant="a", patch="p", verdict="g", outcome=Outcome.PASSED))
    failed = loop.Failed(variant="a", evidence=evidence("no metric", Rung.SHORT_RUN), patch="p")
    assert machine.handle(failed) == [Draft(variant="a", route=Route.MODEL)]
    standing = machine.standings["a"]
    assert (standing.repairs, standing.verdict, standing.outcome) == (1, "", None)
    assert standing.evidence is not None
    assert standing.evidence.rung is Rung.SHORT_RUN


def test_a_machine_that_takes_up_what_was_judged_runs_it_to_its_end() -> None:
    machine = begun("a")
    machine.handle(loop.Asked(variant="a"))
    machine.handle(loop.Patched(variant="a", patch="p"))
    machine.handle(loop.Checked(variant="a"))
    machine.handle(loop.Probed(variant="a"))
    machine.handle(loop.Judged(variant="a", patch="p", verdict="g", outcome=Outcome.PASSED))
    again = Machine(machine.standings.values(), has_baseline=True)
    assert again.resume() == [Complete(variant="a")]


def test_what_waits_can_be_taken_up_once_there_is_time_to_run_it_to_its_end() -> None:
    machine = begun("a")
    judged(machine, "a", "p")
    assert machine.handle(loop.TakenUp(variant="a")) == [Complete(variant="a")]
    ended = loop.Completed(variant="a", patch="p", verdict="another", outcome=Outcome.PASSED)
    assert machine.handle(ended) == [Review(variant="a")]
    with pytest.raises(TransitionError):
        machine.handle(loop.Accepted(variant="a", patch="p", verdict="v-p"))


def test_three_repairs_then_a_fresh_draft_then_three_more_and_no_ninth_call() -> None:
    machine, told = begun("a"), []
    for n in range(8):
        machine.handle(loop.Asked(variant="a"))
        commands = machine.handle(loop.Failed(variant="a", evidence=evidence(f"error {chr(97 + n)}")))
        standing = machine.standings["a"]
        told.append((len(commands), standing.draft, standing.repairs, standing.evidence is not None))
    assert told == [
        *((1, 1, 1, True), (1, 1, 2, True), (1, 1, 3, True)),
        (1, 2, 0, False),  # whoever drafts anew does not know of the failures
        *((1, 2, 1, True), (1, 2, 2, True), (1, 2, 3, True)),
        (0, 2, 3, True),
    ]
    assert machine.standings["a"].stage is Stage.GAVE_UP
    assert machine.standings["a"].calls == 8
    assert machine.standings["a"].why == "because of error h"


def test_the_same_error_twice_ends_a_draft_early() -> None:
    machine = begun("a")
    for _ in range(2):
        machine.handle(loop.Asked(variant="a"))
        machine.handle(loop.Failed(variant="a", evidence=evidence("the same")))
    assert (machine.standings["a"].draft, machine.standings["a"].repairs) == (2, 0)
    for _ in range(2):
        machine.handle(loop.Asked(variant="a"))
        machine.handle(loop.Failed(variant="a", evidence=evidence("the same")))
    assert (machine.standings["a"].stage, machine.standings["a"].calls) == (Stage.GAVE_UP, 4)


def test_the_same_patch_twice_ends_a_draft_early_and_is_not_run_again() -> None:
    machine = begun("a")
    machine.handle(loop.Asked(variant="a"))
    machine.handle(loop.Patched(variant="a", patch="p"))
    machine.handle(loop.Failed(variant="a", evidence=evidence("shapes"), patch="p"))
    machine.handle(loop.Asked(variant="a"))
    assert machine.handle(loop.Patched(variant="a", patch="p")) == [Draft(variant="a", route=Route.MODEL)]
    assert machine.standings["a"].draft == 2
    machine.handle(loop.Asked(variant="a"))
    assert machine.handle(loop.Patched(variant="a", patch="p")) == []
    assert machine.standings["a"].stage is Stage.GAVE_UP
    assert machine.standings["a"].why.startswith("The same change came back. It failed before:")


def test_what_is_handed_in_waits_until_the_untouched_program_is_measured() -> None:
    machine = Machine()
    machine.handle(loop.Planned(variant="a", digest="a", route=Route.PERSON))
    machine.handle(loop.PlanApproved(variant="a"))
    machine.resume()
    assert machine.handle(loop.HandedIn(variant="a", patch="p")) == []
    assert machine.handle(loop.BaselineHeld()) == [Check(variant="a")]


def test_a_rule_that_is_not_sure_leaves_it_to_whoever_can_be_asked() -> None:
    machine = begun("a", route=Route.RULE)
    assert machine.handle(loop.CannotBeWritten(variant="a", why="not sure")) == [Draft(variant="a", route=Route.MODEL)]


def test_where_nobody_can_be_asked_a_variant_waits_until_somebody_can() -> None:
    machine = begun("a", route=Route.RULE, tries=Tries(writer=False))
    assert machine.handle(loop.CannotBeWritten(variant="a", why="not sure")) == []
    assert (machine.standings["a"].stage, machine.standings["a"].why) == (Stage.DRAFTING, NOBODY)
    again = Machine(machine.standings.values(), has_baseline=True)
    assert again.resume() == [Draft(variant="a", route=Route.MODEL)]
    again.handle(loop.Asked(variant="a"))
    assert again.standings["a"].why == ""


def test_what_a_rule_wrote_wrongly_is_drafted_anew_and_never_repaired() -> None:
    machine = begun("a", route=Route.RULE)
    machine.handle(loop.Patched(variant="a", patch="p"))
    commands = machine.handle(loop.Failed(variant="a", evidence=evidence("x"), patch="p"))
    assert commands == [Draft(variant="a", route=Route.MODEL)]
    assert (machine.standings["a"].draft, machine.standings["a"].evidence) == (1, None)


def test_who_says_that_it_cannot_be_done_is_not_asked_again() -> None:
    machine = begun("a")
    machine.handle(loop.Asked(variant="a"))
    assert machine.handle(loop.CannotBeWritten(variant="a", why="conv2 is the input")) == []
    assert machine.standings["a"].why == "conv2 is the input"


def test_a_note_of_a_reviewer_is_the_next_repair_and_stays_with_fresh_drafts() -> None:
    machine = begun("a", tries=Tries(repairs=1))
    judged(machine, "a", "p1")
    assert machine.handle(loop.Rejected(variant="a", note="keep the pooling")) == [
        Draft(variant="a", route=Route.MODEL)
    ]
    standing = machine.standings["a"]
    assert standing.evidence is not None
    assert (standing.evidence.text, standing.repairs, standing.verdict) == ("keep the pooling", 1, "")
    judged(machine, "a", "p2")
    machine.handle(loop.Rejected(variant="a", note="and its name"))
    assert machine.standings["a"].notes == ("keep the pooling", "and its name")
    assert machine.standings["a"].draft == 2


def test_without_a_note_rejected_is_rejected() -> None:
    machine = begun("a")
    judged(machine, "a", "p")
    assert machine.handle(loop.Rejected(variant="a")) == []
    assert machine.standings["a"].stage is Stage.REJECTED


def test_a_note_that_nobody_may_be_asked_to_heed_rejects() -> None:
    machine = begun("a", tries=Tries(repairs=0, drafts=1))
    judged(machine, "a", "p")
    assert machine.handle(loop.Rejected(variant="a", note="not so")) == []
    assert (machine.standings["a"].stage, machine.standings["a"].why) == (Stage.REJECTED, "not so")


def test_a_note_waits_for_somebody_who_can_heed_it() -> None:
    machine = begun("a", route=Route.RULE, tries=Tries(writer=False))
    judged(machine, "a", "p")
    assert machine.handle(loop.Rejected(variant="a", note="not so")) == []
    standing = machine.standings["a"]
    assert (standing.stage, standing.route, standing.notes) == (Stage.DRAFTING, Route.MODEL, ("not so",))


def test_what_a_person_edits_goes_through_all_rungs_anew() -> None:
    machine = begun("a")
    judged(machine, "a", "p")
    assert machine.handle(loop.HandedIn(variant="a", patch="mine")) == [Check(variant="a")]
    standing = machine.standings["a"]
    assert (standing.verdict, standing.patch, standing.route) == ("", "mine", Route.PERSON)
    machine.handle(loop.Failed(variant="a", evidence=evidence("typo"), patch="mine"))
    assert machine.standings["a"].stage is Stage.GAVE_UP  # nobody else mends what a person wrote
    assert machine.handle(loop.HandedIn(variant="a", patch="mine 2")) == [Check(variant="a")]


def test_an_approval_binds_to_a_patch_and_a_verdict() -> None:
    machine = begun("a")
    judged(machine, "a", "p")
    for patch, verdict in (("other", "v-p"), ("p", "other")):
        with pytest.raises(TransitionError, match="is not what was approved"):
            machine.handle(loop.Accepted(variant="a", patch=patch, verdict=verdict))
    machine.handle(loop.Accepted(variant="a", patch="p", verdict="v-p"))
    assert machine.handle(loop.JudgedAnew(variant="a", verdict="v-p", outcome=Outcome.PASSED)) == []
    again = loop.JudgedAnew(variant="a", verdict="new", outcome=Outcome.FAILED)
    assert machine.handle(again) == [Review(variant="a")]
    with pytest.raises(TransitionError):  # what has failed nobody accepts
        machine.handle(loop.Accepted(variant="a", patch="p", verdict="new", despite=True))


def test_what_has_not_passed_is_accepted_knowingly_or_not_at_all() -> None:
    machine = begun("a")
    judged(machine, "a", "p", Outcome.INCONCLUSIVE)
    with pytest.raises(TransitionError, match="nobody has accepted it knowingly"):
        machine.handle(loop.Accepted(variant="a", patch="p", verdict="v-p"))
    machine.handle(loop.Accepted(variant="a", patch="p", verdict="v-p", despite=True))
    assert machine.standings["a"].stage is Stage.ACCEPTED


def test_a_backend_that_is_down_is_asked_for_no_other_variant() -> None:
    machine = begun("a", "b", "c")
    machine.handle(loop.Asked(variant="b"))
    machine.handle(loop.Patched(variant="b", patch="p"))
    machine.handle(loop.Asked(variant="a"))
    machine.handle(loop.BackendFailed(variant="a", why="the spend limit is reached"))
    assert {name: s.stage for name, s in machine.standings.items()} == {
        "a": Stage.BACKEND_DOWN,
        "b": Stage.APPLIED,  # it goes on as far as it can
        "c": Stage.BACKEND_DOWN,
    }
    assert not machine.wants(Draft(variant="c", route=Route.MODEL))
    assert machine.handle(loop.Failed(variant="b", evidence=evidence("x"), patch="p")) == []
    assert machine.standings["b"].stage is Stage.BACKEND_DOWN
    assert machine.handle(loop.TakenUp(variant="c")) == [Draft(variant="c", route=Route.MODEL)]


def test_one_variant_that_is_too_dear_leaves_the_others() -> None:
    machine = begun("a", "b")
    machine.handle(loop.BudgetEnded(variant="a", why="too dear", whole=False))
    assert (machine.standings["a"].stage, machine.standings["b"].stage) == (Stage.BUDGET_SPENT, Stage.DRAFTING)


def test_variants_take_turns() -> None:
    machine, order = begun("a", "b"), []
    queue: list[loop.Command] = machine.resume()
    for n in range(12):
        command = queue.pop(0)
        assert isinstance(command, Draft)
        order.append(command.variant)
        machine.handle(loop.Asked(variant=command.variant))
        queue += machine.handle(loop.Failed(variant=command.variant, evidence=evidence(f"e{n}")))
    assert order == ["a", "b"] * 6


def test_a_machine_made_of_standings_goes_on_where_the_other_one_ended() -> None:
    machine = begun("a", "b", "c")
    machine.handle(loop.Asked(variant="a"))
    machine.handle(loop.Patched(variant="a", patch="p"))
    judged(machine, "b", "p")
    again = Machine(machine.standings.values(), has_baseline=True)
    assert again.resume() == [Check(variant="a"), Review(variant="b"), Draft(variant="c", route=Route.MODEL)]


def test_planning_anew_leaves_what_is_wanted_still_and_begins_what_is_wanted_otherwise() -> None:
    machine = begun("a")
    judged(machine, "a", "p")
    machine.handle(loop.Planned(variant="a", digest="d-a"))
    assert machine.standings["a"].stage is Stage.AWAITING_REVIEW
    machine.handle(loop.Planned(variant="a", digest="another"))
    assert machine.standings["a"] == Standing(variant="a", digest="another", stage=Stage.PLANNED)


def test_what_can_be_read_in_several_ways_is_not_written() -> None:
    machine = Machine()
    machine.handle(loop.Planned(variant="a", digest="d", unclear="with or without the pooling"))
    with pytest.raises(TransitionError):
        machine.handle(loop.PlanApproved(variant="a"))
    assert machine.standings["a"].stage is Stage.UNCLEAR


# --- any order of events --------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b"])
PATCHES = st.sampled_from(["p1", "p2", "p3", "p4"])
SIGNATURES = st.builds(
    evidence, st.sampled_from([f"s{n}" for n in range(9)]), st.sampled_from([Rung.REPLY, Rung.GONE, Rung.PERSON])
)
VERDICTS = st.sampled_from(["v1", "v2"])
EVENTS = st.one_of(
    st.builds(loop.Planned, variant=NAMES, digest=st.just("d"), route=st.sampled_from(Route)),
    st.builds(loop.PlanApproved, variant=NAMES),
    st.just(loop.BaselineHeld()),
    st.builds(loop.Asked, variant=NAMES),
    st.builds(loop.Patched, variant=NAMES, patch=PATCHES),
    st.builds(loop.HandedIn, variant=NAMES, patch=PATCHES),
    st.builds(loop.Checked, variant=NAMES),
    st.builds(loop.Probed, variant=NAMES),
    st.builds(loop.Judged, variant=NAMES, patch=PATCHES, verdict=VERDICTS, outcome=st.sampled_from(Outcome)),
    st.builds(loop.Completed, variant=NAMES, patch=PATCHES, verdict=VERDICTS, outcome=st.sampled_from(Outcome)),
    st.builds(loop.Failed, variant=NAMES, evidence=SIGNATURES, patch=st.one_of(st.just(""), PATCHES)),
    st.builds(loop.CannotBeWritten, variant=NAMES, why=st.just("no")),
    st.builds(loop.BudgetEnded, variant=NAMES, why=st.just("b"), whole=st.booleans()),
    st.builds(loop.BackendFailed, variant=NAMES, why=st.just("d"), whole=st.booleans()),
    st.builds(loop.TakenUp, variant=NAMES),
    st.builds(loop.Accepted, variant=NAMES, patch=PATCHES, verdict=VERDICTS, despite=st.booleans()),
    st.builds(loop.Rejected, variant=NAMES, note=st.sampled_from(["", "not so", "nor so"])),
    st.builds(loop.JudgedAnew, variant=NAMES, verdict=VERDICTS, outcome=st.sampled_from(Outcome)),
    st.builds(loop.HandedOver, variant=NAMES),
    st.builds(
        loop.TrialFailed, variant=NAMES, verdict=VERDICTS, outcome=st.just(Outcome.FOR_A_PERSON), why=st.just("t")
    ),
    st.builds(loop.TriedAgain, variant=NAMES),
)
BY_OTHERS = (loop.HandedIn, loop.TakenUp, loop.TriedAgain, loop.TrialFailed)
FORWARD = st.lists(st.one_of(EVENTS, st.none()), max_size=120)


def likely(command: loop.Command, n: int) -> list[loop.Event]:
    """Return events that carry a command out, so that long ways are walked, too."""
    if isinstance(command, MeasureBaseline):
        return [loop.BaselineHeld()]
    name = command.variant
    if isinstance(command, Draft):
        asked = [loop.Asked(variant=name)] if command.route is Route.MODEL else []
        return [*asked, loop.Patched(variant=name, patch=f"p{n}")]
    if isinstance(command, Check):
        return [loop.Checked(variant=name)]
    if isinstance(command, Probe):
        return [loop.Probed(variant=name)]
    return [loop.Failed(variant=name, evidence=evidence(f"s{n}"))]


def keeps_ends(before: Standing, event: loop.Event) -> bool:
    """Say whether a variant may change: it has not ended, or a person does something that its end allows."""
    return not before.ended or (before.stage not in FINAL and isinstance(event, BY_OTHERS))


@given(FORWARD, st.integers(0, 3), st.integers(1, 2), st.booleans())
def test_any_order_of_events_keeps_what_is_promised(
    events: list[loop.Event | None], repairs: int, drafts: int, writer: bool
) -> None:
    tries = Tries(repairs=repairs, drafts=drafts, writer=writer)
    machine, queue = Machine(tries=tries), []
    for name in ("a", "b"):
        machine.handle(loop.Planned(variant=name, digest="d"))
        queue += machine.handle(loop.PlanApproved(variant=name))
    judged_as: dict[tuple[str, str, str], Outcome] = {}
    despite: dict[str, bool] = {}
    for n, event in enumerate(events):
        steps = [event] if event is not None else likely(queue.pop(0), n) if queue else []
        for step in steps:
            before = dict(machine.standings)
            try:
                queue += machine.handle(step)
            except TransitionError:
                assert machine.standings == before
                continue
            if isinstance(step, loop.Accepted):
                despite[step.variant] = step.despite
            if isinstance(step, loop.Judged | loop.Completed):
                judged_as[step.variant, step.patch, step.verdict] = step.outcome
            if isinstance(step, loop.JudgedAnew | loop.TrialFailed):
                judged_as[step.variant, before[step.variant].patch, step.verdict] = step.outcome
            for name, standing in machine.standings.items():
                assert standing.calls <= tries.calls <= 8
                if standing.stage is Stage.ACCEPTED:
                    assert judged_as[name, standing.patch, standing.verdict] in APPROVABLE
                    assert standing.outcome is Outcome.PASSED or despite[name]
                assert standing == before[name] or keeps_ends(before[name], step)
    under_way = Counter(command.variant for command in machine.resume() if not isinstance(command, MeasureBaseline))
    assert all(n == 1 for n in under_way.values())
