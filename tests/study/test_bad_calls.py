"""What cannot be is refused before anything starts: what was given, why it cannot be, the mend."""

from __future__ import annotations

from pathlib import Path

import pytest

import etude
from etude.core.text import brief
from etude.engines import local
from etude.results.finding import studies_folder


def train(lr: float, width: int = 8, path: etude.Stateless[str] = "."):
    return lr


def model(width: int = 8):
    return width


EXPERIMENT = etude.Experiment(train, model=model, metric="score", mode="max")
LR = {"lr": etude.uniform(0, 1)}

REFUSED = {
    "no trials": (
        lambda: EXPERIMENT.tune(LR, trials=0),
        "trials=0 cannot be: nothing would be run. Pass trials=1 or more.",
    ),
    "half a trial": (
        lambda: EXPERIMENT.tune(LR, trials=2.5),
        "trials=2.5 (float) is no whole number. Pass one.",
    ),
    "no workers": (
        lambda: EXPERIMENT.tune(LR, trials=1, workers=0),
        "workers=0 cannot be: nobody would run the trials. Pass workers=1 or more.",
    ),
    "more than a clock can count": (
        lambda: EXPERIMENT.tune(LR, trials=1, timeout_s=10**400),
        f"timeout_s={brief(10**400)} is more than any clock can count. Pass fewer seconds.",
    ),
    "more than a study can be given": (
        lambda: EXPERIMENT.tune(LR, trials=1, deadline_s=10**400),
        f"deadline_s={brief(10**400)} is more than any clock can count. Pass fewer seconds.",
    ),
    "more than any money": (
        lambda: EXPERIMENT.tune(LR, trials=1, max_cost=10**400, price_per_hour=1),
        f"max_cost={10**400} is no sum of money above 0. Pass what the workers may cost in all, or leave it out.",
    ),
    "no time": (
        lambda: EXPERIMENT.tune(LR, trials=1, timeout_s=0),
        "timeout_s=0 leaves no time. Pass seconds above 0, or None for no limit.",
    ),
    "time as text": (
        lambda: EXPERIMENT.tune(LR, trials=1, timeout_s="10"),
        "timeout_s='10' leaves no time. Pass seconds above 0, or None for no limit.",
    ),
    "no time for the study": (
        lambda: EXPERIMENT.tune(LR, trials=1, deadline_s=0),
        "deadline_s=0 leaves the study no time. Pass the seconds that it may be worked on in all, or None for no "
        "limit.",
    ),
    "for ever": (
        lambda: EXPERIMENT.tune(LR, trials=1, deadline_s=float("inf")),
        "deadline_s=inf leaves the study no time. Pass the seconds that it may be worked on in all, or None for no "
        "limit.",
    ),
    "less than no failure": (
        lambda: EXPERIMENT.tune(LR, trials=1, max_failures=-1),
        "max_failures=-1 cannot be: 0 already ends the study with the first failed trial. Pass max_failures=0 or more.",
    ),
    "no money": (
        lambda: EXPERIMENT.tune(LR, trials=1, max_cost=0, price_per_hour=1),
        "max_cost=0 is no sum of money above 0. Pass what the workers may cost in all, or leave it out.",
    ),
    "work for nothing": (
        lambda: EXPERIMENT.tune(LR, trials=1, max_cost=1, price_per_hour="free"),
        "price_per_hour='free' is no sum of money above 0. Pass what an hour of one worker costs, or leave it out.",
    ),
    "money without a price": (
        lambda: EXPERIMENT.tune(LR, trials=1, max_cost=5),
        "max_cost=5 was given without a price, so nobody knows what the study costs. Pass price_per_hour=<what an "
        "hour of one worker costs> as well.",
    ),
    "a price without a limit": (
        lambda: EXPERIMENT.tune(LR, trials=1, price_per_hour=0.9),
        "price_per_hour=0.9 was given without a limit, so it would change nothing. Pass max_cost=<what the workers "
        "may cost in all> as well, or leave it out.",
    ),
    "a number for a name": (
        lambda: EXPERIMENT.tune(LR, trials=1, name=5),
        "name=5 cannot name a folder. Use letters, digits, '.', '_' and '-', and start with a letter or a digit.",
    ),
    "a constraint that is no function": (
        lambda: EXPERIMENT.tune(LR, trials=1, constraint="lr < 1"),
        "constraint='lr < 1' (str) is no function. Pass one that asks by name for parameters and says whether they "
        "go together: constraint=lambda width, heads: width % heads == 0.",
    ),
    "another case": (
        lambda: EXPERIMENT.tune({**LR, "WIDTH": [8]}, trials=1),
        "No function takes 'WIDTH'. Did you mean 'width'? They take: lr, path, width.",
    ),
    "an unknown parameter": (
        lambda: EXPERIMENT.tune({**LR, "widht": [8]}, trials=1),
        "No function takes 'widht'. Did you mean 'width'? They take: lr, path, width.",
    ),
    "a missing parameter": (
        lambda: EXPERIMENT.tune({"width": [8, 16]}, trials=1),
        "train() needs 'lr', and nothing gives it: it has no default and no value. Give it a value (lr=...), "
        "a default, or a place in the space.",
    ),
    "a value of the wrong type": (
        lambda: EXPERIMENT.tune({**LR, "width": ["wide"]}, trials=1),
        "width='wide' does not fit train() and model(), which asks for width: int (expected `int`, got `str`). "
        "Give a value of that type, or change the annotation.",
    ),
    "a Stateless parameter in the space": (
        lambda: EXPERIMENT.tune({**LR, "path": ["a", "b"]}, trials=1),
        "'path' is in the space and Stateless in train(): it is said not to change the numbers, so it cannot be "
        "searched. Unlike in ABLATOR, searched parameters stay plain: write path: T instead of path: "
        "etude.Stateless[T]; or give one fixed value.",
    ),
    "an unknown sampler": (
        lambda: EXPERIMENT.tune(LR, trials=1, sampler="magic"),
        "sampler='magic' is not known. There are: 'random', 'grid', 'qmc', 'tpe', 'gp', 'cmaes', 'nsga2'.",
    ),
    "an unknown stopper": (
        lambda: EXPERIMENT.tune(LR, trials=1, stopper="magic"),
        "stopper='magic' is not known. There are: 'median', 'asha', 'hyperband', 'plateau', 'divergence', 'walltime', "
        "'none', 'median-best'.",
    ),
    "a fidelity that no function takes": (
        lambda: EXPERIMENT.tune(LR, trials=1, fidelity="epochs", budget=(1, 9), stopper="asha"),
        "No function takes 'epochs'. They take: lr, path, width.",
    ),
    "a fidelity that is no name": (
        lambda: EXPERIMENT.tune(LR, trials=1, fidelity=["epochs"], budget=(1, 9)),
        "fidelity=['epochs'] (list) is no name. Name the parameter that says how much a trial may cost: "
        "fidelity='epochs'.",
    ),
    "a fidelity that is a number": (
        lambda: EXPERIMENT.tune({"width": [8, 16]}, trials=1, fidelity=5, budget=(1, 9)),
        "fidelity=5 (int) is no name. Name the parameter that says how much a trial may cost: fidelity='epochs'.",
    ),
    "a start that is None": (
        lambda: EXPERIMENT.tune(LR, trials=1, start=None),
        "start=None (NoneType) is no list of configurations. Pass start=[{...}], or leave it out if nothing is to be "
        "tried first.",
    ),
    "a start that is one configuration": (
        lambda: EXPERIMENT.tune(LR, trials=1, start={"lr": 0.5}),
        "start={'lr': 0.5} (dict) is one configuration. Pass a list of them: start=[{...}].",
    ),
    "a start that is longer than the search": (
        lambda: EXPERIMENT.tune(LR, trials=1, start=[{"lr": 0.5}, {"lr": 0.25}]),
        "start has 2 configurations, and trials=1, so not all of them would be tried. Pass trials=2 or more, or a "
        "shorter start.",
    ),
    "a start that leaves out what has its default outside the space": (
        lambda: EXPERIMENT.tune({**LR, "width": etude.integers(10, 20)}, trials=1, start=[{"lr": 0.5}]),
        "start has {'lr': 0.5} without 'width', and the function's default, width=8, is below 10, so it is not in the "
        "space: width is integers(10, 20). Give 'width' a value there.",
    ),
    "a start that names the fidelity": (
        lambda: EXPERIMENT.tune(
            LR, start=[{"lr": 0.5, "width": 3}], fidelity="width", budget=(1, 9), stopper="hyperband"
        ),
        "start has {'lr': 0.5, 'width': 3}, and 'width' is the fidelity: its values are the budgets, which are given "
        "by budget=. Leave 'width' out.",
    ),
    "a budget without a fidelity": (
        lambda: EXPERIMENT.tune(LR, trials=1, budget=(1, 9), stopper="asha"),
        "budget=(1, 9) without fidelity: nothing says what is to be budgeted. Name the parameter, fidelity='epochs'. "
        "Without one, the options are the stopper's: etude.ASHA(min_steps=1, eta=3).",
    ),
    "a name that is a path": (
        lambda: EXPERIMENT.tune(LR, trials=1, name="../up"),
        "name='../up' cannot name a folder. Use letters, digits, '.', '_' and '-', and start with a letter or a digit.",
    ),
    "a constraint on nothing": (
        lambda: EXPERIMENT.tune(LR, trials=1, constraint=lambda wdth: True),
        "constraint asks for 'wdth', which is no parameter of this experiment. Did you mean 'width'?",
    ),
    "a constraint that raises": (
        lambda: EXPERIMENT.tune({"lr": 0.1, "width": 8}, trials=1, constraint=lambda width: width / 0),
        "constraint raised ZeroDivisionError: division by zero, when it was asked about "
        "{'lr': 0.1, 'width': 8}. What it raises for could never be run. Let it answer for every "
        "configuration of the space; parameters that are not part of a configuration come as None.",
    ),
    "an unknown mode": (
        lambda: etude.Experiment(train, metric="score", mode="best"),
        "mode='best' says neither that larger values of 'score' are better nor that smaller ones are. "
        "Pass mode='max' or mode='min'.",
    ),
    "a plain call without what it needs": (
        EXPERIMENT.run,
        "train() needs 'lr', and nothing gives it: it has no default and no value. Give it a value (lr=...), "
        "a default, or a place in the space.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused_before_anything_starts(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(local.subprocess, "Popen", no_process)
    call, message = REFUSED[case]
    with pytest.raises(etude.ConfigError) as refused:
        call()
    assert str(refused.value) == message
    assert not studies_folder().exists(), "no folder was made"


def test_functions_that_cannot_travel_are_refused_with_the_reason() -> None:
    import threading

    lock = threading.Lock()

    def locked(lr: float):
        with lock:
            return lr

    with pytest.raises(etude.ConfigError, match=r"cannot be sent to workers: .*lock.*Make it inside data"):
        etude.Experiment(locked, metric="score", mode="max").tune(LR, trials=1)


def test_large_globals_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    table = bytes(17 * 2**20)

    def with_table(lr: float):
        return len(table)

    search = etude.Experiment(with_table, metric="score", mode="max").tune(LR, trials=1, workers=1)
    assert search.best.value == 17 * 2**20
    assert "The functions weigh 17 MB with what they use" in capsys.readouterr().err


def test_a_folder_that_is_no_study_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(etude.NotAStudyError, match="is not a study: it has no journal"):
        etude.open(tmp_path)
    with pytest.raises(etude.NotAStudyError):
        etude.open("no-such-study")


def test_a_study_folder_with_something_else_in_it_is_not_touched(tmp_path: Path) -> None:
    place = studies_folder() / "mine"
    place.mkdir(parents=True)
    (place / "journal.sqlite").write_text("my own notes")
    with pytest.raises(etude.JournalError, match="It was not touched"):
        EXPERIMENT.tune(LR, trials=1, name="mine")
    assert (place / "journal.sqlite").read_text() == "my own notes"
    assert [p.name for p in place.iterdir()] == ["journal.sqlite"]
