"""Exports to MLflow, read back through its client from a real store."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from everything import TRIALS, noted, written
from mlflow import MlflowClient

from etude.core.errors import ConfigError
from etude.exports import mlflow as ours
from etude.exports.mlflow import LONGEST_NAME, allowed
from etude.results.search import Search
from etude.testing.written import BEGAN_AT, Written

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning", "ignore::ResourceWarning")


def here(file: str = "mlflow.db") -> str:
    """Return the here() of a database in this folder, whole: MLflow keeps stores by here(), wherever they lead."""
    return f"sqlite:///{Path.cwd() / file}"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the databases that MLflow keeps open for as long as the process lasts."""
    yield
    from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore as Models
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore as Runs

    for store in (Runs, Models):
        for engine in store._engine_map.values():
            engine.dispose()
        store._engine_map.clear()


def runs(uri: str | None = None, name: str = "digits") -> list[Any]:
    """Return the runs of an experiment, by trial."""
    client = MlflowClient(uri or here())
    found = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    return sorted(found, key=lambda run: int(run.data.tags["etude.trial"]))


def history(run: Any, metric: str, uri: str | None = None) -> list[tuple[int, int, float]]:
    """Return step, time in milliseconds and value of a metric, in order."""
    found = MlflowClient(uri or here()).get_metric_history(run.info.run_id, metric)
    return sorted((one.step, one.timestamp, one.value) for one in found)


def test_each_trial_is_a_run(study: Search) -> None:
    done = study.export("mlflow", into=here())
    assert (done.into, done.trials, done.notes) == (here(), len(TRIALS), ())
    found = runs()
    assert [run.info.run_name for run in found] == [f"trial {n}" for n in range(len(TRIALS))]
    assert [run.info.status for run in found] == [
        *("FINISHED", "FINISHED", "KILLED", "FAILED", "FAILED", "FINISHED", "RUNNING", "SCHEDULED"),
    ]
    assert [run.data.tags["etude.state"] for run in found] == [trial.state for trial in study.trials]
    assert [run.data.params for run in found] == [
        {name: str(value) for name, value in trial.params.items()} for trial in study.trials
    ]
    assert [run.data.tags["etude.seed"] for run in found[:2]] == ["0", "3"]
    assert found[4].data.tags["etude.reason"] == "heads must divide width"


def test_metrics_have_our_steps_and_times(study: Search) -> None:
    study.export("mlflow", into=here())
    first, second, *_, failed = runs()[:4]
    began = round((BEGAN_AT + 1) * 1000)
    assert history(first, "accuracy") == [
        (1, began + 3333, 0.25),
        (2, began + 6667, 0.5),
        (2, began + 10_000, 0.75),  # what it came to, which is more than its last report
    ]
    assert first.data.metrics == {"accuracy": 0.75, "loss": 1.5}
    assert (first.info.start_time, first.info.end_time) == (began, began + 10_000)
    assert [value for _, _, value in history(second, "accuracy")] == [0.5, 0.875]
    assert math.isnan(failed.data.metrics["accuracy"])


def test_the_best_run_is_the_best_trial(study: Search) -> None:
    study.export("mlflow", into=here())
    client = MlflowClient(here())
    experiment = client.get_experiment_by_name("digits")
    (best,) = client.search_runs(
        [experiment.experiment_id], "attributes.status = 'FINISHED'", order_by=["metrics.accuracy DESC"], max_results=1
    )
    assert best.data.tags["etude.trial"] == str(study.best.number)
    assert experiment.tags["etude.metrics"] == "accuracy (max)"
    assert experiment.tags["etude.standing"] == "not complete"


def test_an_export_that_is_repeated_doubles_nothing(study: Search) -> None:
    study.export("mlflow", into=here())
    first = [(run.info.run_id, run.data.to_dictionary(), history(run, "accuracy")) for run in runs()]
    study.export("mlflow", into=here())
    again = [(run.info.run_id, run.data.to_dictionary(), history(run, "accuracy")) for run in runs()]
    assert repr(again) == repr(first)  # NaN is no NaN


