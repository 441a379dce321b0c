"""Which studies go on from their journal: those whose parts have names."""

from __future__ import annotations

from etude.engines.named import ENGINES
from etude.results.going_on import BY_NAME, SIMILARITIES, in_no_journal
from etude.system.clusterings import CLUSTERINGS


def test_every_engine_that_has_a_name_is_in_the_journal_by_it() -> None:
    assert set(BY_NAME) == set(ENGINES)
    for name in ENGINES:
        assert in_no_journal({"engine": name}) == in_no_journal({"engine": f"{name}(port=8443)"}) == []


def test_an_engine_that_is_an_object_is_not() -> None:
    assert in_no_journal({"engine": "Cluster"}) == ["an engine with options (Cluster)"]


def test_a_similarity_that_has_a_name_is_in_the_journal_by_it() -> None:
    assert {"nearest", "k-means", *CLUSTERINGS} == SIMILARITIES
    assert in_no_journal({"system": {}}) == in_no_journal({"system": {"similarity": "dbscan"}}) == []


def test_a_similarity_that_is_an_object_is_not() -> None:
    assert in_no_journal({"system": {"similarity": "KMeans"}}) == ["a similarity of its own (KMeans)"]
