"""Importances, effects and ways on functions whose parts are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from etude.analyse.budgets import budget_curve, lead
from etude.analyse.columns import Column
from etude.analyse.effects import effects
from etude.analyse.forest import Forest
from etude.analyse.importance import importance
from etude.analyse.steps import steps
from etude.core.errors import ConfigError

pytest.importorskip("sklearn")


def number(name: str, places: Any) -> Column:
    return Column(name, np.array(places), list(places))


def labelled(name: str, codes: Any, labels: tuple[str, ...]) -> Column:
    return Column(name, np.array(codes, dtype=float), [labels[int(code)] for code in codes], labels, len(labels))


def additive(n: int, seed: int = 0) -> tuple[list[Column], Any, dict[str, float]]:
    """Return trials of a sum of known parts, and the share of the variance that each part has."""
    rng = np.random.default_rng(seed)
    x, code = rng.random((n, 3)), rng.integers(0, 3, n)
    values = 2 * x[:, 0] + x[:, 1] + np.array([0.0, 0.5, 1.0])[code]
    parts = {"x0": 4 / 12, "x1": 1 / 12, "x2": 0.0, "c": 1 / 6}
    columns = [*(number(f"x{nth}", x[:, nth]) for nth in range(3)), labelled("c", code, ("a", "b", "d"))]
    return columns, values, {name: part / sum(parts.values()) for name, part in parts.items()}


def test_fanova_gives_back_the_shares_of_an_additive_function() -> None:
    columns, values, shares = additive(800)
    found = importance(columns, values, by="fanova", intervals=False)
    assert {one.parameter: one.share for one in found} == pytest.approx(shares, abs=0.03)
    assert [one.parameter for one in found][:2] == ["x0", "c"]


def test_fanova_leaves_the_share_of_an_interaction_to_nobody() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((800, 2))
    values = (2 * x[:, 0] - 1) * (2 * x[:, 1] - 1)
    found = importance([number("a", x[:, 0]), number("b", x[:, 1])], values, intervals=False)
    assert sum(one.share for one in found) < 0.06


def test_fanova_says_what_optuna_says_of_the_same_forest() -> None:
    """Its evaluator asks each tree for each mean separately; numbers alone, since it splits choices in columns."""
    import optuna
    from optuna.distributions import FloatDistribution
    from optuna.importance import FanovaImportanceEvaluator
    from optuna.trial import create_trial

    rng = np.random.default_rng(0)
    x = rng.random((60, 3))
    values = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2]
    study = optuna.create_study()
    spaces: dict[str, Any] = {name: FloatDistribution(0.0, 1.0) for name in "abc"}
    for row, value in zip(x, values, strict=True):
        params = dict(zip("abc", row.tolist(), strict=True))
        study.add_trial(create_trial(params=params, distributions=spaces, value=float(value)))
    theirs = FanovaImportanceEvaluator(n_trees=8, seed=0).evaluate(study)
    ours = Forest([number(name, x[:, nth]) for nth, name in enumerate("abc")], values, trees=8, seed=0).shares()
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_the_variance_of_boxes_is_that_of_what_the_trees_say() -> None:
    columns, values, _ = additive(60)
    forest = Forest(columns, values, trees=1)
    points = np.random.default_rng(1).random((40_000, 4))
    assert forest.boxes[0].variance() == pytest.approx(float(forest.predict(points).var()), rel=0.03)
    fixed = points.copy()
    fixed[:, 0] = 0.3
    assert forest.mean_at([0], [np.array([0.3])])[0] == pytest.approx(float(forest.predict(fixed).mean()), rel=0.02)


def test_pedanova_puts_the_parameter_first_that_sets_the_best_apart() -> None:
    columns, values, _ = additive(400)
    found = importance(columns, values, by="pedanova", intervals=False)
    assert found[0].parameter == "x0"
    assert found["x2"].share < 0.05
    assert sum(one.share for one in found) == pytest.approx(1.0)
    turned = importance(columns, -values, by="pedanova", mode="min", intervals=False)
    assert [one.share for one in turned] == pytest.approx([one.share for one in found])


def test_a_conditional_parameter_has_a_share_among_those_that_have_it() -> None:
    rng = np.random.default_rng(0)
    n = 400
    code = rng.integers(0, 2, n)
    inner = np.where(code == 0, rng.random(n), np.nan)
    values = code * 0.5 + np.where(code == 0, inner, 0.0)
    columns = [labelled("opt", code, ("sgd", "adam")), Column("opt=sgd/momentum", inner, list(inner))]
    found = importance(columns, values, intervals=False)
    assert found["opt=sgd/momentum"].share > 0.9
    assert found["opt=sgd/momentum"].within == int((code == 0).sum())
    assert found["opt"].within is None
    told = effects(columns, values, ["momentum"], corrected=False)
    assert sum(one.n for one in told) == int((code == 0).sum())


def test_means_of_a_led_search_are_wrong_and_the_corrected_ones_are_not() -> None:
    """Adam and SGD are equally good at equal x; the search liked SGD, and tried it where x is good."""
    rng = np.random.default_rng(0)
    n = 300
    code = (rng.random(n) < 0.8).astype(int)
    x = np.where(code == 1, 1 - 0.5 * rng.random(n) ** 2, rng.random(n))
    values = x + 0.01 * rng.normal(size=n)
    columns = [labelled("opt", code, ("adam", "sgd")), number("x", x)]
    found = effects(columns, values, ["opt"], drawn=code == 0)
    raw = found["sgd"].mean - found["adam"].mean
    assert raw > 0.25
    assert abs(found["sgd"].corrected - found["adam"].corrected) < raw / 3
    assert found["sgd"].low < found["sgd"].mean < found["sgd"].high
    assert (found["adam"].drawn, found["sgd"].drawn) == (found["adam"].n, 0)
    assert math.isnan(found["sgd"].drawn_mean)


def test_effects_of_two_have_a_row_for_each_two_values() -> None:
    columns, values, _ = additive(300)
    found = effects(columns, values, ["c", "x0"])
    assert len(found) == 15
    assert sum(one.n for one in found) == 300
    # the corner of both is the sum of what each adds
    best = max(found, key=lambda one: one.corrected)
    assert best.values[0] == "d"
    assert best.corrected == pytest.approx(1.8 + 0.5 + 1.0, abs=0.2)


def test_the_way_to_the_best_takes_the_largest_gain_first() -> None:
    columns, values, _ = additive(400)
    ends = {"x0": (0.1, 0.9), "x1": (0.1, 0.9), "x2": (0.5, 0.5), "c": (0, 2)}
    more = [
        Column(
            one.name,
            np.append(one.places, ends[one.name]),
            [*one.values, *ends[one.name]],
            one.labels,
            one.size,
        )
        for one in columns
    ]
    found = steps(more, values)
    assert [one.parameter for one in found] == ["x0", "c", "x1"], "what does not change is no step"
    assert [one.gain for one in found] == pytest.approx([1.6, 1.0, 0.8], abs=0.2)
    assert found[-1].expected == pytest.approx(found.start + sum(one.gain for one in found))
    down = steps(more, -values, mode="min")
    assert [one.parameter for one in down] == ["x0", "c", "x1"]


def branching(start: tuple[float, float, float], end: tuple[float, float, float], n: int = 400) -> Any:
    """A choice with a parameter under each value, and trials of it; both ends are appended."""
    rng = np.random.default_rng(0)
    opt = np.append(rng.integers(0, 2, n), [int(start[0]), int(end[0])]).astype(float)
    sgd, adam = (np.append(rng.random(n), [start[nth], end[nth]]) for nth in (1, 2))
    sgd[opt != 0], adam[opt != 1] = np.nan, np.nan
    columns = [
        Column("opt", opt, [("sgd", "adam")[int(one)] for one in opt], ("sgd", "adam"), 2),
        Column("opt=sgd/momentum", sgd, [None if np.isnan(one) else one for one in sgd]),
        Column("opt=adam/beta", adam, [None if np.isnan(one) else one for one in adam]),
    ]
    values = np.where(opt == 0, np.nan_to_num(sgd), 1.0 + 2 * np.nan_to_num(adam))[:-2]
    return columns, values


def test_a_parameter_under_a_value_comes_and_goes_with_it() -> None:
    columns, values = branching((0, 0.2, np.nan), (1, np.nan, 0.9))
    found = steps(columns, values)
    assert [(one.parameter, one.before, one.after, one.along) for one in found] == [
        ("opt", "sgd", "adam", (("beta", 0.9),))
    ]
    assert found.start == pytest.approx(0.2, abs=0.1)
    assert found[0].expected == pytest.approx(2.8, abs=0.2), "with the value that comes along, and not an average"
    assert "sgd to adam with beta=0.9" in str(found)
    back = steps(*branching((1, np.nan, 0.9), (0, 0.2, np.nan)), mode="min")
    assert (back[0].along, back[0].expected) == ((("momentum", 0.2),), pytest.approx(0.2, abs=0.1))


def test_a_parameter_that_both_ends_have_is_a_step_of_its_own() -> None:
    found = steps(*branching((1, np.nan, 0.1), (1, np.nan, 0.9)))
    assert [(one.parameter, one.before, one.after) for one in found] == [("opt=adam/beta", 0.1, 0.9)]
    assert found[0].gain == pytest.approx(1.6, abs=0.2)


def test_little_is_refused_with_what_it_takes() -> None:
    columns, values, _ = additive(8)
    with pytest.raises(ConfigError) as refused:
        importance(columns, values)
    assert str(refused.value) == "8 trials with a value are too few to tell what is important; it takes 10."
    columns, values, _ = additive(30)
    with pytest.raises(ConfigError, match="'lr' is no parameter that was searched with more than one value"):
        effects(columns, values, ["lr"])
    with pytest.raises(ConfigError, match="by='shap'"):
        importance(columns, values, by="shap")  # type: ignore[arg-type]
    assert all(one.share == 0.0 for one in importance(columns, np.ones(30)))


def test_the_best_of_fewer_trials_is_counted_over_all_ways() -> None:
    curve = budget_curve([1.0, 2.0, 3.0, 4.0], mode="max")
    assert curve.sizes == (1, 2, 3, 4)
    assert curve.best == pytest.approx((2.5, 20 / 6, 15 / 4, 4.0))  # of 6 pairs: 2, 3, 4, 3, 4, 4
    assert curve.mean == pytest.approx((2.5,) * 4)
    assert curve.mean_low[-1] == curve.mean_high[-1] == pytest.approx(2.5)
    turned = budget_curve([-1.0, -2.0, -3.0, -4.0], mode="min")
    assert turned.best == pytest.approx([-value for value in curve.best])
    assert all(low <= high for low, high in zip(turned.mean_low, turned.mean_high, strict=True))
    led = budget_curve([1.0, 3.0, 2.0], random=False)
    assert (led.best, led.mean) == ((1.0, 3.0, 3.0), (1.0, 2.0, 2.0))
    assert budget_curve([]).sizes == ()


def test_a_lead_holds_where_groups_are_apart() -> None:
    rng = np.random.default_rng(0)
    groups = {"a": rng.normal(1, 0.1, 30), "b": rng.normal(0, 0.1, 30)}
    found = lead(groups, mode="max", by="mean")
    assert found is not None
    assert (found.winner, found.held) == ("a", 1.0)
    same = lead({"a": rng.normal(size=20), "b": rng.normal(size=20)}, mode="max", by="mean")
    assert same is not None
    assert 0.3 < same.held < 0.95
    assert lead({"a": [1.0, 2.0, 3.0, 4.0], "b": [1.0]}, mode="max", by="mean") is None
