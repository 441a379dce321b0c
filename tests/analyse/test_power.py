"""What could be found, before anything is run."""

from __future__ import annotations

import numpy as np
import pytest

from etude.analyse.flips import flip_p
from etude.analyse.power import least_corrected, least_seeds, power, seeds_for, seeds_for_same
from etude.analyse.tests import CorrectedT, SignFlips, WelchDealt, same_p

pytest.importorskip("scipy")


def test_the_seeds_of_the_t_test_are_those_that_are_known():
    assert [seeds_for(effect=1.0, claims=n, test=CorrectedT()) for n in (1, 10, 20)] == [10, 18, 20]
    assert [seeds_for(effect=0.5, claims=n, test=CorrectedT()) for n in (1, 10, 20)] == [34, 58, 65]


@pytest.mark.parametrize(("n", "claims"), [(8, 1), (11, 1), (18, 10), (20, 20)])
def test_the_power_of_sign_flips_is_that_of_simulated_runs(n: int, claims: int):
    found = np.mean([flip_p(row) <= 0.05 / claims for row in np.random.default_rng(0).normal(1.0, 1.0, (3000, n))])
    assert power(n, effect=1.0, claims=claims) == pytest.approx(found, abs=0.025)
    if n >= 11:
        assert found >= 0.79


def test_five_repeats_find_nothing_at_all():
    assert power(5, effect=3.0) == 0.0
    assert least_corrected(5) == 0.0625
    assert least_corrected(5, claims=6) == pytest.approx(6 * 0.0625)
    assert [least_seeds(claims=n) for n in (1, 5, 20)] == [6, 8, 10]
    assert least_seeds(claims=20, test=CorrectedT()) == 2


def test_overlapping_splits_and_unpaired_runs_take_more():
    paired = power(12, effect=1.0)
    assert power(12, effect=1.0, test=CorrectedT(0.25)) < paired
    assert power(12, effect=1.0, test=WelchDealt()) < paired
    assert power(12, effect=-1.0) == paired
    assert power(12, effect=0.0, test=CorrectedT()) == pytest.approx(0.05)


def test_no_number_of_seeds_finds_nothing_or_what_overlaps_too_much():
    assert seeds_for(effect=0.0) is None
    assert seeds_for(effect=0.1, test=CorrectedT(0.5)) is None
    assert seeds_for_same(effect=1.0, margin=0.9) is None


def test_so_many_seeds_show_that_arms_are_alike():
    n = seeds_for_same(effect=0.0, margin=1.0, claims=5)
    assert n is not None
    rng, zero = np.random.default_rng(0), np.zeros(n)
    found = np.mean([same_p(SignFlips(), rng.normal(0, 1, n), zero, margin=1.0) <= 0.05 / 5 for _ in range(800)])
    assert 0.75 < found < 0.93
