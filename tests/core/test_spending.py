"""Limits of a study, in virtual time: when they are reached, what they count, and how it goes on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core import totals
from etude.core.events import Assign, Cancelled, Closed, End, How, StoodStill, WaitUntil, WindDown
from etude.core.lifecycle import State
from etude.core.limits import Limits
from etude.core.spending import Ceiling, Spending

from .support import Stage


def under(**limits: float) -> Limits:
    return Limits(workers=4, retries=0, ceiling=Ceiling(**limits))  # type: ignore[arg-type]


def assert_wound_down(stage: Stage, limit: str, reason: str) -> None:
    closed = stage.last(Closed)
    assert (closed.complete, closed.limit, closed.reason) == (False, limit, reason)
    assert stage.told[-1] == End(reason, complete=False)
    assert State.RUNNING not in stage.states
    assert stage.driver.over


DEADLINE = (
    "deadline_s=60 is reached: the study was at work for 1 min 0 s, over all its runs. A larger deadline_s goes on"
)


def test_at_the_deadline_what_runs_goes_back_uncharged_and_keeps_its_reports() -> None:
    stage = Stage(4, limits=under(deadline_s=60))
    stage.join("a", "b")
    stage.end(0)
    stage.report(1, 0.3)
    assert stage.wait(59.0) == []
    stage.wait(1.0)
    assert_wound_down(stage, "deadline_s", DEADLINE)
    assert stage.states == [State.FINISHED, *[State.QUEUED] * 3]
    assert [t.losses for t in stage.trials] == [0] * 4
    assert list(stage.trial(1).curve) == [0.3]


def test_the_shell_is_asked_to_wake_the_driver_at_the_deadline() -> None:
    stage = Stage(4, limits=under(deadline_s=60))
    assert WaitUntil(60.0) in stage.open()


def test_the_same_call_adds_nothing_and_a_larger_limit_goes_on() -> None:
    stage = Stage(2, limits=under(deadline_s=60))
    stage.join("a")
    stage.wait(60.0)
    stage.clock.advance(1e6)  # nobody works on it: that does not count
    stage.take_over()
    assert_wound_down(stage, "deadline_s", DEADLINE)
    stage.limits = under(deadline_s=100)
    stage.take_over()
    stage.join("a")
    stage.wait(39.0)
    stage.end(0)
    assert not stage.driver.over
    stage.wait(1.0)
    assert stage.last(Closed).limit == "deadline_s"
    stage.limits = None
    stage.take_over()
    stage.join("a")
    stage.run_out()
    assert stage.last(Closed) == Closed(at=stage.now, reason="all trials ended", complete=True)


def test_of_a_driver_that_was_killed_counts_what_the_journal_knows() -> None:
    stage = Stage(2, limits=under(deadline_s=60))
    stage.join("a")
    stage.wait(30.0)
    stage.end(0)
    stage.clock.advance(1e6)
    stage.take_over()
    stage.join("a")
    assert stage.wait(29.0) == []
    stage.wait(1.0)
    assert_wound_down(stage, "deadline_s", DEADLINE)


def test_a_study_whose_last_trial_ends_with_the_deadline_is_complete() -> None:
    stage = Stage(1, limits=under(deadline_s=60))
    stage.join("a")
    stage.clock.advance(70.0)
    stage.end(0)
    assert stage.last(Closed).complete
    stage.take_over()
    assert stage.last(Closed).complete


def test_one_failure_more_than_may_be_ends_the_study() -> None:
    stage = Stage(9, limits=under(max_failures=1))
    stage.join("a", "b")
    stage.end(0)
    stage.end(1, How.INVALID, reason="heads")  # no failure
    stage.end(2, How.TIMED_OUT)
    assert not stage.driver.over
    before = len(stage.told)
    stage.end(3, How.KILLED)
    assert not [c for c in stage.told[before:] if isinstance(c, Assign)]
    assert_wound_down(
        stage,
        "max_failures",
        "max_failures=1 is reached: 2 trials failed, over all its runs. A larger max_failures goes on",
    )
    stage.take_over()
    assert stage.last(Closed).limit == "max_failures"


def test_what_has_ended_by_the_time_that_the_study_winds_down_counts() -> None:
    stage = Stage(9, limits=under(max_failures=0), lingers=True)
    stage.join("a", "b", "c")
    said = stage.end(0, How.TIMED_OUT)
    order = next(command for command in said if isinstance(command, WindDown))
    stage.end(1)
    stage.tell(Cancelled(at=stage.now, reason=order.reason, limit=order.limit))
    assert_wound_down(stage, "max_failures", order.reason)
    assert stage.states[:3] == [State.FAILED, State.FINISHED, State.QUEUED]
    assert len([c for c in stage.told if isinstance(c, WindDown)]) == 1
    assert len([c for c in stage.told if isinstance(c, Assign)]) == 3


def test_failures_in_the_last_trials_leave_a_study_complete() -> None:
    stage = Stage(1, limits=under(max_failures=0))
    stage.join("a")
    stage.end(0, How.TIMED_OUT)
    assert stage.last(Closed).complete


def test_workers_cost_from_their_coming_to_their_going_whether_they_have_work_or_not() -> None:
    stage = Stage(2, limits=under(max_cost=3.0, price_per_hour=1.5))
    assert not [c for c in stage.open() if isinstance(c, WaitUntil)]  # nobody is there who costs
    stage.wait(3600.0)
    assert WaitUntil(3600.0 + 7200.0) in stage.join("a")
    stage.wait(1800.0)  # half an hour of a
    assert WaitUntil(stage.now + 2700.0) in stage.join("b")
    stage.wait(1800.0)  # an hour of a, half an hour of b
    stage.leave("b")
    assert stage.wait(1799.0) == []
    stage.wait(1.0)
    assert_wound_down(
        stage,
        "max_cost",
        "max_cost=3 is reached: 2 worker-hours at 1.5 an hour cost 3, over all its runs. A larger max_cost goes on",
    )


def test_time_in_which_all_stood_still_is_not_the_studys() -> None:
    stage = Stage(2, limits=under(deadline_s=60))
    stage.join("a")
    stage.wait(20.0)
    stage.clock.advance(1000.0)
    assert WaitUntil(stage.now + 40.0) in stage.tell(StoodStill(at=stage.now, seconds=1000.0))
    assert stage.wait(30.0) == []
    stage.report(0, 0.5)
    stage.take_over()  # who reads the journal knows of it as well
    assert stage.wait(9.0) == []
    stage.wait(1.0)
    assert_wound_down(stage, "deadline_s", DEADLINE)


def test_who_stands_still_is_paid_for_all_the_same() -> None:
    stage = Stage(2, limits=under(max_cost=1.0, price_per_hour=1.0))
    stage.join("a")
    stage.clock.advance(3600.0)
    stage.tell(StoodStill(at=stage.now, seconds=3000.0))
    assert stage.last(Closed).limit == "max_cost"


def test_a_shell_that_sees_a_limit_reached_says_which() -> None:
    stage = Stage(2)
    stage.join("a")
    stage.tell(Cancelled(at=stage.now, reason="it was too late", limit="deadline_s"))
    assert_wound_down(stage, "deadline_s", "it was too late")


def test_a_report_alone_ends_nothing_until_time_is_told() -> None:
    stage = Stage(1, limits=under(deadline_s=60))
    stage.join("a")
    stage.clock.advance(61.0)
    assert stage.report(0, 0.5) == []  # the tick that is due tells
    stage.wait(0.0)
    assert stage.driver.over
    assert list(stage.trial(0).curve) == [0.5]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e4, allow_nan=False),
            st.sampled_from(["open", "close", "come", "go", "still"]),
            st.integers(0, 3),
        ),
        max_size=40,
    )
)
def test_what_is_summed_up_is_what_adding_second_by_second_gives(steps: list[tuple[float, str, int]]) -> None:
    spending, now = Spending(), 1.7e9
    worked = paid = 0.0
    is_open, here = False, set[str]()
    for lasts, what, number in steps:
        if what == "open":
            spending.end(now)
            spending.begin(now)
            is_open, here = True, set()
        elif what == "close" and is_open:
            spending.end(now)
            is_open, here = False, set()
        elif what == "come" and is_open and str(number) not in here:
            spending.come(str(number), now)
            here.add(str(number))
        elif what == "go":
            spending.go(str(number), now)
            here.discard(str(number))
        now += lasts
        if what == "still":
            spending.stand_still(lasts)
        else:
            worked += lasts if is_open else 0.0
        paid += lasts * len(here)
        assert spending.worked_s(now) == pytest.approx(worked, abs=1e-3)
        assert spending.worker_s(now) == pytest.approx(paid, abs=1e-3)


def test_the_time_at_work_is_that_of_all_runs_and_the_span_goes_from_the_first_hand_out() -> None:
    stage = Stage(2, limits=under(deadline_s=60))
    stage.open()
    stage.wait(5.0)
    stage.join("a")
    stage.wait(55.0)
    assert totals.elapsed_s(stage.driver.history) == 60.0
    stage.clock.advance(1000.0)
    stage.limits = under(deadline_s=100)
    stage.take_over()
    stage.join("a")
    stage.wait(10.0)
    stage.end(0)
    assert totals.elapsed_s(stage.driver.history) == 70.0
    assert totals.makespan_s(stage.driver.history) == 1065.0  # with the attempt that its limit ended
