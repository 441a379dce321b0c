"""Golden cases: what is concluded from the same runs stays the same, and the pages say it."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks import verdicts_golden
from benchmarks.golden import budget, figures, live, page, papers, tablator_page, taught
from benchmarks.golden.case import Case, claim, counted, judged
from benchmarks.golden.lines import kept_details
from benchmarks.page import kept
from benchmarks.paper4 import runs as runs4
from benchmarks.paper5 import runs as runs5

import etude
from etude.analyse.budgets import budget_curve

HELPS = [5.0, 5.1, 4.9, 5.2, 5.0, 4.8, 5.1, 5.0]
PAIRED, UNPAIRED = page.PARTITIONS


def kept_line() -> dict[str, Any]:
    return next(dict(line) for line in kept() if line["benchmark"] == "verdicts_golden")


def studies() -> dict[str, dict[str, Any]]:
    cells = kept_line()["details"].values()
    return {study: counts for found in cells for study, counts in found["studies"].items()}


def kept_cases() -> list[dict[str, Any]]:
    return [case for found in kept_line()["details"].values() for case in found["cases"]]


def said(study: str) -> dict[tuple[str, str], str]:
    """Return what the kept verdicts say of each arm of a study."""
    return {
        (case["case"], arm["arm"]): arm["says"]
        for case in kept_cases()
        if case["study"] == study
        for arm in case["arms"]
    }


# --- one case -----------------------------------------------------------------------------------------


def test_a_component_that_matters_makes_the_arm_without_it_worse():
    runs = {"base": HELPS, "without": [value - 1 - 0.01 * nth for nth, value in enumerate(HELPS)]}
    found = judged(Case("s", "t", runs, {"without": -0.2}))
    (arm,) = found["arms"]
    assert (arm["says"], arm["claimed"]) == ("worse", "better")
    assert arm["effect"] == pytest.approx(1.035)
    assert (found["runs"], found["base"]) == (16, "base")
    counts = counted([found])
    assert (counts["worse"], counts["contradicted"], counts["borne_out"], counts["open"]) == (1, 1, 0, 0)
    assert counts["all_corrected"] == counts["uncorrected"] == 1
    less = judged(Case("s", "t", runs, {"without": -0.2}, mode="min"))
    assert less["arms"][0]["says"] == "better"
    assert counted([less])["borne_out"] == 1


def test_what_could_decide_nothing_is_counted():
    found = judged(Case("s", "t", {"base": HELPS[:5], "without": [value - 1 for value in HELPS[:5]]}, {"without": 1.0}))
    assert found["first"][0].startswith("Nothing can be decided: with 5 pairs")
    counts = counted([found])
    assert (counts["could_decide_nothing"], counts["open"], counts["claimed_worse"]) == (1, 1, 1)


def test_what_is_read_off_equal_means_is_nothing():
    assert [claim(effect) for effect in (0.1, -0.1, 0.0)] == ["worse", "better", "equal"]


# --- the papers' own runs -----------------------------------------------------------------------------


def test_no_setting_with_a_better_mean_is_better_than_random_partitions():
    paired, unpaired = studies()[PAIRED], studies()[UNPAIRED]
    assert (paired["runs"], paired["arms"], paired["claimed_better"]) == (1850, 180, 46)
    assert (paired["better"], unpaired["better"]) == (0, 0)
    assert paired["could_decide_nothing"] == paired["cases"] == 5
    assert unpaired["could_decide_nothing"] == 0
    assert (paired["worse"], unpaired["worse"], unpaired["all_corrected"]) == (0, 3, 1)


def test_weights_from_tuning_are_faster_on_two_of_five_workloads():
    epochs, accuracy = studies()["weights, epochs"], studies()["weights, accuracy"]
    assert (epochs["arms"], epochs["claimed_better"], epochs["better"], epochs["worse"]) == (26, 18, 11, 0)
    assert (accuracy["claimed_better"], accuracy["better"], accuracy["worse"]) == (14, 5, 0)
    where = {case for (case, _), says in said("weights, epochs").items() if says == "better"}
    assert where == {"ResNet-18 on CIFAR-10", "InceptionV3 on Food-101"}
    assert said("weights, accuracy")["ResNet-18 on CIFAR-10", "Epoch 25"] == "better"
    assert said("weights, accuracy")["ResNet-18 on CIFAR-10", "HP Final"] == "undecided"


def test_all_numbers_of_the_tables_are_those_of_the_raw_runs():
    assert verdicts_golden.PRINTED == {"partitions": 370, "weights": 93}
    assert [target["met"] for target in kept_line()["targets"]] == [True, True]


@pytest.mark.skipif(not runs5.FILE.exists(), reason="the paper's raw runs are not here")
def test_the_kept_verdicts_on_weights_are_those_of_the_raw_runs():
    again = [judged(case) for case in papers.weights(runs5.read(runs5.FILE))]
    assert again == [case for case in kept_cases() if case["study"].startswith("weights")]


@pytest.mark.skipif(not runs4.FILE.exists(), reason="the paper's raw runs are not here")
def test_the_kept_verdicts_on_partitions_are_those_of_the_raw_runs():
    cases = papers.partitions(runs4.read(runs4.FILE))
    assert len(cases) == 10
    one = next(case for case in cases if case.study == UNPAIRED and "Blocks" in case.name)
    other = next(case for case in cases if case.study == PAIRED and "Blocks" in case.name)
    here = [case for case in kept_cases() if case["study"] in page.PARTITIONS and "Blocks" in case["case"]]
    assert [judged(other), judged(one)] == here


# --- our own trainings --------------------------------------------------------------------------------


def test_the_kept_verdicts_on_trainings_are_those_of_the_kept_runs():
    again = [*live.mnist(kept_details("autoablation_mnist")), *live.switches(kept_details("tablator"))]
    names = {case.study for case in again}
    assert [judged(case) for case in again] == [case for case in kept_cases() if case["study"] in names]


def test_features_that_the_paper_would_leave_out_matter():
    found = said("AutoAblation, Titanic")
    usual = {arm.removeprefix("feature:"): says for (which, arm), says in found.items() if which == "as in the text"}
    assert {name for name, says in usual.items() if says == "worse"} == {"Sex", "Age", "SibSp"}
    assert not [name for name, says in usual.items() if says == "better"]
    arms = {arm["arm"]: arm for case in kept_cases() if case["case"] == "as in the text" for arm in case["arms"]}
    assert {arm["test"] for arm in arms.values()} == {"sign flips"}, "arms without a feature are pairs"
    assert {arm["claimed"] for arm in arms.values()} == {"better"}


def test_a_line_that_is_not_kept_is_asked_for(tmp_path: Path):
    with pytest.raises(SystemExit) as refused:
        kept_details("tablator", tmp_path)
    assert str(refused.value) == (
        f"There is no {tmp_path / 'tablator.json'}. Train it with: python -m benchmarks.tablator --runs 1"
    )


# --- the transformer for tables -----------------------------------------------------------------------


def space() -> dict[str, Any]:
    return {
        "optimizer": ["adam", "sgd"],
        "lr": etude.loguniform(1e-4, 1e-1),
        "width": [8, 16, 32],
        "depth": etude.integers(1, 3),
        "heads": [1, 2, 4],
        "widening": etude.uniform(0.5, 3.0),
    }


def some_trials(n: int = 40) -> dict[str, Any]:
    draws = random.Random(1)
    rows = taught.drawn(space(), n)
    scores = [0.5 + 0.1 * (row["optimizer"] == "sgd") + 0.002 * row["width"] + draws.gauss(0, 0.01) for row in rows]
    params = {name: [row[name] for row in rows] for name in rows[0]}
    return {"score": scores, "size": [100 * row["width"] for row in rows], "params": params, "threats": {}}


def test_a_network_that_does_not_fit_is_out_of_memory_and_others_come_to_about_the_truth():
    pytest.importorskip("sklearn")
    found = taught.Taught.by(some_trials(), space(), noise=0.01)
    fits = [one for one in taught.drawn(space(), 400) if taught.needs(one) <= found.room]
    assert len(fits) / 400 == pytest.approx(taught.FITS, abs=0.06)
    large = max(taught.drawn(space(), 400), key=taught.needs)
    with pytest.raises(MemoryError):
        list(found(large, 0))
    values = [next(iter(found(one, 0)))[1]["score"] for one in fits[:200]]
    assert values == [next(iter(found(one, 0)))[1]["score"] for one in fits[:200]]
    off = [value - true for value, true in zip(values, found.true(fits[:200]), strict=True)]
    assert abs(sum(off) / len(off)) < 4 * found.noise / math.sqrt(len(off))
    by = {
        name: sum(found.true([one for one in fits if one["optimizer"] == name])[:50]) / 50 for name in ("adam", "sgd")
    }
    assert by["sgd"] > by["adam"] + 0.05


def test_the_bias_of_a_sampler_and_of_survival_are_told_and_corrected_means_are_nearer_to_the_truth():
    simulated = kept_details("tablator")["étude"]["simulated"]
    trials = [len(found["random"]["score"]) + found["random"]["failed"] for found in simulated.values()]
    assert sum(trials) >= 2_337
    for found in simulated.values():
        seriousness, finding = found["random"]["threats"]["survival bias"]
        assert seriousness == "serious"
        assert "width" in finding
        assert "depth" in finding
        assert "sampler bias" not in found["random"]["threats"]
    tpe = simulated["covertype"]["tpe"]
    assert "sampler bias" in tpe["threats"]

    def off(key: str) -> float:
        return sum(abs(one[key] - one["true_of_fitting"]) for one in tpe["optimizers"].values())

    assert off("corrected") < off("mean") / 2


def test_how_often_few_trials_name_the_winner_of_all():
    apart = {"a": [1.0, 1.1, 1.2] * 10, "b": [0.0, 0.1, 0.2] * 10}
    assert budget.held(apart, by="mean", sizes=(20, 99)) == {20: 1.0}
    assert budget.first_by({"a": [1, 1], "b": [0, 3]}, by="mean") == "b"
    assert budget.first_by({"a": [2, 2], "b": [0, 3]}, by="mean") == "a"
    one_off = {"a": [0.5] * 50, "b": [0.4] * 49 + [0.6]}
    assert budget.first_by(one_off, by="best") == "b"
    half = budget.held(one_off, by="best", sizes=(50,))[50]
    assert half == pytest.approx(0.5, abs=0.06), "the one that is best is among half of the trials half of the time"
    assert budget.held(one_off, by="mean", sizes=(50,))[50] == 1.0


def made_up_details() -> dict[str, Any]:
    """Return what a line of ``tablator`` holds, of runs that nobody ran."""
    trials, draws = some_trials(), random.Random(2)
    told = {
        "n": 20,
        "mean": 0.5,
        "low": 0.4,
        "high": 0.6,
        "best": 0.7,
        "corrected": 0.5,
        "true": 0.5,
        "true_of_fitting": 0.5,
    }
    simulated = {
        **trials,
        "budget": taught.curve_of(budget_curve(trials["score"])),
        "optimizers": dict.fromkeys(("adam", "sgd"), told),
        "widths": {"8": told},
        "threats": {"survival bias": ["serious", "some failed."], "sampler bias": ["minor", "it was led."]},
    }  # fmt: skip
    prepared = {name: ["x" if draws.random() < 0.5 else "y" for _ in trials["score"]] for name in live.PREPARED}
    trials = {**trials, "params": trials["params"] | prepared}
    arms = [
        {"name": name, "values": {str(seed): 0.7 - 0.05 * nth + 0.001 * seed for seed in range(8)}, "paired": True}
        for nth, name in enumerate(("base", "residual", "gated"))
    ]
    tables = ("adult", "covertype")
    return {
        "live": dict.fromkeys(tables, trials),
        "simulated": {"adult": {"random": simulated}, "covertype": {"random": simulated, "tpe": simulated}},
        "ablation": dict.fromkeys(tables, arms),
    }


def test_figures_of_the_paper_are_drawn_by_the_code_of_reports():
    drawn = figures.figures(made_up_details())
    assert {name for name in drawn if "adult" not in name and "covertype" not in name} == {
        "tablator-budget-mean.svg", "tablator-budget-best.svg", "tablator-first.svg",
    }  # fmt: skip
    for name, text in drawn.items():
        assert ElementTree.fromstring(text).tag.endswith("svg"), name
    assert drawn["tablator-size-adult.svg"].count("<circle") == 40
    words = "".join(ElementTree.fromstring(drawn["tablator-optimizer-covertype.svg"]).itertext())
    assert words.index("adam") < words.index("sgd")
    assert "logarithmic" in "".join(ElementTree.fromstring(drawn["tablator-budget-mean.svg"]).itertext())


def test_the_page_of_the_tablator_says_what_its_line_does():
    rows = [
        {"name": f"étude: {name}", "median": 3.0} for name in ("live_trials", "ablation_trials", "simulated_trials")
    ]
    line = {"commit": "abc", "changed": False, "rows": rows, "machine": {"cores": 2, "cpu": "x", "python": "3"}}
    written = tablator_page.files({**line, "details": {"étude": made_up_details()}})
    text = written["tablator.md"]
    assert text.startswith("# A transformer for tables: 4 of 4 effects of its switches are decided\n")
    assert "| residual | +5.00 (+5 to +5): worse | +5.00 (+5 to +5): worse |" in text
    assert "sgd is" not in text
    assert "adam is worse than SGD on adult" in " ".join(text.split())
    assert all(f"({name})" in text for name in written if name.endswith(".svg"))


def test_every_page_that_is_kept_is_that_of_its_line():
    results = Path(page.__file__).parents[2] / "docs" / "results"
    for line in kept():
        write = {"verdicts_golden": page.files, "tablator": tablator_page.files}.get(line["benchmark"])
        for name, text in write(line).items() if write else ():
            assert (results / name).read_text() == text, name


def test_the_golden_page_tells_each_study():
    text = page.files(kept_line())["verdicts-golden.md"]
    for study, counts in studies().items():
        assert f"| {study} | {page.CONCLUDED[study]} | {counts['cases']} | {counts['runs']:,} |" in text
    assert set(studies()) == set(verdicts_golden.STUDIES)
    assert "partitions: 370 of 370; weights: 93 of 93" in " ".join(text.split())
