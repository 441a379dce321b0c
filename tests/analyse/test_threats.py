"""What may make a study say what is not so: found where it is, and not where it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from etude.analyse.columns import Column
from etude.analyse.threats.budget import budget_sensitivity
from etude.analyse.threats.data import different_data
from etude.analyse.threats.evidence import Chosen, Evidence, Run, Session
from etude.analyse.threats.hardware import unequal_hardware
from etude.analyse.threats.listed import ALL, MAY_BE_SERIOUS, threats_of
from etude.analyse.threats.reference import reference_missed
from etude.analyse.threats.retuning import not_retuned
from etude.analyse.threats.sampler import sampler_bias
from etude.analyse.threats.stopping import early_stopping
from etude.analyse.threats.survival import survival_bias
from etude.analyse.threats.threat import Seriousness, Threat
from etude.analyse.threats.tuned_data import tuning_data
from etude.analyse.threats.unpaired import unpaired_arms
from etude.analyse.threats.versions import different_code

SERIOUS, MINOR, UNKNOWN = Seriousness
CHOSEN = Chosen("search", 7, 40, "accuracy")


def search(n: int = 40, **changed: Any) -> Evidence:
    rng = np.random.default_rng(0)
    widths = rng.integers(1, 9, n).tolist()
    runs = tuple(
        Run(nth, {"width": width, "lr": 0.1 * nth}, value=0.5 + 0.01 * nth) for nth, width in enumerate(widths)
    )
    return replace(Evidence(metric="accuracy", runs=runs), **changed)


def arms(**changed: Any) -> Evidence:
    runs = tuple(
        Run(2 * seed + nth, {}, value=0.9 + 0.01 * seed - 0.02 * nth, seed=seed, arm=arm)
        for seed in range(8)
        for nth, arm in enumerate(("base", "no conv2"))
    )
    return replace(Evidence(verb="ablate", metric="accuracy", runs=runs, base="base"), **changed)


def of(threat: Threat | None) -> Threat:
    assert threat is not None
    return threat


def test_nothing_is_found_where_nothing_is() -> None:
    found = threats_of(search())
    assert list(found) == []
    assert found.clear == tuple(ALL)
    assert str(found).startswith("No threats were found.\nNothing found of: survival bias, sampler bias")
    assert found.lines() == []


def test_trials_that_fail_for_their_size_are_a_serious_threat() -> None:
    plain = search()
    runs = tuple(
        replace(run, state="failed", value=None, out_of_memory=1) if run.params["width"] > 6 else run
        for run in plain.runs
    )
    found = of(survival_bias(replace(plain, runs=runs)))
    assert found.seriousness is SERIOUS
    failed = sum(run.state == "failed" for run in runs)
    assert found.finding.startswith(f"{failed} trials of 40 failed ({failed} out of memory), and not at random: width:")
    assert "lr" not in found.finding
    assert found.finding.endswith("(p < 0.001 corrected).")
    assert found.numbers["relations"][0]["parameter"] == "width"


def test_trials_that_fail_by_chance_are_told_and_no_more() -> None:
    plain = search()
    runs = tuple(
        replace(run, state="failed", value=None, how="raised") if run.number % 8 == 3 else run for run in plain.runs
    )
    found = of(survival_bias(replace(plain, runs=runs)))
    assert found.seriousness is MINOR
    assert found.finding.startswith("5 trials of 40 failed (5 raised); that they are those of some configurations was")
    alone = tuple(replace(run, state="failed", value=None) for run in plain.runs)
    assert of(survival_bias(replace(plain, runs=alone))).finding == "all 40 trials failed (40 unknown)."


def test_an_arm_that_fails_more_often_is_a_serious_threat() -> None:
    plain = arms()
    runs = tuple(replace(run, state="failed", value=None) if run.arm == "no conv2" else run for run in plain.runs[:12])
    found = of(survival_bias(replace(plain, runs=runs)))
    assert found.seriousness is SERIOUS
    assert "arm: 100% failed with no conv2, 0% with base" in found.finding


def test_a_search_that_learns_is_no_random_sample() -> None:
    plain = search(100)
    labels = ("adam", "sgd")
    codes = np.array([float(nth > 20) for nth in range(100)])
    column = Column("optimizer", codes, [labels[int(code)] for code in codes], labels, 2)
    runs = tuple(replace(run, drawn=run.number < 10) for run in plain.runs)
    found = of(sampler_bias(replace(plain, runs=runs, columns=(column,), sampler="tpe")))
    assert found.seriousness is MINOR
    assert found.finding == (
        "90 of 100 trials were proposed by tpe for what earlier ones came to, and are no random sample: optimizer is "
        "sgd in 79%, where a random draw has 50%."
    )
    assert sampler_bias(replace(plain, columns=(column,))) is None, "all were drawn, whatever they look like"


@pytest.mark.parametrize("size", [None, 9, 40])
def test_chance_does_not_look_like_a_preference(size: int | None) -> None:
    rng = np.random.default_rng(0)
    plain = search(60)
    accused = 0
    for _ in range(100):
        places = rng.random(60) if size is None else (rng.integers(0, size, 60) + 0.5) / size
        led = tuple(replace(run, drawn=False) for run in plain.runs)
        found = of(sampler_bias(replace(plain, runs=led, columns=(Column("x", places, list(places), (), size),))))
        accused += bool(found.numbers["skewed"])
    assert accused <= 2


def test_stopping_is_told_in_a_search_and_serious_where_it_hits_some_arms() -> None:
    plain = search()
    runs = tuple(replace(run, state="stopped", value=None) if run.number % 2 else run for run in plain.runs)
    found = of(early_stopping(replace(plain, runs=runs, stopper="median")))
    assert (found.seriousness, found.numbers["stopped"]) == (MINOR, 20)
    assert found.finding == "20 trials of 40 were stopped by median, on what was seen early."
    slow = tuple(replace(run, state="stopped", value=None) if run.arm == "no conv2" else run for run in arms().runs)
    assert of(early_stopping(arms(runs=slow))).seriousness is SERIOUS
    assert early_stopping(plain) is None


def test_a_ranking_that_half_the_trials_would_not_give_is_told() -> None:
    rng = np.random.default_rng(1)
    labels = ("relu", "gelu")
    codes = np.arange(40) % 2.0
    column = Column("act", codes, [labels[int(code)] for code in codes], labels, 2)
    chance = tuple(Run(nth, value=float(rng.normal())) for nth in range(40))
    found = of(budget_sensitivity(search(runs=chance, columns=(column,))))
    assert found.finding.startswith("with fewer trials other values would come first: act=")
    clear = tuple(Run(nth, value=float(rng.normal()) + 9 * (nth % 2)) for nth in range(40))
    assert budget_sensitivity(search(runs=clear, columns=(column,))) is None


def test_what_is_judged_by_what_chose_it_is_told() -> None:
    found = of(tuning_data(arms(chosen=CHOSEN)))
    assert "trial 7 of 'search', chosen among 40 trials by 'accuracy'" in found.finding
    assert tuning_data(arms()) is None
    assert tuning_data(arms(chosen=replace(CHOSEN, metric="loss"))) is None
    assert tuning_data(Evidence(verb="fit", metric="accuracy", chosen=CHOSEN, on="train+valid")) is None


def test_arms_without_a_search_of_their_own_are_told_where_the_base_had_one() -> None:
    assert of(not_retuned(arms(chosen=CHOSEN))).seriousness is MINOR
    assert not_retuned(arms()) is None, "nobody tuned the base either"


DATA = {"train": [80, "0a", True], "valid": [20, "01", True]}
SPLIT = {"train": [80, "09", True], "valid": [20, "02", True]}
CHANGED = {"train": [80, "0b", True], "valid": [20, "07", True]}
SAMPLED = {"train": [80, "09", False], "valid": [20, "02", True]}


def on(*data: Any, before: Any = DATA) -> Evidence:
    """An ablation whose seeds had some data, one after the other, and a search that had other data before."""
    runs = tuple(Run(nth, seed=nth, value=0.5, arm="base", data=one) for nth, one in enumerate(data))
    return arms(runs=runs, chosen=replace(CHOSEN, data=before))


@pytest.mark.parametrize(
    ("evidence", "other", "tuning"),
    [
        (on(DATA, DATA), None, ", on the same rows, so the value of the base is likely too good"),
        (on(SPLIT, DATA), None, ", on rows of the same data, so"),
        (on({**DATA, "train": [90, "0b", True]}), MINOR, ", on the same rows, so"),
        (on(CHANGED, CHANGED), MINOR, ", though on other rows, some of which may be the same, so"),
        (on(CHANGED, DATA), None, ""),  # each seed draws data of its own
        (on(SAMPLED), UNKNOWN, "by which it is judged here as well, so"),
        (on({}), UNKNOWN, "by which it is judged here as well, so"),
        (on(DATA, before={}), UNKNOWN, "by which it is judged here as well, so"),
    ],
)
def test_whether_the_data_is_that_which_chose_goes_by_fingerprints(
    evidence: Evidence, other: Seriousness | None, tuning: str
) -> None:
    found, judged = different_data(evidence), tuning_data(evidence)
    assert (None if found is None else found.seriousness) is other
    assert tuning in (judged.finding if judged is not None else "")
    assert (judged is None) == (tuning == "")


def test_data_that_changed_is_told_with_its_sizes() -> None:
    found = of(different_data(on({"train": [90, "0b", True], "valid": [20, "01", True]})))
    assert "rows were train 80, valid 20, and are train 90, valid 20." in found.finding
    assert "with other values" in of(different_data(on(CHANGED))).finding
    assert different_data(arms()) is None, "nobody chose"


def test_arms_that_were_tuned_are_no_threat_but_for_what_the_whole_had_before() -> None:
    assert not_retuned(arms(retuned=10)) is None
    found = of(not_retuned(arms(retuned=10, chosen=CHOSEN)))
    assert found.numbers == {"trials": 40, "retuned": 10}
    assert "each arm had a search of 10 trials of its own" in found.finding
    assert of(tuning_data(arms(retuned=10))).finding.startswith("the configuration of each arm was chosen among 10")


def test_arms_that_begin_otherwise_are_told() -> None:
    assert unpaired_arms(arms(pairs={"no conv2": True})) is None
    assert of(unpaired_arms(arms(pairs={"no conv2": False, "x": None}))).numbers["unpaired"] == ["no conv2"]
    assert of(unpaired_arms(arms(pairs={"no conv2": None}))).seriousness is UNKNOWN


def test_what_changed_between_runs_of_a_study_is_told() -> None:
    first = Session(host="a", python="3.11.7", packages={"numpy": "2.0", "torch": "2.9"}, commit="abc", threads=1)
    assert different_code(search(sessions=(first, first))) is None
    found = of(different_code(search(sessions=(first, replace(first, packages={"numpy": "2.1", "torch": "2.9"})))))
    assert (found.seriousness, found.numbers["changed"]) == (MINOR, {"numpy": ["2.0", "2.1"]})
    edited = (first, replace(first, changed="1f"), replace(first, changed="2e"))
    assert of(different_code(search(sessions=edited))).seriousness is MINOR
    assert of(different_code(search(sessions=edited, unseen=("mylib",)))).seriousness is SERIOUS
    assert of(different_code(search(sessions=(first,), unseen=("mylib",)))).seriousness is UNKNOWN


def test_machines_that_differ_are_told_and_serious_for_times_and_uneven_arms() -> None:
    one, other = Session(hardware="EPYC"), Session(hardware="Xeon")
    assert unequal_hardware(search(sessions=(one, one))) is None
    assert of(unequal_hardware(search(sessions=(one, other)))).seriousness is MINOR
    timed = search(sessions=(one, other), metric="latency_s")
    assert of(unequal_hardware(timed)).seriousness is SERIOUS
    assert "'latency_s' is a time" in of(unequal_hardware(timed)).finding
    even = tuple(replace(run, machine="ab"[run.seed % 2]) for run in arms().runs)
    assert of(unequal_hardware(arms(runs=even))).seriousness is MINOR
    apart = tuple(replace(run, machine="a" if run.arm == "base" else "b") for run in arms().runs)
    assert of(unequal_hardware(arms(runs=apart))).numbers["uneven"] == ["base", "no conv2"]
    assert unequal_hardware(search(metric="loss", sessions=(one,))) is None


def test_a_base_that_misses_a_published_value_is_a_serious_threat() -> None:
    assert reference_missed(arms()) is None
    assert reference_missed(arms(reference=0.935)) is None, "the mean is 0.935"
    worse = of(reference_missed(arms(reference=0.97)))
    assert worse.seriousness is SERIOUS
    assert (
        worse.finding
        == "the mean of 8 runs of the base is 0.935 (0.914518 to 0.955482), and the reference is 0.97: 0.035 worse."
    )
    assert of(reference_missed(arms(reference=0.8))).seriousness is MINOR
    assert of(reference_missed(arms(reference=0.8, mode="min"))).seriousness is SERIOUS
    assert reference_missed(search(reference=0.9)) is None, "a single value, 0.89, is near"
    assert of(reference_missed(search(reference=1.5))).finding.startswith("the best trial is 0.89, and the reference")
    assert of(reference_missed(search(runs=(), reference=1.5))).seriousness is UNKNOWN


def test_the_interval_of_a_base_is_that_of_students_t() -> None:
    stats = pytest.importorskip("scipy.stats")
    from etude.analyse.threats.reference import QUANTILE

    for n in range(2, 40):
        used = QUANTILE[n - 1] if n <= len(QUANTILE) else 1.96 + 2.7 / (n - 1)
        assert used == pytest.approx(stats.t.ppf(0.975, n - 1), abs=0.02)


def test_the_most_serious_comes_first_and_a_summary_has_those_alone() -> None:
    found = threats_of(arms(chosen=CHOSEN, pairs={"no conv2": None}, reference=0.97))
    assert [one.seriousness for one in found] == [SERIOUS, MINOR, MINOR, UNKNOWN, UNKNOWN]
    assert found.serious == [found["reference not reproduced"]]
    assert len(found.lines()) == 1
    assert str(found).startswith("5 threats to what this study says.\n  reference not reproduced (serious): ")
    assert set(MAY_BE_SERIOUS) <= set(ALL)


@pytest.mark.parametrize("evidence", [Evidence(), Evidence(verb="ablate"), Evidence(verb="fit", reference=1.0)])
def test_a_study_of_nothing_is_looked_at_without_complaint(evidence: Evidence) -> None:
    assert {one.seriousness for one in threats_of(evidence)} <= {UNKNOWN}
