"""The machine of an attempt: epochs are measured, orders are followed, and what is clearly worse is cut short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from etude.core.clock import VirtualClock
from etude.core.system import Order, Phase, SettingValue, Taken, Watched
from etude.system.energy import Energy, Label
from etude.system.profile import Profiler
from etude.system.sources.counted import Counted
from etude.worker import tuned as module
from etude.worker.run import Hold, NoLine, Run, Stop
from etude.worker.tuned import Tuning
from etude.worker.tuning import NO_TUNING, Guarded


class Meter:
    """A meter that says 5 J of each stretch."""

    source, label = "a made-up meter", Label.MEASURED

    def lacks(self) -> str:
        return ""

    def begin(self) -> None:
        pass

    def end(self) -> Energy:
        return Energy.measured(5.0, self.source)


class Advice:
    """Orders what was written down beforehand, one after each epoch."""

    def __init__(self, *orders: Order | None) -> None:
        self.orders = list(orders)
        self.told: list[Taken] = []
        self.waits: list[float] = []

    def measured(self, taken: Taken) -> None:
        self.told.append(taken)

    def ordered(self, wait_s: float) -> Order | None:
        self.waits.append(wait_s)
        return self.orders.pop(0) if self.orders and self.told else None


class Appliers:
    """Notes what is to be set."""

    checkpoint_every = 1
    lacks: Mapping[str, str] = {}

    def __init__(self, *, stepped: Any, say: Any, barred: Any, cores: int) -> None:
        self.stepped, self.say = stepped, say
        self.now: dict[str, SettingValue] = {"threads": 2}
        self.set: list[dict[str, SettingValue]] = []
        self.closed = False

    def of_the_host(self, names: Any, machine: Any) -> None:
        pass

    def apply(self, setting: Mapping[str, SettingValue]) -> None:
        self.set.append(dict(setting))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    monkeypatch.setattr(module, "Appliers", Appliers)
    return VirtualClock()


def made(clock: VirtualClock, advice: Advice, *, watched: Watched | None = None, order: Order | None = None) -> Tuning:
    return Tuning(
        watched or Watched(),
        order,
        advice=advice,
        cores=2,
        say=print,
        clock=clock,
        watches=lambda counted: Profiler([counting(counted)], clock=clock),
        meter=Meter(),
    )


def train(tuning: Tuning, clock: VirtualClock, *, epochs: int, step_s: float = 1.0, steps: int = 10) -> Appliers:
    run = Run(metrics=["loss"], params={}, seed=0, line=NoLine())
    run.tuning = tuning
    for _ in run.epochs(epochs):
        for _ in range(steps):
            clock.advance(step_s)
            tuning._stepped(step_s, 0.25 * step_s)
            tuning._counted.add("copied GB", 0.5)
    tuning.end()
    found: Any = tuning._appliers
    return found


def counting(counted: Counted) -> Counted:
    """Return counts that know of something besides steps."""
    counted.add("copied GB", 0.0)
    return counted


PROBE = Order({"threads": 1}, Phase.PROBE, "try it", cut_above_s=0.5, meanwhile={"prefetch": 4})
KEEP = Order({"threads": 1}, Phase.KEEP, "best")


def test_each_epoch_is_told_with_the_setting_that_it_had(clock: VirtualClock) -> None:
    advice = Advice(KEEP)
    appliers = train(made(clock, advice), clock, epochs=3)
    assert [(t.epoch, t.epochs, t.seconds, t.steps) for t in advice.told] == [
        (0, 3, 10, 10),
        (1, 3, 10, 10),
        (2, 3, 10, 10),
    ]
    assert [t.setting for t in advice.told] == [{}, {"threads": 1}, {"threads": 1}]
    assert [t.phase for t in advice.told] == [Phase.PROFILE, Phase.KEEP, Phase.KEEP]
    assert {(t.joules.joules, t.joules.label) for t in advice.told} == {(5.0, "measured")}
    assert appliers.set == [{}, {"threads": 1}, {"threads": 1}]
    assert appliers.closed


def test_the_first_epoch_says_what_can_be_set_and_what_kind_of_work_it_is(clock: VirtualClock) -> None:
    advice = Advice()
    train(made(clock, advice), clock, epochs=2)
    first, second = advice.told
    assert first.choices is not None
    assert first.choices.meter == "measured: a made-up meter"
    assert first.rates == {"copied GB": pytest.approx(0.5), "steps": 10.0}
    assert (second.choices, second.rates) == (None, {})


def test_a_decision_is_waited_for_while_settings_are_tried_and_no_longer_than_a_hundredth(clock: VirtualClock) -> None:
    advice = Advice(PROBE, KEEP, KEEP)
    train(made(clock, advice), clock, epochs=4, step_s=2.0)
    assert advice.waits == [0.0, 0.2, 0.2, 0.0]


def test_an_order_that_comes_late_holds_from_the_epoch_after(clock: VirtualClock) -> None:
    advice = Advice(None, KEEP)
    train(made(clock, advice), clock, epochs=3)
    assert [t.setting for t in advice.told] == [{}, {}, {"threads": 1}]


def test_what_is_clearly_worse_is_cut_short_and_says_what_it_cost_by_then(clock: VirtualClock) -> None:
    advice = Advice(PROBE)
    appliers = train(made(clock, advice), clock, epochs=2, step_s=1.0)
    assert advice.told[1].cut == (2.0, 2)
    assert appliers.set == [{}, {"threads": 1}, {"prefetch": 4}]


def test_what_is_no_worse_is_not_cut_short(clock: VirtualClock) -> None:
    advice = Advice(PROBE)
    appliers = train(made(clock, advice), clock, epochs=2, step_s=0.4)
    assert advice.told[1].cut is None
    assert appliers.set == [{}, {"threads": 1}]


def starting(clock: VirtualClock, tuning: Tuning, *, starts_s: float) -> None:
    """Train for three epochs of ten steps of 0.4 s; the second waits for its first batch."""
    run = Run(metrics=["loss"], params={}, seed=0, line=NoLine())
    run.tuning = tuning
    for epoch in run.epochs(3):
        for step in range(10):
            step_s = starts_s if (epoch, step) == (1, 0) else 0.4
            clock.advance(step_s)
            tuning._stepped(step_s, 0.0)
    tuning.end()


@pytest.mark.parametrize("stays", [True, False])
def test_what_begins_with_a_setting_and_stays_is_not_held_against_it(stays: bool, clock: VirtualClock) -> None:
    """Workers that end with each epoch begin with each: that is what they cost."""
    setting: dict[str, SettingValue] = {"loader_workers": 2, "persistent_workers": stays}
    order = Order(setting, Phase.PROBE, "try it", cut_above_s=0.5, meanwhile={})
    advice = Advice(order, order)
    starting(clock, made(clock, advice), starts_s=3.0)
    _, probe, after = advice.told
    assert (probe.begun_s, probe.cut is None) == ((3.0, True) if stays else (0.0, False))
    assert after.begun_s == 0.0


def test_a_setting_that_nobody_tunes_is_set_and_nothing_is_measured(clock: VirtualClock) -> None:
    advice = Advice()
    appliers = train(made(clock, advice, watched=Watched(setting={"threads": 1})), clock, epochs=3)
    assert appliers.set == [{"threads": 1}]
    assert advice.told == []


def test_a_training_that_nobody_tunes_costs_one_call_an_epoch() -> None:
    run = Run(metrics=["loss"], params={}, seed=0, line=NoLine())
    assert list(run.epochs(3)) == [0, 1, 2]
    assert run.tuning is NO_TUNING


# --- trials that do not come to their end -----------------------------------------------------------


class Line(NoLine):
    """A line on which the study may ask for a stop or a pause."""

    halted = held = False


@pytest.mark.parametrize("asks", ["halted", "held"])
def test_the_epoch_before_a_stop_or_a_pause_is_told_of(asks: str, clock: VirtualClock) -> None:
    advice, line = Advice(), Line()
    run = Run(metrics=["loss"], params={}, seed=0, line=line)
    run.tuning = made(clock, advice)

    def train() -> None:
        for epoch in run.epochs(9):
            clock.advance(3.0)
            setattr(line, asks, epoch == 1)

    with pytest.raises((Stop, Hold)):
        train()
    assert [(t.epoch, t.seconds, t.whole) for t in advice.told] == [(0, 3, True), (1, 3, True)]


def test_an_epoch_in_which_a_trial_was_stopped_says_what_it_took_and_shows_no_kind_of_work(clock: VirtualClock) -> None:
    advice = Advice()
    tuning = made(clock, advice)
    tuning.begin(0, 9)
    clock.advance(2.0)
    tuning.rest(whole=False)
    (told,) = advice.told
    assert (told.seconds, told.joules.joules, told.whole, told.rates) == (2.0, 5.0, False, {})
    assert tuning.rest() == 0.0  # it is told once


# --- whatever goes wrong --------------------------------------------------------------------------


class Failing:
    """A tuning that fails where it is told to."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.ended = False

    def __getattr__(self, name: str) -> Any:
        def act(*given: Any, whole: bool = True) -> Any:
            if name == self.at:
                raise RuntimeError("no machine today")
            return given[0] if given else 0.0

        return act

    def end(self) -> None:
        self.ended = True


