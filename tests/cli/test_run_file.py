"""``etude run`` with studies that really run, ``etude schema``, and files that ``etude export`` writes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import etude as library

if TYPE_CHECKING:
    from .conftest import Etude

STUDY = """\
experiment: script.py:experiment
verb: tune
parameters:
  lr: 0.25
  epochs: 2
space:
  lr: uniform(0, 1)
trials: 4
workers: 1
sampler: random
"""

BY_PYTHON = """

    experiment.tune({"lr": etude.uniform(0, 1), "epochs": 2}, trials=TRIALS, workers=2, sampler="random")
"""


def studies() -> list[Path]:
    return sorted(Path("studies").iterdir()) if Path("studies").exists() else []


def begun(study: str) -> list[float | None]:
    """Return when each trial of a study was handed out last."""
    return [trial.started_at for trial in library.open(study).trials]


def by_python(etude: Etude, trials: int) -> None:
    """Run the same search by a script that differs only below its main guard."""
    text = (etude.folder / "script.py").read_text()
    whole = text[: text.index("    experiment.tune(")].rstrip() if "    experiment.tune(" in text else text
    ruled = whole.rpartition("\n    ruled")[0]
    (etude.folder / "script.py").write_text(ruled + BY_PYTHON.replace("TRIALS", str(trials)))
    subprocess.run([sys.executable, "script.py"], cwd=etude.folder, env=os.environ, check=True)


def test_a_study_from_a_file_goes_on_in_python_and_the_other_way_round(etude: Etude) -> None:
    Path("study.yaml").write_text(STUDY)
    assert etude("run", "study.yaml", "trials=2", "-q").code == 0
    (folder,) = studies()
    by_python(etude, 4)
    assert studies() == [folder]
    first = [trial.params for trial in library.open(folder).trials]
    assert len(first) == 4
    done = etude("run", "study.yaml", "trials=6", "workers=2", "retries=0", "name=null")
    assert done.code == 0, done.err
    assert studies() == [folder]  # how a study is run is no part of what it is
    after = library.open(folder).trials
    assert [trial.params for trial in after][:4] == first
    assert (len(after), {trial.attempts for trial in after}) == (6, {1})


def test_one_word_makes_a_prototype_a_study(etude: Etude) -> None:
    Path("study.yaml").write_text(STUDY)
    done = etude("run", "study.yaml", "verb=run")
    assert (done.code, studies()) == (0, [])
    assert done.out == f"trained with 0.25\nscore = {1 - 0.05**2 - 1 / 2:g}\n"  # what was reported last
    assert "run leaves aside what is for other verbs: space, trials, workers, sampler." in done.err
    told = json.loads(etude("run", "study.yaml", "verb=run", "lr=0.75", "--json", "-q").out)
    assert told == {"verb": "run", "values": {"score": 1 - 0.45**2 - 1 / 2}}
    assert etude("run", "study.yaml", "-q").code == 0
    assert len(library.open(studies()[0]).trials) == 4


def test_a_killed_study_goes_on_by_the_same_file(etude: Etude) -> None:
    Path("study.yaml").write_text(
        "experiment: script.py:waiting\nverb: tune\nname: waits\n"
        "space:\n  lr: [0.125, 0.25, 0.5]\n  folder: ${WHERE}\nworkers: 1\nsampler: grid\nstopper: none\n"
    )
    os.environ["WHERE"] = str(etude.folder)
    try:
        with etude.start("run", "study.yaml", "-q") as process:
            etude.wait_for((etude.folder / "started").exists)
            process.send_signal(signal.SIGKILL)
            process.wait()
        (etude.folder / "go").touch()
        done = etude("run", "study.yaml", "--json")
    finally:
        del os.environ["WHERE"]
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["study"], told["standing"], told["counts"]) == ("waits", "complete", {"finished": 3})
    assert sorted(trial.params["lr"] for trial in library.open("waits").trials) == [0.125, 0.25, 0.5]


def test_a_file_that_is_exported_finds_its_study_done_and_runs_it_anew_elsewhere(
    etude: Etude, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("study.yaml").write_text(STUDY + "stopper: median(first_after=50)\nname: one\nstart: [{lr: 0.5}]\n")
    assert etude("run", "study.yaml", "-q").code == 0
    Path("again").mkdir()
    assert etude("export", "one", "-o", "again/one.yaml").code == 0
    text = Path("again/one.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=script.schema.json\n")
    assert "\nexperiment: ../script.py:experiment\nverb: tune\nname: one\n" in text
    assert 'stopper: "median(first_after=50)"' in text
    rows, before = library.open("one").rows(), begun("one")
    done = etude("run", "again/one.yaml", "-q")
    assert done.code == 0, done.err
    assert [len(studies()), library.open("one").rows()] == [1, rows]
    assert begun("one") == before  # there was nothing to do
    (tmp_path / "empty").mkdir()
    shutil.copy("script.py", "empty")
    (tmp_path / "empty" / "one.yaml").write_text(etude("export", "one", "--format", "yaml").out)
    monkeypatch.chdir("empty")
    sys.modules.pop("script", None)
    done = etude("run", "one.yaml", "-q")
    assert done.code == 0, done.err
    assert library.open("one").folder.resolve().is_relative_to(tmp_path / "empty")
    assert library.open("one").rows() == rows


def test_an_ablation_and_a_final_training_are_written_and_read_again(etude: Etude) -> None:
    head = "experiment: script.py:experiment\nparameters: {lr: 0.25}\nworkers: 1\nseeds: 2\n"
    Path("ablation.yaml").write_text(f"{head}force: true\nverb: ablate\nname: without\ncomponents: [epochs=1]\n")
    Path("fit.yaml").write_text(f"{head}verb: fit\nname: final\n")
    for name, file in (("without", "ablation.yaml"), ("final", "fit.yaml")):
        assert etude("run", file, "-q").code == 0
        rows, before = library.open(name).rows(), begun(name)
        assert etude("export", name, "-o", "again.yaml").code == 0
        done = etude("run", "again.yaml", "-q")
        assert done.code == 0, done.err
        assert library.open(name).rows() == rows
        assert begun(name) == before
    done = etude("run", "ablation.yaml", "dry_run=true", "name=other")
    assert "\nleave_one_out of 1 component: 2 arms x 2 seeds = 4 trials\n" in done.out
    done = etude(
        "run", "fit.yaml", "parameters=null", "at=final", "name=later", "-q"
    )  # as that study's best trial had it
    assert done.code == 0, done.err
    assert library.open("later").trials[0].params["lr"] == 0.25


def test_errors_have_the_code_of_a_call_that_cannot_be(etude: Etude) -> None:
    Path("study.yaml").write_text(STUDY.replace("trials", "trails"))
    done = etude("run", "study.yaml")
    assert (done.code, studies()) == (2, [])
    assert done.err.splitlines()[:3] == [
        "study.yaml:8:1: 'trails' is no key. Did you mean 'trials'? Hyperparameters stand under parameters, or space.",
        "  8 | trails: 4",
        "    | ^^^^^^",
    ]
    told = json.loads(etude("run", "study.yaml", "--json").out)
    assert told["error"].startswith("study.yaml:8:1: 'trails' is no key.")
    done = etude("run", "script.py:failing", "lr=0.75")
    assert done.code == 1
    assert done.err.startswith("Traceback (most recent call last):\n  File")
    assert "in fails\n" in done.err.splitlines(keepends=True)[1]
    assert done.err.endswith("ValueError: too large\n")


def test_a_schema_is_written_for_editors(etude: Etude) -> None:
    schema = json.loads(etude("schema", "script.py:experiment").out)
    assert schema["properties"]["parameters"]["properties"]["epochs"]["default"] == 3
    assert etude("schema", "script.py:experiment", "-o", "script.schema.json").code == 0
    assert json.loads(Path("script.schema.json").read_text()) == schema


def test_what_no_file_can_hold_is_not_written(etude: Etude) -> None:
    text = "experiment: script.py:experiment\nverb: tune\nspace: {lr: [0.1, 0.2]}\nstopper: Stubborn(2)\nname: own\n"
    Path("study.yaml").write_text(text)
    assert etude("run", "study.yaml", "-q").code == 0
    done = etude("export", "own", "-o", "own.yaml")
    assert done.code == 2
    assert "Study own was started with a stopper of its own (Stubborn), which no file can hold." in done.err
    assert etude("export", "own", "--format", "yaml", "--reports").code == 2
