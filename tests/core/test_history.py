"""The fold: what facts mean for the state of a study."""

import math
import sys
from typing import Any

import pytest

from etude.core.events import (
    AnyFact,
    Assigned,
    Closed,
    How,
    Joined,
    Judged,
    Left,
    Opened,
    Outcome,
    Params,
    Quarantined,
    Queued,
    Reported,
    Settled,
    Usage,
)
from etude.core.history import History, Trial, identity
from etude.core.lifecycle import State, Turn
from etude.core.packed import Loose, Packed

from .support import METRIC, METRICS, assert_same_state, folded

OPENED = Opened(at=0.0, driver="one", epoch=1)


def queued(trial: int, x: int = 0, same_as: int | None = None) -> Queued:
    return Queued(at=1.0, trial=trial, params={"x": x}, seed=7, same_as=same_as)


def assigned(trial: int, worker: str, attempt: int = 1) -> Assigned:
    return Assigned(at=2.0, trial=trial, attempt=attempt, worker=worker)


def settled(trial: int, turn: Turn, how: How | None = None, *, reason: str = "", charged: bool = False) -> Settled:
    outcome = None if how is None else Outcome(how, value=0.5 if how is How.FINISHED else None)
    return Settled(at=3.0, trial=trial, turn=turn, attempt=1, outcome=outcome, reason=reason, charged=charged)


RUNNING = [OPENED, Joined(at=0.5, worker="a"), queued(0), assigned(0, "a")]


def test_a_new_study_knows_nothing() -> None:
    history = History(METRICS)
    history.check()
    assert (history.trials, history.workers, history.seq, history.distinct) == ([], {}, 0, 0)


def test_facts_are_counted() -> None:
    assert folded(RUNNING).seq == len(RUNNING)


def test_a_trial_remembers_its_hours() -> None:
    trial = folded([*RUNNING, settled(0, Turn.FINISHED, How.FINISHED)]).trials[0]
    assert (trial.queued_at, trial.started_at, trial.ended_at) == (1.0, 2.0, 3.0)


def test_a_trial_has_a_value_only_when_it_finished() -> None:
    assert folded(RUNNING).trials[0].value is None
    done = folded([*RUNNING, settled(0, Turn.FINISHED, How.FINISHED)]).trials[0]
    assert (done.value, done.extra) == (0.5, {})
    lost = folded([*RUNNING, settled(0, Turn.LOST, How.KILLED)]).trials[0]
    assert (lost.value, lost.extra, folded(RUNNING).trials[0].extra) == (None, {}, {})


def test_reports_of_the_studys_metric_make_the_curve() -> None:
    reports: list[AnyFact] = [
        Reported(at=2.5, trial=0, attempt=1, step=step, metrics=metrics)
        for step, metrics in [(1, {METRIC: 0.5}), (1, {"loss": 9.0}), (2, {METRIC: math.nan})]
    ]
    curve = folded([*RUNNING, *reports]).trials[0].curve
    assert curve[0] == 0.5
    assert math.isnan(curve[1])
    assert len(curve) == 2


@pytest.mark.parametrize(
    ("how", "turn", "marks"),
    [
        (How.FINISHED, Turn.FINISHED, (0, 1, (), ())),
        (How.INVALID, Turn.REFUSED, (0, 1, (), ())),
        (How.UNUSABLE, Turn.GIVEN_UP, (0, 0, (), ())),
        (How.TIMED_OUT, Turn.GIVEN_UP, (0, 0, (), ())),
        (How.RAISED, Turn.LOST, (1, 0, ("a",), ("a",))),
        (How.RAISED, Turn.GIVEN_UP, (0, 0, ("a",), ("a",))),
        (How.KILLED, Turn.LOST, (1, 0, ("a",), ())),
        (None, Turn.LOST, (0, 0, (), ())),  # the driver's own doing
    ],
)
def test_an_end_speaks_for_or_against_its_worker(how: How | None, turn: Turn, marks: tuple[object, ...]) -> None:
    history = folded([*RUNNING, settled(0, turn, how)])
    worker, trial = history.workers["a"], history.trials[0]
    assert (worker.fails, worker.good_ends, trial.tried_on, trial.raised_on) == marks
    assert worker.hurt == ({0} if worker.fails else set())
    assert list(history.idle) == ["a"]


def test_what_raises_on_a_second_worker_speaks_for_the_first_one() -> None:
    raised = settled(0, Turn.LOST, How.RAISED)
    again = [Joined(at=3.5, worker="b"), assigned(0, "b", 2)]
    once = folded([*RUNNING, raised, *again])
    assert once.workers["a"].fails == 1
    end = Settled(at=4.0, trial=0, turn=Turn.GIVEN_UP, attempt=2, outcome=Outcome(How.RAISED))
    twice = folded([*RUNNING, raised, *again, end])
    assert [worker.fails for worker in twice.workers.values()] == [0, 0]


def test_the_reason_of_a_trial_is_that_of_its_state() -> None:
    judged = Judged(at=2.5, trial=0, attempt=1, turn=Turn.STOP_ASKED, reason="worse")
    lost = [*RUNNING, settled(0, Turn.LOST, How.KILLED, reason="killed by SIGKILL")]
    assert folded([*RUNNING, judged, settled(0, Turn.STOP_SEEN, How.STOPPED)]).trials[0].reason == "worse"
    assert folded([*RUNNING, judged, settled(0, Turn.FINISHED, How.FINISHED)]).trials[0].reason == ""
    assert folded(lost).trials[0].reason == "killed by SIGKILL"
    assert folded([*lost, assigned(0, "a", 2)]).trials[0].reason == ""


