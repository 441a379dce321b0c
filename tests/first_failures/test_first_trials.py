"""Mistakes that only a run shows: in the training function, and with what came of a study."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mistakes import AFTERWARDS, EXPERIMENT, IN_TRIALS, TUNE, Mistake
from shown import Shown

import etude

RAISED = [one for one in [*IN_TRIALS, *AFTERWARDS] if "Error: " in one.shown.partition(" ")[0] + " "]
TOLD = [one for one in IN_TRIALS if one not in RAISED]


@pytest.mark.parametrize("mistake", RAISED, ids=lambda one: one.does)
def test_the_message_is_the_last_line_and_says_what_to_do(mistake: Mistake, stranger: Callable[[str], Shown]) -> None:
    shown = stranger(mistake.source)
    assert shown.error == mistake.shown.replace("{here}", str(shown.here))


@pytest.mark.parametrize("mistake", TOLD, ids=lambda one: one.does)
def test_the_summary_says_what_to_do_about_trials_that_failed(
    mistake: Mistake, stranger: Callable[[str], Shown]
) -> None:
    shown = stranger(mistake.source)
    assert not shown.error, "a trial that fails is no error of the script"
    assert mistake.shown.replace("{here}", str(shown.here)) in shown.printed


def test_what_a_trial_prints_is_where_the_summary_says(stranger: Callable[[str], Shown]) -> None:
    shown = stranger('import etude\ndef train(lr):\n    print("begun")\n    lr.nothing\n' + EXPERIMENT + TUNE)
    *_, see = [line for line in shown.printed.splitlines() if line.startswith("See: etude ")]
    done = subprocess.run(
        [sys.executable, "-c", "from etude.cli import main; main()", *see.split()[2:]],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("begun\nTraceback (most recent call last):\n")
    assert done.stdout.endswith("AttributeError: 'float' object has no attribute 'nothing'\n")


WHOLE = """import etude
def train(lr):
    print("begun")
    return lr
experiment = etude.Experiment(train, metric="score", mode="max")
search = experiment.tune({"lr": etude.uniform(0, 1)}, trials=2, workers=1)
print(search.best.trial if False else search.complete)
"""


@pytest.mark.parametrize("how", ["-c", "-", "-i"])
def test_no_file_and_no_main_guard_are_needed(how: str, tmp_path: Path) -> None:
    lines = WHOLE.replace("return lr\n", "return lr\n\n")  # an interpreter ends a function with an empty line
    command = [sys.executable, how, WHOLE] if how == "-c" else [sys.executable, how]
    done = subprocess.run(
        command, input=None if how == "-c" else lines, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "True"


def test_what_is_given_to_train_is_a_function_in_every_other_way(stranger: Callable[[str], Shown]) -> None:
    shown = stranger("""import copy
import etude
def model(): return 3
def train(model, lr):
    assert callable(model) and model and repr(model) == "<the model function: call it>"
    assert not hasattr(model, "parameters") and model.__name__ == "model"
    assert copy.copy(model)() == copy.deepcopy(model)() == 3
    for wrong, said in (
        (lambda: model[0], "model[0] cannot be: model is the function that builds the model, and was not called. "),
        (lambda: len(model), "len(model) cannot be: model is the function that builds the model, and was not called. "),
    ):
        try:
            wrong()
        except TypeError as error:
            assert str(error) == said + "Call it once and use what it returns: net = model().", error
        else:
            raise AssertionError("it was taken for a model")
    return float(model())
print(etude.Experiment(train, model=model, metric="score", mode="max").run(lr=1.0))
""")
    assert (shown.error, shown.printed) == ("", "3.0\n")


def test_words_of_other_libraries_are_known_and_no_others() -> None:
    from etude.results.search import ELSEWHERE, Search

    bare = object.__new__(Search)
    for word, ours in ELSEWHERE.items():
        with pytest.raises(AttributeError) as refused:
            getattr(bare, word)
        assert str(refused.value) == f"'Search' object has no attribute {word!r}. Write search.{ours}."
        assert hasattr(Search, ours.partition(".")[0].removesuffix("()")), "what is written in its place is there"
    with pytest.raises(AttributeError, match=r"^'Search' object has no attribute 'nothing'\.$"):
        bare.nothing  # noqa: B018
    assert etude.Search is Search
