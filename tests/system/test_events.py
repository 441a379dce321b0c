"""Counters of the kernel: which are opened, how turns are made up for, and what is said where there are none."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from etude.system.sources.events import HARDWARE, ROUND_NS, SOFTWARE, Events, hardware, software
from etude.system.sources.perf import ALONE, Count, Event, Kernel
from etude.system.sources.source import Missing, Rung

CYCLES, INSTRUCTIONS = HARDWARE[0]
PAGES = 1000


class FakeCounters:
    """A kernel whose counters say what a test sets; some events, and some threads, it does not know."""

    def __init__(self, *lacks: str, error: int = errno.ENOENT, gone: tuple[int, ...] = ()) -> None:
        self.lacks = lacks
        self.error = error
        self.gone = gone
        self.opened: dict[int, tuple[str, int, int]] = {}
        self.closed: list[int] = []
        self.says: dict[str, Count] = {}

    def open(self, event: Event, thread: int, leader: int) -> int:
        if thread in self.gone:
            raise ProcessLookupError(errno.ESRCH, "gone")
        if "all" in self.lacks or event.name in self.lacks:
            raise OSError(self.error, os.strerror(self.error))
        descriptor = 100 + len(self.opened)
        self.opened[descriptor] = (event.name, thread, leader)
        return descriptor

    def read(self, descriptor: int) -> Count:
        return self.says.get(self.opened[descriptor][0], Count(0, 0, 0))

    def close(self, descriptor: int) -> None:
        self.closed.append(descriptor)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Return a /proc in which this process has two threads."""
    for thread in (7, 9):
        (tmp_path / "self" / "task" / str(thread)).mkdir(parents=True)
    return str(tmp_path)


def opened(found: Events | Missing) -> Events:
    assert isinstance(found, Events), found
    return found


def test_each_thread_has_counters_and_events_of_a_group_take_turns_together(root: str) -> None:
    counters = FakeCounters()
    opened(hardware(root, counters, files=100_000))
    assert list(counters.opened.values())[:4] == [
        ("cycles", 7, ALONE),
        ("cycles", 9, ALONE),
        ("instructions", 7, 100),
        ("instructions", 9, 101),
    ]
    assert len(counters.opened) == 2 * sum(map(len, HARDWARE))


def test_an_event_that_a_machine_lacks_is_left_out_and_the_next_one_leads(root: str) -> None:
    counters = FakeCounters("cycles")
    source = opened(hardware(root, counters, files=100_000))
    assert list(counters.opened.values())[:2] == [("instructions", 7, ALONE), ("instructions", 9, ALONE)]
    assert "instructions" in source.read()
    assert "cycles" not in source.read()


def test_a_thread_that_has_ended_meanwhile_is_passed_over(root: str) -> None:
    counters = FakeCounters(gone=(9,))
    opened(software(root, counters))
    assert {thread for _, thread, _ in counters.opened.values()} == {7}


def test_counts_of_all_threads_are_added_up_in_their_unit(root: str) -> None:
    counters = FakeCounters()
    source = opened(software(root, counters))
    counters.says = {"task clock s": Count(1_500_000_000, 10, 10), "page faults": Count(3, 10, 10)}
    said = source.read()
    assert said["task clock s"] == pytest.approx(3.0)
    assert said["page faults"] == 6


def test_each_stretch_is_scaled_by_its_own_turns(root: str) -> None:
    counters = FakeCounters()
    source = opened(hardware(root, counters, files=100_000))
    counters.says["cycles"] = Count(100, 10, 5)  # half of the time: 200 of each thread
    assert source.read()["cycles"] == pytest.approx(400)
    counters.says["cycles"] = Count(200, 20, 15)  # all of the time since
    assert source.read()["cycles"] == pytest.approx(400 + 200)


def test_an_event_without_a_turn_in_a_long_stretch_is_left_out_and_counts_with_the_next(root: str) -> None:
    counters = FakeCounters()
    source = opened(hardware(root, counters, files=100_000))
    counters.says = {"cycles": Count(0, ROUND_NS, 0), "instructions": Count(5, 10, 10)}
    assert "cycles" not in source.read()
    assert source.read()["instructions"] == 10
    counters.says["cycles"] = Count(50, 2 * ROUND_NS, ROUND_NS)
    assert source.read()["cycles"] == pytest.approx(200)