def test_lost_trials_go_back_to_their_place_in_the_queue() -> None:
    history = folded([*RUNNING, queued(1, 1), queued(2, 2), settled(0, Turn.LOST)])
    assert history.ready == [0, 1, 2]


def test_a_trial_with_a_known_configuration_is_no_new_one_and_waits() -> None:
    history = folded([*RUNNING, queued(1, same_as=0), queued(2, same_as=0)])
    assert (history.distinct, history.ready, history.followers, history.unsettled) == (1, [], {0: [1, 2]}, 3)
    reused = settled(1, Turn.REUSED, How.FINISHED)
    history.apply(settled(0, Turn.FINISHED, How.FINISHED))
    history.apply(reused)
    assert history.followers == {0: [2]}
    history.apply(settled(2, Turn.REUSED, How.FINISHED))
    assert history.followers == {}
    assert [trial.number for trial in history.finished] == [0, 1, 2]
    history.check()


def test_a_new_driver_starts_without_workers() -> None:
    closed = Closed(at=4.0, reason="Ctrl-C", complete=False)
    history = folded([*RUNNING, closed])
    assert history.closed == closed
    assert [trial.number for trial in history.live()] == [0]
    history.apply(Opened(at=9.0, driver="two", epoch=2))
    assert (history.closed, history.workers, history.idle) == (None, {}, {})
    assert (history.drivers, history.epoch) == (["one", "two"], 2)
    history.apply(settled(0, Turn.LOST))
    assert history.trials[0].state is State.QUEUED
    history.check()


def test_a_worker_in_quarantine_gets_free_but_never_idle() -> None:
    history = folded([*RUNNING, Quarantined(at=2.5, worker="a", reason="bad"), settled(0, Turn.LOST, How.KILLED)])
    assert history.idle == {}
    history.check()
    history.apply(Left(at=4.0, worker="a"))
    assert history.workers == {}


def test_trials_are_numbered_without_gaps() -> None:
    with pytest.raises(AssertionError, match="numbered without gaps"):
        folded([OPENED, queued(1)])


def test_the_check_sees_a_state_that_cannot_be() -> None:
    history = folded(RUNNING)
    history.workers["a"].trial = None
    with pytest.raises(AssertionError):
        history.check()


def test_two_states_differ_when_any_field_does() -> None:
    one, other = folded(RUNNING), folded(RUNNING)
    assert_same_state(one, other)
    for name in Trial.__slots__:
        before = getattr(other.trials[0], name)
        setattr(other.trials[0], name, "something else")
        with pytest.raises(AssertionError):
            assert_same_state(one, other)
        setattr(other.trials[0], name, before)
    assert_same_state(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": 1}, {"x": True}),
        ({"x": 1}, {"x": 1.0}),
        ({"x": 0.0}, {"x": -0.0}),
        ({"x": "1"}, {"x": 1}),
        ({"x": (1, 2)}, {"x": (1, 2.0)}),
        ({"x": None}, {}),
        ({"x": (1, (2, 3))}, {"x": (1, 2, 3)}),
    ],
)
def test_what_looks_alike_may_be_two_configurations(one: Params, other: Params) -> None:
    assert identity(one) != identity(other)


def test_the_order_of_names_makes_no_difference() -> None:
    assert identity({"a": 1, "b": None}) == identity({"b": None, "a": 1})
    assert identity({"x": math.nan}) == identity({"x": math.nan})


def ends(outcome: Outcome | None, started_at: float | None = 2.0) -> Loose:
    loose = Loose(1.0)
    loose.started_at, loose.ended_at, loose.outcome = started_at, 3.0, outcome
    return loose


@pytest.mark.parametrize("how", How)
@pytest.mark.parametrize("value", [None, 0.5, -0.0, math.inf, math.nan])
@pytest.mark.parametrize("gpu", [None, 12.5])
def test_what_is_packed_says_what_it_said_before(how: How, value: float | None, gpu: float | None) -> None:
    loose = ends(Outcome(how, value, usage=Usage(4.0, 0.1, 64.0, gpu)))
    packed = loose.packed()
    assert isinstance(packed, Packed)
    for one in (loose, packed):
        assert (one.queued_at, one.started_at, one.ended_at, repr(one.value)) == (1.0, 2.0, 3.0, repr(value))
    assert repr(packed.outcome) == repr(loose.outcome)


def test_what_ended_without_a_start_or_an_outcome_can_be_packed() -> None:
    packed = ends(None, started_at=None).packed()
    assert isinstance(packed, Packed)
    assert (packed.queued_at, packed.started_at, packed.ended_at) == (1.0, None, 3.0)
    assert (packed.value, packed.outcome) == (None, None)


@pytest.mark.parametrize(
    "rich",
    [{"reason": "killed"}, {"traceback": "..."}, {"raised_in": "data"}, {"extra": {"a": 1}}, {"derived": {"a": 1}}],
)
def test_an_outcome_that_holds_more_than_numbers_is_kept_as_it_is(rich: dict[str, Any]) -> None:
    loose = ends(Outcome(How.FINISHED, 0.5, **rich))
    assert loose.packed() is loose


def test_a_trial_that_has_ended_takes_no_more_than_it_has_to_say() -> None:
    """What counts is the order of size; ``benchmarks/driver.py`` measures it."""
    trial = folded([*RUNNING, settled(0, Turn.FINISHED, How.FINISHED)]).trials[0]
    assert isinstance(trial._ends, Packed)
    assert sys.getsizeof(trial._ends) <= 128
    assert (trial.value, trial.outcome) == (0.5, Outcome(How.FINISHED, 0.5))