def test_what_has_ended_is_not_asked_for_again(study: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    study.export("mlflow", into=here())
    logged: list[str] = []
    monkeypatch.setattr(MlflowClient, "log_batch", lambda self, run_id, **_: logged.append(run_id))
    study.export("mlflow", into=here())
    assert set(logged) == {run.info.run_id for run in runs()[6:]}


def test_a_study_that_went_on_is_brought_up_to_date(study: Search, tmp_path: Path) -> None:
    study.export("mlflow", into=here())
    ids = [run.info.run_id for run in runs()]
    (tmp_path / "digits").rename(tmp_path / "older")
    longer = Written(TRIALS[6].params, value=1.0, curve=[0.25, 0.375, 1.0], took_s=40 / 3)
    written(tmp_path / "digits", [*TRIALS[:6], longer, TRIALS[7]]).export("mlflow", into=here())
    found = runs()
    assert [run.info.run_id for run in found] == ids
    assert [(step, value) for step, _, value in history(found[6], "accuracy")] == [(1, 0.25), (2, 0.375), (3, 1.0)]
    assert (found[6].info.status, found[7].info.status) == ("FINISHED", "SCHEDULED")


def test_a_trial_that_started_over_has_a_new_run(study: Search, tmp_path: Path) -> None:
    study.export("mlflow", into=here())
    before = runs()[6].info.run_id
    (tmp_path / "digits").rename(tmp_path / "older")
    written(
        tmp_path / "digits", [*TRIALS[:6], Written(TRIALS[6].params, curve=[0.0], state="running"), TRIALS[7]]
    ).export("mlflow", into=here())
    found = runs()
    assert len(found) == len(TRIALS)
    assert found[6].info.run_id != before
    assert [value for _, _, value in history(found[6], "accuracy")] == [0.0]


def test_an_export_that_was_interrupted_goes_on(study: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "MOST_METRICS", 1)  # a request for each report
    real, calls = MlflowClient.log_batch, []

    def fails(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs)
        if len(calls) == 3:  # parameters, a report, and not the next one
            raise KeyboardInterrupt
        return real(self, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, "log_batch", fails)
    with pytest.raises(KeyboardInterrupt):
        study.export("mlflow", into=here())
    assert [value for _, _, value in history(runs()[0], "accuracy")] == [0.25]
    monkeypatch.setattr(MlflowClient, "log_batch", real)
    study.export("mlflow", into=here())
    assert len(runs()) == len(TRIALS)
    assert [value for _, _, value in history(runs()[0], "accuracy")] == [0.25, 0.5, 0.75]


def test_names_that_mlflow_does_not_take_are_mapped_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    metrics = {"loss@val": 2.0, "loss_val": 3.0, "m" * 300: 4.0, "../up": 5.0}
    study = written(tmp_path / "odd", [Written({"größe": "x" * 7000}, value=0.5, metrics=metrics)], question={})
    with noted() as notes:
        study.export("mlflow", into=Path.cwd() / "sub/mlflow.db")
    (run,) = runs(here("sub/mlflow.db"), "odd")
    assert run.data.metrics == {
        "accuracy": 0.5,
        "loss_val.2": 2.0,
        "loss_val": 3.0,
        "m" * LONGEST_NAME: 4.0,
        "_/up": 5.0,
    }
    assert len(run.data.params["größe"]) == 6000
    assert notes == [
        "MLflow does not take the name of every metric, so there they are: 'loss@val' as 'loss_val.2', "
        f"'{'m' * 300}' as '{'m' * LONGEST_NAME}', '../up' as '_/up'.",
        "MLflow takes 6,000 letters of a value, so longer ones of 'größe' are shortened there.",
    ]
    tags = MlflowClient(here("sub/mlflow.db")).get_experiment_by_name("odd").tags
    assert '"loss_val.2": "loss@val"' in tags["etude.names"]


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "/", "a/", "/a", "a//b", "a/../b", "a:b", "a\nb", "x" * 249 + "/b"]
)
def test_every_name_is_made_one_that_mlflow_takes(name: str) -> None:
    from mlflow.utils.validation import _validate_metric, _validate_param

    made = allowed(name)
    _validate_metric(made, 1.0, 0, 0)
    _validate_param(made, "x")
    assert allowed(made) == made


