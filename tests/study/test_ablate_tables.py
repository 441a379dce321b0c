"""Ablations of functions without a framework of layers: scikit-learn, XGBoost, LightGBM, on tables and arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import etude
from etude.analyse.verdict import Word
from etude.core.errors import StudyError

pytest.importorskip("sklearn")


def table(n: int = 90) -> Any:
    draws = np.random.default_rng(0)
    found = pd.DataFrame({name: draws.normal(size=n) for name in ("age", "fare", "port")})
    found["died"] = (found["age"] + 0.3 * found["fare"] > 0).astype(int)
    return found


def data() -> etude.Data:
    rows = table()
    return etude.Data(rows[:60], rows[60:], target="died")


def bootstrap(seed: int) -> etude.Data:
    rows = table()
    drawn = np.random.default_rng(seed).integers(0, 60, size=60)
    return etude.Data(rows[:60].iloc[drawn], rows[60:], target="died")


def logistic(seed: int, C: float = 1.0) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=C)


def forest(seed: int, max_features: float = 0.5) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=8, max_features=max_features, random_state=seed)


def xgboost(seed: int, subsample: float = 0.5) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=8, subsample=subsample, random_state=seed, n_jobs=1)


def lightgbm(seed: int, subsample: float = 0.5) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=8,
        subsample=subsample,
        subsample_freq=1,
        min_child_samples=3,
        random_state=seed,
        n_jobs=1,
        verbosity=-1,
    )


def train(model: Any, data: Any) -> float:
    rows, valid = data()
    y, y_valid = rows.pop("died"), valid.pop("died")
    chances = model().fit(rows, y).predict_proba(valid)
    return -float(np.log(np.clip(chances[np.arange(len(valid)), y_valid], 1e-6, 1)).mean())


def of(model: Callable[..., Any], data: Callable[..., Any] = data) -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


@pytest.mark.parametrize(
    ("model", "library", "setting"),
    [
        (forest, "sklearn", "max_features=1.0"),
        (xgboost, "xgboost", "subsample=1.0"),
        (lightgbm, "lightgbm", "subsample=1.0"),
    ],
)
def test_features_and_settings_of_a_model_without_layers(model: Any, library: str, setting: str) -> None:
    pytest.importorskip(library)
    ablation = of(model).ablate(
        ["feature:age", "feature:port how=permute", setting], seeds=8, workers=1, reuse_child=True
    )
    assert isinstance(ablation, etude.Ablation)
    assert ablation.counts() == {"finished": 32}
    for arm in ("feature:age", "feature:port how=permute", setting):
        assert {str(one) for one in ablation.pairing(arm).values()} == {"paired: the first data is the same"}, arm
    assert ablation.paired() == dict.fromkeys(("feature:age", "feature:port how=permute", setting), (8, 8))
    assert ablation.verdicts()["feature:age"].verdict is Word.MATTERS
    assert "All arms are paired." in str(ablation)


def test_a_deterministic_function_is_refused_with_what_can_be_done() -> None:
    with pytest.raises(StudyError, match=r"Nothing varies with the seed: base, feature:age, C=0.01 came .*bootstrap"):
        of(logistic).ablate(["feature:age", "C=0.01"], seeds=10, workers=1, reuse_child=True)


def test_a_bootstrap_lets_it_vary_and_its_rows_are_paired() -> None:
    ablation = of(logistic, bootstrap).ablate("feature:age", seeds=6, workers=1, reuse_child=True)
    assert isinstance(ablation, etude.Ablation)
    assert len(set(ablation.arms[0].values.values())) == 6
    assert "All arms are paired." in str(ablation)


def by_hand(without: frozenset[str] = frozenset()) -> Any:
    rows = table().drop(columns=list(without))
    y = rows.pop("died")
    return (rows.to_numpy()[:60], y[:60]), (rows.to_numpy()[60:], y[60:])


def train_arrays(model: Any, data: Any) -> float:
    train, valid = data()
    return float(model().fit(*train).score(*valid))


def test_a_data_function_that_leaves_features_out_may_return_plain_arrays() -> None:
    experiment = etude.Experiment(train_arrays, model=forest, data=by_hand, metric="accuracy", mode="max")
    ablation = experiment.ablate("feature:age", seeds=6, workers=1, reuse_child=True)
    assert ablation.counts() == {"finished": 12}
    assert ablation.verdicts()["feature:age"].verdict is Word.MATTERS


def own_rows(seed: int, C: float = 1.0, share: float = 0.5) -> float:
    draws = np.random.default_rng(seed)
    return float(draws.normal() + C * share)


def test_arms_of_which_nothing_was_seen_are_said_not_to_be_known_as_pairs() -> None:
    alone = etude.Experiment(own_rows, metric="loss", mode="min")
    ablation = alone.ablate(["C", "share"], seeds=7, workers=1, reuse_child=True)
    assert isinstance(ablation, etude.Ablation)
    assert str(ablation.pairing("C").popitem()[1]) == "not known whether paired: nothing was seen of how both began"
    assert ablation.paired() == {"C": (None, 7), "share": (None, 7)}
    told = str(ablation)
    assert "Not known whether paired, since nothing was seen of how they began: C, share." in told
    assert "C: not known whether these are pairs: tested as pairs by their seeds" in told.replace("the difference", "")
    assert "All arms are paired." not in told


def of_arrow() -> etude.Data:
    rows = pa.table(table().to_dict("list"))
    return etude.Data(rows[:60], rows[60:], target="died")


def by_pandas(model: Any, data: Any) -> float:
    return train(model, lambda: [part.to_pandas() for part in data()])


def test_other_tables_are_known_as_pairs_too() -> None:
    experiment = etude.Experiment(by_pandas, model=forest, data=of_arrow, metric="loss", mode="min")
    ablation = experiment.ablate("feature:age", seeds=2, workers=1, reuse_child=True, force=True)
    assert isinstance(ablation, etude.Ablation)
    assert "All arms are paired." in str(ablation)
