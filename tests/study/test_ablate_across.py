"""Ablations on several data sets and in folds, in real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import etude
from etude.core.errors import ConfigError
from etude.results.across import AblationAcross

HELPS = {"flat": (0.0, 0.0), "steep": (0.3, 0.0), "odd": (-0.2, 0.1)}
"""What the two parts are worth, by data set."""


def data(dataset: str = "flat", fold: int = 0, folds: int = 0) -> dict[str, tuple[float, float] | int]:
    assert folds in (0, 3)
    return {"worth": HELPS[dataset], "fold": fold}


def train(data, run, left: bool = True, right: bool = True):
    found = data()
    one, two = found["worth"]
    return 0.5 + one * left + two * right + 0.1 * found["fold"] + (run.seed % 97) / 1e4 * (1 + left)


def experiment() -> etude.Experiment:
    return etude.Experiment(train, data=data, metric="accuracy", mode="max")


def test_each_data_set_has_verdicts_and_all_together_have_ranks() -> None:
    across = experiment().ablate(
        ["left", "right"], across={"dataset": ["flat", "steep", "odd"]}, seeds=7, workers=2, name="wide"
    )
    assert isinstance(across, AblationAcross)
    assert list(across) == ["dataset=flat", "dataset=steep", "dataset=odd"]
    assert [one.folder.name for (one,) in across.values()] == [
        "wide-dataset-flat",
        "wide-dataset-steep",
        "wide-dataset-odd",
    ]
    assert across.complete
    found = across.verdicts()
    assert found["dataset=steep"]["left"].effect == pytest.approx(0.3, abs=0.01)
    assert found["dataset=steep"]["left"].verdict == "matters"
    assert found["dataset=odd"]["left"].verdict == "hurts"
    assert found["dataset=odd"]["right"].effect == pytest.approx(0.1)
    assert across.rankings().data_sets == 3
    assert next(iter(across.rankings(by="best").ranks)) in ("base", "right")
    said = str(across)
    assert said.index("dataset=flat:") < said.index("dataset=odd:") < said.index("by the mean of runs")
    assert "by the best of runs" in said


def test_folds_are_pairs_whose_training_parts_overlap() -> None:
    across = experiment().ablate(["left"], across={"dataset": ["steep"]}, folds=3, seeds=2, workers=2)
    assert isinstance(across, AblationAcross)
    ablations = across["dataset=steep"]
    assert [{trial.params["fold"] for trial in one.trials} for one in ablations] == [{0}, {1}, {2}]
    assert all(trial.params["folds"] == 3 for one in ablations for trial in one.trials)
    assert len({trial.seed for one in ablations for trial in one.trials}) == 2, "all folds have the same seeds"
    assert len(across.runs("dataset=steep")["base"]) == 6
    [verdict] = across.verdicts()["dataset=steep"]
    assert (verdict.n, verdict.test) == (6, "corrected t")
    assert verdict.verdict == "matters"
    assert "dataset=steep, 3 folds:" in str(across)
    again = experiment().ablate(["left"], across={"dataset": ["steep"]}, folds=3, seeds=2, workers=2, dry_run=True)
    assert (again.trials, again.done) == (12, 12)
    assert "12 trials on 1 data set in 3 folds" in str(again)


def test_folds_alone() -> None:
    draft = experiment().ablate(["left"], at={"dataset": "odd"}, folds=3, seeds=2, dry_run=True)
    assert draft.trials == 12
    assert "all data:" in str(draft)


def no_folds(dataset: str = "flat") -> dict[str, tuple[float, float] | int]:
    return data(dataset)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"folds": 1}, "one fold is no cross-validation"),
        ({"across": ["flat"]}, "cannot be. Pass the values"),
        ({"across": {"dataset": "flat"}}, "Pass the values of hyperparameters"),
        ({"across": {"dataset": ["flat", "flat"]}}, "has a value twice"),
        ({"across": {"dataset": ["flat"]}, "at": {"dataset": "odd"}}, "'dataset' is given twice"),
        ({"across": {"fold": [0, 1]}, "folds": 3}, "'fold' is given twice"),
        ({"folds": 3, "wait": False}, "wait=False"),
        ({"folds": 3, "seeds": "until decided"}, "until decided"),
        ({"across": {"sett": [1, 2]}}, "sett"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(options: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(etude.EtudeError, match=said):
        experiment().ablate(["left"], **{"seeds": 7, **options})  # type: ignore[call-overload]


def test_a_data_function_without_folds_is_told_what_it_would_take() -> None:
    with pytest.raises(ConfigError, match="takes fold: int, from 0 to 4, the part that it holds out"):
        etude.Experiment(train, data=no_folds, metric="accuracy", mode="max").ablate(["left"], folds=5, seeds=7)


def test_all_data_sets_are_planned_before_the_first_is_run() -> None:
    with pytest.raises(ConfigError, match="leftt"):
        experiment().ablate(["leftt"], across={"dataset": ["flat", "steep"]}, seeds=7)
    one = experiment()
    with pytest.raises(ConfigError, match="Nothing can be decided"):
        one.ablate(["left"], across={"dataset": ["flat", "steep"]}, seeds=2)
    assert one.last is None


def test_the_plan_of_all_data_sets_is_shown_once(capfd: pytest.CaptureFixture[str]) -> None:
    call: Any = {"components": ["left"], "across": {"dataset": ["flat", "steep"]}, "folds": 3, "seeds": 1}
    draft = experiment().ablate(**call, dry_run=True)
    experiment().ablate(**call, workers=1, progress=True)
    told = capfd.readouterr().err
    assert str(draft) in told
    assert told.count("left: True -> False") == 2, "once for each data set"