@pytest.mark.parametrize("at", ["see_data", "see_model", "see_kept", "begin", "rest", "saves"])
def test_no_failure_of_a_tuning_ends_a_training_and_it_is_said_once(at: str) -> None:
    said: list[str] = []
    failing: Any = Failing(at)
    run = Run(metrics=["loss"], params={}, seed=0, line=NoLine())
    run.tuning = Guarded(lambda: failing, said.append)
    assert run.tuning.see_data("loader") == "loader"
    assert run.tuning.see_model("net") == "net"
    run.keep(best=0.0)
    assert list(run.epochs(3)) == [0, 1, 2]
    assert said == ["The machine is not tuned any more in this trial, since RuntimeError was raised: no machine today"]
    assert failing.ended


def test_one_that_cannot_even_be_made_is_none() -> None:
    said: list[str] = []

    def make() -> Tuning:
        raise OSError("too many open files")

    run = Run(metrics=["loss"], params={}, seed=0, line=NoLine())
    run.tuning = Guarded(make, said.append)
    assert list(run.epochs(2)) == [0, 1]
    assert said == ["The machine is not tuned any more in this trial, since OSError was raised: too many open files"]


def test_what_goes_wrong_within_a_loader_is_told_when_the_epoch_is_over(clock: VirtualClock) -> None:
    tuning = made(clock, Advice(PROBE))
    found: Any = tuning
    found._appliers.apply = lambda setting: 1 / 0 if setting == {"prefetch": 4} else None
    said: list[str] = []
    run = Run(metrics=["loss"], params={}, seed=0, line=NoLine())
    run.tuning = Guarded(lambda: tuning, said.append)
    for _ in run.epochs(3):
        for _ in range(10):
            clock.advance(1.0)
            tuning._stepped(1.0, 0.0)
    assert said == [
        "The machine is not tuned any more in this trial, since ZeroDivisionError was raised: division by zero"
    ]


