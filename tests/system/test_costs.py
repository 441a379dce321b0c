"""What settings cost beside the default, from epochs that are never twice the same."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from etude.system.costs import USUAL, WINDOW, Beside, Costs, Ratio, Seen


def test_a_setting_is_compared_with_the_default_within_a_trial() -> None:
    seen = Seen("default")
    assert seen.baseline is None
    seen.take("two workers", 3.0)
    assert seen.beside("two workers") is None
    seen.take("default", 4.0)
    assert seen.beside("two workers") == Beside(0.75, 1, 1)
    seen.take("default", 40.0)
    seen.take("default", 5.0)
    assert (seen.baseline, seen.beside("two workers")) == (5.0, Beside(0.6, 1, 3))  # one slow epoch does not count
    assert seen.beside("four workers") is None


def test_what_a_trial_has_seen_is_forgotten_after_a_while_and_a_copy_goes_its_own_way() -> None:
    seen = Seen("default")
    for cost in (9.0, *[1.0] * WINDOW):
        seen.take("default", cost)
    assert seen.of("default") == (1.0,) * WINDOW
    other = seen.copy()
    other.take("default", 5.0)
    seen.clear()
    assert (list(seen.settings), list(other.settings), other.of("default")[-1]) == ([], ["default"], 5.0)


def test_trials_are_put_together_by_how_many_epochs_each_has_seen() -> None:
    costs = Costs()
    costs.say("long", "two workers", Beside(0.8, 6, 6))
    costs.say("short", "two workers", Beside(0.4, 2, 2))
    assert costs.ratio("two workers").value == pytest.approx(0.7)
    costs.say("short", "two workers", Beside(0.8, 2, 2))  # in the place of what it said before
    found = costs.ratio("two workers")
    assert found == Ratio(pytest.approx(0.8), pytest.approx(0.8 * USUAL / 2), pytest.approx(0.8 * USUAL / 8**0.5))
    assert list(costs.settings) == ["two workers"]
    costs.clear()
    assert not list(costs.settings)


def test_an_estimate_has_a_range() -> None:
    ratio = Ratio(0.9, 0.05, 0.02)
    assert (ratio.above(2), ratio.below(2)) == (pytest.approx(1.0), pytest.approx(0.8))
    assert ratio.below(2, alone=True) == pytest.approx(0.86)


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.15])
def test_how_far_epochs_spread_is_seen_from_those_that_follow_one_another(spread: float) -> None:
    found = []
    for seed in range(20):
        draw, costs, before = random.Random(seed), Costs(), 1.0
        assert costs.spread == pytest.approx(USUAL)
        for _ in range(200):
            cost = draw.lognormvariate(0.0, spread)
            costs.follow(before, cost)
            before = cost
        found.append(costs.spread)
    assert fmean(found) == pytest.approx(spread, rel=0.2)


def test_one_slow_epoch_says_little_of_how_far_others_spread() -> None:
    costs = Costs()
    for _ in range(20):
        costs.follow(1.0, 1.01)
    before = costs.spread
    costs.follow(1.0, 50.0)
    assert before < costs.spread < 1.2 * before
