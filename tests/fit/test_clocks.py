"""Three clocks agree where nothing is inherited, and no run is left out of a mean."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from etude.core.errors import ConfigError
from etude.fit.clocks import (
    Curve,
    Reached,
    RestrictedMean,
    Target,
    over_targets,
    restricted_mean,
    shared_horizon,
    time_to,
)
from etude.fit.costs import NOTHING, RANDOM, UNITS, Charges, Clock, Cost, inherited

amounts = st.floats(0, 1e6)
costs = st.builds(Cost, amounts, amounts, amounts)
charges = st.builds(Charges, kept=costs, inherited=costs)
metrics = st.lists(st.floats(-1e3, 1e3) | st.just(math.nan), min_size=1, max_size=30)
curves = metrics.map(lambda values: Curve.by_epoch(values, steps=7, seconds=0.5))
modes = st.sampled_from(["max", "min"])
targets = st.builds(Target, st.floats(-1e3, 1e3), modes)
HORIZON = 50.0
followed = st.one_of(
    st.builds(lambda t: Reached(Cost(epochs=t), missed=False), st.floats(0, 2 * HORIZON)),
    st.builds(lambda t: Reached(Cost(epochs=t), missed=True), st.floats(HORIZON, 2 * HORIZON)),
)
arms = st.lists(followed, min_size=1, max_size=12)


def epochs(*times: float, missed: Sequence[float] = ()) -> list[Reached]:
    return [
        *(Reached(Cost(epochs=time), missed=False) for time in times),
        *(Reached(Cost(epochs=time), missed=True) for time in missed),
    ]


# --- by hand --------------------------------------------------------------------------------------


def test_each_clock_shows_what_it_is_for():
    curve = Curve.by_epoch([70.0, 80.0, 90.0, 85.0], steps=100, seconds=[10, 12, 11, 9])
    made = inherited(10, share=0.8, validated=0.2, validation_price=0.5, epoch=Cost(1, 100, 8.0))
    start = Charges(kept=Cost(epochs=0, steps=0, seconds=4.0), inherited=made)
    assert made == Cost(9.0, 900.0, 72.0)
    found = {clock: time_to(Target(90.0, "max"), curve, clock=clock, charges=start) for clock in Clock}
    assert found == {
        Clock.SUNK: Reached(Cost(3.0, 300.0, 33.0), missed=False),
        Clock.MARGINAL: Reached(Cost(3.0, 300.0, 37.0), missed=False),
        Clock.CHARGED: Reached(Cost(12.0, 1200.0, 109.0), missed=False),
    }
    missed = time_to(Target(90.5, "max"), curve, clock=Clock.CHARGED, charges=start)
    assert missed == Reached(Cost(13.0, 1300.0, 118.0), missed=True)


def test_a_start_that_is_better_on_one_clock_may_be_worse_on_another():
    """The paper's means for ResNet-18 on CIFAR-10, final epoch: 12.75 epochs against 29.125."""
    warm = Charges(inherited=inherited(30, share=0.8, validated=0.2)).on(Clock.CHARGED).epochs + 12.75
    assert warm == pytest.approx(38.75)
    assert warm > 29.125


def test_smaller_is_better_where_the_target_says_so():
    curve = Curve.by_epoch([3.0, 2.0, 1.0])
    assert time_to(Target(2.0, "min"), curve).spent.epochs == 2
    assert time_to(Target(2.0, "max"), curve).spent.epochs == 1
    assert time_to(Target(0.5, "min"), curve).missed


def test_what_missed_counts_up_to_the_horizon_and_is_told():
    assert restricted_mean(epochs(10, 20, 30)) == RestrictedMean(20.0, 3, 0, math.inf)
    assert restricted_mean(epochs(10, 20, missed=[60, 90])) == RestrictedMean(37.5, 4, 2, 60.0)
    assert restricted_mean(epochs(10, 20, 70, missed=[60]), horizon=40) == RestrictedMean(27.5, 4, 2, 40)


def test_arms_are_compared_up_to_where_all_of_them_are_known():
    one, other = epochs(10, 80, missed=[100]), epochs(5, 95, missed=[60])
    assert shared_horizon([one, other]) == 60
    assert shared_horizon([epochs(1, 2), epochs(500)]) == math.inf
    assert [restricted_mean(runs, horizon=60).mean for runs in (one, other)] == [130 / 3, 125 / 3]


def test_the_curve_over_targets_has_a_row_for_each_and_a_horizon_for_each():
    random = [Curve.by_epoch([1, 2, 3, 4]), Curve.by_epoch([1, 1, 3, 3])]
    warm = [Curve.by_epoch([3, 3, 4, 4]), Curve.by_epoch([2, 3, 3, 3])]
    start = Charges(inherited=Cost(epochs=1))
    grid = [Target(value, "max") for value in (1, 3, 4, 5)]
    found = over_targets(grid, [(random, RANDOM), (warm, start)], clock=Clock.CHARGED)
    assert [target for target, _ in found] == grid
    assert [[arm.mean for arm in means] for _, means in found] == [[1, 2], [3, 2.5], [4, 4], [4, 4]]
    assert [[arm.missed for arm in means] for _, means in found] == [[0, 0], [0, 0], [1, 1], [2, 2]]


def test_what_was_not_measured_is_told_as_such():
    runs = [time_to(Target(1.0, "max"), Curve.by_epoch([0.0, 1.0]))]
    assert restricted_mean(runs).mean == 2
    for unit in ("steps", "seconds"):
        assert math.isnan(restricted_mean(runs, unit=unit).mean)
    assert inherited(0, share=0.8, validated=0.2) == NOTHING


