"""The driver between trainings whose machines are tuned and whoever decides: what is asked, kept and told."""

from __future__ import annotations

from dataclasses import dataclass, field

from etude.core.events import Assign, How, Measured, Retune, Room, Tuned
from etude.core.lifecycle import State
from etude.core.system import Joules, Order, Phase, Taken

from .support import Script, Stage

NO_ENERGY = Joules("unavailable", "nobody measures here")


@dataclass
class Decides:
    """Orders a setting that names what it was asked, and notes that."""

    asked: list[tuple[object, ...]] = field(default_factory=list)

    def begin(self, trial: int, machine: str, earlier: int | None = None) -> Order:
        self.asked.append(("begin", trial, machine, earlier))
        return Order({}, Phase.PROFILE, "first")

    def next(self, trial: int, machine: str, taken: Taken) -> Order:
        self.asked.append(("next", trial, machine, taken.epoch))
        return Order({"threads": taken.epoch + 1}, Phase.PROBE, "try it")

    def ended(self, trial: int) -> None:
        self.asked.append(("ended", trial))


def measured(stage: Stage, trial: int, epoch: int, *, attempt: int = 1) -> Measured:
    return Measured(at=stage.now, trial=trial, attempt=attempt, taken=Taken(epoch, 9, 1.5, 10, NO_ENERGY))


def test_an_attempt_is_given_the_setting_of_its_first_epoch() -> None:
    stage = Stage(1, conductor=Decides())
    [given] = [command for command in stage.join("a", machine="m") if isinstance(command, Assign)]
    assert given.order == Order({}, Phase.PROFILE, "first")
    assert stage.conductor.asked == [("begin", 0, "m", None)]


def test_what_an_epoch_took_is_written_down_with_the_order_before_that_goes_out() -> None:
    stage = Stage(1, conductor=Decides())
    stage.join("a", machine="m")
    order = Order({"threads": 1}, Phase.PROBE, "try it")
    assert stage.tell(measured(stage, 0, 0)) == [Retune("a", 0, 1, order)]
    fact = stage.last(Tuned)
    assert (fact.trial, fact.attempt, fact.machine, fact.taken.seconds, fact.order) == (0, 1, "m", 1.5, order)
    assert stage.driver.history.tuned == {0: [fact]}


def test_a_late_word_of_an_attempt_that_is_over_decides_nothing() -> None:
    stage = Stage(1, conductor=Decides())
    stage.join("a", "b")
    stage.end(0, How.KILLED)
    assert stage.tell(measured(stage, 0, 3)) == []
    assert ("next", 0, "", 3) not in stage.conductor.asked


def test_nobody_decides_where_machines_are_left_alone() -> None:
    stage = Stage(1)
    [given] = [command for command in stage.join("a") if isinstance(command, Assign)]
    assert given.order is None
    assert stage.tell(measured(stage, 0, 0)) == []


def test_an_attempt_that_ends_tries_nothing_any_more() -> None:
    stage = Stage(1, conductor=Decides())
    stage.join("a")
    stage.end(0)
    assert stage.conductor.asked[-1] == ("ended", 0)
    assert stage.trial(0).state is State.FINISHED


def test_the_next_driver_lets_who_decides_know_what_the_one_before_was_told() -> None:
    stage = Stage(2, conductor=Decides())
    stage.join("a", "b", machine="m")
    for trial, epoch in ((0, 0), (1, 0), (0, 1)):
        stage.clock.advance(1)
        stage.tell(measured(stage, trial, epoch))
    stage.conductor = Decides()
    stage.take_over()
    told = [("next", 0, "m", 0), ("next", 1, "m", 0), ("next", 0, "m", 1), ("ended", 0), ("ended", 1)]
    assert stage.conductor.asked[: len(told)] == told


def test_a_promoted_trial_is_begun_as_the_one_that_it_carries_on() -> None:
    plan = Script(2, given={1: {"x": 0, "epochs": 3}}, carries_on={1: 0})
    stage = Stage(plan, conductor=Decides())
    stage.join("a")
    stage.run_out()
    assert [asked for asked in stage.conductor.asked if asked[0] == "begin"] == [
        ("begin", 0, "", None),
        ("begin", 1, "", 0),
    ]


# --- room on a machine that others use as well ------------------------------------------------------


def test_no_more_trials_run_than_there_is_room_for_and_nothing_is_asked_for_ahead() -> None:
    stage = Stage(9)
    stage.open()
    stage.tell(Room(at=stage.now, trials=1))
    stage.join("a", "b")
    assert stage.hands == {"a": (0, 1)}
    assert len(stage.trials) == 1
    stage.tell(Room(at=stage.now, trials=2))
    assert stage.hands == {"a": (0, 1), "b": (1, 1)}


def test_what_runs_is_not_ended_when_there_is_less_room() -> None:
    stage = Stage(9)
    stage.join("a", "b")
    stage.tell(Room(at=stage.now, trials=1))
    assert len(stage.hands) == 2
    stage.end(0)
    assert stage.hands == {"b": (1, 1)}
    stage.end(1)
    assert len(stage.hands) == 1


def test_a_study_without_any_room_waits_and_does_not_end() -> None:
    stage = Stage(1)
    stage.open()
    stage.tell(Room(at=stage.now, trials=0))
    stage.join("a")
    assert stage.hands == {}
    assert not stage.driver.over
    stage.tell(Room(at=stage.now, trials=1))
    stage.run_out()
    assert stage.driver.over
