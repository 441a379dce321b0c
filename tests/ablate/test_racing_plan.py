"""An ablation whose seeds are added until it is decided, as a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_ablation_plan import ARMS, Stand

from etude.ablate.policies import LeaveOneOut
from etude.ablate.racing_plan import RacingPlan
from etude.ablate.until import UntilDecided, read_until
from etude.analyse.race_rules import FIRST, Rules
from etude.core.errors import ConfigError
from etude.core.plan import Done, Propose, Wait

pytest.importorskip("scipy")

RULES = Rules(components=2, most=14)
PLAN = RacingPlan(ARMS, tuple(range(100, 114)), {"a": 1, "b": 2}, LeaveOneOut(), rules=RULES)


def value(arm: str, seed: int) -> float:
    """The first component matters; the second does not."""
    noise = np.random.default_rng([seed, sum(map(ord, arm))]).normal()
    return float(noise - 4 * (arm == "no a"))


def go(stand: Stand, *, workers: int, plan: RacingPlan = PLAN) -> str:
    """Run to the end with so many workers, of which the newest is always the fastest."""
    while True:
        busy = []
        while len(busy) < workers and isinstance(answer := plan.ask(stand, pending=[]), Propose):
            number = stand.add(answer)
            busy.append((number, answer))
        if not busy:
            assert isinstance(answer, Done), answer
            return answer.reason
        for number, asked in reversed(busy):
            assert asked.arm is not None
            stand.end(number, value(asked.arm.name, asked.seed))


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_it_decides_the_same_with_any_number_of_workers(workers: int):
    one, many = Stand(), Stand()
    assert go(one, workers=1).split(" (")[0] == go(many, workers=workers).split(" (")[0]
    assert len(one.trials) <= len(many.trials) <= len(one.trials) + workers * RULES.most


def test_new_seeds_go_to_what_is_open_and_to_the_base():
    stand = Stand()
    reason = go(stand, workers=1)
    by = {name: sorted(t.seed for t in stand.trials if t.arm is not None and t.arm.name == name) for name in names()}
    assert by["base"] == list(range(100, 100 + len(by["base"])))
    assert len(by["base"]) == max(len(by["no a"]), len(by["no b"])) > min(len(by["no a"]), len(by["no b"]))
    assert reason.startswith("decided after ")


def names() -> list[str]:
    return [arm.name for arm in ARMS]


def test_a_worker_waits_only_for_what_decides():
    stand = Stand()
    first = [PLAN.ask(stand, pending=[])]
    asked = []
    while isinstance(answer := PLAN.ask(stand, pending=[]), Propose):
        asked.append((answer, stand.add(answer)))
    assert len(asked) == FIRST * 3
    assert first == [asked[0][0]]
    assert isinstance(answer, Wait)
    for nth, (done, number) in enumerate(asked):
        if done.arm is not None and (done.arm.name, done.seed) != ("no b", 103):
            stand.end(number, value(done.arm.name, done.seed))
        assert nth < len(asked)
    ahead = []
    while isinstance(answer := PLAN.ask(stand, pending=[]), Propose):
        ahead.append((answer.arm.name if answer.arm else "", answer.seed))
        stand.add(answer)
    assert ahead == [("base", 104), ("no a", 104)], "their pair is there; that of b is not"


def test_what_a_look_came_to_is_said_with_the_trials_that_follow_it():
    stand = Stand()
    go(stand, workers=1)
    said = [PLAN.race(stand.trials[:n], stand.metrics)[1] for n in (0, len(stand.trials))]
    assert said[0] == []
    rerun = Stand()
    because = []
    while isinstance(answer := PLAN.ask(rerun, pending=[]), Propose):
        because.append(answer.because)
        assert answer.arm is not None
        rerun.end(rerun.add(answer), value(answer.arm.name, answer.seed))
    assert because[0] == ""
    assert list(dict.fromkeys(because))[1:] == [str(look) for look in said[1][:-1]]


def test_failed_trials_do_not_hold_it_up():
    stand = Stand()
    while isinstance(answer := PLAN.ask(stand, pending=[]), Propose):
        assert answer.arm is not None
        lost = answer.arm.name == "no b"
        stand.end(stand.add(answer), float("nan") if lost else value(answer.arm.name, answer.seed))
    assert isinstance(answer, Done)


def test_it_may_be_said_in_words():
    assert read_until("until decided") == UntilDecided()
    assert read_until(7) is None
    with pytest.raises(ConfigError, match="seeds='forever'"):
        read_until("forever")
    for wrong in ({"most": 0}, {"effect": 0.0}, {"effect": True}):
        with pytest.raises(ConfigError):
            UntilDecided(**wrong)
    assert replace(PLAN, seeds=(1, 2)).trials == 6