def test_a_stretch_too_short_for_a_turn_leaves_a_total_as_it_is(root: str) -> None:
    counters = FakeCounters()
    source = opened(hardware(root, counters, files=100_000))
    counters.says["cycles"] = Count(50, 10, 10)
    source.read()
    counters.says["cycles"] = Count(50, 10 + ROUND_NS // 4, 10)
    assert source.read()["cycles"] == 100


def test_closing_closes_every_counter_and_does_no_harm_twice(root: str) -> None:
    counters = FakeCounters()
    source = opened(software(root, counters))
    source.close()
    source.close()
    assert sorted(counters.closed) == sorted(counters.opened)


def test_counters_take_no_more_than_their_part_of_the_files(root: str) -> None:
    counters = FakeCounters()
    opened(hardware(root, counters, files=40))
    assert {name for name, _, _ in counters.opened.values()} == {
        event.name for group in HARDWARE[:2] for event in group
    }


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (errno.ENOENT, "perf_event_open says ENOENT: this machine has none, as most virtual machines do"),
        (
            errno.EACCES,
            "perf_event_open says EACCES: there is no permission. `sysctl kernel.perf_event_paranoid=2` or less "
            "gives it",
        ),
        (
            errno.EPERM,
            "perf_event_open says EPERM: there is no permission. In a container, allow perf_event_open or give it "
            "CAP_PERFMON",
        ),
        (errno.EIO, "perf_event_open says EIO: Input/output error"),
    ],
)
def test_without_any_event_it_is_said_why(root: str, error: int, why: str) -> None:
    assert hardware(root, FakeCounters("all", error=error), files=100_000) == Missing("hardware counters", why)


def test_with_too_few_files_it_is_said_how_to_have_more(root: str) -> None:
    assert str(hardware(root, FakeCounters(), files=8)) == (
        "no hardware counters: perf_event_open says EMFILE: this process may open too few files. A higher `ulimit -n` "
        "helps"
    )


def test_without_a_list_of_threads_nothing_is_counted(tmp_path: Path) -> None:
    found = software(str(tmp_path), FakeCounters())
    assert str(found) == (f"no software events: {tmp_path}/self/task says ENOENT: this process cannot list its threads")


def test_a_machine_whose_call_is_not_known_has_no_counters() -> None:
    with pytest.raises(OSError, match="not implemented") as raised:
        Kernel("pdp11").open(CYCLES, 0, ALONE)
    assert raised.value.errno == errno.ENOSYS


# --- the real kernel ------------------------------------------------------------------------------


@pytest.fixture
def real() -> Iterator[Events]:
    found = software()
    if isinstance(found, Missing):
        pytest.skip(str(found))
    yield found
    found.close()


def touch_pages() -> None:
    """Touch memory that nobody has touched yet: one fault of each page."""
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1


def test_the_kernel_counts_for_this_thread(real: Events) -> None:
    before = real.read()["page faults"]
    touch_pages()
    after = real.read()
    assert after["page faults"] - before >= PAGES
    assert after["task clock s"] > 0
    assert real.rung is Rung.SOFTWARE


def test_the_kernel_counts_for_threads_old_and_new() -> None:
    go = threading.Event()

    def wait_and_touch() -> None:
        go.wait()
        touch_pages()

    old = threading.Thread(target=wait_and_touch)
    old.start()
    source = software()
    new = threading.Thread(target=touch_pages)
    try:
        if isinstance(source, Missing):
            pytest.skip(str(source))
        before = source.read()["page faults"]
        new.start()
        new.join()
        after_new = source.read()["page faults"]
        go.set()
        old.join()
        after_old = source.read()["page faults"]
    finally:
        go.set()
        old.join()
        source.close() if isinstance(source, Events) else None
    assert after_new - before >= PAGES
    assert after_old - after_new >= PAGES


def test_the_kernel_counts_for_children(real: Events) -> None:
    before = real.read()["page faults"]
    code = f"import mmap\nm = mmap.mmap(-1, {PAGES} * 4096); m.madvise(mmap.MADV_NOHUGEPAGE)\nm.write(bytes(len(m)))"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert real.read()["page faults"] - before >= PAGES * 4096 // mmap.PAGESIZE


def test_all_counters_can_be_told_apart() -> None:
    events = [event for group in (*HARDWARE, *SOFTWARE) for event in group]
    assert len({event.name for event in events}) == len({(event.type, event.config) for event in events}) == len(events)
