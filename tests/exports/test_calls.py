"""Exports as they are called: in Python and on the command line, of whatever made the study, and of one at work."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import optuna
import pytest
from everything import TRIALS, noted, written
from typer.testing import CliRunner

import etude
from etude.cli import app
from etude.core.errors import ConfigError
from etude.exports import targets
from etude.exports.names import fitted
from etude.exports.told import Exported
from etude.results.search import Search
from etude.testing.written import Written

TOOLS = {"tensorboard": "runs", "mlflow": "mlflow.db", "optuna": "optuna.log"}


def call(*args: str) -> Any:
    """Call the command line."""
    return CliRunner().invoke(app, args)


def loaded(path: str, name: str) -> optuna.Study:
    """Return a study from a journal file."""
    backend = optuna.storages.journal.JournalFileBackend(path)
    return optuna.load_study(study_name=name, storage=optuna.storages.JournalStorage(backend))


def test_what_is_returned_says_where_it_is(study: Search) -> None:
    with noted() as notes:
        done = study.export("optuna", into="optuna.log", name="mine")
    assert done == Exported("optuna", "optuna.log", "mine", 8, "optuna-dashboard optuna.log", tuple(notes))
    assert len(notes) == 2
    assert str(done) == "\n".join(
        [
            "mine is in optuna.log, 8 trials.",
            "Look at it: optuna-dashboard optuna.log",
            *(f"Note: {note}" for note in notes),
        ]
    )


def test_the_command_says_the_same_words(study: Search) -> None:
    done = call("export", "digits", "--to", "optuna", "--into", "optuna.log", "--name", "mine")
    assert (done.exit_code, done.stdout) == (
        0,
        "mine is in optuna.log, 8 trials.\nLook at it: optuna-dashboard optuna.log\n",
    )
    assert done.stderr.splitlines() == [
        "Note: Optuna does not take every value as a choice, so there some are texts, among those of 'shape'.",
        "Note: 1 trial came to NaN, which no trial of Optuna's can: there they have failed.",
    ]
    assert len(loaded("optuna.log", "mine").trials) == len(TRIALS)
    told = json.loads(call("export", "digits", "--to", "tensorboard", "--into", "runs", "--json").stdout)
    assert told == {
        "to": "tensorboard",
        "into": "runs/digits",
        "name": "digits",
        "trials": 7,  # one waits
        "look": "tensorboard --logdir runs",
        "notes": [],
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "optuna"], "An export to 'optuna' has to know where. Pass into=: the URL of a database, such as "
         "'sqlite:///optuna.db', or the path of a journal file, such as 'optuna.log'.\n"),
        (["--to", "wandb", "--into", "x"], "A study cannot be exported to 'wandb' (str). Pass one of 'tensorboard', "
         "'mlflow', 'optuna'; for tables there are search.frame() and `etude export STUDY -o FILE`.\n"),
        (["--to", "optuna", "--into", ""], "into='' is no place. Pass the URL of a database, such as "
         "'sqlite:///optuna.db', or the path of a journal file, such as 'optuna.log'.\n"),
        (["--to", "optuna", "--into", "x", "--name", " "], "name=' ' (str) is no name. Pass what the study is to be "
         "called, or leave it out.\n"),
        (["--to", "optuna", "--reports"], "--reports is for tables, and --to optuna writes none. Leave one of them.\n"),
        (["--into", "x"], "--into is for exports to a tool. Say which one, --to tensorboard, or write a table with "
         "--output FILE.\n"),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_are_refused(study: Search, options: list[str], said: str) -> None:
    done = call("export", "digits", *options)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize(("to", "package"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow")])
def test_a_tool_that_is_missing_is_named_with_its_extra(
    study: Search, monkeypatch: pytest.MonkeyPatch, to: Any, package: str
) -> None:
    monkeypatch.setattr(targets, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as refused:
        study.export(to, into="somewhere")
    assert str(refused.value) == (
        f"An export to {to!r} needs {package}, which is not installed here: pip install 'etude[{to}]'."
    )
    assert not Path("somewhere").exists()


def test_no_tool_is_loaded_before_it_is_asked_for(study: Search) -> None:
    script = (
        "import sys, etude; s = etude.open('digits'); s.export('tensorboard', into='runs'); "
        "print({'mlflow', 'optuna', 'tensorflow', 'torch', 'sqlalchemy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_ablations_and_final_trainings_can_be_exported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arms = [Written({}, value=0.5 + n / 10, arm=arm, seed=n) for arm in ("whole", "without x") for n in range(2)]
    ablation = written(tmp_path / "parts", arms, question={}, verb="ablate", complete=True)
    fit = written(tmp_path / "final", [Written({"lr": 0.5}, value=0.75, start="soup")], question={}, verb="fit")
    assert (type(ablation).__name__, type(fit).__name__) == ("Ablation", "Fit")
    for study in (ablation, fit):
        study.export("tensorboard", into="runs")
        study.export("optuna", into="optuna.log")
    found = loaded("optuna.log", "parts")
    assert [(t.user_attrs["etude.arm"], t.user_attrs["etude.seed"], t.value) for t in found.trials] == [
        (one.arm, one.seed, one.value) for one in arms
    ]
    assert loaded("optuna.log", "final").trials[0].user_attrs["etude.start"] == "soup"


def test_a_real_study_is_exported_while_it_runs_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    go, begun = tmp_path / "go", tmp_path / "begun"

    def train(lr: float, run: Any) -> float:
        import time
        from pathlib import Path

        run.report(score=lr)
        Path(begun).touch()
        while not Path(go).exists():
            time.sleep(0.01)
        run.report(score=2 * lr)
        return 3 * lr

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune(
        {"lr": etude.uniform(0, 1)}, trials=2, workers=1, sampler="random", stopper="none", name="live", wait=False
    )
    try:
        import time

        give_up_at = time.monotonic() + 60
        while not (begun.exists() and search.rows(reports=True)):
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
        search.export("optuna", into="optuna.log")
        first = loaded("optuna.log", "live").trials[0]
        assert (first.state.name, first.intermediate_values) == ("RUNNING", {1: search.trials[0].params["lr"]})
    finally:
        go.touch()
        search.wait()
    etude.open("live").export("optuna", into="optuna.log")  # without the code that made it
    trials = loaded("optuna.log", "live").trials
    assert [trial.value for trial in trials] == [3 * trial.params["lr"] for trial in search.trials]
    assert [list(trial.intermediate_values.values()) for trial in trials] == [list(t.curve) for t in search.trials]


def test_reports_of_an_attempt_that_went_on_begin_where_its_saved_state_was(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import etude, os, signal, sqlite3, time


            def saved(folder):
                # how many saved states the journal has
                with sqlite3.connect(f"file:{folder}/journal.sqlite?mode=ro", uri=True) as journal:
                    return journal.execute("SELECT count(*) FROM facts WHERE kind = 'checkpointed'").fetchone()[0]


            def train(lr: float, run):
                kept = run.keep(total=0.0)
                for epoch in run.epochs(4):
                    if epoch == 3 and not os.path.exists("died"):
                        while not saved(run.folder.parents[2]):
                            time.sleep(0.01)
                        open("died", "w").close()
                        os.kill(os.getpid(), signal.SIGKILL)
                    kept.total += lr
                    run.report(score=kept.total)


            experiment = etude.Experiment(train, metric="score", mode="max")
            if __name__ == "__main__":
                search = experiment.tune({"lr": [0.5]}, trials=1, workers=1, sampler="random", name="killed")
                (trial,) = search.trials
                rows = search.rows(reports=True)
                assert trial.attempts == 2, trial.attempts
                assert len(trial.reports) >= 4
                assert [(row["step"], row["score"]) for row in rows] == list(enumerate(trial.curve, 1)), rows
                assert len(rows) == 4
            """
        )
    )
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True, timeout=120)


