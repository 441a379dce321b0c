"""The tests that verdicts rest on, against scipy and against each other."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.analyse.corrections import holm
from etude.analyse.flips import EXACT, flip_p, least_flip_p
from etude.analyse.tests import CorrectedT, SignedRanks, SignFlips, WelchDealt, interval, same_p
from etude.analyse.welch import least_welch_p, welch_p

stats = pytest.importorskip("scipy.stats")


def draws(seed: int, n: int, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, n)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_every_way_to_swap_pairs_counts_once_ties_too(found: list[int]):
    differences = np.array(found, dtype=float) / 10
    sums = [sum(sign * d for sign, d in zip(signs, differences, strict=True)) for signs in ways(len(found))]
    far = sum(abs(one) >= abs(differences.sum()) - 1e-9 for one in sums)
    assert flip_p(differences) == pytest.approx(far / len(sums))
    above = sum(one >= differences.sum() - 1e-9 for one in sums)
    assert flip_p(differences, side="greater") == pytest.approx(above / len(sums))


def ways(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((-1, 1), repeat=n))


@pytest.mark.parametrize("n", [12, 21])
def test_it_is_the_test_of_scipy(n: int):
    values, others = draws(1, n, 0.4), draws(2, n)
    theirs = stats.permutation_test(
        (values, others),
        lambda a, b, axis: (a - b).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=9999,
        rng=np.random.default_rng(0),
    )
    assert flip_p(values - others) == pytest.approx(theirs.pvalue, abs=1e-12 if n == 12 else 0.015)


def test_what_is_drawn_is_near_what_is_counted(monkeypatch: pytest.MonkeyPatch):
    differences = draws(3, EXACT, 0.35)
    counted = flip_p(differences)
    monkeypatch.setattr("etude.analyse.flips.EXACT", 10)
    drawn = flip_p(differences)
    assert drawn != counted
    assert drawn == pytest.approx(counted, abs=0.005)
    assert flip_p(differences) == drawn, "the same report says the same twice"


def test_the_least_p_value_is_that_of_pairs_that_are_all_on_one_side():
    for n in (2, 6, 11, EXACT + 1):
        assert flip_p(np.arange(1.0, n + 1)) == pytest.approx(least_flip_p(n))
    assert flip_p(np.zeros(5)) == flip_p(np.zeros(0)) == 1.0


@pytest.mark.parametrize(("n", "m"), [(5, 6), (12, 9)])
def test_unpaired_runs_are_dealt_as_scipy_deals_them(n: int, m: int):
    ones, others = draws(4, n, 0.7), draws(5, m) * 2

    def t(a, b, axis):
        return (a.mean(axis) - b.mean(axis)) / np.sqrt(a.var(axis, ddof=1) / n + b.var(axis, ddof=1) / m)

    ways = {
        "both": (lambda *runs, axis: abs(t(*runs, axis)), "greater"),
        "greater": (t, "greater"),
        "less": (t, "less"),
    }
    for side, (statistic, alternative) in ways.items():
        rng, call = np.random.default_rng(1), {"vectorized": True, "n_resamples": 9999}
        theirs = stats.permutation_test((ones, others), statistic, alternative=alternative, rng=rng, **call).pvalue
        assert welch_p(ones, others, side=side) == pytest.approx(theirs, abs=1e-12 if n == 5 else 0.02), side


def test_runs_that_do_not_vary_differ_or_do_not():
    flat = np.full(4, 0.3)
    assert welch_p(flat, flat) == 1.0
    assert welch_p(flat, flat + 0.1) == least_welch_p(4, 4) == pytest.approx(2 / math.comb(8, 4))


def test_the_corrected_t_is_the_t_test_where_nothing_overlaps_and_is_wider_where_something_does():
    values, others = draws(6, 10, 0.8), draws(7, 10)
    for side, alternative in (("both", "two-sided"), ("greater", "greater"), ("less", "less")):
        theirs = stats.ttest_rel(values, others, alternative=alternative).pvalue
        assert CorrectedT().p(values, others, side=side) == pytest.approx(theirs)
    off = values - others
    t = off.mean() / (off.std(ddof=1) * math.sqrt(1 / 10 + 1 / 4))  # Nadeau and Bengio's equation, 5 folds
    assert CorrectedT(1 / 4).p(values, others) == pytest.approx(2 * stats.t.sf(abs(t), 9))


@pytest.mark.parametrize("test", [SignFlips(), SignedRanks(), CorrectedT(), CorrectedT(0.25), WelchDealt()])
def test_an_interval_is_what_its_test_does_not_refuse(test):
    base, arm = draws(8, 9, 0.9), draws(9, 9)
    low, high = interval(test, base, arm, level=0.05)
    assert low < high
    for inside in (low + 0.01, high - 0.01):
        assert test.p(base, arm, at=inside, side="greater") > 0.025
        assert test.p(base, arm, at=inside, side="less") > 0.025
    assert test.p(base, arm, at=low - 0.01, side="greater") <= 0.025
    assert test.p(base, arm, at=high + 0.01, side="less") <= 0.025
    margin = 1.01 * max(abs(low), abs(high))
    assert same_p(test, base, arm, margin=margin) <= 0.025
    assert same_p(test, base, arm, margin=0.01) > 0.05


def test_too_few_pairs_have_no_interval_and_the_t_interval_is_that_of_scipy():
    base, arm = draws(8, 5, 0.9), draws(9, 5)
    assert interval(SignFlips(), base, arm, level=0.05) == (-math.inf, math.inf)
    theirs = stats.ttest_rel(base, arm).confidence_interval()
    assert interval(CorrectedT(), base, arm, level=0.05) == pytest.approx((theirs.low, theirs.high), abs=1e-3)


def test_holm_goes_from_the_least_up_and_never_down():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]) == []
