"""Searches with a fidelity: who is promoted, in every order of ends, and nobody waits without need."""

from __future__ import annotations

import math
import random
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.core.driver import Driver
from etude.core.events import (
    Assign,
    Checkpoint,
    Checkpointed,
    Ended,
    How,
    Joined,
    Opened,
    Outcome,
    Params,
    Persist,
    Queued,
    Settled,
    Suggest,
    Suggested,
)
from etude.core.history import History, Trial
from etude.core.lifecycle import State, Turn
from etude.core.limits import Limits
from etude.core.metrics import Fidelity, Metrics
from etude.core.plan import Plan, Propose
from etude.tune.promotion import AsyncHalving, Brackets, full_set, in_all, plan_brackets
from etude.tune.question import most_with_promoted
from etude.tune.stop import NeverStop

EPOCHS = Fidelity("epochs", (1, 3, 9, 27))
Value = Callable[[Params], float | None]


def x(params: Params) -> float:
    """The larger the better, whatever the budget."""
    return float(params["x"])  # type: ignore[arg-type]


class Play:
    """A study whose workers are the test: trials end in the order that a generator says."""

    def __init__(
        self, make: Callable[[], Plan], *, value: Value = x, workers: int = 1, seed: int = 0, keeps: bool = False
    ) -> None:
        self.make = make
        self.keeps = keeps
        self.value = value
        self.workers = workers
        self.draw = random.Random(seed)
        self.history = History(Metrics({"m": "max"}, fidelity=EPOCHS))
        self.facts: list[Any] = []
        self.running: list[Assign] = []
        self.epoch = 0
        self.most_idle = 0
        self.open()

    def open(self) -> None:
        """A driver takes the study up, the second one in the middle of it."""
        self.epoch += 1
        self.running.clear()
        self.driver = Driver(self.make(), self.history, Limits(workers=self.workers))
        self.tell(Opened(at=0.0, driver=f"d{self.epoch}", epoch=self.epoch))
        for nth in range(self.workers):
            self.tell(Joined(at=0.0, worker=f"w{nth}"))

    def tell(self, event: Any) -> None:
        events = deque([event])
        while events:
            for command in self.driver.handle(events.popleft()):
                match command:
                    case Persist(fact=fact):
                        self.facts.append(fact)
                    case Suggest(k=k, redraw=redraw):
                        drawn = random.Random(f"{k} {redraw}").random()
                        events.append(Suggested(at=0.0, k=k, params={"x": drawn}, redraw=redraw))
                    case Assign():
                        self.running.append(command)
            self.driver.check()

    def end_one(self) -> None:
        one = self.running.pop(self.draw.randrange(len(self.running)))
        value = self.value(one.params)
        if self.keeps:
            budget = int(one.params["epochs"])  # type: ignore[call-overload]
            saved = Checkpoint(one.attempt, 0, budget, budget, ("", ""), (1, 1))
            self.tell(Checkpointed(at=0.0, trial=one.trial, checkpoint=saved))
        how = How.FINISHED if value is not None else How.INVALID
        outcome = Outcome(how, value=value)
        self.tell(Ended(at=0.0, worker=one.worker, trial=one.trial, attempt=one.attempt, outcome=outcome))

    def to_the_end(self, *, reopen_after: int = -1) -> Play:
        ended = 0
        while not self.driver.over:
            assert self.running, "it waits for nothing"
            self.end_one()
            ended += 1
            if ended == reopen_after and not self.driver.over:
                self.open()
        return self

    @property
    def trials(self) -> list[Trial]:
        return self.history.trials

    def at(self, budget: int) -> list[Trial]:
        return [trial for trial in self.trials if trial.params["epochs"] == budget]


def asha(trials: int = 100, **options: Any) -> AsyncHalving:
    return AsyncHalving(trials, 7, EPOCHS, 3, NeverStop(), **options)


def hyperband(trials: int = 69, **options: Any) -> Brackets:
    return Brackets(trials, 7, EPOCHS, 3, NeverStop(), **options)


