"""Methods over data sets, and many tasks with few runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from etude.analyse.many_tasks import interquartile_mean
from etude.analyse.rankings import rankings
from etude.core.errors import ConfigError

stats = pytest.importorskip("scipy.stats")


def on(n: int, **shifts: float) -> dict[str, dict[str, list[float]]]:
    rng = np.random.default_rng(0)
    return {f"d{k}": {name: list(rng.normal(s, 0.5, 3)) for name, s in shifts.items()} for k in range(n)}


def test_the_critical_difference_and_the_example_are_those_of_demsar():
    # Table 6 of Demsar 2006: mean ranks of four classifiers on 14 data sets
    given = on(14, a=0.0, b=0.0, c=0.0, d=0.0)
    assert rankings(given).difference == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert rankings(given, level=0.10).difference == pytest.approx(1.12, abs=0.01)


def test_friedman_is_that_of_scipy_in_the_form_of_iman_and_davenport():
    given = on(9, a=0.0, b=0.3, c=0.6)
    values = np.array([[np.mean(runs) for runs in one.values()] for one in given.values()])
    chi = stats.friedmanchisquare(*values.T).statistic
    f = (9 - 1) * chi / (9 * (3 - 1) - chi)
    assert rankings(given).p == pytest.approx(stats.f.sf(f, 2, 16))


def test_what_is_better_everywhere_is_found():
    found = rankings(on(12, good=3.0, one=0.0, other=0.0))
    assert next(iter(found.ranks)) == "good"
    assert found.ranks["good"] == 1.0
    apart = {(one.one, one.other) for one in found.pairs if one.p_corrected <= 0.05}
    assert apart == {("good", "one"), ("good", "other")}
    assert "good is better than one" in str(found)
    nemenyi = rankings(on(12, good=3.0, one=0.0, other=0.0), post_hoc="nemenyi")
    assert {(one.one, one.other) for one in nemenyi.pairs if one.p_corrected <= 0.05} == apart
    worst = rankings(on(12, good=3.0, one=0.0, other=0.0), mode="min")
    assert worst.ranks["good"] == 3.0


def test_mean_and_best_may_rank_otherwise():
    given = {f"d{k}": {"steady": [1.0, 1.0, 1.0], "lucky": [0.0, 0.0, 2.0 + k]} for k in range(6)}
    assert next(iter(rankings({k: v for k, v in given.items() if k == "d0"}).ranks)) == "steady"
    assert next(iter(rankings(given, by="best").ranks)) == "lucky"


def test_what_is_missing_is_left_out_and_told():
    given = on(6, a=0.0, b=1.0)
    given["d2"]["b"] = [math.nan]
    del given["d3"]["a"]
    found = rankings(given)
    assert found.data_sets == 4
    assert found.says[0] == "Left out, without a number for every method: d2, d3."
    assert "too few" in str(found)
    assert "Ranks need two methods" in str(rankings({}))
    assert rankings({"d": {"a": 1.0, "b": 1.0}, "e": {"a": 1.0, "b": 1.0}}).p == 1.0
    with pytest.raises(ConfigError, match="by='median'"):
        rankings(given, by="median")  # type: ignore[arg-type]


def test_the_interquartile_mean_is_that_of_the_middle_half():
    given = {f"t{k}": [float(k), k + 0.1, k + 0.2, math.nan] for k in range(8)}
    found = interquartile_mean(given)
    flat = np.array([v for runs in given.values() for v in runs if math.isfinite(v)])
    assert found.mean == pytest.approx(stats.trim_mean(flat, 0.25))
    assert found.low < found.mean < found.high
    assert (found.tasks, found.runs, found.missing) == (8, 24, 8)
    assert found.high - found.low < 0.3, "tasks are not resampled, only their runs"
    with pytest.raises(ConfigError):
        interquartile_mean({"t": [math.nan]})
