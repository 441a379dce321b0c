"""The driver where trials agree up to an epoch: who waits, from where each goes on, and what is kept how long."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from etude.core.events import Assign, Closed, Freed, How, Origin, Outcome, Params, Resumed, Shared
from etude.core.history import Trial
from etude.core.lifecycle import FINAL, State
from etude.core.limits import Limits
from etude.core.prefixes import Prefixes
from etude.core.reuse import Donor, Reuse, key

from .support import STOP, Script, Stage, assert_same_state, folded

STARTS = (0, 2, 4)
EPOCHS = 6


def lr(*values: float) -> tuple[tuple[int, float], ...]:
    return tuple(zip(STARTS, values, strict=True))


class Course(Stage):
    """A stage whose trials train epoch by epoch, report each, and save their state after it.

    Attributes:
        epochs: Trial -> how many epochs it has done.
        trained: How many were trained in all.
        uses: Whether a state of another trial is of use.
    """

    def __init__(
        self,
        configurations: Sequence[Params],
        *,
        budgets: tuple[int, ...] = (),
        foreseen: bool = True,
        workers: int = 1,
        **kwargs: Any,
    ) -> None:
        prefixes = Prefixes(
            frozenset({"lr"}),
            "epochs" if budgets else None,
            budgets,
            to_come=(lambda n: configurations[n:]) if foreseen else None,
            seed=7,
        )
        self.epochs: dict[int, int] = {}
        self.trained = 0
        self.uses = True
        plan = kwargs.pop("plan", None) or Script(len(configurations))
        super().__init__(
            plan,
            limits=Limits(workers=workers, backoff_s=0.0, retries=10),
            sampler=lambda k, redraw: configurations[k],
            prefixes=prefixes,
            **kwargs,
        )

    def begin(self) -> None:
        """Let each attempt that was just given out take up what it was given."""
        for order in [command for command in self.told if isinstance(command, Assign)]:
            if self.hands.get(order.worker) != (order.trial, order.attempt) or order.trial in self.epochs:
                continue
            self.epochs[order.trial] = 0
            if not order.points:
                continue
            point = order.points[0] if order.source is None or self.uses else None
            self.epochs[order.trial] = point.epoch if point is not None else 0
            key, step = (point.key, point.step) if point is not None else (None, 0)
            origin = Origin(key, step, source=order.source)
            self.tell(Resumed(at=self.now, trial=order.trial, attempt=order.attempt, origin=origin))
        for trial in self.epochs.keys() - {trial for trial, _ in self.hands.values()}:
            del self.epochs[trial]

    def has(self, trial: int) -> int:
        """Return how many epochs a trial is to have."""
        return int(self.trial(trial).params.get("epochs", EPOCHS))  # type: ignore[arg-type]

    def train(self, trial: int) -> None:
        """Let a trial train for one epoch, and end after its last."""
        self.begin()
        self.epochs[trial] += 1
        self.trained += 1
        at = value_of(self.trial(trial).params, self.epochs[trial])
        self.report(trial, at)
        held = [number for number, _ in self.hands.values()]
        if trial in held:
            self.save(trial, self.epochs[trial])
            if self.epochs[trial] == self.has(trial):
                self.end(trial, value=at)
        self.begin()

    @property
    def at_work(self) -> list[int]:
        self.begin()
        return [trial for trial, _ in self.hands.values()]

    def run_out(self) -> None:
        while self.at_work:
            for trial in self.at_work:
                if trial in self.at_work:
                    self.train(trial)

    def sources(self) -> dict[int, tuple[int, int]]:
        """Return from whose state trials went on, and after which epoch."""
        return {
            fact.trial: (fact.origin.source, fact.origin.key[2])
            for fact in self.facts
            if isinstance(fact, Resumed) and fact.origin.source is not None and fact.origin.key is not None
        }


def value_of(params: Params, epoch: int) -> float:
    """Return what a trial reports after an epoch: it hangs on all that held until then."""
    total = 0.0
    for done in range(epoch):
        held: Any = params["lr"]
        total = total / 2 + next(value for start, value in reversed(held) if start <= done)
    return total


def least(configurations: Sequence[Params]) -> int:
    """Return how many epochs there are if no epoch of the tree of all configurations is trained twice."""
    found = set()
    for params in configurations:
        for epoch in range(int(params.get("epochs", EPOCHS))):  # type: ignore[arg-type]
            held: Any = params["lr"]
            found.add((epoch, tuple(value for start, value in held if start <= epoch)))
    return len(found)


def grid(*values: float) -> list[Params]:
    return [{"lr": lr(*each)} for each in itertools.product(values, repeat=3)]


# --- who waits, and for whom ----------------------------------------------------------------------


def test_a_trial_waits_for_the_state_that_another_is_making_and_goes_on_from_it() -> None:
    stage = Course([{"lr": lr(1, 1, 1)}, {"lr": lr(1, 1, 2)}], workers=2)
    stage.join("a", "b")
    assert stage.at_work == [0]
    for _ in range(4):
        assert stage.at_work == [0]
        stage.train(0)
    assert stage.at_work == [0, 1]
    stage.run_out()
    assert stage.sources() == {1: (0, 4)}
    assert [len(trial.curve) for trial in stage.trials] == [6, 6]
    assert list(stage.trial(1).curve) == [value_of(stage.trial(1).params, n + 1) for n in range(6)]
    assert stage.trained == 8


def test_what_was_taken_from_another_study_has_no_state_and_the_others_share_all_the_same() -> None:
    configurations: list[Params] = [{"lr": lr(1, 1, 1)}, {"lr": lr(1, 1, 2)}, {"lr": lr(1, 1, 3)}]
    donor = Donor("other", 5, Outcome(How.FINISHED, value=0.5))
    stage = Course(configurations, workers=2, reuse=Reuse({key(configurations[0], 7): donor}))
    stage.join("a", "b")
    assert stage.at_work == [1]
    stage.run_out()
    assert stage.states == [State.FINISHED] * 3
    assert stage.sources() == {2: (1, 4)}
    assert stage.trained == 8


def test_who_has_nothing_in_common_waits_for_nobody() -> None:
    stage = Course([{"lr": lr(1, 1, 1)}, {"lr": lr(2, 1, 1)}], workers=2)
    stage.join("a", "b")
    assert stage.at_work == [0, 1]


def test_workers_pass_over_those_that_wait() -> None:
    stage = Course([{"lr": lr(1, 1, 1)}, {"lr": lr(1, 1, 2)}, {"lr": lr(2, 1, 1)}], workers=2)
    stage.join("a", "b")
    assert stage.at_work == [0, 2]


def test_when_the_one_that_is_waited_for_fails_another_takes_over_from_what_it_has_left() -> None:
    stage = Course([{"lr": lr(2, 2, 2)}, {"lr": lr(1, 1, 1)}, {"lr": lr(1, 1, 2)}])
    stage.join("a")
    for _ in range(6):
        stage.train(0)
    for _ in range(3):
        stage.train(1)
    stage.end(1, How.UNUSABLE)
    assert stage.at_work == [2]
    stage.run_out()
    assert stage.sources() == {2: (1, 2)}
    assert stage.states == [State.FINISHED, State.FAILED, State.FINISHED]


def test_a_stopped_trial_serves_others_up_to_where_it_came() -> None:
    plan = Script(2, verdicts={(0, 3): STOP})
    stage = Course([{"lr": lr(1, 1, 1)}, {"lr": lr(1, 1, 2)}], plan=plan)
    stage.join("a")
    for _ in range(3):
        stage.train(0)
    stage.end(0, How.STOPPED)
    stage.run_out()
    assert stage.states == [State.STOPPED, State.FINISHED]
    assert stage.sources() == {1: (0, 2)}
    assert [report.step for report in plan.seen if report.trial == 1] == [3, 4, 5, 6]


def test_shorter_trials_go_first_so_that_longer_ones_go_on_from_them() -> None:
    configurations = [{"lr": lr(1, 1, 1), "epochs": epochs} for epochs in (6, 3, 1)]
    stage = Course(configurations, budgets=(1, 3, 6))
    stage.join("a")
    stage.run_out()
    assert stage.trained == 6
    assert stage.sources() == {1: (2, 1), 0: (1, 3)}


def test_a_shorter_trial_that_comes_late_has_its_last_epoch_to_do() -> None:
    configurations = [{"lr": lr(1, 1, 1), "epochs": epochs} for epochs in (6, 3)]
    stage = Course(configurations, budgets=(3, 6), foreseen=False)
    stage.join("a")
    stage.run_out()
    assert stage.sources() == {1: (0, 2)}
    assert stage.trained == 7


def test_what_is_the_same_to_its_end_is_one_trial() -> None:
    configurations = [{"lr": lr(1, 1, n), "epochs": 3} for n in (1, 2, 3)]
    stage = Course(configurations, budgets=(3, 6))
    stage.join("a")
    stage.run_out()
    assert [trial.same_as for trial in stage.trials] == [None, 0, 0]
    assert stage.trained == 3


def test_where_nothing_is_ever_saved_nobody_waits_for_long() -> None:
    stage = Course(grid(1, 2)[:4], workers=2)
    stage.join("a", "b")
    assert stage.at_work == [0]
    stage.end(0)
    assert stage.at_work == [1, 2]


def test_where_no_state_was_of_use_nobody_waits_any_more() -> None:
    stage = Course([{"lr": lr(1, 1, n)} for n in (1, 2, 3, 4)], workers=3)
    stage.uses = False
    stage.join("a", "b")
    for _ in range(4):
        stage.train(0)
    assert sorted(stage.at_work) == [0, 1]
    stage.join("c")
    assert sorted(stage.at_work) == [0, 1, 2], "the third begins at the start"
    stage.run_out()
    assert stage.trained == 4 * EPOCHS
    assert stage.driver.history.shares.epochs == (0, 4 * EPOCHS)
    for trial in stage.trials:
        assert list(trial.curve) == [value_of(trial.params, n + 1) for n in range(EPOCHS)]


def test_a_state_that_could_not_be_used_is_offered_to_nobody_else() -> None:
    stage = Course([{"lr": lr(1, 1, n)} for n in (1, 2, 3)])
    stage.join("a")
    for _ in range(5):
        stage.train(0)
    stage.uses = False
    stage.train(0)
    assert stage.last(Freed).states == ((0, 2), (0, 4))


def test_a_sampler_that_learns_is_not_asked_for_all_while_they_wait() -> None:
    stage = Course([{"lr": lr(1, 1, n)} for n in range(50)], foreseen=False, workers=2)
    stage.join("a", "b")
    assert stage.at_work == [0]
    assert len(stage.trials) == 3
    stage.run_out()
    assert stage.trained == 4 + 50 * 2


# --- what is kept ---------------------------------------------------------------------------------


def test_states_are_kept_until_nobody_that_comes_can_use_them() -> None:
    stage = Course(grid(1, 2))
    stage.join("a")
    most = 0
    while stage.at_work:
        stage.train(stage.at_work[0])
        most = max(most, len(stage.driver.history.shares.curves))
    assert stage.driver.history.shares.curves == {}
    assert stage.driver.history.shelf.files == stage.files
    assert most <= 4, "one at each boundary on the way, and those of the other half"
    assert sum(isinstance(fact, Shared) for fact in stage.facts) == 2 + 4


def test_where_it_is_not_known_who_comes_they_are_kept_while_the_study_runs() -> None:
    stage = Course(grid(1, 2), foreseen=False)
    stage.join("a")
    stage.plan.trials = 4
    stage.run_out()
    freed = [fact for fact in stage.facts if isinstance(fact, Freed)]
    assert [fact.trial for fact in stage.facts if isinstance(fact, Shared)] == [0, 0, 2]
    assert len(freed) >= 1
    assert stage.files == stage.driver.history.shelf.files


def test_where_no_beginning_comes_twice_nothing_is_kept_for_those_to_come() -> None:
    stage = Course(grid(1, 2), foreseen=False)
    stage.prefixes = Prefixes(frozenset({"lr"}), recur=False)
    stage.take_over()
    stage.join("a")
    stage.train(0)
    stage.train(0)
    assert stage.driver.history.shares.curves == {}


def test_another_driver_goes_on_with_what_is_kept() -> None:
    stage = Course(grid(1, 2))
    stage.join("a")
    for _ in range(3):
        stage.train(0)
    stage.take_over()
    stage.epochs.clear()
    stage.join("b")
    stage.run_out()
    assert stage.trained == least(grid(1, 2))
    assert_same_state(folded(stage.facts), stage.driver.history)


def test_a_trial_that_inherits_a_state_counts_its_reports_though_its_source_began_anew() -> None:
    """The source is lost after it has shared a state, and begins a new attempt, whose curve is empty at first."""
    stage = Course([{"lr": lr(1, 1, 1)}, {"lr": lr(1, 1, 2)}], workers=2)
    stage.join("a", "b")
    for _ in range(3):
        stage.train(0)
    stage.leave("b")
    stage.train(0)
    stage.leave("a")
    stage.begin()
    stage.join("c", "d")
    assert [stage.trial(n).reports for n in (0, 1)] == [0, 0]
    stage.begin()
    assert [stage.trial(n).reports for n in (0, 1)] == [4, 4]
    stage.run_out()
    for trial in stage.trials:
        assert list(trial.curve) == [value_of(trial.params, n + 1) for n in range(EPOCHS)]


# --- any order of anything ------------------------------------------------------------------------

some_configurations = st.lists(
    st.fixed_dictionaries(
        {
            "lr": st.tuples(*(st.sampled_from([1, 2]) for _ in STARTS)).map(lambda values: lr(*values)),
            "epochs": st.sampled_from([2, 3, 6]),
        }
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(some_configurations, st.integers(1, 5), st.randoms(use_true_random=False))
def test_nothing_is_trained_twice_whatever_the_order(configurations: list[Params], workers: int, random: Any) -> None:
    stage = Course(configurations, budgets=(2, 3, 6), workers=workers)
    stage.join(*"abcde"[:workers])
    while stage.at_work:
        stage.train(random.choice(stage.at_work))
    assert stage.trained == least(configurations)
    assert stage.last(Closed).complete
    assert stage.files == stage.driver.history.shelf.files
    for trial in stage.trials:
        if trial.same_as is None:
            assert list(trial.curve) == [value_of(trial.params, n + 1) for n in range(stage.has(trial.number))]
    saved, of = stage.driver.history.shares.epochs
    assert of - saved == stage.trained


class Sharing(RuleBasedStateMachine):
    """Trials that share beginnings, under losses, stops, refusals and new drivers."""

    @initialize(configurations=some_configurations, foreseen=st.booleans(), workers=st.integers(1, 4))
    def begin(self, configurations: list[Params], foreseen: bool, workers: int) -> None:
        self.stage = Course(configurations, budgets=(2, 3, 6), foreseen=foreseen, workers=workers)
        self.stage.open()

    @rule(worker=st.sampled_from("abcd"))
    def a_worker_joins(self, worker: str) -> None:
        if worker not in self.stage.hands:
            self.stage.join(worker)
            self.stage.begin()

    @rule(worker=st.sampled_from("abcd"))
    def a_worker_leaves(self, worker: str) -> None:
        self.stage.leave(worker)
        self.stage.begin()

    @precondition(lambda self: self.stage.hands)
    @rule(pick=st.integers(0, 99), epochs=st.integers(1, 3))
    def a_trial_trains(self, pick: int, epochs: int) -> None:
        trial = self.stage.at_work[pick % len(self.stage.at_work)]
        for _ in range(epochs):
            if trial in self.stage.at_work:
                self.stage.train(trial)

    @precondition(lambda self: self.stage.hands)
    @rule(pick=st.integers(0, 99), how=st.sampled_from([How.KILLED, How.RAISED, How.TIMED_OUT, How.INVALID]))
    def a_trial_ends_badly(self, pick: int, how: How) -> None:
        trial = self.stage.at_work[pick % len(self.stage.at_work)]
        self.stage.end(trial, how)
        self.stage.begin()

    @precondition(lambda self: self.stage.hands)
    @rule(pick=st.integers(0, 99))
    def a_trial_is_stopped(self, pick: int) -> None:
        trial = self.stage.at_work[pick % len(self.stage.at_work)]
        if self.stage.trial(trial).state is State.RUNNING and self.stage.epochs[trial] < self.stage.has(trial) - 1:
            self.stage.plan.verdicts = {(trial, len(self.stage.trial(trial).curve) + 1): STOP}
            self.stage.train(trial)
            self.stage.end(trial, How.STOPPED)
            self.stage.begin()

    @rule(uses=st.booleans())
    def states_of_others_are_of_use_or_not(self, uses: bool) -> None:
        self.stage.uses = uses

    @rule()
    def another_driver_takes_over(self) -> None:
        self.stage.take_over()
        self.stage.epochs.clear()

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        stage = self.stage
        history = stage.driver.history
        if history.idle and history.ready and not stage.driver.over:
            assert history.busy or all(self.was_tried_everywhere(history.trials[n]) for n in history.ready)

    def was_tried_everywhere(self, trial: Trial) -> bool:
        return bool(trial.tried_on)

    @invariant()
    def each_curve_is_that_of_its_configuration(self) -> None:
        for trial in self.stage.trials:
            if trial.same_as is None:
                curve = list(trial.curve)
                assert curve == [value_of(trial.params, n + 1) for n in range(len(curve))]

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        stage = self.stage
        if stage.driver.over:
            return
        stage.join("fresh", "clean")
        for _ in range(1000):
            if stage.driver.over:
                break
            stage.run_out()
            stage.wait(10.0)
        assert stage.last(Closed).complete
        assert all(state in FINAL for state in stage.states)
        assert stage.driver.history.shares.curves == {}
        assert_same_state(folded(stage.facts), stage.driver.history)


Sharing.TestCase.settings = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestSharingMachine = Sharing.TestCase


def test_a_trial_of_one_worker_waits_for_nobody() -> None:
    for foreseen in (True, False):
        stage = Course(grid(1, 2), foreseen=foreseen)
        stage.join("a")
        stage.run_out()
        assert stage.trained == least(grid(1, 2)) == 2 * 2 + 4 * 2 + 8 * 2


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_any_number_of_workers_trains_the_tree_once(workers: int) -> None:
    stage = Course(grid(1, 2, 3), workers=workers)
    stage.join(*(f"w{n}" for n in range(workers)))
    stage.run_out()
    assert stage.trained == least(grid(1, 2, 3))
