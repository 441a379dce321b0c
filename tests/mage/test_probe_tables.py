"""The probe on tables: which columns reach ``fit``, and nothing is computed differently because of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from watched_programs import needs, seen, seen_and_alone

needs("sklearn", "pandas")

MADE = """
import numpy as np, pandas as pd
np.random.seed(7)
draws = np.random.default_rng(3)
X = pd.DataFrame(draws.normal(size=(3000, 4)), columns=["a", "b", "c", "d"])
y = (X["a"] + 0.1 * draws.normal(size=3000) > 0).astype(int)
order = np.argsort(y.values, kind="stable")
X, y = X.iloc[order], y.iloc[order]
"""
SKLEARN = (
    MADE
    + """
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

class Mine(ClassifierMixin, BaseEstimator):
    def __init__(self, sign=1):
        self.sign = sign
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self
    def predict(self, X):
        return (self.sign * X[:, 0] > 0).astype(int)

pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.5)).fit(X.drop(columns=["b"]), y)
print(pipeline.score(X.drop(columns=["b"]), y), [c.hex() for c in pipeline[-1].coef_[0]])
forest = RandomForestClassifier(10, random_state=0).fit(X.values[:, :3], y)
print("accuracy:", forest.score(X.values[:, :3], y), [i.hex() for i in forest.feature_importances_])
print(cross_val_score(Mine(sign=1), X.values, y, cv=3).tolist(), np.random.rand().hex())
"""
)


def test_columns_reach_fit_by_name_and_by_number_and_few_rows_are_enough(tmp_path: Path) -> None:
    facts = seen(tmp_path, SKLEARN, steps=50)
    fits = [fit for fit in facts.fits if "." not in fit.type]
    assert [(fit.type, fit.columns) for fit in fits] == [
        ("Pipeline", ("a", "c", "d")),
        ("StandardScaler", ("a", "c", "d")),
        ("LogisticRegression", ("0", "1", "2")),
        ("RandomForestClassifier", ("0", "1", "2")),
        *[("Mine", ("0", "1", "2", "3"))] * 3,
    ]
    assert [fit.rows for fit in fits] == [3000, 1000, 1000, 3000, 2000, 2000, 2000]
    assert fits[0].values["logisticregression__C"] == 0.5
    assert fits[0].target == fits[3].target
    assert [len(fit.digests) for fit in fits] == [len(fit.columns) for fit in fits]
    assert fits[0].digests[:2] == (fits[3].digests[0], fits[3].digests[2])  # "a" and "c", by name and by number
    asked = [(fit.type, fit.rows) for fit in facts.fits if "." in fit.type]
    assert asked == [
        ("Pipeline.score", 3000),
        ("LogisticRegression.score", 3000),
        ("RandomForestClassifier.score", 3000),
        *[("Mine.score", 1000)] * 3,
    ]
    assert facts.unseen == ("fit got 1000 of 3000 rows", "fit got 1000 of 2000 rows")
    assert (facts.ended.why, facts.metrics["accuracy"] > 0.9) == ("finished", True)
    assert facts.seeds == ("numpy 7", "numpy default_rng 3")


def test_as_many_fits_as_steps_are_enough(tmp_path: Path) -> None:
    facts = seen(tmp_path, SKLEARN, steps=1)
    assert (facts.ended.code, facts.ended.why) == (0, "enough seen")
    assert [fit.type for fit in facts.fits] == ["Pipeline", "StandardScaler", "LogisticRegression"]


def test_scikit_learn_computes_and_prints_the_same(tmp_path: Path) -> None:
    facts, ran, alone = seen_and_alone(tmp_path, SKLEARN)
    assert ran.out == alone.out
    assert ran.err == alone.err
    assert facts.unseen == ()
    assert len([fit for fit in facts.fits if "." not in fit.type]) == 7


HELD = (
    MADE
    + """
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

chain = make_pipeline(StandardScaler(), LogisticRegression(C=0.5))
chances = CalibratedClassifierCV(chain, cv=2).fit(X, y).predict_proba(X)
print(brier_score_loss(y, chances[:, 1]).hex(), brier_score_loss(y, np.clip(chances[:, 1], 0.1, 0.9)).hex())
found = GridSearchCV(chain, {"logisticregression__C": [0.1, 1.0]}, cv=2, scoring="accuracy").fit(X, y)
print(accuracy_score(y, found.predict(X)), chain.fit(X, y).predict(X).sum())
"""
)


def test_estimators_that_hold_others_say_whom_and_who_was_asked_and_metrics_say_of_what(tmp_path: Path) -> None:
    facts, ran, alone = seen_and_alone(tmp_path, HELD)
    assert ran.out == alone.out
    assert [(fit.type, fit.within) for fit in facts.fits] == [
        ("CalibratedClassifierCV", ""),
        ("CalibratedClassifierCV.predict_proba", ""),
        ("GridSearchCV", ""),
        ("GridSearchCV.predict", ""),
        ("Pipeline", ""),
        ("StandardScaler", "Pipeline"),
        ("LogisticRegression", "Pipeline"),
        ("Pipeline.predict", ""),
        ("LogisticRegression.predict", "Pipeline.predict"),
    ]
    assert {name: facts.fits[0].values[name] for name in ("estimator", "estimator__standardscaler")} == {
        "estimator": "Pipeline()",
        "estimator__standardscaler": "StandardScaler()",
    }
    assert facts.fits[0].values["estimator__logisticregression__C"] == 0.5
    assert facts.arguments.keys() == {"sklearn.metrics.brier_score_loss", "sklearn.metrics.accuracy_score"}
    ways = [way.split()[:2] for way in facts.arguments["sklearn.metrics.brier_score_loss"]]
    assert ways == [["y_true=calculated", "y_proba=calculated"], ["y_true=calculated", "y_proba=predict_proba[1]"]]
    assert [way.split()[:2] for way in facts.arguments["sklearn.metrics.accuracy_score"]] == [
        ["y_true=calculated", "y_pred=predict"]
    ]


XGBOOST = (
    MADE
    + """
