"""Clocks, and who has been silent for too long."""

from etude.core.clock import Clock, Silence, Standstill, VirtualClock, WallClock


def ticks(silence: Silence, clock: VirtualClock, seconds: float) -> list[str]:
    """Let a driver tick once a second for so long, and return who was found silent."""
    found = []
    for _ in range(int(seconds)):
        clock.advance(1.0)
        found += silence.tick(clock.now_s())
    return found


def test_virtual_time_moves_only_when_somebody_moves_it() -> None:
    clock = VirtualClock(100.0)
    assert clock.now_s() == clock.now_s() == 100.0
    clock.advance(2.5)
    assert clock.now_s() == 102.5


def test_wall_time_counts_from_1970_and_never_runs_backwards() -> None:
    clock: Clock = WallClock()
    times = [clock.now_s() for _ in range(1000)]
    assert times[0] > 1_700_000_000
    assert times == sorted(times)


def test_the_limit_itself_still_counts_as_alive() -> None:
    clock, silence = VirtualClock(), Silence(30.0)
    silence.heard("a", clock.now_s())
    assert ticks(silence, clock, 30.0) == []
    assert ticks(silence, clock, 1.0) == ["a"]


def test_a_silent_worker_is_named_once() -> None:
    clock, silence = VirtualClock(), Silence(30.0)
    silence.heard("a", clock.now_s())
    assert ticks(silence, clock, 100.0) == ["a"]


def test_a_worker_that_speaks_is_not_silent() -> None:
    clock, silence = VirtualClock(), Silence(30.0)
    for _ in range(5):
        silence.heard("a", clock.now_s())
        assert ticks(silence, clock, 25.0) == []


def test_a_worker_that_is_gone_is_not_silent() -> None:
    clock, silence = VirtualClock(), Silence(30.0)
    silence.heard("a", clock.now_s())
    silence.forget("a")
    silence.forget("never seen")
    assert ticks(silence, clock, 100.0) == []


def test_a_gap_in_the_drivers_own_ticks_charges_nobody() -> None:
    clock, silence = VirtualClock(), Silence(30.0)
    silence.heard("a", clock.now_s())
    ticks(silence, clock, 20.0)
    clock.advance(3600.0)  # the laptop slept
    assert silence.tick(clock.now_s()) == []
    assert ticks(silence, clock, 30.0) == []
    assert ticks(silence, clock, 1.0) == ["a"]


def test_a_standstill_is_a_gap_in_ones_own_signs_of_life() -> None:
    still = Standstill(5.0)
    assert still.over(1000.0) == 0.0, "nobody knows what was before the first"
    assert still.over(1005.0) == 0.0
    assert still.over(1010.5) == 5.5
    assert still.over(1011.0) == 0.0
    still.awake(1100.0)  # it was at work all the time
    still.awake(1050.0)  # which is said late
    assert still.over(1104.0) == 0.0


def test_a_gap_before_the_first_tick_charges_nobody_either() -> None:
    silence = Silence(30.0)
    silence.heard("a", 0.0)
    assert silence.tick(3600.0) == []
    assert silence.tick(3601.0) == []
    assert silence.tick(3616.0) == []
    assert silence.tick(3630.5) == ["a"]
