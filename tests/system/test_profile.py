"""Profiles of epochs, of sources that a test feeds, that fail, and that are too dear."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from etude.core.clock import VirtualClock
from etude.system.profile import SHARE, Profile, Profiler, profiler
from etude.system.sources.counted import Counted
from etude.system.sources.proc import memory
from etude.system.sources.source import Missing, Rung


class Fake:
    """A source that says what a test sets."""

    def __init__(self, rung: Rung = Rung.PROC, name: str = "fake", **totals: float) -> None:
        self.rung = rung
        self.name = name
        self.totals: Mapping[str, float] = totals
        self.before: Callable[[], object] = lambda: None
        self.closed = 0

    def read(self) -> Mapping[str, float]:
        self.before()
        return self.totals

    def close(self) -> None:
        self.closed += 1


def fail() -> None:
    raise RuntimeError("the sensor fell off")


def epoch(profiler: Profiler, clock: VirtualClock, seconds: float, work: Callable[[], object]) -> Profile:
    profiler.begin()
    work()
    clock.advance(seconds)
    profile = profiler.end()
    assert profile is not None
    return profile


def test_a_profile_has_what_grew_per_second() -> None:
    clock, fake = VirtualClock(), Fake(faults=100.0)
    found = epoch(Profiler([fake], clock=clock), clock, 4, lambda: setattr(fake, "totals", {"faults": 120.0}))
    assert found == Profile({"faults": 5.0}, "/proc", 4.0)


def test_epochs_of_other_lengths_compare() -> None:
    clock, counted = VirtualClock(), Counted()
    it = Profiler([counted], clock=clock)

    def steps(count: int) -> None:
        for _ in range(count):
            counted.step(0.5, waited_s=0.125)

    short, long = (epoch(it, clock, count / 2, lambda count=count: steps(count)) for count in (4, 40))
    assert short.rates == pytest.approx(long.rates)
    assert short.rates["loader wait s"] == pytest.approx(0.25)
    assert short.per_step() == pytest.approx({"step s": 0.5, "step s squared": 0.25, "loader wait s": 0.125})


def test_what_nobody_said_would_be_counted_is_told_from_the_next_epoch_on() -> None:
    clock, counted = VirtualClock(), Counted("steps")
    it = Profiler([counted], clock=clock)
    assert epoch(it, clock, 2, lambda: counted.add("copied GB", 6)).rates == {"steps": 0.0}
    assert epoch(it, clock, 2, lambda: counted.add("copied GB", 6)).rates == {"steps": 0.0, "copied GB": 3.0}


def test_without_steps_there_are_no_rates_per_step() -> None:
    assert Profile({"faults": 5.0}, "/proc", 4.0).per_step() == {}
    assert Profile({"faults": 5.0, "steps": 0.0}, "/proc", 4.0).per_step() == {}


def test_a_profile_travels() -> None:
    profile = Profile({"faults": 5.0}, Rung.PROC.value, 4.0)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(profile), type=Profile) == profile


@pytest.mark.parametrize("after", [{}, {"faults": 90.0}, {"faults": float("nan")}, {"other": 100.0}])
def test_what_one_reading_lacks_or_what_fell_is_left_out(after: dict[str, float]) -> None:
    clock, fake = VirtualClock(), Fake(faults=100.0)
    found = epoch(Profiler([fake], clock=clock), clock, 4, lambda: setattr(fake, "totals", after))
    assert found.rates == {}


def test_a_source_that_fails_is_closed_and_said_and_the_others_go_on() -> None:
    clock, bad, good = VirtualClock(), Fake(Rung.SOFTWARE, "sensor", heat=1.0), Fake(faults=1.0)
    it = Profiler([bad, good], clock=clock)
    found = epoch(it, clock, 2, lambda: setattr(bad, "before", fail))
    assert found == Profile({"faults": 0.0}, "/proc", 2.0)
    assert bad.closed == 1
    assert it.told() == ("profiles from /proc; no sensor: it failed with RuntimeError: the sensor fell off")
    assert epoch(it, clock, 2, lambda: None) == Profile({"faults": 0.0}, "/proc", 2.0)


def test_a_source_that_fails_at_the_beginning_is_left_out_too() -> None:
    clock, bad = VirtualClock(), Fake(heat=1.0)
    bad.before = fail
    it = Profiler([bad], clock=clock)
    assert epoch(it, clock, 2, lambda: None) == Profile({}, "nothing of the kernel's", 2.0)
    assert it.missing == (Missing("fake", "it failed with RuntimeError: the sensor fell off"),)


def test_a_source_that_cannot_even_be_closed_does_no_harm() -> None:
    bad = Fake()
    bad.close = fail  # type: ignore[method-assign]
    Profiler([bad]).close()


def test_the_dearest_sources_are_given_up_where_epochs_are_too_short_for_them() -> None:
    clock, dear, cheap = VirtualClock(), Fake(name="dear", heat=1.0), Fake(name="cheap", faults=1.0)
    dear.before = lambda: clock.advance(0.5)
    cheap.before = lambda: clock.advance(0.125)
    it = Profiler([cheap, dear], clock=clock)
    epoch(it, clock, 2 * 0.625 / SHARE, lambda: None)
    assert it.missing == ()
    found = epoch(it, clock, 49, lambda: None)
    assert "heat" in found.rates  # it has been read, after all
    assert it.missing == (Missing("dear", "reading it takes 500 ms, too much for epochs of 49 s"),)
    assert set(epoch(it, clock, 49, lambda: None).rates) == {"faults"}


def test_one_slow_reading_is_no_reason_to_give_a_source_up() -> None:
    clock, fake = VirtualClock(), Fake(faults=1.0)
    it = Profiler([fake], clock=clock)
    epoch(it, clock, 100, lambda: setattr(fake, "before", lambda: clock.advance(50)))
    assert it.missing == ()


def test_an_end_without_a_beginning_and_an_epoch_without_time_give_no_profile() -> None:
    clock = VirtualClock()
    it = Profiler([Fake(faults=1.0)], clock=clock)
    assert it.end() is None
    it.begin()
    assert it.end() is None
    epoch(it, clock, 1, lambda: None)
    assert it.end() is None


def test_the_rung_is_the_highest_of_all_sources() -> None:
    sources = [Fake(Rung.NONE), Fake(Rung.PROC), Fake(Rung.HARDWARE), Fake(Rung.SOFTWARE)]
    assert Profiler(sources).rung is Rung.HARDWARE
    assert Profiler([]).rung is Rung.NONE


def test_closing_closes_each_source_once() -> None:
    fake = Fake()
    it = Profiler([fake])
    it.close()
    it.close()
    assert fake.closed == 1


def test_what_is_given_besides_may_be_missing(tmp_path: Path) -> None:
    it = profiler(memory(str(tmp_path)), root=str(tmp_path), gpu_ids=())
    assert it.missing[-1].name == "kinds of memory"
    it.close()


# --- this machine ---------------------------------------------------------------------------------


def test_a_machine_that_tells_nothing_leaves_a_training_its_own_counts(tmp_path: Path) -> None:
    counted, clock = Counted(), VirtualClock()
    it = profiler(counted, root=str(tmp_path), gpu_ids=(), clock=clock)
    found = epoch(it, clock, 2, lambda: counted.step(1, waited_s=0))
    it.close()
    assert found.rung == "nothing of the kernel's"
    assert found.rates["steps"] == 0.5
    assert {missing.name for missing in it.missing} >= {"hardware counters", "software events", "/proc"}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system has no /proc")
def test_this_machine_gives_a_profile_and_gets_everything_back() -> None:
    before, clock = set(os.listdir("/proc/self/fd")), VirtualClock()
    it = profiler(clock=clock)
    found = epoch(it, clock, 1, lambda: sum(range(1_000_000)))
    assert {"user s", "resident GB", "threads"} <= set(found.rates)
    assert found.rung in (Rung.HARDWARE, Rung.SOFTWARE, Rung.PROC)
    assert it.told().startswith(f"profiles from {found.rung}")
    it.close()
    assert set(os.listdir("/proc/self/fd")) == before