import xgboost as xgb
table = xgb.DMatrix(X[["a", "c"]], label=y)
booster = xgb.train({"max_depth": 2, "seed": 1, "nthread": 1, "missing": -999.0}, table, 5)
print([p.hex() for p in booster.predict(table)[:5].astype(float)])
model = xgb.XGBClassifier(n_estimators=5, subsample=0.5, random_state=2, n_jobs=1).fit(X.values, y)
print([p.hex() for p in model.predict_proba(X.values)[:5, 1].astype(float)], np.random.rand().hex())
"""
)


def test_xgboost_computes_the_same_and_its_columns_are_seen(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    facts, ran, alone = seen_and_alone(tmp_path, XGBOOST)
    assert ran.out == alone.out
    assert [(fit.type, fit.rows, fit.columns) for fit in facts.fits] == [
        ("xgboost.train", 3000, ("a", "c")),
        ("XGBClassifier", 3000, ("0", "1", "2", "3")),
        ("XGBClassifier.predict_proba", 3000, ("0", "1", "2", "3")),
    ]
    assert facts.fits[0].values == {
        "max_depth": 2,
        "seed": 1,
        "nthread": 1,
        "missing": -999.0,
        "train.num_boost_round": 5,
    }
    assert [len(fit.digests) for fit in facts.fits] == [2, 4, 0]
    assert facts.fits[1].values["missing"] == "nan"  # which would not equal itself
    few = seen(tmp_path, XGBOOST, steps=2, rows=100)
    assert [(fit.columns, fit.rows, fit.target, fit.digests) for fit in few.fits] == [
        (fit.columns, fit.rows, fit.target, fit.digests) for fit in facts.fits[:2]
    ]
    assert (few.ended.why, few.unseen) == ("enough seen", ("fit got 100 of 3000 rows",))


LIGHTGBM = (
    MADE
    + """
import lightgbm as lgb
options = {"verbose": -1, "seed": 1, "num_threads": 1, "deterministic": True}
named = lgb.train(options, lgb.Dataset(X[["a", "d"]], y), 5)
bare = lgb.train(options, lgb.Dataset(X.values, y), 5)
print([p.hex() for p in [*named.predict(X[["a", "d"]])[:3], *bare.predict(X.values)[:3]]])
"""
)


def test_lightgbm_computes_the_same_and_its_columns_are_seen(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    facts, ran, alone = seen_and_alone(tmp_path, LIGHTGBM)
    assert ran.out == alone.out
    assert [(fit.type, fit.rows, fit.columns) for fit in facts.fits] == [
        ("lightgbm.train", 3000, ("a", "d")),
        ("lightgbm.train", 3000, ("0", "1", "2", "3")),
    ]
    assert [len(fit.digests) for fit in facts.fits] == [2, 4]


WEIGHED = (
    MADE
    + """
from sklearn.linear_model import LogisticRegression
import sys
weights = np.linspace(1.0, float(sys.argv[1]), len(y))
model = LogisticRegression(C=0.5).fit(X.assign(b=X["b"] * float(sys.argv[2])), y, sample_weight=pd.Series(weights))
print(model.predict(X)[:3].tolist())
"""
)


def test_weights_of_rows_and_values_of_columns_are_facts_of_a_fit(tmp_path: Path) -> None:
    flags = ("2 1", "2 1", "3 1", "2 4")
    base, again, weighed, scaled = (seen(tmp_path, WEIGHED, f"python train.py {one}", steps=9).fits for one in flags)
    assert base == again
    assert base[0].values["C"] == weighed[0].values["C"] == 0.5
    assert base[0].values["fit.sample_weight"] != weighed[0].values["fit.sample_weight"]
    assert base[0].digests == weighed[0].digests
    pairs = zip("abcd", base[0].digests, scaled[0].digests, strict=True)
    assert [name for name, before, now in pairs if before != now] == ["b"]
