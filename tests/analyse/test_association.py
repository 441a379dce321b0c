"""Whether the fate of trials hangs on a parameter: found where it does, and seldom said where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from etude.analyse.association import of_labels, of_numbers, relations


@pytest.mark.parametrize("values", [list(range(12)), [1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 5, 5]])
def test_the_p_value_of_ranks_is_that_of_an_exact_test(values: list[float]) -> None:
    fates = [False, False, True, False, False, False, True, False, True, True, False, True]
    mine = [v for v, f in zip(values, fates, strict=True) if f]
    rest = [v for v, f in zip(values, fates, strict=True) if not f]
    ranks = stats.rankdata(values)
    exact = stats.permutation_test(
        (ranks[np.array(fates)], ranks[~np.array(fates)]),
        lambda x, y, axis: np.abs(x.mean(axis=axis) - ranks.mean()),
        alternative="greater",
        n_resamples=np.inf,
        vectorized=True,
    ).pvalue
    assert of_numbers(fates, values)[0] == pytest.approx(exact, abs=0.02)
    assert len(mine) + len(rest) == 12


def test_many_numbers_are_tested_as_scipy_tests_them() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 30, 400)
    fates = rng.random(400) < 0.2 + 0.01 * values / 3
    theirs = stats.mannwhitneyu(values[fates], values[~fates], method="asymptotic", use_continuity=False).pvalue
    assert of_numbers(fates.tolist(), values.tolist())[0] == pytest.approx(theirs, rel=1e-6)


def test_what_is_hardly_chance_is_never_impossible() -> None:
    p, strength, _ = of_numbers([nth >= 4000 for nth in range(8000)], list(range(8000)))
    assert strength == pytest.approx(1)
    assert 0 < p < 1e-300


def test_two_labels_are_tested_as_by_fisher() -> None:
    fates = [True] * 6 + [False] * 14
    labels = ["a"] * 5 + ["b"] + ["a"] * 3 + ["b"] * 11
    theirs = stats.fisher_exact([[5, 1], [3, 11]]).pvalue
    p, strength, finding = of_labels(fates, labels, "failed")
    assert p == pytest.approx(theirs, abs=0.01)
    assert strength == pytest.approx(stats.contingency.association([[5, 1], [3, 11]]))
    assert finding == "62% failed with a, 8% with b"


def test_what_explains_a_fate_comes_first_and_is_corrected_for_all() -> None:
    rng = np.random.default_rng(1)
    params = [{"width": int(rng.integers(1, 9)), "lr": float(rng.random()), "act": "relu"} for _ in range(60)]
    found = relations([one["width"] > 6 for one in params], params, called="failed")
    assert [one.parameter for one in found] == ["width", "lr"], "what does not vary explains nothing"
    assert found[0].p_holm == 2 * found[0].p < 0.001
    assert found[0].strength == 1.0
    assert found[1].p_holm > 0.05


def test_the_error_is_kept_where_nothing_explains_it() -> None:
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(150):
        params = [{"a": float(rng.random()), "b": int(rng.integers(3)), "c": "xyz"[rng.integers(3)]} for _ in range(30)]
        wrong += relations((rng.random(30) < 0.3).tolist(), params, called="failed")[0].p_holm <= 0.05
    assert wrong / 150 <= 0.10  # 0.05, and three standard errors


def test_a_search_that_learns_is_not_accused_of_what_it_left_behind() -> None:
    """Early trials fail by chance and are at large widths; later ones, which learned other things, are not."""
    rng = np.random.default_rng(3)
    wrong = {True: 0, False: 0}
    for _ in range(60):
        widths = np.concatenate([rng.random(20), 0.2 * rng.random(60)])
        fates = np.concatenate([rng.random(20) < 0.5, rng.random(60) < 0.02])
        params = [{"width": float(width)} for width in widths]
        for led in wrong:
            found = relations(fates.tolist(), params, called="failed", led=led)
            wrong[led] += bool(found) and found[0].p_holm <= 0.05
    assert wrong[False] > 50
    assert wrong[True] <= 9
