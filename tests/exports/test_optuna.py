"""Exports to Optuna, read back by Optuna and by the server of its dashboard."""

from __future__ import annotations

import json
import math
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import optuna
import pytest
from everything import TRIALS, noted, written
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import etude
from etude.core.errors import ConfigError
from etude.exports import optuna_database
from etude.results.search import Search
from etude.testing.written import BEGAN_AT, Written

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PLACES = ["optuna.db", "optuna.log"]


@contextmanager
def storage_at(place: str) -> Iterator[Any]:
    """Give the storage at a place, as Optuna opens it."""
    if not place.endswith((".db", ".sqlite")):
        yield JournalStorage(JournalFileBackend(place))
        return
    storage = RDBStorage(f"sqlite:///{place}")
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def loaded(place: str, name: str = "digits") -> optuna.Study:
    """Return a study, with its trials read."""
    with storage_at(place) as storage:
        study = optuna.load_study(study_name=name, storage=storage)
        memory = optuna.create_study(study_name=name, directions=study.directions)
        memory.add_trials(study.trials)
        for key, value in study.user_attrs.items():
            memory.set_user_attr(key, value)
    return memory


@contextmanager
def dashboard(place: str) -> Iterator[Any]:
    """Give what asks the server of Optuna's dashboard, which has this storage."""
    from optuna_dashboard import wsgi

    class Silent(WSGIRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    with storage_at(place) as storage, make_server("127.0.0.1", 0, wsgi(storage), handler_class=Silent) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def ask(path: str) -> Any:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/api/{path}") as answer:
                return json.load(answer)

        try:
            yield ask
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("place", PLACES)
def test_optuna_finds_the_same_best_trial(study: Search, place: str) -> None:
    study.export("optuna", into=place)
    found = loaded(place)
    assert found.best_value == study.best.value == 0.875
    assert found.best_trial.number == study.best.number == 1
    assert found.best_params == study.best.params
    assert found.direction.name == "MAXIMIZE"


@pytest.mark.parametrize("place", PLACES)
def test_trials_have_their_states_values_and_curves(study: Search, place: str) -> None:
    study.export("optuna", into=place)
    trials = loaded(place).trials
    assert [(t.number, t.state, t.values) for t in trials] == [
        (0, TrialState.COMPLETE, [0.75]),
        (1, TrialState.COMPLETE, [0.875]),
        (2, TrialState.PRUNED, [0.125]),  # the last report, as it is with Optuna's own rules
        (3, TrialState.FAIL, None),
        (4, TrialState.FAIL, None),
        (5, TrialState.FAIL, None),
        (6, TrialState.RUNNING, None),
        (7, TrialState.WAITING, None),
    ]
    assert [t.intermediate_values for t in trials[:3]] == [{1: 0.25, 2: 0.5}, {1: 0.5, 2: 0.875}, {1: 0.125}]
    assert trials[3].intermediate_values[1] == math.inf
    assert math.isnan(trials[3].intermediate_values[2])
    assert trials[6].intermediate_values == {1: 0.25, 2: 0.375}
    assert [t.user_attrs["etude.state"] for t in trials] == [t.state for t in study.trials]
    assert [t.user_attrs["etude.seed"] for t in trials[:2]] == [0, 3]
    assert trials[0].user_attrs["etude.returned.loss"] == 1.5
    assert trials[5].user_attrs["etude.value"] == ["nan"]
    assert trials[4].user_attrs["etude.reason"] == "heads must divide width"


@pytest.mark.parametrize("place", PLACES)
def test_times_are_those_of_the_study(study: Search, place: str) -> None:
    study.export("optuna", into=place)
    first, *_, running, waiting = loaded(place).trials
    assert first.datetime_start == datetime.fromtimestamp(BEGAN_AT + 1)
    assert first.datetime_complete == datetime.fromtimestamp(BEGAN_AT + 11)
    assert (running.datetime_complete, waiting.datetime_start) == (None, None)


@pytest.mark.parametrize("place", PLACES)
def test_parameters_have_the_distributions_of_the_space(study: Search, place: str) -> None:
    with noted() as notes:
        study.export("optuna", into=place)
    sgd, adam, *_ = loaded(place).trials
    assert sgd.distributions == {
        "lr": FloatDistribution(0.001, 1.0, log=True),
        "layers": IntDistribution(1, 4),
        "optimizer": CategoricalDistribution(["sgd", "adam"]),
        "momentum": FloatDistribution(0.0, 0.75, step=0.25),
        "shape": CategoricalDistribution(["(8, 8)", None]),
        "fixed": CategoricalDistribution(["so"]),
    }
    assert sgd.params == {**study.trials[0].params, "shape": "(8, 8)"}
    assert set(adam.distributions) == set(sgd.distributions) - {"momentum"}
    assert notes == [
        "Optuna does not take every value as a choice, so there some are texts, among those of 'shape'.",
        "1 trial came to NaN, which no trial of Optuna's can: there they have failed.",
    ]


@pytest.mark.parametrize("place", PLACES)
def test_an_export_that_is_repeated_doubles_nothing(study: Search, place: str) -> None:
    study.export("optuna", into=place)
    first, size = loaded(place), Path(place).stat().st_size
    done = study.export("optuna", into=place)
    assert done.trials == len(loaded(place).trials) == len(TRIALS)
    assert loaded(place).trials == first.trials or math.isnan(first.trials[3].intermediate_values[2])
    assert Path(place).stat().st_size == size
    with storage_at(place) as storage:
        assert [one.study_name for one in optuna.get_all_study_summaries(storage)] == ["digits"]


@pytest.mark.parametrize("place", PLACES)
def test_a_study_that_went_on_is_brought_up_to_date(study: Search, place: str, tmp_path: Path) -> None:
    study.export("optuna", into=place)
    with storage_at(place) as storage:
        number = storage.get_study_id_from_name("digits")
        before = [trial._trial_id for trial in storage.get_all_trials(number)]
    shutil.rmtree(tmp_path / "digits")
    ended = Written(TRIALS[6].params, value=1.0, curve=[0.25, 0.5, 1.0])
    later = written(tmp_path / "digits", [*TRIALS[:6], ended, TRIALS[7], Written(TRIALS[1].params, value=0.1)])
    later.export("optuna", into=place)
    found = loaded(place)
    assert found.best_trial.number == 6
    assert found.best_trial.intermediate_values == {1: 0.25, 2: 0.5, 3: 1.0}
    assert [trial.state.name for trial in found.trials[6:]] == ["COMPLETE", "WAITING", "COMPLETE"]
    if place.endswith(".db"):  # rows stay, for dashboards that are open
        with storage_at(place) as storage:
            assert [trial._trial_id for trial in storage.get_all_trials(number)][: len(before)] == before


@pytest.mark.parametrize("place", PLACES)
def test_what_came_of_something_else_is_not_touched(study: Search, place: str, tmp_path: Path) -> None:
    with storage_at(place) as storage:
        other = optuna.create_study(study_name="digits", storage=storage, direction="maximize")
        other.add_trial(optuna.create_trial(value=2.0))
    shown = f"sqlite:///{place}" if place.endswith(".db") else place
    with pytest.raises(ConfigError) as refused:
        study.export("optuna", into=place)
    assert str(refused.value) == (
        f"{shown} has a study called 'digits' already, which did not come of this study. "
        "Pass another name for this one, name=..., or another place."
    )
    study.export("optuna", into=place, name="mine")
    with storage_at(place) as storage:
        mine = optuna.load_study(study_name="mine", storage=storage)
        mine.add_trial(optuna.create_trial(value=2.0))
    with pytest.raises(ConfigError) as refused:
        study.export("optuna", into=place, name="mine")
    assert str(refused.value) == (
        f"In {shown} trials were added to 'mine' that did not come of this study, trial 8 the first. "
        "They would be lost. Pass another name for this export, name=..., or another place."
    )
    assert len(loaded(place, "mine").trials) == 9
    assert loaded(place).best_value == 2.0


def test_several_metrics_have_several_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space = {"parameters": [["lr", {"kind": "uniform", "low": 0.0, "high": 1.0, "step": None}]]}
    trials = [
        Written({"lr": 0.1}, value=0.5, metrics={"latency": 1.0}),
        Written({"lr": 0.2}, value=0.75, metrics={"latency": 2.0}),
        Written({"lr": 0.3}, value=0.25, metrics={"latency": 3.0}),
    ]
    modes = {"accuracy": "max", "latency": "min"}
    study = written(tmp_path / "two", trials, metrics=modes, question={"space": space}, complete=True)
    study.export("optuna", into="two.db")
    with storage_at("two.db") as storage:
        found = optuna.load_study(study_name="two", storage=storage)
        assert [one.name for one in found.directions] == ["MAXIMIZE", "MINIMIZE"]
        assert found.metric_names == ["accuracy", "latency"]
        assert [trial.values for trial in found.trials] == [[0.5, 1.0], [0.75, 2.0], [0.25, 3.0]]
        assert {t.number for t in found.best_trials} == {t.number for t in study.front} == {0, 1}


def test_ten_thousand_trials_are_one_transaction_and_the_dashboard_has_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(optuna.Study, "add_trial", None)  # the slow way
    space = {"parameters": [["lr", {"kind": "uniform", "low": 0.0, "high": 1.0, "step": None}]]}
    trials = [Written({"lr": n / 10_000}, value=float(n), curve=[0.0, float(n)]) for n in range(10_000)]
    study = written(tmp_path / "many", trials, question={"space": space}, complete=True)
    study.export("optuna", into="many.db")
    with dashboard("many.db") as ask:
        (summary,) = ask("studies")["study_summaries"]
        detail = ask(f"studies/{summary['study_id']}")
    assert summary["study_name"] == "many"
    assert [trial["number"] for trial in detail["trials"]] == list(range(10_000))
    assert detail["best_trials"][0]["values"] == [9999.0]
    assert detail["trials"][7]["params"][0]["param_external_value"] == "0.0007"


@pytest.mark.parametrize("place", PLACES)
def test_the_dashboard_opens_the_study(study: Search, place: str) -> None:
    study.export("optuna", into=place)
    with dashboard(place) as ask:
        (summary,) = ask("studies")["study_summaries"]
        detail = ask(f"studies/{summary['study_id']}")
    assert summary["directions"] == ["maximize"]
    assert [trial["state"] for trial in detail["trials"]] == [
        *("Complete", "Complete", "Pruned", "Fail", "Fail", "Fail", "Running", "Waiting"),
    ]
    assert [one["value"] for one in detail["trials"][1]["intermediate_values"]] == [0.5, 0.875]
    assert detail["objective_names"] == ["accuracy"]


def test_tables_that_are_not_known_are_left_to_optuna(study: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    study.export("optuna", into="known.db")
    monkeypatch.setattr(optuna_database, "SCHEMAS", frozenset())
    study.export("optuna", into="unknown.db")
    study.export("optuna", into="unknown.db")
    known, unknown = loaded("known.db"), loaded("unknown.db")
    assert repr(known.trials) == repr(unknown.trials)
    assert known.user_attrs == unknown.user_attrs


def test_parameters_without_a_space_have_the_range_of_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trials = [Written({"lr": lr, "epochs": n, "how": how}, value=lr) for lr, n, how in ((0.5, 3, "a"), (1, 9, True))]
    study = written(tmp_path / "final", trials, verb="fit", question={}, complete=True)
    assert isinstance(study, etude.results.fitted.Fit)
    study.export("optuna", into="final.db")
    first, second = loaded("final.db", "final").trials
    assert first.distributions == second.distributions
    assert first.distributions == {
        "lr": FloatDistribution(0.5, 1.0),
        "epochs": IntDistribution(3, 9),
        "how": CategoricalDistribution(["a", True]),
    }


@pytest.mark.parametrize(
    ("into", "said"),
    [
        (".", "into='.' is a folder. Pass a file in it, such as 'optuna.db' or 'optuna.log'."),
        (
            "taken.txt",
            "taken.txt is no journal file of Optuna's that can be read, and no database. Pass another path; one that "
            "ends in .db or .sqlite is a database.",
        ),
        (
            "nonsense://me:secret@x",
            "nonsense://me:***@x cannot be written as a storage of Optuna's: Can't load plugin: "
            "sqlalchemy.dialects:nonsense. Pass the URL of a database that it can use, such as 'sqlite:///optuna.db', "
            "or the path of a journal file.",
        ),
        (
            "taken.txt/optuna.db",
            "taken.txt/optuna.db cannot be written: File exists. Pass another place, into=....",
        ),
    ],
)
def test_a_place_that_is_none_is_refused(study: Search, into: str, said: str) -> None:
    Path("taken.txt").write_text("a shopping list\n")
    with pytest.raises(ConfigError) as refused:
        study.export("optuna", into=into)
    assert str(refused.value) == said
    assert Path("taken.txt").read_text() == "a shopping list\n"


def test_a_journal_that_others_write_meanwhile_is_left_alone(study: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    from etude.exports import optuna as ours

    describe = ours._describe

    def meanwhile(*args: Any) -> None:
        describe(*args)
        with storage_at("optuna.log") as storage:
            optuna.create_study(study_name="theirs", storage=storage)

    monkeypatch.setattr(ours, "_describe", meanwhile)
    with pytest.raises(ConfigError) as refused:
        study.export("optuna", into="optuna.log")
    assert str(refused.value) == (
        "optuna.log was written by another process in the meantime, and nothing was added. Export again."
    )
    with storage_at("optuna.log") as storage:
        assert [one.study_name for one in optuna.get_all_study_summaries(storage)] == ["theirs"]
