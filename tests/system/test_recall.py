"""Reuse or probe: what similar runs agree on is reused, and everything else is probed."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from made_up_runs import entry, run_of, workloads

from etude.core.errors import ConfigError
from etude.system.clusterings import KMeans
from etude.system.entries import Entry, Probed
from etude.system.knobs import Setting
from etude.system.recall import reuse_or_probe
from etude.system.similarity import Match, Nearest, Recogniser
from etude.system.vectors import Rates

SLOW: Setting = {}
FAST: Setting = {"threads": 4}
OTHER: Setting = {"loader_workers": 2}


def costs(*told: tuple[Setting, float]) -> tuple[Probed, ...]:
    return tuple(Probed(setting, cost) for setting, cost in told)


def repeated(n: int, told: tuple[Probed, ...], *, seed: int = 0, which: int = 0, digest: str = "ab" * 8) -> list[Entry]:
    """Return entries of one workload, with the best of what it cost."""
    draws = np.random.default_rng([seed, which])
    best = min(told, key=lambda one: one.cost).setting
    return [entry(run_of(workloads(seed, 4)[which], draws), digest, best=best, costs=told) for _ in range(n)]


class Alike:
    """All runs are alike, and the first one is the nearest."""

    def fit(self, past: Sequence[Rates], groups: Sequence[str]) -> Alike:
        self.known = Match(0, 0.5, True, "they always are", tuple(range(len(past))))
        return self

    def look_up(self, rates: Rates) -> Match:
        return self.known


def another(seed: int = 0, which: int = 0) -> dict[str, float]:
    """Return the rates of one more run, in the midst of the others."""
    return workloads(seed, 4)[which]


def test_what_was_best_for_a_repeated_workload_is_reused() -> None:
    here = repeated(8, costs((SLOW, 10.0), (FAST, 6.0), (OTHER, 11.0)))
    elsewhere = repeated(8, costs((SLOW, 3.0), (FAST, 9.0)), which=1, digest="cd" * 8)
    answer = reuse_or_probe([*here, *elsewhere], another(), Nearest())
    assert answer.setting == FAST
    assert re.fullmatch(
        r"Known: of \d similar runs this was the best setting, or 0\.0% from it on average; "
        r"the nearest past run is [\d.]+ away, and repeats lie within [\d.]+\.",
        answer.why,
    )
    assert reuse_or_probe([*here, *elsewhere], another(which=1), Nearest()).setting == SLOW


def test_a_foreign_workload_is_probed() -> None:
    answer = reuse_or_probe(repeated(8, costs((SLOW, 10.0), (FAST, 6.0))), another(which=2), Nearest())
    assert answer.setting is None
    assert answer.why.startswith("Unknown: the nearest past run is ")


def test_nothing_is_known_without_history() -> None:
    answer = reuse_or_probe([], another(), Nearest())
    assert (answer.setting, answer.why) == (None, "Unknown: no past run has rates to compare with.")


def test_of_nearly_equal_settings_the_one_is_taken_that_costs_least_over_all_runs() -> None:
    first = repeated(3, costs((SLOW, 10.0), (FAST, 6.0), (OTHER, 6.3)))
    second = repeated(4, costs((SLOW, 10.0), (FAST, 6.3), (OTHER, 6.0)))
    assert reuse_or_probe([*first, *second], another(), Alike()).setting == OTHER


def test_of_equal_settings_the_one_is_taken_that_the_nearest_run_found_best() -> None:
    first = repeated(1, costs((OTHER, 6.0), (FAST, 6.0)))
    second = repeated(1, costs((FAST, 6.0), (OTHER, 6.0)))
    assert reuse_or_probe([*first, *second], another(), Alike()).setting == OTHER
    assert reuse_or_probe([*second, *first], another(), Alike()).setting == FAST


def test_a_setting_that_few_of_the_similar_runs_have_tried_is_not_taken() -> None:
    most = repeated(6, costs((SLOW, 10.0), (FAST, 6.0)))
    one = repeated(1, costs((OTHER, 5.0), (SLOW, 10.0)))
    assert reuse_or_probe([*one, *most], another(), Alike()).setting == FAST


def test_similar_runs_that_do_not_agree_are_no_reason_to_reuse() -> None:
    first = repeated(4, costs((SLOW, 10.0), (FAST, 5.0)))
    second = repeated(4, costs((SLOW, 5.0), (FAST, 10.0)))
    answer = reuse_or_probe([*first, *second], another(), Alike())
    assert answer.setting is None
    assert answer.why == (
        "8 similar runs do not agree: no setting comes closer than 50% to what was best for each; they always are."
    )


def test_what_was_learned_is_kept_until_a_run_comes_that_it_does_not_know() -> None:
    fits: list[int] = []

    class Counting:
        def fit(self, past: Sequence[Rates], groups: Sequence[str]) -> Recogniser:
            fits.append(len(past))
            return Nearest().fit(past, groups)

    here = repeated(8, costs((SLOW, 10.0), (FAST, 6.0)))
    elsewhere = repeated(8, costs((SLOW, 3.0), (FAST, 9.0)), which=1, digest="cd" * 8)
    similarity = Counting()
    answer = reuse_or_probe(here, another(), similarity)
    answer = reuse_or_probe([*here, *elsewhere], another(), similarity, learned=answer.learned)
    assert fits == [8]
    answer = reuse_or_probe([*here, *elsewhere], another(which=1), similarity, learned=answer.learned)
    assert (answer.setting, fits) == (SLOW, [8, 16])
    answer = reuse_or_probe([*here, *elsewhere], another(which=2), similarity, learned=answer.learned)
    assert (answer.setting, fits) == (None, [8, 16])  # nothing was added since


def test_what_was_forgotten_is_not_reused() -> None:
    here = repeated(8, costs((SLOW, 10.0), (FAST, 6.0)))
    learned = reuse_or_probe(here, another(), Nearest()).learned
    assert reuse_or_probe(here[4:], another(), Nearest(), learned=learned).setting is None


def test_clusters_are_made_anew_when_a_run_lies_further_than_the_inertia() -> None:
    here = repeated(8, costs((SLOW, 10.0), (FAST, 6.0)))
    far = [
        entry({name: value * 1e6 for name, value in one.rates.items()}, "cd" * 8, best=OTHER)
        for one in repeated(8, costs((SLOW, 1.0)))
    ]
    new = {name: value * 1e6 for name, value in another().items()}
    first = reuse_or_probe(here, new, KMeans(k=2))
    assert first.setting is None
    again = reuse_or_probe([*here, *far], new, KMeans(k=2), learned=first.learned)
    assert again.setting == OTHER
    assert again.learned is not first.learned


@pytest.mark.parametrize("seed", range(5))
def test_repeated_workloads_skip_probing_and_a_wrong_setting_is_hardly_ever_reused(seed: int) -> None:
    draws = np.random.default_rng(seed)
    made = workloads(seed, 12)
    knobs: list[Setting] = [{"threads": n} for n in range(1, 7)]
    true = draws.uniform(0.5, 1.5, (12, 6))
    history: list[Entry] = []
    for n in [*range(12)] * 10:
        told = costs(*zip(knobs, (true[n] * draws.uniform(0.98, 1.02, 6)).tolist(), strict=True))
        best = min(told, key=lambda one: one.cost).setting
        history.append(entry(run_of(made[n], draws), f"{n:08x}", best=best, costs=told))
    answers = []
    for nth, one in enumerate(history):  # each is left out once
        answers.append(
            (int(one.workload, 16), reuse_or_probe([*history[:nth], *history[nth + 1 :]], one.rates, Nearest()))
        )
    reused = [(n, knobs.index(answer.setting)) for n, answer in answers if answer.setting is not None]
    assert len(reused) >= 0.9 * len(answers)
    assert sum(true[n, chosen] > 1.05 * true[n].min() for n, chosen in reused) <= 0.01 * len(answers)


def test_what_is_no_entry_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        entry({"a": 1.0}, "resnet on cifar")
    assert str(refused.value) == (
        "workload='resnet on cifar' is no digest. Names are not remembered. Pass what History.digest gives."
    )
    with pytest.raises(ConfigError) as refused:
        entry({"a": float("nan"), "b": 1.0}, costs=costs((SLOW, 0.0)))
    assert str(refused.value) == (
        "a=nan, cost=0.0: nothing can be compared with that. Rates and times are finite numbers, and costs positive "
        "ones; leave out what was not measured."
    )


def test_runs_of_one_workload_are_averaged_since_each_was_lucky_with_another_setting() -> None:
    measured = ((6.0, 6.6), (5.4, 6.5), (6.8, 6.2), (5.8, 6.7), (6.9, 6.3))
    runs = [one for fast, other in measured for one in repeated(1, costs((SLOW, 10.0), (FAST, fast), (OTHER, other)))]
    assert [one.best for one in runs] == [FAST, FAST, OTHER, FAST, OTHER]
    assert reuse_or_probe(runs, another(), Alike()).setting == FAST


def test_what_is_hardly_better_than_the_default_over_repeats_is_left() -> None:
    noise = (0.2, -0.1, -0.12)
    runs = [one for more in noise for one in repeated(1, costs((SLOW, 10.0), (FAST, 10.0 * (1 + more))))]
    assert reuse_or_probe(runs, another(), Alike()).setting == SLOW
    clear = [one for more in noise for one in repeated(1, costs((SLOW, 10.0), (FAST, 6.0 * (1 + more))))]
    assert reuse_or_probe(clear, another(), Alike()).setting == FAST
