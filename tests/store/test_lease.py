"""The lease: one driver at a time, a dead one is followed at once, and one that stands still is overtaken."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from etude.core.clock import VirtualClock
from etude.core.errors import StudyInUseError
from etude.core.events import Joined
from etude.store import lease as module
from etude.store.journal import Journal
from etude.store.lease import WATCH_S, host_id, start_time

Open = Callable[[], Journal]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open the same journal as often as it is called."""
    with ExitStack() as stack:
        stack.enter_context(closing(Journal.create(tmp_path, {})))
        yield lambda: stack.enter_context(closing(Journal.write(tmp_path)))


def take(journal: Journal, driver: str, clock: VirtualClock, meanwhile: Callable[[], None] = lambda: None) -> int:
    """Take the lease by a clock of the test's; ``meanwhile`` is what the others do at each look."""

    def wait(seconds: float) -> None:
        clock.advance(seconds)
        meanwhile()

    return journal.lease.take(driver, wait=wait, now_s=clock.now_s)


def test_the_first_driver_takes_epoch_one_at_once(opened: Open) -> None:
    clock = VirtualClock()
    journal = opened()
    assert journal.lease.held_by() is None
    assert take(journal, "first", clock) == journal.lease.epoch == 1
    assert clock.now_s() == 0
    assert journal.lease.held_by() == (os.uname().nodename, os.getpid())


def test_after_a_goodbye_the_next_takes_it_at_once(opened: Open) -> None:
    clock = VirtualClock()
    first = opened()
    take(first, "first", clock)
    first.append([Joined(at=1.0, worker="a")])
    first.lease.release()
    second = opened()
    assert second.lease.held_by() is None
    assert take(second, "second", clock) == 2
    assert clock.now_s() == 0


def test_a_goodbye_while_the_newcomer_watches_ends_the_wait(opened: Open) -> None:
    clock = VirtualClock()
    first, second = opened(), opened()
    take(first, "first", clock)

    def say_goodbye() -> None:
        if clock.now_s() == 3.0:
            first.lease.release()

    assert take(second, "second", clock, say_goodbye) == 2
    assert clock.now_s() == 3.0


def test_a_dead_process_is_followed_at_once(tmp_path: Path, opened: Open) -> None:
    code = "import sys, pathlib, os; from etude.store.journal import Journal; "
    code += "j = Journal.write(pathlib.Path(sys.argv[1])); j.lease.take('dead'); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    clock = VirtualClock()
    journal = opened()
    assert journal.lease.held_by() is None
    assert take(journal, "next", clock) == 2
    assert clock.now_s() == 0


def test_a_process_that_only_has_the_dead_ones_number_is_not_taken_for_it(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    first, second = opened(), opened()
    take(first, "first", clock)
    monkeypatch.setattr(module, "start_time", lambda pid: "another moment")
    assert take(second, "second", clock) == 2
    assert clock.now_s() == 0


def test_a_holder_on_another_machine_cannot_be_looked_up_so_it_is_watched(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    first, second = opened(), opened()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(module, "host_id", lambda: "elsewhere/boot/space")
        take(first, "first", clock)
    assert second.lease.held_by() == ("elsewhere", os.getpid())
    assert take(second, "second", clock) == 2
    assert clock.now_s() == WATCH_S


def test_a_holder_that_is_alive_keeps_it(opened: Open) -> None:
    clock = VirtualClock()
    first, second = opened(), opened()
    take(first, "first", clock)

    def beat() -> None:
        if clock.now_s() == 2.0:
            first.lease.beat()

    with pytest.raises(StudyInUseError) as refused:
        take(second, "second", clock, beat)
    assert str(refused.value) == (
        f"Another driver works on this study (process {os.getpid()} on {os.uname().nodename}). Two would undo each "
        "other's work. Wait for it, end it with `etude stop`, or give this study another name."
    )
    assert clock.now_s() == 2.0
    assert second.lease.epoch == 0
    first.append([Joined(at=1.0, worker="a")])


def test_a_holder_that_stands_still_is_overtaken_after_ten_seconds_and_writes_nothing_more(opened: Open) -> None:
    clock = VirtualClock(now_s=1e9)
    first, second = opened(), opened()
    take(first, "first", clock)
    assert take(second, "second", clock) == 2
    assert clock.now_s() == 1e9 + WATCH_S
    for _ in range(2):
        with pytest.raises(StudyInUseError, match="has taken this study over while this one stood still"):
            first.append([Joined(at=1.0, worker="a")])
    first.lease.beat()
    first.lease.release()
    second.append([Joined(at=2.0, worker="b")])
    assert list(second.facts()) == [Joined(at=2.0, worker="b")]
    assert second.lease.held_by() is not None


def test_the_same_process_may_not_hold_it_twice_while_it_works(opened: Open) -> None:
    clock = VirtualClock()
    first, second = opened(), opened()
    take(first, "same", clock)
    with pytest.raises(StudyInUseError, match="Another driver works on this study"):
        take(second, "same", clock, first.lease.beat)


def test_of_two_at_the_same_moment_one_gets_it(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    early, late = opened(), opened()
    look = late.lease.held_by

    def look_and_be_too_slow() -> tuple[str, int] | None:
        found = look()
        early.lease.take("early")
        return found

    monkeypatch.setattr(late.lease, "held_by", look_and_be_too_slow)
    with pytest.raises(StudyInUseError, match="Another driver took this study up or wrote to it at the same moment"):
        late.lease.take("late")
    early.lease.check()
    assert (early.lease.epoch, late.lease.epoch) == (1, 0)


def test_who_read_the_study_before_its_last_fact_was_written_does_not_get_it(opened: Open) -> None:
    clock = VirtualClock()
    first, second = opened(), opened()
    take(first, "first", clock)
    first.append([Joined(at=1.0, worker="a")])
    first.lease.release()
    with pytest.raises(StudyInUseError) as refused:
        take(second, "second", clock)
    assert str(refused.value) == (
        "Another driver took this study up or wrote to it at the same moment. Let one of the two go on; if it has "
        "ended, run this one again."
    )
    assert take(opened(), "second again", clock) == 2


def test_a_process_is_known_by_its_start_and_a_machine_by_its_name() -> None:
    assert host_id().split("/")[0] == os.uname().nodename
    assert start_time(os.getpid()) == start_time(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(child.pid) is None or sys.platform != "linux"  # a zombie is dead
    child.wait()
    assert start_time(child.pid) is None