def check_chain(play: Play) -> None:
    """A promoted trial has the configuration of the one before it, and the next budget; none is promoted twice."""
    promoted = [trial for trial in play.trials if trial.promotes is not None]
    assert len({trial.promotes for trial in promoted}) == len(promoted)
    for trial in promoted:
        before = play.trials[trial.promotes or 0]
        assert before.state is State.FINISHED
        assert {**before.params, "epochs": trial.params["epochs"]} == trial.params
        assert EPOCHS.rung(trial.params) == EPOCHS.rung(before.params) + 1


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 120), st.integers(1, 5), st.integers(0, 99), st.integers(-1, 60))
def test_asha_promotes_the_best_third_of_each_rung_and_no_worker_waits(
    trials: int, workers: int, seed: int, reopen_after: int
) -> None:
    play = Play(lambda: asha(trials), workers=workers, seed=seed).to_the_end(reopen_after=reopen_after)
    assert len(play.trials) == trials
    assert all(trial.state is State.FINISHED for trial in play.trials)
    check_chain(play)
    queued = [fact for fact in play.facts if isinstance(fact, Queued)]
    assert [fact.promotes for fact in queued] == list(by_the_book(play))
    for fact in queued:
        said = re.fullmatch(
            r"trial (\d+) is (?:the|among the) best(?: (\d+))? of (\d+) with epochs=(\d+)", fact.because
        )
        assert (said is None) == (fact.promotes is None)
        if said is not None:
            assert int(said[1]) == fact.promotes
            assert int(said[2] or 1) == int(said[3]) // 3
            assert int(said[4]) == play.trials[int(said[1])].params["epochs"]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 99), st.booleans())
def test_no_order_of_ends_brings_more_trials_than_a_space_has_room_for(
    size: int, workers: int, seed: int, rising: bool
) -> None:
    ended = iter(range(10_000))
    value: Value = (lambda params: float(next(ended))) if rising else x  # each better than all before: most go on
    play = Play(lambda: asha(10_000, size=size), value=value, workers=workers, seed=seed).to_the_end()
    assert len(play.trials) <= most_with_promoted(size, len(EPOCHS.rungs), 3)


def by_the_book(play: Play) -> Iterator[int | None]:
    """Say for each trial whom it has to promote, from all that had ended by then, each time anew."""
    ended: dict[int, list[tuple[float, int]]] = {budget: [] for budget in EPOCHS.rungs}
    promoted: set[int] = set()
    for fact in play.facts:
        if isinstance(fact, Settled) and play.trials[fact.trial].state is State.FINISHED and fact.turn is Turn.FINISHED:
            trial = play.trials[fact.trial]
            ended[trial.params["epochs"]].append((-x(trial.params), trial.number))  # type: ignore[index]
        elif isinstance(fact, Queued):
            due = [
                number
                for budget in (9, 3, 1)
                for _, number in sorted(ended[budget])[: len(ended[budget]) // 3]
                if number not in promoted
            ]
            promoted |= set(due[:1])
            yield due[0] if due else None


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 5), st.integers(0, 99), st.integers(-1, 60))
def test_hyperband_promotes_the_best_third_of_a_rung_when_all_of_it_has_ended(
    workers: int, seed: int, reopen_after: int
) -> None:
    play = Play(hyperband, workers=workers, seed=seed).to_the_end(reopen_after=reopen_after)
    check_chain(play)
    assert Counter(trial.params["epochs"] for trial in play.trials) == {
        1: 27,
        3: 9 + 12,
        9: 3 + 4 + 6,
        27: 1 + 1 + 2 + 4,
    }
    first = [trial for trial in play.trials if trial.promotes is None][:27]
    best = sorted(first, key=lambda trial: -x(trial.params))[:9]
    carried_on = {trial.promotes for trial in play.at(3)} & {trial.number for trial in first}
    assert carried_on == {trial.number for trial in best}


@pytest.mark.parametrize("make", [asha, hyperband])
def test_one_worker_gives_the_same_trials_each_time_and_when_it_is_taken_up_in_the_middle(make: Any) -> None:
    def told(play: Play) -> list[Any]:
        return [(trial.params, trial.promotes) for trial in play.to_the_end().trials]

    assert told(Play(make)) == told(Play(make, seed=1))
    for reopen_after in (5, 27, 33):
        again = Play(make).to_the_end(reopen_after=reopen_after)
        assert [(trial.params, trial.promotes) for trial in again.trials] == told(Play(make))


def test_a_plan_that_was_there_from_the_start_and_a_new_one_say_the_same() -> None:
    for make in (asha, hyperband):
        play = Play(make, workers=3)
        while not play.driver.over:
            new, old = make(), play.driver.plan
            assert new.ask(play.history, pending=[]) == old.ask(play.history, pending=[])
            play.end_one()