def test_a_setting_from_elsewhere_is_set_as_far_as_it_fits(clock: VirtualClock, capsys: Any) -> None:
    watched = Watched(setting={"threads": 1, "cores": 64, "warp": 9})
    appliers = train(made(clock, Advice(), watched=watched), clock, epochs=1)
    assert appliers.set == [{"threads": 1}]
    assert "cores=64 (int) cannot be. Pass" in capsys.readouterr().out


def test_a_training_that_begins_no_epoch_is_told_how_its_machine_could_be_set(clock: VirtualClock, capsys: Any) -> None:
    for watched in (Watched(), Watched(setting={"threads": 1})):
        advice = Advice()
        tuning = made(clock, advice, watched=watched)
        tuning.rest()  # as after the training function
        tuning.rest()
        assert capsys.readouterr().out == (
            "The machine was left as it was: it is set from epoch to epoch, and the training function has begun none. "
            "Have it train in `for epoch in run.epochs(n):`.\n"
        )
        assert advice.told == []


def test_what_loaders_had_a_training_wait_for_is_told_for_each_epoch(clock: VirtualClock) -> None:
    advice = Advice()
    train(made(clock, advice), clock, epochs=2)
    assert [t.waited_s for t in advice.told] == [2.5, 2.5]
    nobody = Advice()
    tuning = made(clock, nobody)
    run = Run(metrics=["loss"], params={}, seed=0, line=NoLine())
    run.tuning = tuning
    for _ in run.epochs(1):
        clock.advance(1.0)
    assert nobody.told[0].waited_s is None