def test_the_frame_has_types_that_hold_and_reports_in_long_form(study: Search, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = study.frame()
    assert frame["trial"].tolist() == list(range(8))
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {
        "trial": "int64",
        "state": "object",
        "accuracy": "float64",
        "lr": "float64",
        "layers": "int64",
        "optimizer": "object",
        "shape": "object",
        "fixed": "object",
        "momentum": "float64",
        "seed": "int64",
        "loss": "float64",
        "same_as": "Int64",
    }
    assert frame.loc[0, "shape"] == (8, 8)
    timed = study.frame(times=True)
    assert timed["duration_s"].dropna().unique().tolist() == [10.0]
    assert pd.to_datetime(timed["started_at"], unit="s")[0] == pd.Timestamp("2025-06-15 15:06:41")
    reports = study.frame(reports=True, times=True)
    assert list(reports.columns) == ["trial", "step", "at", "accuracy"]
    assert reports.groupby("trial")["accuracy"].count().to_dict() == {0: 2, 1: 2, 2: 1, 3: 1, 5: 1, 6: 2}
    some = written(tmp_path / "gaps", [Written({"n": 3, "on": True}, value=0.5), Written({}, value=0.25)], question={})
    kinds = some.frame().dtypes
    assert (str(kinds["n"]), str(kinds["on"])) == ("Int64", "boolean")


def test_parquet_is_read_again_with_the_same_types(study: Search) -> None:
    pd = pytest.importorskip("pandas")
    for options in ([], ["--reports"]):
        assert call("export", "digits", "--times", "-o", "table.parquet", *options).exit_code == 0
        read, frame = pd.read_parquet("table.parquet"), study.frame(reports=bool(options), times=True)
        if not options:
            frame["shape"] = frame["shape"].map({(8, 8): "[8, 8]"})  # nested: as JSON
            read["shape"] = read["shape"].map({"[8, 8]": "[8, 8]"})
        pd.testing.assert_frame_equal(read, frame)


def test_names_are_never_made_one() -> None:
    def fit(name: str) -> str:
        return name[:3]

    found = fitted(["abcd", "abce", "abc", "ab.2", "abcf"], fit)
    assert len(set(found.values())) == 5
    assert all(fit(made) == made for made in found.values())
    assert found["abc"] == "abc"
