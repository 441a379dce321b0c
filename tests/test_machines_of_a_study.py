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


def test_what_was_saved_of_energy_is_told_with_its_label_where_all_of_a_trial_is_known(study: Any) -> None:
    def joules(amount: float, label: str = "modelled") -> Joules:
        bounds = (0.6 * amount, 1.4 * amount) if label == "modelled" else (amount, amount)
        return Joules(label, "CPU seconds x 15 W", amount, *bounds)

    def trained(label: str) -> Written:
        keep = Order(TWO, Phase.KEEP, "the best", {"of the default": 0.5})
        epochs = [
            Tuning(Taken(0, 4, 9.0, 10, joules(99.0, label)), Order({}, Phase.BASELINE, "")),
            Tuning(Taken(1, 4, 4.0, 10, joules(50.0, label), phase=Phase.BASELINE), Order(TWO, Phase.PROBE, "")),
            Tuning(Taken(2, 4, 3.0, 10, joules(60.0, label), setting=TWO, phase=Phase.PROBE), keep),
            Tuning(Taken(3, 4, 1.0, 10, joules(20.0, label), setting=TWO, phase=Phase.KEEP), keep),
        ]
        return Written({"lr": 0.1}, 0.5, tuned=epochs)

    found = study([trained("modelled"), ran(0.4, 4.0, UNAVAILABLE)]).machines
    assert found.says[2] == (
        "Of energy, what was found saved about 30 J modelled (18 to 42); trying it cost about 10 J modelled (6 to 14)."
    )
    assert [(row["saved_j"], row["probing_j"]) for row in found.rows()] == [(30.0, 10.0), (None, None)]


def test_measured_energy_has_no_bounds_of_a_model_and_what_cost_more_is_said_to(study: Any) -> None:
    keep = Order(TWO, Phase.KEEP, "the best", {"of the default": 0.5})
    more = Joules("measured", "RAPL", 8.0, 8.0, 8.0)
    epochs = [
        Tuning(Taken(0, 4, 9.0, 10, MEASURED), Order({}, Phase.BASELINE, "")),
        Tuning(Taken(1, 4, 4.0, 10, MEASURED, phase=Phase.BASELINE), Order(TWO, Phase.PROBE, "")),
        Tuning(Taken(2, 4, 3.0, 10, MEASURED, setting=TWO, phase=Phase.PROBE), keep),
        Tuning(Taken(3, 4, 1.0, 10, more, setting=TWO, phase=Phase.KEEP), keep),
    ]
    found = study([Written({"lr": 0.1}, 0.5, tuned=epochs)]).machines
    assert found.says[2] == "Of energy, what was found cost 3 J measured; trying it cost 0 J measured."


def test_an_epoch_in_which_a_trial_was_stopped_counts_for_what_was_taken_and_for_nothing_else(study: Any) -> None:
    told = ran(0.9, 4.0).tuned
    cut_off = Tuning(
        Taken(3, 9, 0.1, 1, MEASURED, setting=TWO, phase=Phase.KEEP, whole=False), Order(TWO, Phase.KEEP, "")
    )
    plain, stopped = study(
        [ran(0.9, 4.0), Written({"lr": 0.9}, state="stopped", tuned=[*told, cut_off])]
    ).machines.rows()
    assert stopped["seconds"] == pytest.approx(plain["seconds"] + 0.1)
    assert stopped["joules"] == plain["joules"] + 5.0
    assert stopped["saved_s"] == plain["saved_s"]


def test_a_study_whose_setting_was_given_says_which_one(study: Any, tmp_path: Path) -> None:
    meta = {"call": {"system": {"setting": {"threads": 1}}}}
    found = etude.open(write_study(tmp_path / "given", [Written({"lr": 0.1}, 0.5)], meta=meta))
    assert str(found.machines) == (
        "No machine was tuned in this study: it was set for all trials as was said, threads=1."
    )
    assert "Machines: set for all trials as was said, threads=1." in found.summary()