def test_more_trials_go_on_with_the_brackets_and_change_nothing_before() -> None:
    before = Play(lambda: hyperband(30)).to_the_end()
    assert len(before.trials) == 30
    told = [trial.params for trial in before.trials]
    before.make = lambda: hyperband(75)
    before.open()
    before.to_the_end()
    assert [trial.params for trial in before.trials][:30] == told
    assert len(before.trials) == 75
    check_chain(before)


@pytest.mark.parametrize("make", [asha, hyperband])
def test_equal_values_promote_no_more_than_their_share(make: Any) -> None:
    play = Play(make, value=lambda params: 0.5).to_the_end()
    check_chain(play)
    assert len(play.at(3)) <= (len(play.at(1)) // 3) + 12


@pytest.mark.parametrize("make", [asha, hyperband])
@pytest.mark.parametrize("bad", [math.nan, None])
def test_what_diverged_or_is_invalid_is_not_promoted_and_the_search_comes_to_its_end(make: Any, bad: Any) -> None:
    play = Play(make, value=lambda params: x(params) if x(params) < 0.7 else bad, workers=2).to_the_end()
    check_chain(play)
    assert all(x(trial.params) < 0.7 for trial in play.trials if trial.promotes is not None)
    assert play.history.closed is not None
    assert play.history.closed.complete
    assert len(play.trials) == play.driver.plan.trials  # type: ignore[attr-defined]


@pytest.mark.parametrize("make", [asha, hyperband])
def test_if_nothing_can_be_promoted_the_search_still_ends(make: Any) -> None:
    for bad in (math.nan, None):
        play = Play(make, value=lambda params, bad=bad: bad).to_the_end()
        assert all(trial.promotes is None for trial in play.trials)


@pytest.mark.parametrize("make", [asha, hyperband])
def test_a_small_space_is_used_up_and_its_best_are_promoted(make: Any) -> None:
    class Few(Play):
        def tell(self, event: Any) -> None:
            if isinstance(event, Suggested):
                event = Suggested(at=0.0, k=event.k, params={"x": event.k % 6 / 6})
            super().tell(event)

    play = Play(lambda: make(200, size=6), workers=2)
    play.to_the_end()
    assert play.history.closed is not None
    assert "used up" in play.history.closed.reason
    assert play.at(3)


def test_what_is_to_be_tried_first_begins_with_the_smallest_budget() -> None:
    plan = asha(start=({"x": 0.9},))
    history = History(Metrics({"m": "max"}, fidelity=EPOCHS))
    assert plan.ask(history, pending=[]) == Propose(7, {"x": 0.9}, {"epochs": 1})
    assert plan.ask(history, pending=[Propose(7, {"x": 0.9}, {"epochs": 1})]) == Propose(7, None, {"epochs": 1})


def test_the_last_bracket_is_as_large_as_the_trials_allow() -> None:
    assert plan_brackets(4, 3, None) == [(0, 27), (1, 12), (2, 6), (3, 4)]
    assert full_set(4, 3) == 69
    for trials in range(1, 200):
        planned = plan_brackets(4, 3, trials)
        total = sum(in_all(n, 4 - rung, 3) for rung, n in planned)
        assert trials <= total < trials + 4  # a bracket of one has one trial on each rung


@settings(deadline=None, max_examples=40)
@given(st.booleans(), st.integers(1, 120), st.integers(1, 5), st.integers(0, 99), st.integers(-1, 60))
def test_whoever_is_promoted_goes_on_from_a_state_and_those_that_never_are_keep_none(
    halves: bool, trials: int, workers: int, seed: int, reopen_after: int
) -> None:
    make = asha if halves else hyperband
    play = Play(lambda: make(trials), workers=workers, seed=seed, keeps=True)
    ended = most = 0
    while not play.driver.over:
        for assign in play.running:
            assert assign.source == play.trials[assign.trial].promotes
            assert bool(assign.points) == (assign.source is not None)
        play.end_one()
        ended += 1
        most = max(most, sum(bool(play.history.shelf.points(t.number)) for t in play.history.ended))
        if ended == reopen_after and not play.driver.over:
            play.open()
    assert len(play.trials) == trials
    check_chain(play)
    assert not any(play.history.shelf.points(trial.number) for trial in play.trials)
    assert most <= trials / 3 * 1.5 + 4 + workers, "of each rung the best third, and less and less on higher ones"