def test_what_came_of_something_else_is_not_touched(study: Search) -> None:
    client = MlflowClient(here())
    number = client.create_experiment("digits")
    client.create_run(number)
    with pytest.raises(ConfigError) as refused:
        study.export("mlflow", into=here())
    assert str(refused.value) == (
        f"{here()} has an experiment called 'digits' already, which did not come of this study. "
        "Pass another name for this one, name=..., or another place."
    )
    study.export("mlflow", into=here(), name="mine")
    assert len(runs(name="mine")) == len(TRIALS)
    assert len(client.search_runs([number])) == 1
    client.delete_experiment(client.get_experiment_by_name("mine").experiment_id)
    with pytest.raises(ConfigError) as refused:
        study.export("mlflow", into=here(), name="mine")
    assert str(refused.value) == (
        f"The experiment 'mine' in {here()} was deleted, and its name is not free before it is gone for good. "
        "Restore it, or pass another name, name=...."
    )


def test_without_a_place_it_goes_where_mlflow_would(study: Search) -> None:
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(here("set.db"))
    try:
        assert study.export("mlflow").into == here("set.db")
    finally:
        mlflow.set_tracking_uri(before)
    assert len(runs(here("set.db"))) == len(TRIALS)


def test_the_store_of_files_is_used_where_it_is_allowed(study: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError) as refused:
        study.export("mlflow", into="mlruns")
    assert str(refused.value) == (
        "mlruns is no database, and MLflow has ceased to develop its store of files: it writes there only if the "
        "environment has MLFLOW_ALLOW_FILE_STORE=true. Pass a database, such as into='sqlite:///mlflow.db'."
    )
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    study.export("mlflow", into="mlruns")
    study.export("mlflow", into="mlruns")
    first, *rest = runs("mlruns")
    assert len(rest) == len(TRIALS) - 1
    assert [value for _, _, value in history(first, "accuracy", "mlruns")] == [0.25, 0.5, 0.75]


def test_a_uri_that_is_none_is_refused(study: Search) -> None:
    with pytest.raises(ConfigError, match=r"MLflow cannot write to nonsense://me:\*\*\*@x: .*'sqlite:///mlflow.db'\.$"):
        study.export("mlflow", into="nonsense://me:secret@x")


COUNTED = """
import json, os, socket, sys

connected = []
socket.socket.connect = lambda self, address: connected.append(repr(address)) or self.close()
counted = []


def note():
    from mlflow.telemetry.client import TelemetryClient

    TelemetryClient.add_record = lambda self, record: counted.append(record.event_name)


if sys.argv[1] == "used before":
    import mlflow

    note()
import etude

before = os.environ.get("MLFLOW_DISABLE_TELEMETRY")
etude.open("digits").export("mlflow", into="mlflow.db")
assert os.environ.get("MLFLOW_DISABLE_TELEMETRY") == before
by_export = len(counted)
if sys.argv[1] == "used before":
    mlflow.MlflowClient("sqlite:///mlflow.db").create_experiment("mine")
print(json.dumps([by_export, counted[by_export:], connected]))
"""


def counted(folder: Path, how: str = "", **environment: str) -> tuple[int, list[str]]:
    """Export the study in a process that MLflow takes for a user's, and no test's.

    Returns:
        How many events MLflow counted in the export, and the names of those afterwards.
    """
    told = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "ETUDE_STUDIES", "PYTEST_ETUDE_SESSION")
            if name in os.environ}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNTED, how],
        env={**told, "HOME": str(folder), "ETUDE_STUDIES": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    by_export, afterwards, connected = json.loads(done.stdout)
    assert connected == []
    return by_export, afterwards


def test_an_export_has_mlflow_tell_its_makers_nothing(study: Search, tmp_path: Path) -> None:
    assert counted(tmp_path) == (0, [])
    assert not (tmp_path / ".config").exists(), "MLflow has given this installation an identity"


def test_what_a_user_does_with_mlflow_beside_an_export_is_left_alone(study: Search, tmp_path: Path) -> None:
    assert counted(tmp_path, "used before") == (0, ["create_experiment"])
    assert (tmp_path / ".config" / "mlflow").is_dir()


def test_who_has_said_that_mlflow_may_count_is_heard(study: Search, tmp_path: Path) -> None:
    by_export, _ = counted(tmp_path, "used before", MLFLOW_DISABLE_TELEMETRY="false")
    assert by_export > 0
