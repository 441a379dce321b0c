"""XGBoost and LightGBM under their callbacks: a round is a turn, and who goes on comes to the very same trees."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from lines import HeldAtOne, Line, run_on, through_a_file

import etude
from etude.core.errors import ConfigError
from etude.worker.run import Hold, Run, Stop

draw = np.random.RandomState(0)
X = draw.normal(size=(300, 6)).astype("float32")
Y = (X @ draw.normal(size=6) + 2 * draw.normal(size=300) > 0).astype(int)
TRAIN, VALID = slice(0, 200), slice(200, 300)

XGB = {"objective": "binary:logistic", "eta": 0.3, "max_depth": 3, "nthread": 1}
LGB = {"learning_rate": 0.3, "num_leaves": 7, "num_threads": 1, "verbosity": -1, "deterministic": True}


def xgboost_train(run: Run | None, *, rounds: int = 6, names: Any = None, patience: int = 0, **params: Any) -> Any:
    train, valid = xgboost.DMatrix(X[TRAIN], Y[TRAIN]), xgboost.DMatrix(X[VALID], Y[VALID])
    callbacks = [etude.callback("xgboost", run, names=names)] if run else []
    log: dict[str, Any] = {}
    booster = xgboost.train(
        {**XGB, "eval_metric": "logloss", **params},
        train,
        rounds,
        evals=[(valid, "valid")],
        evals_result=log,
        verbose_eval=False,
        early_stopping_rounds=patience or None,
        callbacks=callbacks,
    )
    return trees_of(booster), log, booster.attributes()


def xgboost_estimator(run: Run | None, *, rounds: int = 6, names: Any = None, patience: int = 0, **params: Any) -> Any:
    callbacks = [etude.callback("xgboost", run, names=names)] if run else None
    made = xgboost.XGBClassifier(
        n_estimators=rounds, callbacks=callbacks, eval_metric="logloss", early_stopping_rounds=patience or None,
        **{**XGB, **params},
    )  # fmt: skip
    made.fit(X[TRAIN], Y[TRAIN], eval_set=[(X[VALID], Y[VALID])], verbose=False)
    return trees_of(made.get_booster()), made.evals_result(), made.get_booster().attributes()


def trees_of(booster: xgboost.Booster) -> Any:
    return json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]


def lightgbm_train(run: Run | None, *, rounds: int = 6, names: Any = None, patience: int = 0, **params: Any) -> Any:
    train = lightgbm.Dataset(X[TRAIN], Y[TRAIN])
    valid = lightgbm.Dataset(X[VALID], Y[VALID], reference=train)
    ours = etude.callback("lightgbm", run, names=names) if run else None
    others, log = asked_for(ours, patience)
    booster = lightgbm.train(
        {"objective": "binary", **LGB, **params},
        train,
        ours.rounds(rounds) if ours else rounds,
        valid_sets=[valid],
        valid_names=["valid"],
        init_model=ours.init_model() if ours else None,
        callbacks=others,
    )
    return text_of(booster), log, booster.best_iteration, booster.best_score


def lightgbm_estimator(run: Run | None, *, rounds: int = 6, names: Any = None, patience: int = 0, **params: Any) -> Any:
    ours = etude.callback("lightgbm", run, names=names) if run else None
    others, log = asked_for(ours, patience)
    made = lightgbm.LGBMClassifier(n_estimators=ours.rounds(rounds) if ours else rounds, **{**LGB, **params})
    made.fit(
        X[TRAIN],
        Y[TRAIN],
        eval_X=(X[VALID],),
        eval_y=(Y[VALID],),
        init_model=ours.init_model() if ours else None,
        callbacks=others,
    )
    return text_of(made.booster_), log, made.best_iteration_, made.best_score_


def asked_for(ours: Any, patience: int) -> tuple[list[Any], dict[str, Any]]:
    """Return callbacks: one that records, perhaps one that stops early, one that learns ever slower, and ours."""
    log: dict[str, Any] = {}
    others = [
        lightgbm.record_evaluation(log),
        lightgbm.reset_parameter(learning_rate=lambda n: 0.3 * 0.9**n),
        *([lightgbm.early_stopping(patience, verbose=False)] if patience else []),
    ]
    return [ours, *map(ours.beside, others)] if ours else others, log


def text_of(booster: lightgbm.Booster) -> str:
    return booster.model_to_string(num_iteration=-1).partition("\nparameters:")[0]


Fit = Callable[..., Any]

FITS = [
    pytest.param(xgboost_train, id="xgboost.train"),
    pytest.param(xgboost_estimator, id="XGBClassifier"),
    pytest.param(lightgbm_train, id="lightgbm.train"),
    pytest.param(lightgbm_estimator, id="LGBMClassifier"),
]


def metric_of(fit: Fit) -> str:
    return "logloss" if fit.__name__.startswith("xgboost") else "binary_logloss"


def set_of(fit: Fit) -> str:
    return {"xgboost_estimator": "validation_0", "lightgbm_estimator": "valid_0"}.get(fit.__name__, "valid")


@pytest.mark.parametrize("fit", FITS)
def test_each_round_is_reported_by_its_plain_name_and_saved(fit: Fit, tmp_path: Path) -> None:
    line = Line()
    trees, log, *_ = fit(run_on(line, tmp_path))
    assert [state.epoch for state in line.states] == [1, 2, 3, 4, 5, 6]
    assert [metrics[metric_of(fit)] for metrics in line.reports] == log[set_of(fit)][metric_of(fit)]
    assert all(list(metrics) == [metric_of(fit)] for metrics in line.reports)
    assert trees == fit(None)[0]  # it changes nothing


@pytest.mark.parametrize("by", ["plain", "whole"])
@pytest.mark.parametrize("fit", FITS)
def test_a_metric_gets_the_name_that_the_study_has_for_it(fit: Fit, by: str, tmp_path: Path) -> None:
    line = Line()
    name = metric_of(fit) if by == "plain" else f"{set_of(fit)}-{metric_of(fit)}"
    fit(run_on(line, tmp_path), rounds=2, names={name: "loss"})
    assert [list(metrics) for metrics in line.reports] == [["loss"], ["loss"]]


def test_several_evaluation_sets_are_told_apart(tmp_path: Path) -> None:
    train, line = xgboost.DMatrix(X, Y), Line()
    callbacks = [etude.callback("xgboost", run_on(line, tmp_path), names={"b-error@0.4": "error"})]
    params = {**XGB, "eval_metric": ["logloss", "error@0.4"]}
    xgboost.train(params, train, 1, evals=[(train, "a"), (train, "b")], verbose_eval=False, callbacks=callbacks)
    assert [sorted(metrics) for metrics in line.reports] == [["a-error@0.4", "a-logloss", "b-logloss", "error"]]

    rows, line = lightgbm.Dataset(X, Y), Line()
    ours = etude.callback("lightgbm", run_on(line, tmp_path))
    lightgbm.train(
        {"objective": "binary", **LGB},
        rows,
        ours.rounds(1),
        valid_sets=[rows, lightgbm.Dataset(X[VALID], Y[VALID], reference=rows)],
        valid_names=["train", "valid"],
        callbacks=[ours],
    )
    assert [sorted(metrics) for metrics in line.reports] == [["train-binary_logloss", "valid-binary_logloss"]]


class HaltedAtOne(Line):
    """A line that is halted when the first round has been reported."""

    def report(self, step: int, metrics: dict[str, float]) -> None:
        super().report(step, metrics)
        self.halted = True


@pytest.mark.parametrize("fit", FITS)
def test_a_stop_ends_the_training_at_the_next_round(fit: Fit, tmp_path: Path) -> None:
    line = HaltedAtOne()
    with pytest.raises(Stop):
        fit(run_on(line, tmp_path))
    assert len(line.reports) == 1
    assert line.states == []


@pytest.mark.parametrize("fit", FITS)
def test_a_pause_comes_after_the_save_and_the_next_attempt_comes_to_the_same(fit: Fit, tmp_path: Path) -> None:
    paused = HeldAtOne()
    with pytest.raises(Hold):
        fit(run_on(paused, tmp_path))
    assert [state.epoch for state in paused.states] == [1]
    rest = Line(before=through_a_file(paused.states[0], tmp_path))
    assert fit(run_on(rest, tmp_path)) == fit(None)
    assert [state.epoch for state in rest.states] == [2, 3, 4, 5, 6]
    assert len(rest.reports) == 5


@pytest.mark.parametrize("fit", FITS)
def test_an_early_stopping_counts_on_wherever_an_attempt_was_lost(fit: Fit, tmp_path: Path) -> None:
    line = Line()
    whole = fit(run_on(line, tmp_path), rounds=60, patience=4)
    assert whole == fit(None, rounds=60, patience=4)
    n = len(line.reports)
    assert 5 < n < 60
    for state in (line.states[0], line.states[n // 2], line.states[-2], line.states[-1]):
        again = Line(before=through_a_file(state, tmp_path))
        assert fit(run_on(again, tmp_path), rounds=60, patience=4) == whole, state.epoch
        assert len(again.reports) == n - state.epoch


@pytest.mark.parametrize("fit", FITS)
def test_a_booster_is_saved_when_it_has_grown_by_a_tenth_and_when_it_pauses(fit: Fit, tmp_path: Path) -> None:
    class HeldAt(Line):
        def report(self, step: int, metrics: dict[str, float]) -> None:
            super().report(step, metrics)
            self.held = len(self.reports) == 43

    line = HeldAt()
    with pytest.raises(Hold):
        fit(run_on(line, tmp_path), rounds=60)
    rounds = [state.epoch for state in line.states]
    assert rounds[:19] == list(range(1, 20))
    assert rounds[19:] == [21, 23, 25, 27, 29, 32, 35, 38, 42, 43]
    again = Line(before=through_a_file(line.states[-2], tmp_path))
    assert fit(run_on(again, tmp_path), rounds=60) == fit(None, rounds=60)
    assert len(again.reports) == 18


@pytest.mark.parametrize("fit", FITS)
def test_the_last_round_was_saved_and_the_end_was_not_told(fit: Fit, tmp_path: Path) -> None:
    line = Line()
    whole = fit(run_on(line, tmp_path))
    again = Line(before=through_a_file(line.states[-2 if "lightgbm" in fit.__name__ else -1], tmp_path))
    assert fit(run_on(again, tmp_path)) == whole


@pytest.mark.parametrize("fit", FITS)
def test_rows_that_are_drawn_are_drawn_anew_and_that_is_no_mistake_of_ours(fit: Fit, tmp_path: Path) -> None:
    """docs/integrations.md says so; a library that comes to the same one day lets this fail."""
    params = {"subsample": 0.5} if "xgboost" in fit.__name__ else {"bagging_fraction": 0.5, "bagging_freq": 1}
    if "estimator" in fit.__name__ and "lightgbm" in fit.__name__:
        params = {"subsample": 0.5, "subsample_freq": 1}
    line = Line()
    whole = fit(run_on(line, tmp_path), **params)
    again = Line(before=through_a_file(line.states[2], tmp_path))
    assert fit(run_on(again, tmp_path), **params)[0] != whole[0]
    assert len(again.reports) == 3


@pytest.mark.parametrize(
    "params",
    [
        {"tree_method": "exact", "scale_pos_weight": 2.0, "gamma": 0.2},
        {"booster": "dart", "rate_drop": 0.5, "seed_per_iteration": True},
    ],
    ids=["exact", "dart"],
)
def test_xgboost_goes_on_with_all_of_its_settings(params: dict[str, Any], tmp_path: Path) -> None:
    line = Line()
    whole = xgboost_train(run_on(line, tmp_path), **params)
    again = Line(before=through_a_file(line.states[2], tmp_path))
    assert xgboost_train(run_on(again, tmp_path), **params) == whole


def test_a_learning_rate_of_each_round_is_that_of_the_round(tmp_path: Path) -> None:
    def fit(run: Run) -> Any:
        rows = xgboost.DMatrix(X, Y)
        slower = xgboost.callback.LearningRateScheduler([0.5 * 0.8**n for n in range(6)])
        both = [etude.callback("xgboost", run), slower]
        return trees_of(xgboost.train(XGB, rows, 6, evals=[(rows, "t")], verbose_eval=False, callbacks=both))

    line = Line()
    whole = fit(run_on(line, tmp_path))
    again = Line(before=through_a_file(line.states[2], tmp_path))
    assert fit(run_on(again, tmp_path)) == whole


def test_a_round_at_which_a_callback_before_ours_ends_it_is_reported_too(tmp_path: Path) -> None:
    rows, valid, line = xgboost.DMatrix(X[TRAIN], Y[TRAIN]), xgboost.DMatrix(X[VALID], Y[VALID]), Line()
    both = [xgboost.callback.EarlyStopping(rounds=3), etude.callback("xgboost", run_on(line, tmp_path))]
    log: dict[str, Any] = {}
    xgboost.train(XGB, rows, 60, evals=[(valid, "v")], evals_result=log, verbose_eval=False, callbacks=both)
    assert [metrics["logloss"] for metrics in line.reports] == log["v"]["logloss"]
    assert len(line.reports) < 60


@pytest.mark.parametrize("fit", FITS)
def test_a_trial_with_a_larger_budget_goes_on_where_it_is_seen_that_it_can(fit: Fit, tmp_path: Path) -> None:
    small, large, other = Line(), Line(), Line()
    fit(run_on(small, tmp_path), rounds=3)
    large.before = other.before = through_a_file(small.states[-1]._replace(source=0), tmp_path)
    assert fit(run_on(large, tmp_path))[0] == fit(None)[0]
    goes_on = fit.__name__.startswith("xgboost")
    assert [state.epoch for state in large.states] == ([4, 5, 6] if goes_on else [1, 2, 3, 4, 5, 6])
    fit(run_on(other, tmp_path), **({"eta": 0.1} if goes_on else {"learning_rate": 0.1}))
    assert len(other.states) == 6


@pytest.mark.parametrize("fit", FITS)
def test_a_rehearsal_ends_after_its_one_round(fit: Fit, tmp_path: Path) -> None:
    line = Line()
    run = run_on(line, tmp_path)
    everything = run.epochs
    run.epochs = lambda n: everything(min(n, 1))  # type: ignore[method-assign]
    fit(run)
    assert len(line.states) == len(line.reports) == 1


def test_a_booster_that_the_user_begins_with_is_there_in_each_attempt(tmp_path: Path) -> None:
    rows = xgboost.DMatrix(X, Y)
    first = xgboost.train(XGB, rows, 2)

    def by_xgboost(run: Run) -> Any:
        callbacks = [etude.callback("xgboost", run)]
        return trees_of(
            xgboost.train(
                XGB, rows, 4, evals=[(rows, "t")], verbose_eval=False, xgb_model=first.copy(), callbacks=callbacks
            )
        )

    begun = lightgbm.train({"objective": "binary", **LGB}, lightgbm.Dataset(X, Y), 2)

    def by_lightgbm(run: Run) -> Any:
        ours = etude.callback("lightgbm", run)
        rows, params = lightgbm.Dataset(X, Y), {"objective": "binary", **LGB}
        left = ours.rounds(4)
        return text_of(
            lightgbm.train(
                params, rows, left, valid_sets=[rows], init_model=ours.init_model() or begun, callbacks=[ours]
            )
        )

    for fit in (by_xgboost, by_lightgbm):
        line = Line()
        whole = fit(run_on(line, tmp_path))
        again = Line(before=through_a_file(line.states[1], tmp_path))
        assert fit(run_on(again, tmp_path)) == whole
        assert len(again.reports) == 2


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit", "library"), [(xgboost_train, "xgboost"), (lightgbm_train, "lightgbm")], ids=["xgboost", "lightgbm"]
)
def test_a_second_booster_of_one_run_is_refused(fit: Fit, library: str, tmp_path: Path) -> None:
    run = run_on(Line(), tmp_path)
    fit(run)
    with pytest.raises(ConfigError) as refused:
        fit(run)
    assert str(refused.value) == (
        f"etude.callback({library!r}, run) was given to a second training of one run, and a run keeps one booster. "
        "Give it to one of them. Where there are several, such as one for each fold, train them in a loop of your own, "
        "for fold in run.epochs(n), without it, and call run.report after each."
    )


def test_cross_validation_by_the_library_is_refused(tmp_path: Path) -> None:
    ours = etude.callback("xgboost", run_on(Line(), tmp_path))
    with pytest.raises(ConfigError) as refused:
        xgboost.cv(XGB, xgboost.DMatrix(X, Y), 2, callbacks=[ours])
    assert str(refused.value) == (
        "etude.callback('xgboost', run) was given to xgboost.cv, which trains a booster for each fold, and a run keeps "
        "one. Train with xgboost.train, or report what xgboost.cv returns: run.report(...)."
    )
    other = etude.callback("lightgbm", run_on(Line(), tmp_path))
    with pytest.raises(ConfigError) as refused:
        lightgbm.cv({"objective": "binary", **LGB}, lightgbm.Dataset(X, Y), other.rounds(2), callbacks=[other])
    assert str(refused.value) == (
        "etude.callback('lightgbm', run) was given to lightgbm.cv, which trains a booster for each fold, and a run "
        "keeps one. Train with lightgbm.train, or report what lightgbm.cv returns: run.report(...)."
    )


def test_lightgbm_is_told_what_it_forgets_to_ask(tmp_path: Path) -> None:
    line = Line()
    lightgbm_train(run_on(line, tmp_path))

    def train(line: Line, *, rounds: int | None, asks: bool, **params: Any) -> None:
        ours = etude.callback("lightgbm", run_on(line, tmp_path))
        n = ours.rounds(rounds) if rounds is not None else 6
        model = ours.init_model() if asks else None
        rows = lightgbm.Dataset(X, Y)
        lightgbm.train({"objective": "binary", **LGB, **params}, rows, n, init_model=model, callbacks=[ours])

    def refused(line: Line, **how: Any) -> str:
        with pytest.raises(ConfigError) as error:
            train(line, **how)
        return str(error.value)

    before = Line(before=through_a_file(line.states[1], tmp_path))
    not_asked = (
        "etude.callback('lightgbm', run) was not asked how many rounds are left, so an attempt that is lost would "
        "start over. Train with lightgbm.train(params, rows, callback.rounds(n), init_model=callback.init_model(), "
        "callbacks=[callback]), and an estimator with n_estimators=callback.rounds(n) and fit(..., "
        "init_model=callback.init_model(), callbacks=[callback])."
    )
    assert refused(Line(), rounds=None, asks=False) == not_asked
    assert refused(Line(), rounds=None, asks=True) == not_asked
    assert refused(before, rounds=6, asks=False) == (
        "LightGBM goes on after 0 rounds, and the attempt before had trained 2. Pass init_model=callback.init_model() "
        "to lightgbm.train, or to fit of an estimator."
    )
    assert refused(Line(), rounds=6, asks=True, num_iterations=9) == (
        "LightGBM trains 9 rounds, and callback.rounds(...) returned 6. Pass what it returned as num_boost_round, or "
        "as n_estimators of an estimator, and leave num_iterations out of the parameters."
    )
    assert refused(Line(), rounds=0, asks=True) == "n=0 cannot be: a training has a round at least. Pass n=1 or more."


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_library_that_is_missing_is_named(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"etude.frameworks.{library}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError) as refused:
        etude.callback(library, run_on(Line(), tmp_path))
    assert str(refused.value) == (
        f"etude.callback({library!r}, ...) needs {library}, which is not installed. Install it: pip install {library}."
    )
