"""Functions of a notebook that were written anew: a warning where it helps, and none where nothing is wrong."""

from __future__ import annotations

import functools
import sys
import types
import warnings
from typing import Any

import pytest

import etude


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that runs code as a cell of a notebook does."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    vars(main).update(etude=etude, functools=functools)

    def run(code: str) -> Any:
        exec(compile(code, "<cell>", "exec"), vars(main))
        return vars(main)

    return run


TRAIN = "def train(lr: float = 0.5, n=1):\n    return lr\n"
MAKE = "experiment = etude.Experiment(train, metric='m', mode='max')\n"
TOLD = (
    "{} was defined again, and this experiment still has the one before, which is what runs. "
    "Run the cell that makes the Experiment again."
)


@pytest.mark.parametrize(
    "edit", [TRAIN.replace("return lr", "return 2 * lr"), TRAIN.replace("0.5", "0.25"), TRAIN.replace("n=1", "m=1")]
)
def test_an_edited_function_is_told_once_by_every_verb(cell: Any, edit: str) -> None:
    cell(TRAIN)
    cell(MAKE)
    experiment = cell(edit)["experiment"]
    with pytest.warns(UserWarning, match="^" + TOLD.format("train")) as told:
        assert experiment.run() == 0.5
    assert told[0].filename == __file__
    experiment.run()  # a second warning would be an error
    experiment = cell(MAKE)["experiment"]
    experiment.run()
    cell(TRAIN + "    # with a comment, and another line\n")
    with pytest.warns(UserWarning, match="^train was defined again"):
        experiment.check()
    cell(MAKE + edit)
    with pytest.warns(UserWarning, match="^train was defined again"), pytest.raises(etude.ConfigError):
        cell("")["experiment"].tune({"lr": [0.5]}, trials=0)


def test_an_edited_class_is_told_as_well(cell: Any) -> None:
    net = "class Net:\n    def __init__(self, width: int = 3):\n        self.width = width\n"
    train = "def train(model):\n    return model().width\n"
    cell(net + train + "experiment = etude.Experiment(train, model=Net, metric='m', mode='max')")
    assert cell(net)["experiment"].run() == 3
    experiment = cell(net.replace("= width", "= 2 * width"))["experiment"]
    with pytest.warns(UserWarning, match="^Net was defined again"):
        assert experiment.run() == 3


@pytest.mark.parametrize(
    "code",
    [
        TRAIN + MAKE + TRAIN,  # the same cell again
        TRAIN + MAKE + "\n\n" + TRAIN + "# further down",
        TRAIN + MAKE + "del train",
        TRAIN + MAKE + "train = 5",
        "train = lambda lr=0.5: lr\n" + MAKE + "train = lambda lr=0.5: 2 * lr",
        "def make(n):\n    def train(lr=0.5):\n        return lr * n\n    return train\n"
        "train = make(1)\n" + MAKE + "train = make(2)",
        TRAIN + "raw = train\ndef train():\n    return raw()\n" + MAKE.replace("(train", "(raw"),
        "def twice(f):\n    @functools.wraps(f)\n    def both(lr=0.5):\n        return f(lr)\n    return both\n"
        "@twice\n" + TRAIN + MAKE + "@twice\n" + TRAIN,
    ],
)
def test_there_are_no_false_alarms(cell: Any, code: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cell(code)["experiment"].run() == 0.5


def test_a_script_is_not_watched(cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "ps1")
    cell(TRAIN + MAKE)
    assert cell(TRAIN.replace("return lr", "return 2 * lr"))["experiment"].run() == 0.5
