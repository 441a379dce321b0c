"""What a study says of machines that were tuned: what was saved, on which front, and which trial is the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import etude
from etude.core.system import Joules, Order, Phase, Setting, Taken
from etude.results.search import Search
from etude.testing.written import Tuning, Written, write_study

MEASURED = Joules("measured", "RAPL", 5.0, 5.0, 5.0)
UNAVAILABLE = Joules("unavailable", "no meter")
TWO: Setting = {"threads": 2}


def ran(
    value: float,
    second_s: float,
    joules: Joules = MEASURED,
    params: Mapping[str, Any] | None = None,
    probe_s: float = 1.0,
) -> Written:
    """A trial of three epochs, whose second, by default, took so long."""
    keep = Order(TWO, Phase.KEEP, "the best", {"of the default": 0.5})
    epochs = [
        Tuning(Taken(0, 3, 9.0, 10, joules), Order({}, Phase.BASELINE, "")),
        Tuning(Taken(1, 3, second_s, 10, joules, phase=Phase.BASELINE), Order(TWO, Phase.PROBE, "")),
        Tuning(Taken(2, 3, probe_s, 10, joules, setting=TWO, phase=Phase.PROBE), keep),
    ]
    return Written(params or {"lr": value}, value, tuned=epochs)


@pytest.fixture
def study(tmp_path: Path) -> Any:
    def written(trials: Sequence[Written], best: str = "", **meta: Any) -> Search:
        call = {"call": {"system": {"best": best} if best else {}}}
        return etude.open(write_study(tmp_path / "study", trials, meta={**call, **meta}))

    return written


def test_the_front_is_of_energy_too_where_all_trials_know_it(study: Any) -> None:
    machines = study([ran(0.9, 4.0), ran(0.8, 2.0)]).machines
    assert machines.front_of == ["accuracy", "time", "energy"]
    assert "* on the Pareto front of accuracy, time, energy" in str(machines)


def test_the_front_is_of_metric_and_time_where_one_trial_does_not_know_its_energy(study: Any) -> None:
    machines = study([ran(0.9, 4.0), ran(0.8, 2.0, UNAVAILABLE), ran(0.7, 3.0)]).machines
    assert machines.front_of == ["accuracy", "time"]
    assert machines.front == [0, 1]


def test_trying_that_cost_and_trying_that_saved_are_told_apart(study: Any, tmp_path: Path) -> None:
    assert (
        study([ran(0.9, 4.0, probe_s=6.0)]).machines.says[1]
        == "What was found saved 0 s; trying it cost 2 s in 1 epoch."
    )
    other = etude.open(write_study(tmp_path / "other", [ran(0.9, 4.0)]))
    assert other.machines.says[1] == "What was found saved 0 s; trying it saved another 3 s in 1 epoch."


def test_a_study_in_which_nothing_was_set_says_so(study: Any) -> None:
    one = Written({"lr": 0.1}, 0.5, tuned=[Tuning(Taken(0, 1, 9.0, 10, MEASURED), Order({}, Phase.DEFAULT, ""))])
    found = study([one])
    assert found.machines.says[1] == "Every epoch was trained as the training function has it."
    assert "Machines: every epoch was trained as the training function has it." in found.summary()


def test_where_nobody_knows_what_the_default_takes_nothing_was_saved(study: Any) -> None:
    reuse = Order(TWO, Phase.REUSE, "known")
    epochs = [
        Tuning(Taken(0, 2, 90.0, 10, MEASURED), reuse),
        Tuning(Taken(1, 2, 1.0, 10, MEASURED, setting=TWO, phase=Phase.REUSE), reuse),
    ]
    found = study([Written({"lr": 0.1}, 0.5, tuned=epochs)])
    assert found.machines.says[1] == "What was saved is not known, since no epoch shows what the default takes."
    assert found.machines.rows()[0]["saved_s"] is None


def test_of_those_that_come_near_the_best_value_the_fastest_is_the_best(study: Any) -> None:
    found = study([ran(0.9, 4.0), ran(0.899, 2.0), ran(0.5, 1.0)], best="accuracy, then time")
    assert found.best.number == 1
    assert "trial 1 ended with threads=2." in found.summary()
    assert "Best by 'accuracy, then time': trial 1 with lr=0.899." in found.summary()


def test_where_the_metric_alone_counts_it_is_not_said_twice(study: Any) -> None:
    found = study([ran(0.9, 4.0), ran(0.899, 2.0)])
    assert found.best.number == 0
    assert "Best by" not in found.summary()


def test_a_trial_with_a_small_budget_is_not_the_best_for_being_fast(study: Any) -> None:
    trials = [ran(0.9, 4.0, params={"epochs": 9}), ran(0.9, 1.0, params={"epochs": 1})]
    assert study(trials, best="accuracy, then time", fidelity={"name": "epochs", "rungs": [1, 9]}).best.number == 0


def test_a_study_with_several_metrics_has_no_best_one_to_tell_of(tmp_path: Path) -> None:
    trials = [Written({"lr": 0.1}, 0.5, {"size": 3.0}, tuned=ran(0.9, 4.0).tuned)]
    found = etude.open(write_study(tmp_path / "two", trials, metrics={"accuracy": "max", "size": "min"}))
    assert "Machines: what was found saved 0 s" in found.summary()
    assert "ended with" not in found.summary()
