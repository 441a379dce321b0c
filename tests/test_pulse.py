"""Time in which the process stood still, and time that it took over something."""

from __future__ import annotations

import threading

from etude.core.clock import VirtualClock
from etude.studies.pulse import Pulse


def test_who_asks_first_after_a_standstill_is_told_of_it_once() -> None:
    clock = VirtualClock()
    pulse = Pulse(clock, limit_s=5.0, beat_s=3600.0)
    pulse.start()
    clock.advance(4.0)
    assert pulse.missed_s() == 0.0
    clock.advance(60.0)
    assert pulse.missed_s() == 60.0
    assert pulse.missed_s() == 0.0
    pulse.stop()


class OneSecondLater:
    """A clock on which a second goes by whenever somebody looks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.a_minute_is_over = threading.Event()

    def now_s(self) -> float:
        self.seconds += 1.0
        if self.seconds > 60.0:
            self.a_minute_is_over.set()
        return self.seconds


def test_a_long_wait_of_one_thread_is_no_standstill_of_the_process_and_the_thread_ends_when_told_to() -> None:
    clock = OneSecondLater()
    pulse = Pulse(clock, limit_s=5.0, beat_s=0.001)
    pulse.start()
    try:
        assert clock.a_minute_is_over.wait(30)  # this thread waits, and the pulse goes on
        assert pulse.missed_s() == 0.0
    finally:
        pulse.stop()
    for thread in threading.enumerate():
        if thread.name == "etude-pulse":
            thread.join(30)
            assert not thread.is_alive()
