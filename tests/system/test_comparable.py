"""Runs are compared by what they do themselves: another job on the machine makes no other work of them."""

from __future__ import annotations

from etude.system.comparable import LEVELS, OF_THE_CACHE, OF_THE_MACHINE, OF_WAITING, TWICE, comparable
from etude.system.profile import Profile, profiler
from etude.system.sources.counted import Counted

ALONE = {
    "steps": 10.0,
    "task clock s": 1.6,
    "page faults": 900.0,
    "resident GB": 0.5,
    "threads": 3.0,
    "machine user s": 1.7,
    "cpu pressure s": 0.1,
    "wait for core s": 0.05,
    "step s": 0.98,
    "loader wait s": 0.1,
}


def test_beside_another_job_a_run_is_the_same_though_it_takes_twice_as_long() -> None:
    halved = {name: rate / 2 for name, rate in ALONE.items()}
    beside = {
        **halved,
        **{name: ALONE[name] for name in ("resident GB", "threads")},  # levels are no rates
        "machine user s": 2.0,
        "cpu pressure s": 0.9,
        "wait for core s": 0.8,
        "step s": 0.99,
    }
    alone = comparable(Profile(ALONE, "/proc", 10.0))
    assert alone == comparable(Profile(beside, "/proc", 20.0))
    assert alone == {"task clock s": 0.16, "page faults": 90.0, "resident GB": 0.5, "threads": 3.0, "steps": 100.0}


def test_an_epoch_that_finds_its_data_in_memory_is_the_same_as_one_that_fetched_it_from_the_disk() -> None:
    fetched = {**ALONE, "bytes from disk": 4e6, "page faults from disk": 30.0, "major faults": 30.0}
    assert comparable(Profile(fetched, "/proc", 10.0)) == comparable(Profile(ALONE, "/proc", 10.0))


def test_what_two_sources_count_counts_once_and_alone_where_one_is_missing() -> None:
    both = {**ALONE, "minor faults": 900.0, "on core s": 1.6}
    assert comparable(Profile(both, "software events", 10.0)) == comparable(Profile(ALONE, "software events", 10.0))
    only = {"steps": 10.0, "minor faults": 900.0, "on core s": 1.6}
    assert comparable(Profile(only, "/proc", 10.0)) == {"minor faults": 90.0, "on core s": 0.16, "steps": 100.0}


def test_without_steps_an_epoch_is_taken_for_one() -> None:
    found = comparable(Profile({"steps": 0.0, "user s": 1.5, "resident GB": 2.0}, "/proc", 10.0))
    assert found == {"user s": 15.0, "resident GB": 2.0, "steps": 1.0}


def test_what_is_left_out_is_what_this_machine_tells_under_these_names() -> None:
    counted = Counted()
    watch = profiler(counted)
    watch.begin()
    counted.step(0.1, waited_s=0.0)
    found = watch.end()
    watch.close()
    assert found is not None
    told, compared = set(found.rates), set(comparable(found))
    assert told - compared <= OF_THE_MACHINE | OF_WAITING | OF_THE_CACHE | set(TWICE)
    assert compared & LEVELS == told & LEVELS
    assert {"user s", "resident GB"} <= compared
    assert {"machine user s", "step s"} <= told - compared


def test_the_kinds_of_numbers_have_none_in_common() -> None:
    kinds = [OF_THE_MACHINE, OF_WAITING, OF_THE_CACHE, LEVELS, frozenset(TWICE)]
    assert len(frozenset().union(*kinds)) == sum(map(len, kinds))
