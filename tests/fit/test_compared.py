"""Starts side by side: against numbers that were worked out otherwise."""

from __future__ import annotations

import math
from itertools import product
from statistics import fmean

import numpy as np
import pytest

from etude.fit.clocks import Curve, Target
from etude.fit.compared import Arm, Comparison, compare
from etude.fit.costs import NOTHING, Charges, Clock, Cost


def arm(name: str, *curves: list[float], inherited: float = 0.0) -> Arm:
    charges = Charges(inherited=Cost(inherited) if inherited else NOTHING)
    return Arm(name, tuple(Curve.by_epoch(curve) for curve in curves), charges)


def rising(best: float, epochs: int = 6) -> list[float]:
    return [best * (n + 1) / epochs for n in range(epochs)]


def test_the_p_value_is_the_share_of_all_swaps_that_are_as_far() -> None:
    draw = np.random.default_rng(0)
    ours = list(0.6 + 0.1 * draw.random(7))
    random = list(0.55 + 0.1 * draw.random(7))
    found = compare([arm("random", *map(rising, random)), arm("ours", *map(rising, ours))], mode="max", target=None)
    differences = [a - b for a, b in zip(ours, random, strict=True)]
    mean = fmean(differences)
    as_far = [
        abs(fmean(s * d for s, d in zip(signs, differences, strict=True))) >= abs(mean) - 1e-12
        for signs in product([1, -1], repeat=7)
    ]
    better = found[1].better
    assert better is not None
    assert better.difference == pytest.approx(mean)
    assert better.p == pytest.approx(fmean(as_far))
    assert better.low < mean < better.high
    assert found[0].better is None


def test_holm_multiplies_the_least_by_the_number_of_starts_and_never_goes_down() -> None:
    draw = np.random.default_rng(1)
    random = list(draw.random(8))
    arms = [arm("random", *map(rising, random))]
    for shift in (0.3, 0.01, 0.1):
        arms.append(arm(f"{shift}", *map(rising, [value + shift * draw.random() for value in random])))
    pairs = [start.better for start in compare(arms, mode="max", target=None)[1:] if start.better is not None]
    ranked = sorted(pairs, key=lambda pair: pair.p)
    assert ranked[0].p_holm == pytest.approx(min(1.0, 3 * ranked[0].p))
    assert ranked[1].p_holm == pytest.approx(max(ranked[0].p_holm, min(1.0, 2 * ranked[1].p)))
    assert ranked[2].p_holm == pytest.approx(max(ranked[1].p_holm, ranked[2].p))


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_best_value_of_a_run_is_what_it_came_to_and_nan_is_none(mode: str) -> None:
    curve = [0.5, 0.9, math.nan, 0.1]
    best = compare([arm("random", curve)], mode=mode, target=None)[0].best  # type: ignore[arg-type]
    assert best == ((0.9,) if mode == "max" else (0.1,))


def test_each_clock_counts_what_it_says_and_a_run_that_misses_counts_up_to_the_horizon() -> None:
    random = arm("random", [0.1, 0.2, 0.3, 0.9], [0.1, 0.2, 0.3, 0.4])
    ours = arm("ours", [0.9, 0.9, 0.9, 0.9], [0.1, 0.9, 0.9, 0.9], inherited=3.0)
    first, second = compare([random, ours], mode="max", target=Target(0.8, "max"))
    assert first.times[Clock.SUNK]["epochs"].mean == 4.0
    assert first.times[Clock.SUNK]["epochs"].missed == 1
    assert second.times[Clock.SUNK]["epochs"].mean == 1.5
    assert second.times[Clock.CHARGED]["epochs"].mean == pytest.approx(4.0), "one comes at 5, beyond the horizon"
    assert second.sooner[Clock.SUNK].difference == -2.5
    assert math.isnan(second.times[Clock.SUNK]["steps"].mean)
    assert first.sooner == {}


def test_what_is_the_same_in_all_pairs_has_the_p_value_of_its_number_and_no_interval() -> None:
    random = arm("random", *[rising(v) for v in (0.1, 0.2, 0.3)])
    same, more = compare(
        [random, arm("same", *[rising(v) for v in (0.1, 0.2, 0.3)]), arm("more", [1.0], [2.0], [3.0])],
        mode="max",
        target=None,
    )[1:]
    assert same.better is not None
    assert (same.better.difference, same.better.p) == (0.0, 1.0)
    lifted = compare([arm("random", [1.0], [2.0]), arm("more", [2.0], [3.0])], mode="max", target=None)[1].better
    assert lifted is not None
    assert (lifted.p, lifted.low, lifted.high) == (0.5, 1.0, 1.0)
    assert more.better is not None


def test_it_is_told_in_lines() -> None:
    arms = (arm("random", rising(0.5), rising(0.6)), arm("ours", rising(0.7), rising(0.9), inherited=2.0))
    target = Target(0.4, "max")
    told = str(Comparison("accuracy", tuple(compare(arms, mode="max", target=target)), target, arms))
    assert told.startswith("2 starts, each with 2 seeds; best accuracy:\n  0.55  random\n  0.8  ours: +0.25 (")
    assert "Epochs to accuracy 0.4, by who pays for the weights:" in told
    assert "  ours: sunk " in told
