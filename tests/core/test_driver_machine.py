"""The driver under everything that can happen, in every order.

``support.Stage`` checks after each event what must always be true: the driver's invariants, that
folding the persisted facts gives its state again, that no attempt goes to a worker that is busy or
gone, that no trial is in two hands, that none is run again once it has finished, and that attempts
count up by one. Whatever happened, the study comes to a good end in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from etude.core.events import Closed, Ended, How, Outcome, Params, Reported
from etude.core.history import Trial
from etude.core.lifecycle import FINAL, State
from etude.core.limits import Limits
from etude.core.packing import Needed
from etude.core.plan import GO_ON, Decision, Done, Promote, Propose, Report, Standing
from etude.core.proposals import MAX_REDRAWS
from etude.core.reuse import NOTHING, Donor, Reuse, key

from .support import METRIC, PAUSE, STOP, Script, Stage, assert_same_state, folded

WORKERS = "abcde"
MACHINES = {"a": "one", "b": "one", "c": "two", "d": "two", "e": "three"}
GPUS = {"a": {"0": 500.0}, "b": {"0": 500.0}, "c": {"0": 500.0}, "d": {"1": 0.0}, "e": {}}
MOST_TRIALS = 24
SEED = 7  # of every training

some = st.integers(0, 2**16)
"""Picks one of however many there are."""

few_configurations = st.integers(0, 5)


class Whim(Script):
    """A plan whose verdicts and promotions a rule decides just before they are asked for."""

    verdict: Decision = GO_ON
    promotes_now = False

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Propose | Promote | Done:
        asked = len(standing.trials) + len(pending)
        paused = [trial.number for trial in standing.trials if trial.state is State.PAUSED]
        if self.promotes_now and paused:
            return Promote(paused[0])
        return Propose(SEED, self.given.get(asked)) if asked < self.trials else Done("all trials ended")

    def decide(self, report: Report, standing: Standing) -> Decision:
        return self.verdict


def has_run(elsewhere: Iterable[int]) -> Reuse:
    """Return what a study gives that has run these configurations with the seed of this one."""
    outcome = Outcome(How.FINISHED, value=0.25)
    return Reuse({key({"x": x}, SEED): Donor("other", x, outcome) for x in elsewhere})


class EverythingThatCanHappen(RuleBasedStateMachine):
    @initialize(
        retries=st.integers(0, 2),
        trials=st.integers(1, 12),
        alone=st.booleans(),
        packs=st.booleans(),
        elsewhere=st.sets(st.sampled_from([0, 1, 2, 5, 99])),
    )
    def begin(self, retries: int, trials: int, alone: bool, packs: bool, elsewhere: set[int]) -> None:
        self.plan = Whim(trials, given={3: {"x": 0}, 4: {"x": 99}})
        self.reuse = has_run(elsewhere)
        self.stage = Stage(
            self.plan,
            limits=Limits(retries=retries, retry_alone=alone, backoff_s=1.0),
            sampler=None,
            need=self.needs if packs else None,
            forbids=lambda params: "5 is forbidden" if params["x"] == 5 else None,
            reuse=self.reuse,
        )
        self.past: list[tuple[str, int, int]] = []  # attempts that were given out
        self.answers: list[tuple[int, Params, int]] = []
        self.began_at = 0
        self.stage.open()

    def needs(self, trial: Trial) -> Needed:
        x = float(trial.params["x"])  # type: ignore[arg-type]
        return Needed(x * 10.0, x * 100.0) if self.stage.driver.history.finished else Needed(None)

    def note_hands(self) -> None:
        for worker, (trial, attempt) in self.stage.hands.items():
            if (worker, trial, attempt) not in self.past:
                self.past.append((worker, trial, attempt))

    # --- workers ------------------------------------------------------------------------------

    @rule(worker=st.sampled_from(WORKERS))
    def a_worker_joins(self, worker: str) -> None:
        if worker not in self.stage.hands:
            self.stage.join(worker, machine=MACHINES[worker], memory_mb=50.0, gpus_mb=GPUS[worker])
            self.note_hands()

    @rule(worker=st.sampled_from(WORKERS))
    def a_worker_leaves(self, worker: str) -> None:
        self.stage.leave(worker, "silent for 30 s")
        self.note_hands()

    # --- attempts -----------------------------------------------------------------------------

    @precondition(lambda self: self.stage.hands)
    @rule(pick=some, how=st.sampled_from(How), value=st.floats())
    def an_attempt_ends(self, pick: int, how: How, value: float) -> None:
        held = list(self.stage.hands.values())
        trial, attempt = held[pick % len(held)]
        self.stage.end(trial, how, attempt=attempt, value=value, reason=f"it was {how}")
        self.note_hands()

    @precondition(lambda self: self.stage.hands)
    @rule(pick=some)
    def an_attempt_finishes(self, pick: int) -> None:
        self.an_attempt_ends(pick, How.FINISHED, 0.5)

    @precondition(lambda self: self.past)
    @rule(pick=some, how=st.sampled_from(How))
    def an_end_comes_late_or_twice(self, pick: int, how: How) -> None:
        worker, trial, attempt = self.past[pick % len(self.past)]
        if (trial, attempt) not in self.stage.hands.values():
            self.stage.end(trial, how, attempt=attempt, worker=worker)
            self.note_hands()

    @rule(trial=st.sampled_from([-1, 0, 1, 999]), attempt=st.sampled_from([0, 999]))
    def a_stranger_speaks(self, trial: int, attempt: int) -> None:
        before = len(self.stage.facts)
        now = self.stage.now
        self.stage.tell(Ended(at=now, worker="x", trial=trial, attempt=attempt, outcome=Outcome(How.FINISHED, 1.0)))
        self.stage.tell(Reported(at=now, trial=trial, attempt=attempt, step=1, metrics={METRIC: 1.0}))
        assert len(self.stage.facts) == before

    # --- reports ------------------------------------------------------------------------------

    @precondition(lambda self: self.stage.hands)
    @rule(pick=some, value=st.floats(), verdict=st.sampled_from([GO_ON, GO_ON, STOP, PAUSE]))
    def a_trial_reports(self, pick: int, value: float, verdict: Decision) -> None:
        held = list(self.stage.hands.values())
        trial, attempt = held[pick % len(held)]
        self.plan.verdict = verdict
        self.stage.report(trial, value, attempt=attempt)
        self.note_hands()

    @precondition(lambda self: self.past)
    @rule(pick=some)
    def a_report_comes_late_or_twice(self, pick: int) -> None:
        _, trial, attempt = self.past[pick % len(self.past)]
        before = list(self.stage.trial(trial).curve)
        if (trial, attempt) not in self.stage.hands.values() or before:
            self.stage.report(trial, 0.0, attempt=attempt, step=1)
            assert repr(list(self.stage.trial(trial).curve)) == repr(before)

    @rule()
    def a_paused_trial_may_go_on(self) -> None:
        self.plan.promotes_now = True
        self.stage.wait(0.0)
        self.plan.promotes_now = False
        self.note_hands()

    # --- proposals ----------------------------------------------------------------------------

    @precondition(lambda self: self.stage.waiting)
    @rule(pick=some, x=few_configurations)
    def the_sampler_answers_in_any_order(self, pick: int, x: int) -> None:
        question = self.stage.waiting.pop(pick % len(self.stage.waiting))
        self.answers.append((question.k, {"x": x}, question.redraw))
        self.stage.suggest(question.k, {"x": x}, redraw=question.redraw)
        self.note_hands()

    @precondition(lambda self: self.stage.waiting)
    @rule(x=few_configurations)
    def the_sampler_answers_all_it_was_asked(self, x: int) -> None:
        for _ in range(len(self.stage.waiting)):
            self.the_sampler_answers_in_any_order(0, x)

    @precondition(lambda self: self.stage.waiting)
    @rule(pick=some, x=few_configurations)
    def the_sampler_has_no_other_idea(self, pick: int, x: int) -> None:
        question = self.stage.waiting.pop(pick % len(self.stage.waiting))
        self.stage.suggest(question.k, {"x": x}, redraw=MAX_REDRAWS)
        self.note_hands()

    @precondition(lambda self: self.answers)
    @rule(pick=some)
    def the_sampler_repeats_itself(self, pick: int) -> None:
        k, params, redraw = self.answers[pick % len(self.answers)]
        self.stage.suggest(k, params, redraw=redraw)
        self.note_hands()

    # --- the driver's own -----------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 8.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.stage.wait(seconds)
        self.note_hands()

    @precondition(lambda self: self.stage.driver.history.seq > self.began_at + 25)
    @rule()
    def somebody_cancels(self) -> None:
        self.stage.cancel()
        assert self.stage.driver.over

    @precondition(lambda self: self.stage.driver.over or self.stage.driver.history.seq > self.began_at + 25)
    @rule(more=st.integers(0, 4), left_behind=st.booleans(), how=st.sampled_from(How), reuses=st.booleans())
    def another_driver_takes_over(self, more: int, left_behind: bool, how: How, reuses: bool) -> None:
        self.stage.reuse = self.reuse if reuses else NOTHING
        self.plan.trials = min(self.plan.trials + more, MOST_TRIALS)
        held = list(self.stage.hands.values())
        self.stage.take_over(self.plan, open_it=False)
        if left_behind and held:
            self.stage.end(held[0][0], how, attempt=held[0][1], worker="")
        self.answers.clear()
        self.began_at = self.stage.driver.history.seq
        self.stage.open()

    # --- what must be true ----------------------------------------------------------------------

    @invariant()
    def who_runs_alone_has_nobody_beside_it(self) -> None:
        history = self.stage.driver.history
        for memory in history.memories.by_name.values():
            assert len(memory.running) <= 1 or not memory.running & history.alone

    @invariant()
    def what_was_taken_was_never_run_and_came_from_there(self) -> None:
        for trial in self.stage.trials:
            if trial.taken_from is not None:
                assert (trial.attempt, trial.state, trial.value) == (0, State.FINISHED, 0.25)
                assert trial.taken_from == ("other", trial.params["x"])

    @invariant()
    def a_driver_is_over_when_its_study_is_closed(self) -> None:
        assert self.stage.driver.over == isinstance(self.stage.facts[-1], Closed)

    @invariant()
    def nothing_is_lost_more_often_than_allowed(self) -> None:
        assert all(trial.losses <= self.stage.driver.limits.retries + 1 for trial in self.stage.trials)

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        stage = self.stage
        if stage.driver.over:
            stage.take_over(self.plan)
        fresh = 1000
        stage.join("fresh", "clean")
        for _ in range(1000):
            if stage.driver.over:
                break
            while stage.waiting:
                question, fresh = stage.waiting.pop(0), fresh + 1
                stage.suggest(question.k, {"x": fresh}, redraw=question.redraw)
            stage.run_out()
            stage.wait(10.0)
        assert stage.last(Closed).complete
        assert all(state in FINAL for state in stage.states)
        assert len(stage.trials) >= self.plan.trials
        assert_same_state(folded(stage.facts), stage.driver.history)


EverythingThatCanHappen.TestCase.settings = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=200,
    stateful_step_count=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestDriverMachine = EverythingThatCanHappen.TestCase
