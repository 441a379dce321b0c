"""Threads and cores are changed together, for all threads of the process, and put back."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from etude.frameworks import thread_knobs
from etude.frameworks.keras_knobs import KerasKnobs
from etude.frameworks.thread_knobs import ThreadKnobs, least_taken

pytestmark = pytest.mark.skipif(not thread_knobs.allowed_cpus(), reason="the system does not bind threads to cores")


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def other() -> Iterator[threading.Thread]:
    """A thread that waits."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield thread
    over.set()
    thread.join()


def masks() -> set[frozenset[int]]:
    return {frozenset(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")}


def test_cores_are_those_of_all_threads_and_fewer_of_them_compute(other: threading.Thread) -> None:
    said: list[str] = []
    knobs = ThreadKnobs(say=said.append)
    cpus = os.sched_getaffinity(0)
    assert knobs.now == {"threads": 2, "cores": len(cpus)}
    if len(cpus) < 2:
        pytest.skip("there is one core")

    knobs.apply({"cores": 1})
    assert torch.get_num_threads() == 1
    (mask,) = masks()
    assert len(mask) == 1
    assert mask < cpus

    knobs.apply({"threads": 1})
    assert (torch.get_num_threads(), masks()) == (1, {frozenset(cpus)})

    knobs.apply({})
    assert (torch.get_num_threads(), masks()) == (2, {frozenset(cpus)})
    knobs.apply({"cores": 1, "threads": 1})
    knobs.close()
    assert (torch.get_num_threads(), masks()) == (2, {frozenset(cpus)})
    assert not said


def test_no_setting_gives_more_than_the_share() -> None:
    torch.set_num_threads(1)
    knobs = ThreadKnobs(say=print)
    knobs.apply({"threads": 64, "cores": 1000})
    assert torch.get_num_threads() == 1
    assert len(os.sched_getaffinity(0)) == knobs.now["cores"]
    knobs.close()


def test_a_change_that_fails_is_put_back_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    knobs = ThreadKnobs(say=said.append)

    def refuse(task: int, cpus: set[int]) -> None:
        raise PermissionError("not allowed")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    if knobs.now["cores"] == 1:
        pytest.skip("there is one core")
    for _ in range(3):
        knobs.apply({"cores": 1})
    assert said == ["cores could not be set, and stay as they were: not allowed"]
    assert knobs.lacks == {"cores": "it could not be set: not allowed. Leave it out of the knobs."}
    assert torch.get_num_threads() == 2
    knobs.close()


def test_a_system_without_affinity_lacks_cores_and_has_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_knobs, "allowed_cpus", set)
    knobs = ThreadKnobs(say=print)
    assert knobs.now == {"threads": 2}
    assert list(knobs.lacks) == ["cores"]
    knobs.apply({"threads": 1, "cores": 1})
    assert torch.get_num_threads() == 1
    knobs.close()
    assert torch.get_num_threads() == 2


def test_all_cores_are_among_those_that_are_taken_least() -> None:
    cpus = os.sched_getaffinity(0)
    assert set(least_taken(cpus)) == cpus


def test_keras_has_threads_and_says_why_not_the_others() -> None:
    knobs = KerasKnobs(say=print)
    assert set(knobs.now) == {"threads", "cores"}
    assert {"loader_workers", "batch_size", "compile", "amp"} <= set(knobs.lacks)
    knobs.apply({"threads": 1, "loader_workers": 4})
    assert torch.get_num_threads() == 1
    knobs.close()


def test_threads_that_the_training_function_sets_before_anything_is_tuned_are_the_default() -> None:
    knobs = ThreadKnobs(say=print)
    torch.set_num_threads(1)
    assert knobs.now["threads"] == 1
    knobs.apply({"threads": 2})
    assert torch.get_num_threads() == 2
    knobs.apply({"threads": 3})
    assert torch.get_num_threads() == 2  # its share
    knobs.apply({})
    assert torch.get_num_threads() == 1
    knobs.apply({"threads": 2})
    knobs.close()
    assert torch.get_num_threads() == 1


def test_a_function_that_asks_for_one_thread_before_anything_is_looked_at_may_be_given_its_share() -> None:
    torch.set_num_threads(1)
    knobs = ThreadKnobs(say=print, share=2)
    assert knobs.now["threads"] == 1
    knobs.apply({"threads": 64})
    assert torch.get_num_threads() == 2
    knobs.close()
    assert torch.get_num_threads() == 1


def test_who_sets_threads_in_the_middle_has_their_way() -> None:
    said: list[str] = []
    knobs = ThreadKnobs(say=said.append)
    cpus = os.sched_getaffinity(0)
    knobs.apply({"threads": 1, "cores": 1})
    torch.set_num_threads(2)  # by the training function
    for setting in ({"threads": 1}, {}, {"cores": 1}):
        knobs.apply(setting)
        assert (torch.get_num_threads(), masks()) == (2, {frozenset(cpus)})
    assert knobs.now == {}
    assert set(knobs.lacks) == {"threads", "cores"}
    assert said == [
        "threads and cores are left alone from now on: the training function sets how many threads compute. Leave that "
        "out of it, or out of the knobs."
    ]
    torch.set_num_threads(1)
    knobs.close()
    assert torch.get_num_threads() == 1


def test_where_nothing_computes_in_threads_there_is_no_such_knob(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    knobs = ThreadKnobs(say=print)
    assert set(knobs.now) == {"cores"}
    assert "threadpoolctl" in knobs.lacks["threads"]
    monkeypatch.undo()  # the training function loads it
    assert set(knobs.now) == {"threads", "cores"}
    knobs.close()
