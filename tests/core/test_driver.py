"""The driver, told as stories in virtual time. ``support.Stage`` checks its promises after every event."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

from etude.core.events import (
    AnyCommand,
    Assign,
    Assigned,
    Closed,
    End,
    Ended,
    Fail,
    How,
    Joined,
    Left,
    Opened,
    Outcome,
    Params,
    Pause,
    Quarantined,
    Queued,
    Release,
    Reported,
    Retire,
    Settled,
    Stop,
    Suggest,
    WaitUntil,
)
from etude.core.lifecycle import FINAL, State
from etude.core.limits import Limits
from etude.core.metrics import Metrics
from etude.core.plan import Decision, Done, Propose, Report, Standing, Wait
from etude.core.proposals import MAX_REDRAWS

from .support import ENOUGH, METRIC, PAUSE, STOP, Script, Stage, assert_same_state, folded

Kind = TypeVar("Kind", bound=AnyCommand)


def only(kind: type[Kind], said: Iterable[AnyCommand]) -> list[Kind]:
    return [command for command in said if isinstance(command, kind)]


# --- handing out ----------------------------------------------------------------------------------


def test_trials_are_handed_out_in_order_to_workers_in_the_order_in_which_they_came() -> None:
    stage = Stage(4)
    stage.join("a", "b")
    assert stage.hands == {"a": (0, 1), "b": (1, 1)}
    stage.end(1)
    stage.end(0)
    assert stage.hands == {"b": (2, 1), "a": (3, 1)}
    stage.run_out()
    assert stage.told[-1] == End("all trials ended", complete=True)
    assert stage.states == [State.FINISHED] * 4


def test_an_assignment_says_everything_that_the_worker_needs() -> None:
    stage = Stage(1)
    assert Assign("a", 0, 1, {"x": 0, "redraw": 0}, 7) in stage.join("a")


def test_with_one_worker_a_proposal_is_asked_for_when_all_is_known() -> None:
    stage = Stage(10, sampler=None, limits=Limits(workers=1))
    assert stage.open() == [Suggest(0)]  # before any worker is there: nothing could be learned meanwhile
    assert stage.join("a") == []
    assert only(Suggest, stage.suggest(0, {"x": 0})) == []
    assert [type(command) for command in stage.end(0)] == [Release, Suggest]
    stage.leave("a")
    assert only(Suggest, stage.suggest(1, {"x": 1})) == []  # it waits for the worker, and that is enough


def test_one_proposal_is_in_hand_with_several_workers() -> None:
    stage = Stage(10, sampler=None)
    assert stage.open() == [Suggest(0)]  # before any worker is there
    assert stage.join("a") == [Suggest(1)]  # one for the worker, one in hand
    assert only(Assign, stage.suggest(0, {"x": 0})) == [Assign("a", 0, 1, {"x": 0}, 7)]
    assert stage.suggest(1, {"x": 1}) == []  # it waits in hand, and that is enough
    said = stage.end(0)
    assert [type(command) for command in said] == [Release, Assign, Suggest]
    assert said[-1] == Suggest(2)


def test_a_second_proposal_is_in_hand_where_thinking_takes_as_long_as_a_trial() -> None:
    stage = Stage(10, sampler=None, limits=Limits(workers=2))
    stage.join("a", "b")
    assert stage.waiting == [Suggest(0), Suggest(1), Suggest(2)]
    for k in range(3):
        stage.suggest(k, {"x": k})
        stage.wait(1.0)
    stage.end(0)
    stage.wait(1.0)
    stage.end(1)
    stage.wait(1.0)
    assert only(Suggest, stage.end(2)) == [Suggest(5), Suggest(6)]


def test_a_plan_may_bring_its_own_configurations() -> None:
    stage = Stage(Script(3, given={0: {"x": 1}, 1: {"x": 1}, 2: {"x": 2}}))
    stage.join("a")
    stage.run_out()
    assert only(Suggest, stage.told) == []
    assert [trial.params for trial in stage.trials] == [{"x": 1}, {"x": 1}, {"x": 2}]
    assert [trial.same_as for trial in stage.trials] == [None] * 3  # a plan that repeats itself means it
    assert stage.states == [State.FINISHED] * 3


def test_the_plans_own_configuration_waits_for_proposals_before_it() -> None:
    stage = Stage(Script(3, given={1: {"x": 10}}), sampler=None)
    stage.join("a", "b", "c")
    assert stage.trials == []  # proposal 0 is not there yet
    stage.suggest(0, {"x": 0})
    assert [trial.params for trial in stage.trials] == [{"x": 0}, {"x": 10}]
    stage.suggest(2, {"x": 2})
    assert stage.hands == {"a": (0, 1), "b": (1, 1), "c": (2, 1)}


def test_a_worker_that_joins_twice_is_one_worker() -> None:
    stage = Stage(3)
    stage.join("a")
    stage.join("a")
    assert sum(isinstance(fact, Joined) for fact in stage.facts) == 1


def test_time_alone_changes_nothing() -> None:
    stage = Stage(3)
    stage.join("a")
    before = len(stage.facts)
    assert stage.wait(3600.0) == []
    assert len(stage.facts) == before


# --- losses ---------------------------------------------------------------------------------------


def test_a_lost_attempt_is_run_again_exactly_once() -> None:
    stage = Stage(1)
    stage.join("a", "b")
    stage.leave("a", "its process ended")
    assert stage.hands == {"b": (0, 2)}
    assert stage.trial(0).losses == 1
    stage.end(0)
    assert stage.story(0) == ["assigned to a", "lost", "assigned to b", "finished"]
    assert stage.last(Closed).complete


def test_a_trial_is_given_up_when_its_retries_are_used_up() -> None:
    stage = Stage(1, limits=Limits(retries=2, backoff_s=0.0))
    stage.join("a", "b", "c", "d")
    stage.end(0, How.KILLED, reason="killed by SIGSEGV")
    stage.end(0, How.OUT_OF_MEMORY, reason="out of memory")
    stage.leave("c", "silent for 30 s")
    assert stage.story(0) == [
        *["assigned to a", "lost"],
        *["assigned to b", "lost"],
        *["assigned to c", "given_up"],
    ]
    assert stage.trial(0).reason == "lost 3 times, the last time: worker c left: silent for 30 s"
    assert stage.states == [State.FAILED]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("killed by SIGKILL", "lost once, the last time: killed by SIGKILL"),
        ("", "lost once, the last time: killed"),
    ],
)
def test_without_retries_the_first_loss_is_final(reason: str, told: str) -> None:
    stage = Stage(1, limits=Limits(retries=0))
    stage.join("a", "b")
    stage.end(0, How.KILLED, reason=reason)
    assert stage.states == [State.FAILED]
    assert stage.trial(0).reason == told


def test_a_lost_trial_goes_before_newer_ones_and_to_another_worker() -> None:
    stage = Stage(5)
    stage.join("a", "b")
    stage.end(0, How.KILLED)
    assert stage.hands == {"b": (1, 1), "a": (2, 1)}  # a takes the next one; trial 0 waits for b
    stage.end(1)
    assert stage.hands == {"a": (2, 1), "b": (0, 2)}


def test_a_lost_trial_goes_back_to_the_only_worker_there_is() -> None:
    stage = Stage(1)
    stage.join("a")
    stage.end(0, How.KILLED)
    assert stage.story(0) == ["assigned to a", "lost", "assigned to a"]


def test_an_attempt_that_never_reached_its_worker_is_charged_to_nobody() -> None:
    stage = Stage(2, limits=Limits(retries=0))
    stage.join("a", "b")
    stage.hands.pop("a")
    stage.tell(Left(at=stage.now, worker="a", reason="its process ended", began=False))
    assert stage.states[0] is State.QUEUED
    assert (stage.trial(0).losses, stage.trial(0).tried_on) == (0, ())
    assert stage.trial(0).reason == "worker a was gone before the attempt reached it"
    stage.run_out()
    assert stage.states == [State.FINISHED] * 2


def test_what_a_worker_had_completed_before_it_left_counts() -> None:
    stage = Stage(2, limits=Limits(retries=0))
    stage.join("a", "b")
    stage.end(0, value=0.9)  # found in its spool
    stage.leave("a")
    assert stage.states[0] is State.FINISHED
    assert stage.trial(0).attempt == 1


def test_a_worker_that_leaves_without_work_is_missed_by_nobody() -> None:
    stage = Stage(1)
    stage.join("a", "b")
    assert stage.leave("b") == []
    assert stage.leave("b") == []  # nor one that was never here
    stage.run_out()
    assert stage.states == [State.FINISHED]


def test_a_stop_that_nobody_asked_for_is_no_result() -> None:
    stage = Stage(1)
    stage.join("a")
    stage.end(0, How.STOPPED)
    assert stage.story(0) == ["assigned to a", "lost", "assigned to a"]
    assert stage.trial(0).losses == 1


# --- exceptions -----------------------------------------------------------------------------------


def test_what_raises_on_a_worker_without_a_good_end_runs_once_elsewhere() -> None:
    stage = Stage(1)
    stage.join("a", "b")
    stage.end(0, How.RAISED, reason="OSError: no such file")
    assert stage.hands == {"b": (0, 2)}
    assert stage.trial(0).losses == 0  # nothing was lost: the retries are for those
    stage.end(0)
    assert stage.story(0) == ["assigned to a", "lost", "assigned to b", "finished"]
    assert stage.trial(0).reason == ""  # a finished trial has nothing to excuse


def test_what_raises_on_two_workers_has_failed() -> None:
    stage = Stage(1)
    stage.join("a", "b", "c")
    stage.end(0, How.RAISED, reason="ValueError: first")
    stage.end(0, How.RAISED, reason="ValueError: second")
    assert stage.story(0) == ["assigned to a", "lost", "assigned to b", "given_up"]
    assert stage.trial(0).reason == "ValueError: second"


def test_what_raises_where_another_trial_did_well_has_failed() -> None:
    stage = Stage(3)
    stage.join("a", "b")
    stage.end(0)
    stage.end(2, How.RAISED, reason="ValueError: no")
    assert stage.story(2) == ["assigned to a", "given_up"]
    assert stage.trial(2).reason == "ValueError: no"


def test_what_raises_on_the_only_worker_has_failed() -> None:
    stage = Stage(1, limits=Limits(workers=1))
    stage.join("a")
    stage.end(0, How.RAISED)
    assert stage.story(0) == ["assigned to a", "given_up"]


@pytest.mark.parametrize("how", [How.TIMED_OUT, How.UNUSABLE])
def test_no_other_worker_mends_what_is_the_trials_own_fault(how: How) -> None:
    stage = Stage(3)
    stage.join("a", "b")
    stage.end(0)
    stage.end(2, how, reason="why")
    assert stage.story(2) == ["assigned to a", "given_up"]
    assert (stage.states[2], stage.trial(2).reason) == (State.FAILED, "why")
    assert stage.driver.history.workers["a"].fails == 0  # and it is not the worker's


def test_an_invalid_configuration_is_no_failure() -> None:
    stage = Stage(2)
    stage.join("a", "b")
    stage.end(0, How.INVALID, reason="heads must divide width")
    assert stage.story(0) == ["assigned to a", "refused"]
    assert (stage.states[0], stage.trial(0).reason) == (State.INVALID, "heads must divide width")
    assert stage.driver.history.workers["a"].good_ends == 1


# --- enough, fixed, promoted ------------------------------------------------------------------------


def test_a_trial_that_has_shown_what_it_can_finishes_with_its_last_report() -> None:
    stage = Stage(Script(2, verdicts={(0, 2): ENOUGH}))
    stage.join("a")
    stage.report(0, 0.5)
    stage.report(0, 0.7)
    assert only(Stop, stage.told) == [Stop("a", 0, 1)]
    assert stage.states[0] is State.STOPPING
    stage.end(0, How.STOPPED)
    assert (stage.states[0], stage.trial(0).value, stage.trial(0).reason) == (State.FINISHED, 0.7, "it has converged")
    assert [trial.number for trial in stage.driver.history.finished] == [0]


def test_a_trial_that_is_to_end_and_returns_a_result_first_keeps_that() -> None:
    stage = Stage(Script(1, verdicts={(0, 1): ENOUGH}))
    stage.join("a")
    stage.report(0, 0.7)
    stage.end(0, value=0.9)
    assert (stage.states[0], stage.trial(0).value) == (State.FINISHED, 0.9)


@pytest.mark.parametrize("end", ["killed", "its worker left", "its driver ended"])
def test_what_was_enough_is_enough_however_the_attempt_ends(end: str) -> None:
    stage = Stage(Script(1, verdicts={(0, 1): ENOUGH}))
    stage.join("a")
    stage.report(0, 0.7)
    if end == "killed":  # as it is if it does not report again in time
        stage.end(0, How.KILLED)
    elif end == "its worker left":
        stage.leave("a")
    else:
        stage.take_over()
    assert (stage.states[0], stage.trial(0).value, stage.trial(0).reason) == (State.FINISHED, 0.7, "it has converged")


def test_what_was_enough_has_a_value_of_each_metric() -> None:
    stage = Stage(Script(2, verdicts={(0, 1): ENOUGH, (1, 1): ENOUGH}), metrics=Metrics({METRIC: "max", "lag": "min"}))
    stage.join("a", "b")
    stage.report(0, 3.0, metric="lag", step=0)
    stage.report(0, 0.7)
    stage.report(1, 0.8)  # and never the other one
    stage.end(0, How.STOPPED)
    stage.end(1, How.STOPPED)
    assert stage.states == [State.FINISHED, State.STOPPED]
    assert (stage.trial(0).value, stage.trial(0).extra) == (0.7, {"lag": 3.0})


def test_what_was_enough_in_a_lost_attempt_is_not_in_the_next() -> None:
    stage = Stage(Script(1, verdicts={(0, 2): ENOUGH}))
    stage.join("a", "b")
    stage.report(0, 0.7)
    stage.leave("a")
    stage.report(0, 0.6)
    assert not stage.trial(0).enough


def test_fixed_parameters_are_added_to_what_the_sampler_proposes() -> None:
    stage = Stage(Script(2, given={1: {"x": 9}}, fixed={"epochs": 27}))
    stage.join("a", "b")
    assert [trial.params for trial in stage.trials] == [{"x": 0, "redraw": 0, "epochs": 27}, {"x": 9, "epochs": 27}]


def test_equal_configurations_with_other_fixed_parameters_are_not_the_same() -> None:
    stage = Stage(Script(2, given={0: {"x": 1, "epochs": 1}}), sampler=lambda k, redraw: {"x": 1, "epochs": 3})
    stage.join("a", "b")
    assert [trial.same_as for trial in stage.trials] == [None, None]


def test_a_promoted_configuration_is_a_trial_that_names_the_one_it_carries_on() -> None:
    stage = Stage(Script(2, given={1: {"x": 0, "epochs": 3}}, carries_on={1: 0}))
    stage.join("a")
    stage.run_out()
    assert [trial.promotes for trial in stage.trials] == [None, 0]


# --- what tells of all trials -----------------------------------------------------------------------

DEFINITION_FAULTS: list[dict[str, Any]] = [
    {"how": How.UNUSABLE, "reason": "The metric never came."},
    {"how": How.RAISED, "reason": "OSError: no", "raised_in": "data", "traceback": "Traceback: data\n"},
]


@pytest.mark.parametrize("fault", DEFINITION_FAULTS, ids=["no result", "data raised"])
def test_a_first_end_that_tells_of_all_trials_ends_the_study_and_fails_none(fault: dict[str, Any]) -> None:
    stage = Stage(9, limits=Limits(workers=1))
    stage.join("a")
    stage.end(0, **fault)
    assert stage.driver.over
    assert not stage.last(Closed).complete
    (fail,) = only(Fail, stage.told)
    start = fault.get("traceback") or "Trial 0 gave no result: The metric never came. No trial"
    assert str(fail.error).startswith(start)
    assert stage.states == [State.QUEUED] * len(stage.states)
    assert stage.trial(0).losses == 0

    stage.take_over()  # whatever it was is mended by now
    stage.join("b")
    stage.run_out()
    assert stage.states == [State.FINISHED] * 9
    assert stage.last(Closed).complete


def test_nothing_is_started_in_doubt_until_a_trial_at_work_has_gone_well() -> None:
    stage = Stage(4)
    stage.join("a", "b")
    stage.end(0, How.UNUSABLE)
    stage.wait(100.0)
    assert stage.hands == {"b": (1, 1)}
    stage.end(1)
    assert set(stage.hands.values()) == {(0, 2), (2, 1)}
    stage.end(0, How.UNUSABLE)
    assert stage.states[0] is State.FAILED
    stage.run_out()
    assert stage.states == [State.FAILED, *[State.FINISHED] * 3]


def test_the_study_ends_in_doubt_once_the_last_trial_at_work_has_ended_no_better() -> None:
    stage = Stage(9)
    stage.join("a", "b")
    stage.end(0, How.UNUSABLE, reason="no metric")
    assert not stage.driver.over
    stage.end(1, How.TIMED_OUT)
    assert stage.driver.over
    assert stage.last(Closed).reason == "Trial 0 gave no result: no metric."


def test_data_that_raises_on_one_worker_is_tried_on_another_before_anybody_doubts_it() -> None:
    stage = Stage(3)
    stage.join("a", "b")
    stage.end(0, How.RAISED, raised_in="data")
    assert stage.hands["a"] == (2, 1)
    stage.end(1)
    assert stage.hands["b"] == (0, 2)
    stage.run_out()
    assert stage.states == [State.FINISHED] * 3


def test_what_a_dead_driver_left_behind_puts_nothing_in_doubt() -> None:
    stage = Stage(2)
    stage.join("a")
    stage.take_over(open_it=False)
    stage.end(0, How.UNUSABLE, attempt=1)
    stage.open()
    assert not stage.driver.over
    assert stage.story(0)[-1] == "lost"
    stage.join("b")
    stage.run_out()
    assert stage.states == [State.FINISHED] * 2


# --- words that come late, twice, or from nowhere ---------------------------------------------------


def test_a_late_end_of_a_lost_attempt_changes_nothing_and_is_answered() -> None:
    stage = Stage(1)
    stage.join("a", "b")
    stage.leave("a")
    before = len(stage.facts)
    assert stage.end(0, attempt=1, worker="a") == [Release("a", 0, 1)]
    assert len(stage.facts) == before
    assert stage.hands == {"b": (0, 2)}


def test_an_end_that_is_said_twice_counts_once() -> None:
    stage = Stage(2)
    stage.join("a")
    stage.end(0, value=0.25)
    assert stage.end(0, How.RAISED, attempt=1, worker="a") == [Release("a", 0, 1)]
    assert stage.trial(0).value == 0.25


@pytest.mark.parametrize("trial", [-1, 99])
def test_the_end_of_a_trial_that_does_not_exist_is_answered(trial: int) -> None:
    stage = Stage(1)
    stage.join("a")
    event = Ended(at=0.0, worker="x", trial=trial, attempt=1, outcome=Outcome(How.FINISHED, 1.0))
    assert stage.tell(event) == [Release("x", trial, 1)]


def test_a_late_report_is_not_written_down() -> None:
    stage = Stage(1)
    stage.join("a", "b")
    stage.leave("a")
    assert stage.report(0, 0.9, attempt=1) == []
    assert list(stage.trial(0).curve) == []
    assert not any(isinstance(fact, Reported) for fact in stage.facts)


def test_a_report_that_is_said_twice_counts_once() -> None:
    stage = Stage(1)
    stage.join("a")
    stage.report(0, 0.1, step=1)
    stage.report(0, 0.1, step=1)
    stage.report(0, 0.2, step=2)
    assert list(stage.trial(0).curve) == [0.1, 0.2]
    assert [report.step for report in stage.plan.seen] == [1, 2]


def test_other_metrics_are_written_down_and_never_judged() -> None:
    stage = Stage(1)
    stage.join("a")
    stage.report(0, 3.5, step=0, metric="loss")
    assert stage.last(Reported).metrics == {"loss": 3.5}
    assert stage.plan.seen == []


def test_a_report_says_how_long_its_attempt_has_run() -> None:
    stage = Stage(1)
    stage.join("a")
    stage.wait(5.0)
    stage.report(0, 0.1)
    assert stage.plan.seen[0].elapsed_s == 5.0


def test_a_new_attempt_withdraws_the_reports_of_the_one_before() -> None:
    stage = Stage(1)
    stage.join("a", "b")
    stage.report(0, 0.1)
    stage.report(0, math.nan)
    stage.leave("a")
    assert list(stage.trial(0).curve) == []
    stage.report(0, 0.3)
    assert list(stage.trial(0).curve) == [0.3]


def test_answers_that_nobody_waits_for_are_ignored() -> None:
    stage = Stage(3, sampler=None)
    stage.join("a")
    stage.suggest(0, {"x": 0})
    stage.suggest(0, {"x": 5})
    stage.suggest(7, {"x": 7})
    assert [trial.params for trial in stage.trials] == [{"x": 0}]


# --- stopping and pausing ---------------------------------------------------------------------------


def stopping(*, trials: int = 1) -> Stage:
    """Return a stage on which trial 0 runs on worker a and has been asked to stop."""
    stage = Stage(Script(trials, verdicts={(0, 1): STOP}))
    stage.join("a", "b")
    assert only(Stop, stage.report(0, 0.1)) == [Stop("a", 0, 1)]
    assert stage.states[0] is State.STOPPING
    return stage


def test_a_stop_that_was_seen_stops_the_trial() -> None:
    stage = stopping()
    stage.end(0, How.STOPPED)
    assert stage.story(0) == ["assigned to a", "stop_asked", "stop_seen"]
    assert (stage.states[0], stage.trial(0).reason) == (State.STOPPED, "worse than the others")


def test_a_trial_that_was_done_before_it_saw_the_stop_has_finished() -> None:
    stage = stopping()
    stage.end(0, value=0.75)
    assert (stage.states[0], stage.trial(0).value, stage.trial(0).reason) == (State.FINISHED, 0.75, "")


def test_a_trial_that_is_lost_while_it_stops_is_not_run_again() -> None:
    stage = stopping()
    stage.leave("a")
    assert stage.story(0) == ["assigned to a", "stop_asked", "lost"]
    assert (stage.states[0], stage.trial(0).reason) == (State.STOPPED, "worse than the others")


def test_a_trial_that_raises_before_it_saw_the_stop_has_failed() -> None:
    stage = stopping()
    stage.end(0, How.RAISED, reason="ValueError: no")
    assert (stage.states[0], stage.trial(0).reason) == (State.FAILED, "ValueError: no")


@pytest.mark.parametrize("wind_down", [True, False])
def test_why_a_trial_was_to_stop_stays_its_reason_whatever_becomes_of_its_driver(wind_down: bool) -> None:
    stage = stopping()
    if wind_down:
        stage.cancel()
    stage.take_over()
    assert (stage.states[0], stage.trial(0).reason) == (State.STOPPED, "worse than the others")


def test_a_plan_that_raises_fails_the_study_and_takes_no_report_along() -> None:
    error = KeyError("not my day")

    class Raises(Script):
        def decide(self, report: Report, standing: Standing) -> Decision:
            raise error

    stage = Stage(Raises(2))
    stage.join("a")
    assert only(Fail, stage.report(0, 0.5)) == [Fail(error)]
    assert list(stage.trials[0].curve) == [0.5]
    assert type(stage.facts[-1]) is Reported
    stage.end(0)  # what ends meanwhile counts all the same
    assert stage.trials[0].state is State.FINISHED


class WaitsForNothing(Script):
    """A plan that never says that it is done."""

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Any:
        answer = super().ask(standing, pending=pending)
        return Wait() if isinstance(answer, Done) else answer


def test_a_plan_that_waits_for_nothing_fails_the_study_and_says_so() -> None:
    stage = Stage(WaitsForNothing(2))
    stage.join("a", "b")
    assert only(Fail, stage.end(0)) == []  # there is trial 1 to wait for
    (fail,) = only(Fail, stage.end(1))
    assert str(fail.error) == (
        "The plan waits, and there is nothing that it could wait for: no trial runs or is queued, and no proposal is "
        "under way. A plan that has no more trials answers Done; one that has, Propose or Promote."
    )


def test_a_plan_may_wait_for_a_trial_that_nobody_works_on_yet() -> None:
    stage = Stage(WaitsForNothing(1))
    stage.join("a")
    assert only(Fail, stage.leave("a")) == []
    stage.join("b")
    assert stage.hands == {"b": (0, 2)}


def test_a_trial_is_asked_to_stop_once() -> None:
    stage = stopping()
    assert stage.report(0, 0.1) == []
    assert list(stage.trial(0).curve) == [0.1, 0.1]
    assert len(stage.plan.seen) == 1


def test_a_paused_trial_goes_on_when_it_is_promoted() -> None:
    stage = Stage(Script(2, verdicts={(0, 1): PAUSE}, promotes={0: 1}))
    stage.join("a")
    assert only(Pause, stage.report(0, 0.1)) == [Pause("a", 0, 1)]
    stage.end(0, How.PAUSED)
    assert stage.states[0] is State.PAUSED
    assert stage.hands == {"a": (1, 1)}
    stage.end(1)
    assert stage.hands == {"a": (0, 2)}
    stage.end(0)
    assert stage.story(0) == ["assigned to a", "pause_asked", "paused", "promoted", "assigned to a", "finished"]
    assert stage.last(Closed).complete


def test_paused_trials_are_stopped_when_the_study_ends() -> None:
    stage = Stage(Script(2, verdicts={(0, 1): PAUSE}))
    stage.join("a")
    stage.report(0, 0.1)
    stage.end(0, How.PAUSED)
    stage.end(1)
    assert stage.states == [State.STOPPED, State.FINISHED]
    assert stage.trial(0).reason == "let the others catch up"
    assert stage.told[-1] == End("all trials ended", complete=True)


def test_a_trial_that_pauses_while_it_is_to_stop_has_stopped() -> None:
    stage = Stage(Script(1, verdicts={(0, 1): PAUSE, (0, 2): STOP}))
    stage.join("a")
    stage.report(0, 0.1)
    stage.report(0, 0.1)
    stage.end(0, How.PAUSED)
    assert stage.states == [State.STOPPED]


# --- equal configurations ---------------------------------------------------------------------------


def stubborn(k: int, redraw: int) -> Params:
    """Propose one and the same configuration whatever is asked."""
    return {"x": 1}


def test_a_configuration_that_is_taken_is_drawn_anew() -> None:
    stage = Stage(2, sampler=lambda k, redraw: {"x": redraw})
    stage.join("a")
    stage.run_out()
    assert [trial.params for trial in stage.trials] == [{"x": 0}, {"x": 1}]
    assert stage.trial(1).redraw == 1


def test_after_so_many_draws_a_configuration_is_reused_and_marked() -> None:
    stage = Stage(2, sampler=stubborn)
    stage.join("a", "b")
    assert [(q.k, q.redraw) for q in only(Suggest, stage.told)] == [(0, 0), *((1, n) for n in range(MAX_REDRAWS + 1))]
    assert stage.hands == {"a": (0, 1)}  # the second one waits for the first, and b for work
    stage.end(0, value=0.8)
    assert stage.story(1) == ["reused"]
    assert (stage.trial(1).same_as, stage.trial(1).value) == (0, 0.8)
    assert stage.trial(1).reason == "same configuration as trial 0"
    assert stage.last(Closed).complete


ENDS = [
    (How.FINISHED, State.FINISHED),
    (How.STOPPED, State.STOPPED),
    (How.TIMED_OUT, State.FAILED),
    (How.INVALID, State.INVALID),
]


@pytest.mark.parametrize("already", [True, False], ids=["that has ended", "that still runs"])
@pytest.mark.parametrize(("how", "state"), ENDS)
def test_a_repeated_configuration_ends_like_the_trial(how: How, state: State, already: bool) -> None:
    stage = Stage(Script(2, verdicts={(0, 1): STOP}), sampler=None)
    stage.join("a")
    stage.suggest(0, {"x": 1})
    if how is How.STOPPED:
        stage.report(0, 0.0)
    if already:
        stage.end(0, how)
    stage.suggest(1, {"x": 1}, redraw=MAX_REDRAWS)
    if not already:
        assert stage.states[1] is State.QUEUED
        stage.end(0, how)
    assert stage.states == [state, state]
    assert stage.last(Closed).complete


def test_a_trial_waits_on_while_the_one_with_its_configuration_is_run_again_or_paused() -> None:
    stage = Stage(Script(2, verdicts={(0, 1): PAUSE}), sampler=stubborn)
    stage.join("a", "b")
    stage.leave("a")
    assert stage.states == [State.RUNNING, State.QUEUED]
    stage.report(0, 0.1)
    stage.end(0, How.PAUSED)
    assert stage.states == [State.STOPPED, State.STOPPED]  # nothing else was to be done
    assert stage.last(Closed).complete


def test_proposals_are_taken_in_order_whatever_the_order_in_which_they_come() -> None:
    stage = Stage(3, sampler=None)
    stage.join("a", "b")
    assert stage.waiting == [Suggest(0), Suggest(1), Suggest(2)]
    stage.suggest(2, {"x": 1})
    stage.suggest(1, {"x": 1})
    assert stage.trials == []
    stage.suggest(0, {"x": 0})
    assert [trial.params for trial in stage.trials] == [{"x": 0}, {"x": 1}]
    assert stage.waiting[3:] == [Suggest(2, 1)]  # of two equal ones the earlier in the count goes first
    stage.suggest(2, {"x": 2}, redraw=1)
    assert stage.trial(2).params == {"x": 2}


def test_true_one_and_one_point_zero_are_three_configurations() -> None:
    values = [True, 1, 1.0, (1, 2), (1.0, 2), None]
    stage = Stage(6, sampler=lambda k, redraw: {"x": values[k]})
    stage.join("a")
    stage.run_out()
    assert stage.driver.history.distinct == 6
    assert only(Suggest, stage.told) == [Suggest(k) for k in range(6)]


def test_a_configuration_that_a_constraint_rules_out_is_invalid_without_running() -> None:
    stage = Stage(3, forbids=lambda params: "x is too small" if params["x"] == 0 else None)
    stage.join("a")
    assert stage.hands == {"a": (1, 1)}
    assert stage.story(0) == ["refused"]
    assert (stage.states[0], stage.trial(0).reason) == (State.INVALID, "x is too small")
    stage.run_out()
    assert stage.states == [State.INVALID, State.FINISHED, State.FINISHED]


# --- workers that do badly --------------------------------------------------------------------------


def test_a_worker_that_fails_twice_in_a_row_waits_before_it_gets_more() -> None:
    stage = Stage(9, limits=Limits(retries=9, backoff_s=2.0))
    stage.join("a")
    stage.end(0, How.KILLED)
    assert stage.hands == {"a": (0, 2)}  # anybody may fail once
    assert only(WaitUntil, stage.end(0, How.KILLED)) == [WaitUntil(2.0)]
    assert stage.hands == {}
    stage.wait(1.5)
    assert stage.hands == {}
    stage.wait(0.5)
    assert stage.hands == {"a": (0, 3)}
    assert only(WaitUntil, stage.end(0, How.KILLED)) == [WaitUntil(2.0 + 4.0)]


def test_the_longest_wait_is_bounded_and_a_good_end_forgives() -> None:
    stage = Stage(20, limits=Limits(retries=99, backoff_s=1.0, max_backoff_s=3.0))
    stage.join("a")
    for _ in range(6):
        stage.end(0, How.KILLED)
        stage.wait(3.0)
    assert stage.hands == {"a": (0, 7)}
    stage.end(0)
    assert stage.driver.history.workers["a"].fails == 0
    assert stage.hands == {"a": (1, 1)}


def test_a_driver_with_much_to_do_asks_to_be_woken_once() -> None:
    stage = Stage(5, limits=Limits(workers=3, retries=9, backoff_s=2.0))
    stage.join("a", "b", "c")
    stage.take_over()  # three trials wait now
    stage.join("a")
    stage.end(0, How.KILLED)
    said = stage.end(0, How.KILLED)
    assert stage.driver.history.ready == [0, 1, 2, 3]
    assert only(WaitUntil, said) == [WaitUntil(2.0)]


def losing_three() -> Stage:
    """Return a stage on which one worker lost trials 0, 2, 3, and all else but trial 4 is done by the other."""
    stage = Stage(8, limits=Limits(backoff_s=0.0))
    stage.join("bad", "good")
    for trial in (0, 2, 3):
        stage.end(trial, How.KILLED)
    assert stage.hands == {"good": (1, 1), "bad": (4, 1)}
    for trial in (1, 0, 2):
        assert only(Retire, stage.end(trial)) == []
    return stage


def test_a_worker_that_loses_what_does_well_elsewhere_is_let_go() -> None:
    stage = losing_three()
    stage.limits = stage.driver.limits = Limits(backoff_s=3600.0)
    stage.end(4, How.KILLED)
    assert list(stage.hands) == ["good"]  # the bad one waits, for it has failed too often
    assert only(Retire, stage.end(3)) == [Retire("bad")]
    assert stage.last(Quarantined).reason == "it lost trials [0, 2, 3], which finished on other workers"
    stage.wait(1e6)
    assert list(stage.hands) == ["good"]
    stage.leave("bad", "let go")
    stage.run_out()
    assert stage.last(Closed).complete


def test_a_worker_that_is_to_go_may_end_what_it_holds() -> None:
    stage = losing_three()
    assert only(Retire, stage.end(3)) == []
    assert only(Retire, stage.end(4)) == [Retire("bad")]
    assert stage.states[4] is State.FINISHED


def test_a_worker_in_quarantine_is_not_waited_for() -> None:
    stage = losing_three()
    stage.end(3)
    stage.end(4)
    assert stage.hands == {"good": (5, 1)}
    stage.end(5, How.KILLED)
    assert stage.hands == {"good": (5, 2)}


def test_a_free_worker_gets_something_new_while_what_it_lost_waits_for_another() -> None:
    stage = Stage(20, limits=Limits(backoff_s=0.0))
    stage.join("a", "b")
    for trial in (0, 2, 3, 4, 5):
        assert stage.hands["a"] == (trial, 1)
        stage.end(trial, How.KILLED)
    assert stage.driver.history.ready == [0, 2, 3, 4, 5]
    assert stage.hands == {"a": (6, 1), "b": (1, 1)}


def test_who_takes_the_place_of_a_worker_in_quarantine_starts_with_a_clean_record() -> None:
    stage = losing_three()
    stage.end(3)
    assert only(Retire, stage.end(4)) == [Retire("bad")]
    stage.leave("bad", "let go")
    stage._here.add("fresh")
    stage.tell(Joined(at=stage.now, worker="fresh", replaces="bad"))
    fresh = stage.driver.history.workers["fresh"]
    assert (fresh.fails, fresh.hurt, fresh.quarantined) == (0, set(), False)
    assert "fresh" in stage.hands
    stage.run_out()
    assert stage.states == [State.FINISHED] * 8


def test_a_worker_that_mends_what_it_lost_is_kept() -> None:
    stage = Stage(6, limits=Limits(backoff_s=0.0))
    stage.join("only")
    for trial in range(6):
        stage.end(trial, How.KILLED)
        stage.end(trial)
    assert stage.states == [State.FINISHED] * 6
    assert only(Retire, stage.told) == []


# --- the end, and going on ----------------------------------------------------------------------------


def test_a_new_driver_requeues_what_was_live_and_charges_nobody() -> None:
    stage = Stage(4)
    stage.join("a", "b")
    stage.end(0)
    stage.take_over()
    assert stage.states == [State.FINISHED, *[State.QUEUED] * 3]
    assert {trial.losses for trial in stage.trials} == {0}
    assert {trial.tried_on for trial in stage.trials} == {()}
    assert stage.trial(1).reason == "its driver ended"
    stage.join("a")
    assert stage.hands == {"a": (1, 2)}
    stage.run_out()
    assert stage.states == [State.FINISHED] * 4


def test_a_result_that_was_left_behind_is_taken_before_the_study_is_open() -> None:
    stage = Stage(3)
    stage.join("a", "b")
    stage.take_over(open_it=False)
    assert stage.end(0, value=0.9, worker="") == [Release("", 0, 1)]  # and nothing is handed out
    assert not any(isinstance(fact, Assigned) and fact.trial == 2 for fact in stage.facts)
    stage.open()
    assert stage.states == [State.FINISHED, State.QUEUED, State.QUEUED]
    assert stage.trial(0).value == 0.9


def test_a_study_that_is_cancelled_leaves_its_trials_in_the_queue() -> None:
    stage = Stage(4)
    stage.join("a", "b")
    assert stage.cancel("Ctrl-C") == [End("Ctrl-C", complete=False)]
    assert stage.states == [State.QUEUED] * 3
    assert stage.last(Closed) == Closed(at=0.0, reason="Ctrl-C", complete=False)
    assert [trial.reason for trial in stage.trials] == ["interrupted", "interrupted", ""]
    assert {trial.tried_on for trial in stage.trials} == {()}  # the workers had no part in it


def test_a_driver_that_is_done_does_nothing_more_but_answer() -> None:
    stage = Stage(2)
    stage.join("a")
    stage.cancel()
    before = len(stage.facts)
    assert stage.end(0, worker="a") == [Release("a", 0, 1)]
    assert stage.join("b") == stage.wait(1.0) == stage.cancel() == []
    assert len(stage.facts) == before
    stage.take_over()
    stage.join("a")
    stage.run_out()
    assert stage.states == [State.FINISHED] * 2


def test_a_study_closes_only_when_every_trial_is_settled() -> None:
    stage = Stage(2)
    stage.join("a", "b")
    stage.end(1)
    assert not any(isinstance(fact, Closed) for fact in stage.facts)
    stage.end(0)
    assert stage.last(Closed).complete


def test_a_study_that_is_done_may_be_given_more_trials() -> None:
    stage = Stage(2)
    stage.join("a")
    stage.run_out()
    assert stage.take_over() == [End("all trials ended", complete=True)]
    stage.take_over(4)
    assert stage.driver.history.closed is None
    stage.join("b")
    stage.run_out()
    assert stage.states == [State.FINISHED] * 4
    assert sum(isinstance(fact, Closed) for fact in stage.facts) == 3


def test_every_command_comes_after_the_fact_that_it_follows_from() -> None:
    stage = Stage(Script(1, verdicts={(0, 1): STOP}))
    stage.open()
    driver, kinds = stage.driver, []
    for event in (
        Joined(at=1.0, worker="a"),
        Reported(at=2.0, trial=0, attempt=1, step=1, metrics={METRIC: 0.0}),
        Ended(at=3.0, worker="a", trial=0, attempt=1, outcome=Outcome(How.STOPPED)),
    ):
        for command in driver.handle(event):
            kinds.append(type(getattr(command, "fact", command)).__name__)
    assert kinds == [
        *["Joined", "Assigned", "Assign"],
        *["Reported", "Judged", "Stop"],
        *["Settled", "Release", "Closed", "End"],
    ]


def test_facts_alone_give_the_state_again_whatever_happened() -> None:
    stage = Stage(Script(12, verdicts={(1, 1): STOP, (2, 2): PAUSE}, promotes={2: 3}), limits=Limits(3, backoff_s=1.0))
    stage.join("a", "b", "c")
    stage.report(1, math.nan)
    stage.report(2, 0.5)
    stage.report(2, 0.5)
    stage.end(2, How.PAUSED)
    stage.end(0, How.RAISED)
    stage.end(1, How.STOPPED)
    stage.leave("a")
    stage.wait(5.0)
    stage.cancel()
    stage.take_over()
    stage.join("d", "e")
    stage.run_out()
    assert all(state in FINAL for state in stage.states)
    assert_same_state(folded(stage.facts), stage.driver.history)
    assert {type(fact) for fact in stage.facts} >= {Opened, Joined, Queued, Assigned, Reported, Settled, Closed}
