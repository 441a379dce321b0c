"""Similarity: repeated workloads are found, foreign ones are unknown, and so is everything until enough is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import run_of, workloads

from etude.core.errors import ConfigError
from etude.system.clusterings import CLUSTERINGS, Clustering, KMeans, similarity
from etude.system.similarity import Nearest
from etude.system.vectors import ruler

Runs = tuple[list[dict[str, float]], list[str]]


def past_runs(seed: int, *, count: int, repeats: int) -> Runs:
    """Return runs of made-up workloads and the digest of the workload of each."""
    draws = np.random.default_rng(seed + 1)
    made = workloads(seed, count)
    groups = [f"{n}" for n in range(count) for _ in range(repeats)]
    return [run_of(one, draws) for one in made for _ in range(repeats)], groups


# --- the default ----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_repeated_workloads_are_found_and_foreign_ones_are_unknown(seed: int) -> None:
    made = workloads(seed, 13)
    past, groups = past_runs(seed, count=13, repeats=6)
    past, groups = past[:-6], groups[:-6]  # the last workload is never seen
    recogniser = Nearest().fit(past, groups)
    draws = np.random.default_rng(seed + 2)
    seen = [(n, recogniser.look_up(run_of(made[n], draws))) for n in range(12) for _ in range(10)]
    known = [(n, match) for n, match in seen if match.known]
    assert len(known) >= 2 / 3 * len(seen)  # what is promised is an average over histories: see the next test
    assert all(groups[match.like[0]] == f"{n}" for n, match in known)
    foreign = [recogniser.look_up(run_of(made[12], draws)) for _ in range(10)]
    assert not any(match.known or match.like for match in foreign)


@pytest.mark.parametrize("miss", [0.05, 0.2])
def test_no_more_repeats_are_missed_than_was_allowed_on_average(miss: float) -> None:
    missed = []
    for seed in range(40):
        past, groups = past_runs(seed, count=6, repeats=8)
        made, draws = workloads(seed, 6), np.random.default_rng(seed + 2)
        recogniser = Nearest(miss=miss).fit(past, groups)
        missed += [not recogniser.look_up(run_of(made[n % 6], draws)).known for n in range(50)]
    assert np.mean(missed) <= miss + 2 * np.std(missed) / np.sqrt(len(missed))


def test_until_enough_runs_were_repeated_everything_is_unknown() -> None:
    rates = {"a": 1.0, "b": 2.0}
    assert not Nearest(repeats=3).fit([], []).look_up(rates).known
    apart = Nearest(repeats=3).fit([rates] * 3, ["one", "two", "three"]).look_up(rates)
    assert not apart.known
    assert apart.nth == 0
    assert apart.why == ("0 past runs with a repeat, of the 3 it takes to know how far runs of one workload lie apart")
    assert Nearest(repeats=3).fit([rates] * 3, ["one"] * 3).look_up(rates).known


def test_a_rate_that_varies_by_itself_counts_for_little() -> None:
    past = [{"steady": 100.0 + n % 2, "wild": 10.0**n} for n in range(6)]
    recogniser = Nearest().fit(past, ["one"] * 6)
    assert recogniser.look_up({"steady": 100.5, "wild": 3e4}).known
    assert not recogniser.look_up({"steady": 300.0, "wild": 1e3}).known


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_unit_of_a_rate_does_not_matter(scale: float) -> None:
    past, groups = past_runs(3, count=4, repeats=4)
    one = run_of(workloads(3, 4)[2], np.random.default_rng(0))
    plain = Nearest().fit(past, groups).look_up(one)
    other = Nearest().fit([{n: v * scale for n, v in rates.items()} for rates in past], groups)
    assert other.look_up({n: v * scale for n, v in one.items()}).score == pytest.approx(plain.score)


def test_rates_that_one_side_lacks_are_left_out_of_both() -> None:
    past, groups = past_runs(5, count=4, repeats=4)
    recogniser = Nearest().fit(past, groups)
    whole = past[6]
    part = {name: value for nth, (name, value) in enumerate(whole.items()) if nth % 3}
    odd = {**part, "rate 0": math.nan, "rate 3": math.inf, "from elsewhere": 7.0}
    assert [recogniser.look_up(rates).nth for rates in (whole, part, odd)] == [6, 6, 6]


def test_with_hardly_a_rate_in_common_nothing_is_known() -> None:
    past, groups = past_runs(5, count=4, repeats=4)
    recogniser = Nearest().fit(past, groups)
    few = dict(list(past[0].items())[:3])
    for rates in ({}, {"from elsewhere": 1.0}, few):
        match = recogniser.look_up(rates)
        assert (match.nth, match.score, match.known) == (None, math.inf, False)
        assert match.why == "no past run has rates to compare with"


def test_rates_of_zero_are_no_infinite_ratio() -> None:
    past = [{"faults": faults, "steps": 50.0 + n} for n, faults in enumerate([0.0, 3.0, 0.0, 4.0, 5.0, 0.0])]
    match = Nearest().fit(past, ["one"] * 6).look_up({"faults": 0.0, "steps": 52.5})
    assert match.known
    assert math.isfinite(match.score)


def test_repeats_lie_one_apart_on_average() -> None:
    past, groups = past_runs(11, count=3, repeats=40)
    by = ruler(past, groups)
    rows = np.array([by.place(rates) for rates in past])
    apart = [by.distances(rows[n], rows[[n + 1]])[0] for n in range(0, 120, 2)]
    assert np.mean(np.square(apart)) == pytest.approx(1, abs=0.15)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        Nearest(miss=0.0)
    assert str(refused.value) == (
        "miss=0.0 is no share between 0 and 1. It says how many of the workloads that were seen before may be called "
        "unknown. Pass 0.05, for instance."
    )
    with pytest.raises(ConfigError) as refused:
        Nearest(repeats=1)
    assert str(refused.value) == (
        "repeats=1 is below 2. How far repeated runs lie apart cannot be learned from fewer. Pass 5, for instance."
    )


# --- clusters -------------------------------------------------------------------------------------


def test_k_means_finds_the_two_kinds_of_the_paper_and_knows_that_a_third_is_none() -> None:
    past, groups = past_runs(8, count=2, repeats=10)
    made, draws = workloads(8, 2), np.random.default_rng(0)
    recogniser = KMeans(k=2).fit(past, groups)
    for n in range(2):
        match = recogniser.look_up(run_of(made[n], draws))
        assert match.known
        assert {groups[one] for one in match.like} == {f"{n}"}
    far = recogniser.look_up({name: value * 1e5 for name, value in made[0].items()})
    assert not far.known
    assert far.score > 1


def test_k_means_takes_the_number_of_clusters_from_the_silhouette() -> None:
    past, groups = past_runs(21, count=5, repeats=8)
    recogniser = KMeans().fit([{n: v for n, v in rates.items() if n != "rate 0"} for rates in past], groups)
    found = [recogniser.look_up({n: v for n, v in rates.items() if n != "rate 0"}).like for rates in past]
    assert all({groups[one] for one in like} == {group} for like, group in zip(found, groups, strict=True))


@pytest.mark.parametrize("name", sorted(CLUSTERINGS))
def test_every_clustering_by_name_answers_for_each_run_that_it_learned(name: str) -> None:
    past, groups = past_runs(8, count=2, repeats=10)
    recogniser = similarity(name).fit(past, groups)
    known = [(nth, match) for nth, match in enumerate(map(recogniser.look_up, past)) if match.known]
    assert all(match.like[0] == nth or match.nth is not None for nth, match in known)
    assert not recogniser.look_up({rate: value * 1e9 for rate, value in past[0].items()}).known


@pytest.mark.parametrize("how", [KMeans(), KMeans(k=2), Clustering("dbscan"), Clustering("birch")])
@pytest.mark.parametrize(
    "past", [[], [{"a": 1.0}], [{"a": 1.0}] * 3, [{"a": 1.0}, {"b": 1.0}], [{"a": 1.0}, {"a": 9.0}]]
)
def test_clusterings_put_up_with_a_short_history(how: KMeans | Clustering, past: list[dict[str, float]]) -> None:
    match = how.fit(past, ["one"] * len(past)).look_up({"a": 1.0})
    assert match.known == bool(match.like)


def test_a_similarity_goes_by_its_name() -> None:
    assert isinstance(similarity("nearest"), Nearest)
    assert isinstance(similarity("k-means"), KMeans)
    with pytest.raises(ConfigError) as refused:
        similarity("kmeens")
    assert str(refused.value) == (
        "There is no similarity 'kmeens'. There are: affinity propagation, agglomerative, birch, bisecting k-means, "
        "dbscan, hdbscan, k-means, mean shift, nearest, optics."
    )
    with pytest.raises(ConfigError, match=r"does not take these options: .*'eps2'.* those of scikit-learn's DBSCAN"):
        Clustering("dbscan", {"eps2": 1})
    with pytest.raises(ConfigError, match="k=0 is below 1"):
        KMeans(k=0)