# --- for all --------------------------------------------------------------------------------------


@given(targets, curves, charges)
def test_each_clock_shows_at_least_as_much_as_the_one_before(target: Target, curve: Curve, start: Charges):
    sunk, marginal, charged = (time_to(target, curve, clock=clock, charges=start) for clock in Clock)
    assert sunk.missed == marginal.missed == charged.missed
    for unit in UNITS:
        assert sunk.spent.of(unit) <= marginal.spent.of(unit) <= charged.spent.of(unit)


@given(targets, curves)
def test_random_weights_have_one_time_on_all_clocks(target: Target, curve: Curve):
    assert len({time_to(target, curve, clock=clock) for clock in Clock}) == 1


@given(targets, curves)
def test_the_first_value_that_is_good_enough_counts(target: Target, curve: Curve):
    good = [v >= target.value if target.mode == "max" else v <= target.value for v in curve.values]
    found = time_to(target, curve)
    assert found.missed == (not any(good))
    assert found.spent.epochs == (good.index(True) + 1 if any(good) else len(good))
    assert found.spent.steps == 7 * found.spent.epochs


@given(targets, curves)
def test_both_directions_are_mirror_images(target: Target, curve: Curve):
    mirrored = Target(-target.value, "min" if target.mode == "max" else "max")
    assert time_to(mirrored, Curve(tuple(-v for v in curve.values), curve.spent)) == time_to(target, curve)


@given(st.floats(-1e3, 1e3), st.floats(0, 1e3), curves)
def test_an_easier_target_is_never_reached_later(value: float, easier: float, curve: Curve):
    hard, easy = (time_to(Target(v, "max"), curve) for v in (value, value - easier))
    assert easy.spent.epochs <= hard.spent.epochs
    assert hard.missed or not easy.missed


@given(arms, st.floats(0.1, HORIZON))
def test_the_restricted_mean_is_the_area_under_kaplan_and_meiers_curve(runs: list[Reached], horizon: float):
    reached = [run.spent.epochs for run in runs if not run.missed]
    missed = [run.spent.epochs for run in runs if run.missed]
    alive = stats.ecdf(stats.CensoredData(uncensored=reached, right=missed)).sf
    edges = [0.0, *(q for q in alive.quantiles if 0 < q < horizon), horizon]
    area = np.sum(np.diff(edges) * alive.evaluate(edges[:-1]))
    found = restricted_mean(runs, horizon=horizon)
    assert found.mean == pytest.approx(area)
    assert found.missed == sum(run.missed or run.spent.epochs > horizon for run in runs)


@given(arms, st.floats(HORIZON, 2 * HORIZON))
def test_a_run_that_misses_never_makes_a_mean_smaller(runs: list[Reached], end: float):
    before = restricted_mean(runs, horizon=HORIZON)
    after = restricted_mean([*runs, Reached(Cost(epochs=end), missed=True)], horizon=HORIZON)
    assert after.mean >= before.mean or after.mean == pytest.approx(before.mean)
    assert (after.runs, after.missed) == (before.runs + 1, before.missed + 1)
    assert 0 <= after.mean <= HORIZON


@given(st.floats(0, 1e3), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_an_inherited_epoch_costs_its_share_and_its_validation(n: float, share: float, seen: float, price: float):
    found = inherited(n, share=share, validated=seen, validation_price=price, epoch=Cost(1, 10, 100))
    assert found.epochs == pytest.approx(n * (share + seen * price))
    assert found.steps == pytest.approx(10 * found.epochs)
    assert found.seconds == pytest.approx(100 * found.epochs)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Target(math.nan, "max"),
            "target=nan is always reached or never. Pass a finite number.",
        ),
        (
            lambda: Target(1.0, "up"),  # type: ignore[arg-type]
            "mode='up' says not which values are better. Pass mode='max' or mode='min'.",
        ),
        (lambda: Cost(seconds=-1.0), "seconds=-1.0 (float) cannot be. Pass a number from 0."),
        (
            lambda: Curve((1.0,), ()),
            "1 values and 0 costs make no curve. Pass one cost for each value, and at least one of both.",
        ),
        (
            lambda: Curve.by_epoch([]),
            "0 values and 0 costs make no curve. Pass one cost for each value, and at least one of both.",
        ),
        (
            lambda: Curve((1.0, 2.0), (Cost(2), Cost(1))),
            "Cost(epochs=1, steps=0.0, seconds=0.0) comes after Cost(epochs=2, steps=0.0, seconds=0.0), which is more. "
            "Costs are those since the start of the run: pass their running sum.",
        ),
        (
            lambda: Curve.by_epoch([1.0, 2.0], seconds=[1.0]),
            "1 costs do not go with 2 values. Pass one number for all, or one for each.",
        ),
        (lambda: restricted_mean([]), "There is no mean of no runs. Pass at least one."),
        (
            lambda: restricted_mean(epochs(3, missed=[10]), horizon=11),
            "horizon=11 epochs is beyond the end of a run that missed its target, at 10 epochs: what became of it "
            "later is not known. Pass horizon=10 or less, for all arms alike.",
        ),
        (
            lambda: restricted_mean(epochs(3), unit="steps", horizon=-1),
            "horizon=-1 steps lies before the start of every run. Pass a number from 0.",
        ),
        (lambda: inherited(-1, share=0.8, validated=0.2), "epochs=-1 (int) cannot be. Pass a number from 0."),
    ],
)
def test_what_cannot_be_is_refused_with_the_mend(make, message: str):
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message
