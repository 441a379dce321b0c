"""``debug``: a trial again, in the foreground, beside what is on record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import etude as library

if TYPE_CHECKING:
    from .conftest import Etude

SCRIPT = """
import os
import numpy as np
import threadpoolctl
import etude


def train(run, lr: float, width: int = 4):
    print("training with", lr)
    (run.folder / "weights").write_text("all of them")
    draws = np.random.default_rng(run.seed).normal(size=(64, 64))
    for epoch in run.epochs(4):
        draws = draws @ draws.T / 64
        run.report(score=float(np.linalg.norm(draws) * lr))
    if lr > 0.8:
        raise ValueError("too large")
    pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    return {"score": float(draws.sum() * lr), "threads": max(pools, default=0)}


def endless(run, lr: float):
    # Ends only when it is told to, unless it is good.
    for epoch in run.epochs(4 if lr > 0.4 else 10**9):
        run.report(score=lr / (epoch + 1))


def stepped(lr: float):
    doubled = 2 * lr
    breakpoint()
    return doubled


experiment = etude.Experiment(train, metric={"score": "max", "threads": "min"})
single = etude.Experiment(endless, metric="score", mode="max")
stops = etude.Experiment(stepped, metric="score", mode="max")

if __name__ == "__main__":
    space = {"lr": [0.1, 0.5, 0.9]}
    experiment.tune(space, trials=3, workers=1, name="both", sampler="random")
    good_first = {"start": [{"lr": 0.5}, {"lr": 0.01}], "stopper": etude.MedianRule(first_after=1)}
    single.tune({"lr": etude.uniform(0, 1)}, trials=2, workers=1, name="early", **good_first)
