"""What is left of calls of estimators when one of them goes: nothing that anybody has to write first."""

from __future__ import annotations

from typing import Any

import pytest

from etude.mage.facts import FitFacts
from etude.mage.judge.estimators import held_in, left_of

CHAINED: dict[str, Any] = {
    "cv": 4,
    "estimator": "Pipeline()",
    "estimator__memory": None,
    "estimator__scale": "RobustScaler()",
    "estimator__scale__copy": True,
    "estimator__ridge": "Ridge()",
    "estimator__ridge__alpha": 0.5,
    "fit.sample_weight": "digest",
}


def call(kind: str, values: dict[str, Any], **more: Any) -> FitFacts:
    return FitFacts(type=kind, rows=9, columns=("a",), values=values, **more)


@pytest.mark.parametrize(
    ("gone", "kind", "values"),
    [
        (
            {"Calibrated"},
            "Pipeline",
            {"memory": None, "scale": "RobustScaler()", "scale__copy": True, "ridge": "Ridge()", "ridge__alpha": 0.5},
        ),
        ({"RobustScaler"}, "Calibrated", {"cv": 4, "estimator": "Ridge()", "estimator__alpha": 0.5}),
        ({"RobustScaler", "Calibrated"}, "Ridge", {"alpha": 0.5}),
        ({"Elsewhere"}, "Calibrated", {name: value for name, value in CHAINED.items() if "." not in name}),
    ],
)
def test_who_was_held_by_one_that_goes_takes_its_place_and_a_chain_of_one_is_that_one(
    gone: set[str], kind: str, values: dict[str, Any]
) -> None:
    left = left_of(call("Calibrated", CHAINED), gone)
    assert left == call(kind, {**values, "fit.sample_weight": "digest"})
    asked = left_of(call("Calibrated.predict_proba", CHAINED), gone)
    assert asked is not None
    assert asked.type == f"{kind}.predict_proba"


@pytest.mark.parametrize(
    ("values", "gone"),
    [
        ({"alpha": 0.5}, {"Votes"}),
        ({"one": "Ridge()", "other": "Lasso()"}, {"Votes"}),
        ({"one": "Ridge()"}, {"Votes", "Ridge"}),
    ],
)
def test_where_what_goes_held_nothing_or_several_nobody_can_tell(values: dict[str, Any], gone: set[str]) -> None:
    assert left_of(call("Votes", values), gone) is None


def test_a_chain_whose_steps_have_names_like_settings_keeps_them_apart() -> None:
    values = {"verbose": False, "a": "Scale()", "a__b": 1, "ab": "Ridge()", "ab__c": "text()", "b__c": 2}
    left = left_of(call("Pipeline", values), ())
    assert left is not None
    assert left.values == values


def test_calls_with_an_estimator_are_those_of_the_program_itself() -> None:
    fits = [
        call("Calibrated", CHAINED),
        call("Calibrated.predict_proba", CHAINED),
        call("Pipeline", {"ridge": "Ridge()"}),
        call("Ridge", {}, within="Pipeline"),
    ]
    assert [held_in(name, fits) for name in ("sklearn.linear_model.Ridge", "RobustScaler", "Calibrated", "Lasso")] == [
        2,
        1,
        1,
        0,
    ]
