"""Verdicts of an ablation: what is said before it runs, and what it came to."""

from __future__ import annotations

import random

import pytest

import etude
from etude.core.errors import ConfigError

pytest.importorskip("scipy")

TWO = [etude.setting("helps", off=0), etude.setting("idle", off=0)]


def train(seed: int, helps: int = 1, idle: int = 1) -> float:
    shared = random.Random(seed).gauss(0, 1)
    return 0.9 + shared + 0.5 * helps + 0.1 * random.Random(f"{seed} {helps} {idle}").gauss(0, 1)


def broken(seed: int, helps: int = 1, idle: int = 1) -> float:
    if not idle and seed % 2:
        raise RuntimeError("it does not work without")
    return train(seed, helps, idle)


@pytest.fixture
def experiment() -> etude.Experiment:
    return etude.Experiment(train, metric="score", mode="max")


def test_an_ablation_ends_with_verdicts(experiment: etude.Experiment) -> None:
    ablation = experiment.ablate(TWO, seeds=8, workers=2, reuse_child=True, margin=0.4)
    assert isinstance(ablation, etude.Ablation)
    found = ablation.verdicts()
    assert [one.component for one in found] == [arm.name for arm in ablation.arms[1:]]
    helps, idle = found
    assert (helps.verdict, helps.test, helps.n) == ("matters", "sign flips", 8)
    assert idle.verdict == "does not matter", "by the margin of the call"
    assert ablation.verdicts(margin=0.0001)[1].verdict == "undecided"
    assert str(found) in str(ablation)
    assert helps.effect == pytest.approx(ablation.arms[1].effect)
    assert str(etude.open(ablation.folder).verdicts()) == str(found), "it is in the journal how they are judged"  # type: ignore[attr-defined]


def test_a_plan_that_can_decide_nothing_is_refused_with_the_seeds_that_could(experiment: etude.Experiment) -> None:
    with pytest.raises(ConfigError) as refused:
        experiment.ablate(TWO, seeds=5)
    said = str(refused.value)
    assert said.startswith(
        "Nothing can be decided: with 5 seeds and 2 components no p-value can be below 0.125, corrected, and the level "
        "is 0.05. It takes 7 seeds or more, and 13 seeds to find an effect of 1 deviation"
    )
    assert said.endswith("Pass seeds=13, or fewer components; or force=True to run it all the same.")
    ablation = experiment.ablate(TWO, seeds=2, workers=2, reuse_child=True, force=True)
    assert isinstance(ablation, etude.Ablation)
    assert str(ablation.verdicts()).startswith("This plan can decide nothing")


def test_a_draft_says_first_what_it_could_find(experiment: etude.Experiment) -> None:
    draft = experiment.ablate(TWO, seeds=10, dry_run=True)
    assert not isinstance(draft, etude.Ablation)
    assert (
        str(draft).splitlines()[0].startswith("With 10 seeds and 2 components the least corrected p-value is 0.00391;")
    )
    assert draft.power(effect=3.0).power > 0.98
    assert draft.power(effect=0.2, deviation=0.1).effect == 2.0
    assert "(0.2 in the metric)" in str(draft.power(effect=0.2, deviation=0.1))
    base = experiment.ablate(TWO, seeds=7, workers=2, reuse_child=True)
    known = experiment.ablate(TWO, seeds=10, dry_run=True)
    assert "Earlier runs of the base say" in str(known)
    assert known.power(effect=1.0, deviation=base).unit == pytest.approx(known.judging.deviation)  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="is neither a number nor a study"):
        draft.power(deviation="much")


def test_trials_that_failed_are_missing_and_told() -> None:
    experiment = etude.Experiment(broken, metric="score", mode="max")
    ablation = experiment.ablate(TWO, seeds=list(range(8)), workers=2, reuse_child=True)
    idle = ablation.verdicts()[1]  # type: ignore[union-attr]
    assert idle.missing == (1, 3, 5, 7)
    assert "4 of the arm" in idle.says[0]


def test_seeds_are_added_until_it_is_decided(experiment: etude.Experiment) -> None:
    ablation = experiment.ablate(TWO, seeds="until decided", workers=2, reuse_child=True)
    assert isinstance(ablation, etude.Ablation)
    assert ablation.complete
    by = {arm.name: len(arm.values) for arm in ablation.arms}
    assert len(ablation.trials) < 3 * len(ablation.meta["question"]["seeds"])
    found = ablation.verdicts()
    assert found[0].verdict == "matters"
    assert "found by the race" in found[0].says
    assert max(by.values()) - by["base"] <= 1, "a worker that was free may have begun the next seed"
    looks = list(dict.fromkeys(trial.because for trial in ablation.trials if trial.because))
    assert all(look.startswith("after ") for look in looks)
    assert "decided after" in ablation.summary().lower()
    again = experiment.ablate(TWO, seeds="until decided", workers=1, reuse_child=True)
    assert len(again.trials) == len(ablation.trials), "it is decided, and nothing runs again"  # type: ignore[arg-type]


def test_a_race_with_a_margin_also_finds_what_does_not_matter(experiment: etude.Experiment) -> None:
    ablation = experiment.ablate(TWO, seeds="until decided", margin=0.3, workers=2, reuse_child=True)
    assert isinstance(ablation, etude.Ablation)
    helps, idle = ablation.verdicts()
    assert (helps.verdict, idle.verdict) == ("matters", "does not matter")
    assert "within the margin by the race" in idle.says
    assert ablation.verdicts().margin == 0.3
    assert "within the margin of 0.3" in str(experiment.ablate(TWO, seeds="until decided", margin=0.3, dry_run=True))
    assert str(etude.open(ablation.folder).verdicts()) == str(ablation.verdicts())  # type: ignore[attr-defined]


def test_what_was_forced_and_has_gone_on_with_enough_seeds_is_not_said_to_decide_nothing(
    experiment: etude.Experiment,
) -> None:
    few = experiment.ablate(TWO, seeds=2, workers=1, reuse_child=True, force=True)
    assert "can decide nothing" in str(few)
    enough = experiment.ablate(TWO, seeds=7, workers=1, reuse_child=True)
    assert isinstance(enough, etude.Ablation)
    assert enough.folder == few.folder  # type: ignore[union-attr]
    assert "could decide nothing" not in str(etude.open(enough.folder))
