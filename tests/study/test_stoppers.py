"""Stoppers and budgets in whole studies, with processes."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

import etude
from etude.core.errors import StudyError
from etude.core.events import Judged
from etude.store.journal import Journal
from etude.testing.replay import check_decisions
from etude.tune.plan import SearchPlan
from etude.tune.stop import make_stopper


def curve(lr: float, epochs: int, *, run) -> None:
    """The farther from 0.3, the worse, at every epoch."""
    for epoch in run.epochs(epochs):
        run.report(score=-((lr - 0.3) ** 2) - 0.5 / (epoch + 1))


EXPERIMENT = etude.Experiment(curve, metric="score", mode="max")
SPACE: dict[str, Any] = {"lr": etude.uniform(0, 1)}


def judged(search: etude.Search) -> list[Judged]:
    journal = Journal.read(search.folder)
    facts = list(journal.facts())
    journal.close()
    return [fact for fact in facts if isinstance(fact, Judged)]


@pytest.mark.parametrize("stopper", ["median-best", "asha", "hyperband", ["walltime", "asha"]])
def test_each_decision_stands_in_the_journal_with_its_reason_and_would_be_made_again(stopper: Any) -> None:
    space = {**SPACE, "epochs": 10}
    search = EXPERIMENT.tune(space, trials=40, workers=2, sampler="random", stopper=stopper)
    assert search.complete
    decisions = judged(search)
    assert decisions
    assert all(" of " in fact.reason for fact in decisions)
    journal = Journal.read(search.folder)
    facts = list(journal.facts())
    journal.close()
    plan = SearchPlan(40, 0, make_stopper(stopper, search.metrics))
    assert check_decisions(facts, plan, metrics=search.metrics) == len(decisions)


def endless(lr: float, *, run) -> None:
    while True:
        run.report(score=lr)
        time.sleep(0.005)  # what training takes, so that reports do not come faster than anybody can read them


def test_what_has_shown_enough_is_finished_with_its_last_report() -> None:
    experiment = etude.Experiment(endless, metric="score", mode="max")
    search = experiment.tune(SPACE, trials=4, workers=2, sampler="random", stopper=etude.Plateau(patience=3))
    for trial in search.trials:
        assert trial.state == "finished"
        assert trial.value == trial.params["lr"]
        assert trial.reason.startswith("no better than ")
        assert trial.reason.endswith(" at step 1 for 3 reports")
    assert search.best.value == max(trial.params["lr"] for trial in search.trials)


# --- a fidelity -----------------------------------------------------------------------------------


def test_hyperband_runs_one_full_set_of_brackets_and_ranks_the_largest_budget() -> None:
    search = EXPERIMENT.tune(SPACE, fidelity="epochs", budget=(1, 9), stopper="hyperband", sampler="random", workers=2)
    assert search.complete
    assert Counter(trial.params["epochs"] for trial in search.trials) == {1: 9, 3: 3 + 5, 9: 1 + 1 + 3}
    assert [len(trial.curve) for trial in search.trials] == [trial.params["epochs"] for trial in search.trials]
    assert search.best.params["epochs"] == 9
    assert {trial.params["epochs"] for trial in search.top(100)} == {9}
    for trial in search.trials:
        if trial.promotes is not None:
            assert search.trials[trial.promotes].params["lr"] == trial.params["lr"]
    again = etude.open(search.folder)
    assert again.best.number == search.best.number
    assert again.rows() == search.rows()


def test_asha_with_tpe_goes_on_where_it_was_and_more_trials_add_exactly_so_many() -> None:
    given: dict[str, Any] = {"fidelity": "epochs", "budget": (1, 9), "stopper": "asha", "workers": 2}
    first = EXPERIMENT.tune(SPACE, trials=20, **given)
    more = EXPERIMENT.tune(SPACE, trials=33, **given)
    assert more.folder == first.folder
    assert len(more.trials) == 33
    assert more.rows()[:20] == first.rows()
    assert [trial.attempts for trial in more.trials] == [1] * 33
    promoted = [trial for trial in more.trials if trial.promotes is not None]
    assert len(promoted) >= 5
    assert more.best.params["epochs"] == 9


def test_asha_without_a_number_of_trials_promotes_to_the_end_of_a_finite_space() -> None:
    space = {"lr": [n / 10 for n in range(9)]}
    search = EXPERIMENT.tune(space, fidelity="epochs", budget=(1, 9), stopper="asha", sampler="random", workers=1)
    tried = [trial for trial in search.trials if trial.promotes is None]
    assert sorted(trial.params["lr"] for trial in tried) == space["lr"]
    assert search.best.params["epochs"] == 9
    assert search.complete


def test_one_worker_gives_the_same_search_each_time() -> None:
    given: dict[str, Any] = {"fidelity": "epochs", "budget": (1, 9), "sampler": "random", "workers": 1, "trials": 30}
    for stopper in ("asha", "hyperband"):
        one, two = (EXPERIMENT.tune(SPACE, stopper=stopper, name=f"{stopper}{n}", **given).rows() for n in (1, 2))
        assert one == two


def test_a_rule_that_goes_by_reports_gives_every_trial_the_largest_budget() -> None:
    search = EXPERIMENT.tune(SPACE, trials=8, fidelity="epochs", budget=(1, 9), stopper="median", workers=2)
    assert {trial.params["epochs"] for trial in search.trials} == {9}


def test_a_share_of_the_data_is_a_fidelity_as_well() -> None:
    def train(lr: float, share: float = 1.0):
        return lr * share

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune(
        SPACE, trials=30, fidelity="share", budget=(0.1, 0.9), stopper="asha", sampler="random", workers=2
    )
    assert {trial.params["share"] for trial in search.trials} == {0.1, 0.3, 0.9}


# --- a function that sends no reports -------------------------------------------------------------


def silent(lr: float):
    return {"score": lr}


def test_a_stopper_that_was_asked_for_is_refused_after_a_trial_without_reports_and_nothing_is_lost() -> None:
    experiment = etude.Experiment(silent, metric="score", mode="max")
    with pytest.raises(StudyError) as refused:
        experiment.tune(SPACE, trials=10, workers=1, sampler="random", stopper="median")
    assert str(refused.value) == (
        "Trial 0 finished without one report of 'score', so stopper=MedianRule() has nothing to go by and would never "
        "stop a trial. Report on the way, run.report(score=...), or leave it out (stopper='none' if there is no "
        "other). What has finished is kept."
    )
    assert experiment.last is not None
    assert experiment.last.trials[0].state == "finished"
    assert etude.open(experiment.last.folder).trials[0].value == experiment.last.trials[0].value


def test_beside_promotion_a_stopper_is_named_alone_if_it_has_nothing_to_go_by() -> None:
    def short(lr: float, epochs: int):
        return {"score": lr / epochs}

    experiment = etude.Experiment(short, metric="score", mode="max")
    with pytest.raises(StudyError) as refused:
        experiment.tune(
            SPACE, workers=1, sampler="random", stopper=["hyperband", "plateau"], fidelity="epochs", budget=(1, 9)
        )
    assert str(refused.value) == (
        "Trial 0 finished without one report of 'score', so stopper=Plateau() has nothing to go by and would never "
        "stop a trial. Report on the way, run.report(score=...), or leave it out (stopper='none' if there is no "
        "other). What has finished is kept."
    )


@pytest.mark.parametrize("nothing", [["none"], ["none", "none"]])
def test_who_stops_nothing_needs_no_reports_in_a_list_either(nothing: list[str]) -> None:
    experiment = etude.Experiment(silent, metric="score", mode="max")
    assert experiment.tune(SPACE, trials=3, workers=1, sampler="random", stopper=nothing).complete


def test_the_stopper_that_nobody_asked_for_needs_no_reports_and_promotion_neither() -> None:
    experiment = etude.Experiment(silent, metric="score", mode="max")
    assert experiment.tune(SPACE, trials=5, workers=1, sampler="random").complete
    assert experiment.tune(SPACE, trials=1, workers=1, sampler="random", stopper="asha").complete  # nothing to spare