"""


@pytest.fixture(scope="module")
def made(made_by: Callable[[str], Path]) -> Path:
    """Give a folder with a study of two metrics, and one whose trials were stopped."""
    return made_by(SCRIPT)


@pytest.fixture
def studied(etude: Etude, made: Path, monkeypatch: pytest.MonkeyPatch) -> Etude:
    """Give the command line, with a copy of that folder, and a place for what is only tried."""
    (etude.folder / "tried").mkdir()
    monkeypatch.setenv("TMPDIR", str(etude.folder / "tried"))
    shutil.copytree(made, etude.folder, dirs_exist_ok=True)
    return etude


def run(etude: Etude, *args: str, typed: str = "") -> tuple[int, str, str]:
    """Debug in a process of its own: threads are set there for good."""
    with etude.start("debug", *args, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(typed, timeout=60)
    return process.returncode, out, err


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def numbers(state: str, study: str = "both") -> list[str]:
    return [str(trial.number) for trial in library.open(study).trials if trial.state == state]


def test_a_trial_agrees_with_its_record_and_nothing_is_written(studied: Etude) -> None:
    number = numbers("finished")[0]
    before = everything(studied.folder / "studies")
    code, out, err = run(studied, "both", number)
    assert code == 0, err
    assert everything(studied.folder / "studies") == before
    trial = library.open("both").trials[int(number)]
    assert out.splitlines()[0] == f"training with {trial.params['lr']}"
    for name, value in trial.values.items():  # the threads are a metric, so they agree as well
        assert [line.split() for line in out.splitlines() if line.split()[:1] == [name]] == [[name, *[repr(value)] * 2]]
    assert out.endswith("\nThey agree, to the last bit.\n")
    assert err.splitlines()[0] == f"Trial {number} of study both, seed 0: lr={trial.params['lr']!r}"
    folder = Path(err.splitlines()[1].removeprefix("run.folder is ").removesuffix(", and stays there."))
    assert (folder / "weights").read_text() == "all of them"


def test_programs_get_one_document(studied: Etude) -> None:
    number = numbers("finished")[0]
    code, out, err = run(studied, "both", number, "--json")
    found = json.loads(out)
    assert (code, found["agree"], found["study"], found["trial"]) == (0, True, "both", int(number))
    assert found["recorded"] == found["now"]
    assert "training with" in err


def test_a_trial_that_was_stopped_stops_where_it_did(studied: Etude) -> None:
    assert numbers("stopped", "early") == ["1"]
    code, out, _ = run(studied, "early", "1", "--json")
    found = json.loads(out)
    assert (code, found["agree"], found["now"]["state"]) == (0, True, "stopped")
    assert found["now"]["reports"] == len(library.open("early").trials[1].curve)


def test_an_error_is_shown_from_the_users_code_on(studied: Etude) -> None:
    number = numbers("failed")[0]
    code, out, err = run(studied, "both", number)
    assert code == 3
    assert out.endswith("\nThey agree, to the last bit.\n")
    trace = err[err.index("Traceback") :].splitlines()
    assert trace[1].endswith("in train")
    assert trace[-1] == "ValueError: too large"
    assert f"{os.sep}etude{os.sep}" not in "".join(trace)


def test_the_debugger_opens_where_it_was_raised(studied: Etude) -> None:
    code, out, _ = run(studied, "both", numbers("failed")[0], "--pdb", typed="p lr * 2\nq\n")
    assert code == 3
    assert "(Pdb) 1.8\n" in out


def test_breakpoints_work(etude: Etude) -> None:
    text = SCRIPT.replace("breakpoint()", "run_it_twice = doubled")
    (etude.folder / "made.py").write_text(text)
    with etude.start("tune", "made.py:stops", "lr=[0.25]", "--trials", "1", "--name", "stops") as process:
        process.communicate(timeout=60)
    (etude.folder / "made.py").write_text(SCRIPT)
    code, out, err = run(etude, "stops", "0", typed="p doubled\nc\n")
    assert code == 0, err
    assert "(Pdb) 0.5\n" in out
    assert "They agree" in out
    assert run(etude, "stops", "0", typed="q\n")[0] == 130  # who leaves the debugger leaves


def test_an_edit_is_shown_and_run(studied: Etude) -> None:
    (studied.folder / "made.py").write_text(SCRIPT.replace("draws.sum() * lr", "draws.sum() * lr + 1"))
    code, out, err = run(studied, "both", numbers("finished")[0])
    assert code == 3
    assert "The definition has changed since the study began, so the numbers may differ:\n\nfunction train:\n" in err
    assert "+    return {" in err
    assert out.endswith("\nThey do not agree.\n")
    (studied.folder / "made.py").write_text(SCRIPT.replace("norm(draws) * lr", "norm(draws) * lr * (epoch < 2)"))
    _, out, _ = run(studied, "both", numbers("finished")[0])
    assert out.endswith("\nThey do not agree: the reports differ from step 3 on.\n")


def test_what_was_never_run_has_no_record(etude: Etude) -> None:
    options = [
        "--trials",
        "4",
        "--workers",
        "1",
        "--name",
        "ruled",
        "--sampler",
        "grid(points=4)",
        "--constraint",
        "small",
    ]
    assert etude("tune", "script.py:experiment", "lr=uniform(0, 1)", *options).code == 0
    code, out, _ = run(etude, "ruled", numbers("invalid", "ruled")[0])
    assert code == 0
    assert out.endswith("\nThere is nothing on record to compare it with.\n")


def test_a_trial_that_is_none_is_refused(tuned: Etude) -> None:
    done = tuned("debug", "one", "6")
    assert (done.code, done.out) == (2, "")
    assert done.err == "Study one has no trial 6: it has trials 0 to 5, 6 trials.\n"


def test_a_trial_of_a_notebook_is_debugged_there(etude: Etude) -> None:
    def train(lr: float) -> float:
        return lr

    library.Experiment(train, metric="m", mode="max").tune({"lr": [0.1, 0.2]}, trials=2, workers=1, name="cells")
    done = etude("debug", "cells", "1")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "Study cells was started where no file holds its experiment, such as a notebook. Run the trial there: "
        "experiment.run(**search.trials[1].params, seed=search.trials[1].seed).\n"
    )
