"""How many workers a call asks for, and what stands in where it does not say."""

from __future__ import annotations

from typing import Any

import pytest

import etude
from etude.core.errors import ConfigError
from etude.engines.cluster import Cluster
from etude.launching import call

CORES = 4


def numbers(workers: object, engine: object = "local") -> tuple[int, int]:
    """Return how many workers there are, at least and at most."""
    given: Any = workers
    read = call.Call.read(
        workers=given, name=None, retries=2, timeout_s=None, grace_s=10.0, reuse_child=False, engine=engine
    )
    return read.least_workers, read.workers


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "available_cores", lambda: CORES)


@pytest.mark.parametrize(
    ("workers", "wanted"),
    [
        (None, (1, CORES)),
        (3, (1, 3)),
        ((2, 16), (2, 16)),
        ([2, 16], (2, 16)),
        ((2, None), (2, CORES)),
        ((CORES, None), (CORES, CORES)),
        ((CORES + 1, None), (CORES + 1, CORES + 1)),
    ],
)
def test_a_range_that_is_open_goes_up_to_the_cores_and_no_further(workers: object, wanted: tuple[int, int]) -> None:
    assert numbers(workers) == wanted


def test_a_range_that_is_open_leaves_it_to_an_engine_with_a_number_of_its_own() -> None:
    assert numbers((2, None), Cluster()) == (2, Cluster.usual_workers)
    assert numbers((Cluster.usual_workers + 1, None), Cluster())[1] == Cluster.usual_workers + 1
    assert numbers((2, None), etude.Simulated(curves=lambda trial: [1.0], workers=8)) == (2, 8)


NO_RANGE = " is no range. Pass a number, or (least, most), as in (2, 16); (2, None) leaves open how many may come."


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ((16, 2), "workers=(16, 2)" + NO_RANGE),
        ((1, 2, 3), "workers=(1, 2, 3)" + NO_RANGE),
        ((None, None), "workers=None (NoneType) is no whole number. Pass one."),
        (("2", 16), "workers='2' (str) is no whole number. Pass one."),
        ((0, None), "workers=0 cannot be: nobody would run the trials. Pass workers=1 or more."),
        ((1, 2.5), "workers=2.5 (float) is no whole number. Pass one."),
    ],
)
def test_what_is_no_range_is_refused(workers: object, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        numbers(workers)
    assert str(refused.value) == message


def test_nobody_waits_for_more_workers_than_an_engine_will_ever_have() -> None:
    with pytest.raises(ConfigError) as refused:
        numbers((9, None), etude.Simulated(curves=lambda trial: [1.0], workers=8))
    assert str(refused.value) == (
        "workers=(9, None), and engine=Simulated(...) has 8 of its own. Say it once: leave workers= out."
    )
