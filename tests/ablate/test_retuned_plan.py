"""An ablation whose arms are tuned first, as a plan."""

from __future__ import annotations

import math

import pytest
from test_ablation_plan import ARMS, Stand, plan

from etude.ablate.racing_plan import RacingPlan
from etude.ablate.retuned_plan import RetunedPlan, Retuning, chosen_of, in_rotation
from etude.core.plan import Answer, Done, Propose, Wait

SEED = 99
ORDER = in_rotation([3, 3, 1])
FIRST = ({"a": 1, "b": 2, "lr": 0.5}, {"a": 0, "b": 2, "lr": 0.5}, {"a": 1, "b": 0})
SEARCHED = (frozenset({"lr"}), frozenset({"lr"}), frozenset[str]())
PLAN = RetunedPlan(plan(), Retuning(ORDER, SEED, FIRST, SEARCHED))


class Tuned(Stand):
    """A study whose sampler proposes a rate for each trial in turn."""

    def add(self, asked: Propose) -> int:
        number = len(self.trials)
        if asked.params is None:
            asked = asked.__class__(asked.seed, {"lr": number / 10, **asked.fixed}, arm=asked.arm, tunes=asked.tunes)
        from etude.core.events import Queued

        assert asked.params is not None
        self.history.apply(
            Queued(at=0.0, trial=number, params=asked.params, seed=asked.seed, arm=asked.arm, tunes=asked.tunes)
        )
        return number


def ask(stand: Stand, way: RetunedPlan = PLAN) -> Answer:
    return way.ask(stand, pending=[])


def tune(stand: Tuned, values: dict[int, float]) -> None:
    """Run the searches, with these values; others come to 0."""
    for _ in ORDER:
        asked = ask(stand)
        assert isinstance(asked, Propose)
        assert (asked.tunes, asked.seed) == (True, SEED)
        number = stand.add(asked)
        stand.end(number, values.get(number, 0.0))


def test_searches_take_turns_and_begin_with_the_configuration_of_the_whole() -> None:
    stand, asked = Tuned(), []
    while isinstance(answer := ask(stand), Propose):
        asked.append(answer)
        stand.add(answer)
    assert isinstance(answer, Wait), "nothing is compared before all of them have ended"
    assert [one.arm.name for one in asked if one.arm] == ["base", "no a", "no b", "base", "no a", "base", "no a"]
    assert [one.params for one in asked[:3]] == list(FIRST)
    assert [(one.params, one.fixed) for one in asked[3:5]] == [(None, {"a": 1, "b": 2}), (None, {"a": 0, "b": 2})]
    assert PLAN.trials == len(asked) + 6


def test_each_arm_is_compared_with_the_best_of_its_own_search_and_with_all_seeds() -> None:
    stand = Tuned()
    tune(stand, {3: 0.7, 4: 0.2, 6: 0.9})
    chosen = chosen_of(stand.trials, stand.metrics)
    assert [trial and trial.number for trial in chosen.values()] == [3, 6, 2]
    compared = []
    while isinstance(answer := ask(stand), Propose):
        compared.append((answer.seed, answer.arm.name if answer.arm else "", answer.params, answer.tunes))
        stand.end(stand.add(answer), 1.0)
    best = {"base": {"lr": 0.3, "a": 1, "b": 2}, "no a": {"lr": 0.6, "a": 0, "b": 2}, "no b": {"a": 1, "b": 0}}
    assert compared == [(seed, arm.name, best[arm.name], False) for seed in (5, 6) for arm in ARMS]
    assert isinstance(answer, Done)
    assert answer.reason == "all 6 trials ended, after 7 trials that tuned the arms"


def test_of_equals_the_configuration_of_the_whole_is_taken_and_so_it_is_where_nothing_came_to_a_number() -> None:
    stand = Tuned()
    tune(stand, {1: math.nan, 4: math.nan, 6: math.inf})
    chosen = chosen_of(stand.trials, stand.metrics)
    assert chosen["no a"] is None
    assert chosen["base"] is not None
    assert chosen["base"].number == 0
    asked = [ask(stand)]
    stand.add(asked[0])  # type: ignore[arg-type]
    asked.append(ask(stand))
    assert [one.params for one in asked if isinstance(one, Propose)] == [FIRST[0], {"a": 0, "b": 2}]


@pytest.mark.parametrize("taken", [6, 0])
def test_what_is_pending_counts(taken: int) -> None:
    stand = Tuned()
    for _ in range(taken):
        stand.end(stand.add(ask(stand)), 0.0)  # type: ignore[arg-type]
    waiting = [Propose(SEED, {}, arm=ARMS[0], tunes=True)] * (len(ORDER) - taken)
    assert isinstance(PLAN.ask(stand, pending=waiting), Wait)


def test_a_race_begins_when_its_arms_are_tuned() -> None:
    pytest.importorskip("scipy")
    from etude.analyse.race_rules import Rules

    raced = RacingPlan(**{**vars(plan()), "seeds": tuple(range(14)), "rules": Rules(components=2, most=14)})
    way, stand = RetunedPlan(raced, PLAN.retuning), Tuned()
    tune(stand, {})
    asked = way.ask(stand, pending=[])
    assert isinstance(asked, Propose)
    assert (asked.seed, asked.tunes) == (0, False)
