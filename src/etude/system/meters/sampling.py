"""Something is read again and again, beside the training that it must not hold up."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from etude.system.energy import UNSURE, Energy

T = TypeVar("T")
Wait = Callable[[threading.Event, float], bool]
"""Waits so many seconds, or until the event is set; says whether it is."""

LATE: Final = 1.5
"""What comes later than this many times the usual pause has missed one."""


class Unread(Exception):  # noqa: N818 - it is expected, and never leaves the room
    """One reading that could not be had; the message says why."""


@dataclass(frozen=True)
class Sample(Generic[T]):
    """One reading.

    Attributes:
        at_s: When it was taken, on the clock of who takes it.
        value: What was read.
    """

    at_s: float
    value: T


@dataclass(frozen=True)
class Samples(Generic[T]):
    """What was read in a stretch.

    Attributes:
        began_s: When the stretch began.
        ended_s: When it ended.
        every_s: Seconds from one reading to the next, as was wanted.
        taken: The readings that went well, in order.
        missed: Why others did not.
    """

    began_s: float
    ended_s: float
    every_s: float
    taken: tuple[Sample[T], ...]
    missed: tuple[str, ...] = ()


class Sampling(Generic[T]):
    """Reads something at once and then every few seconds, in a thread of its own that ends with the stretch.

    Args:
        read: What reads; raises ``Unread`` where it cannot. It may block, and then readings are missing.
        every_s: Seconds between two readings.
        now_s: A clock.
        wait: How the time between two readings goes by.
        is_quick: Whether a reading blocks nobody: then the first and the last are taken by who begins and ends.
    """

    def __init__(
        self,
        read: Callable[[], T],
        *,
        every_s: float,
        now_s: Callable[[], float],
        wait: Wait = threading.Event.wait,
        is_quick: bool = False,
    ) -> None:
        self._read, self._every_s, self._now_s, self._wait, self._is_quick = read, every_s, now_s, wait, is_quick
        self._over = threading.Event()
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._taken: list[Sample[T]] = []
        self._missed: list[str] = []
        self._began_s = now_s()
        if is_quick:
            self._take()
        threading.Thread(target=self._go, name="etude-meter", daemon=True).start()

    def end(self) -> Samples[T]:
        """End the stretch, and return what was read; nobody waits for a reading that may block."""
        self._over.set()
        if self._is_quick:
            self._take()
        with self._lock:
            return Samples(self._began_s, self._now_s(), self._every_s, tuple(self._taken), tuple(self._missed))

    def _go(self) -> None:
        if not self._is_quick:
            self._take()
        while not self._wait(self._over, self._every_s):
            self._take()

    def _take(self) -> None:
        with self._reading:  # so they stand in order
            asked_s = self._now_s()
            try:
                value = self._read()
            except Unread as error:
                with self._lock:
                    self._missed.append(str(error))
            else:
                at_s = (asked_s + self._now_s()) / 2  # whoever answers slowly read it on the way
                with self._lock:
                    self._taken.append(Sample(at_s, value))


def energy_of(power_w: Samples[float], source: str, *, longest_s: float) -> Energy:
    """Return the energy below readings of power, by the trapezoid rule.

    Before the first reading and after the last, power is taken to be as there. Where readings are missing, it may have
    been anything from below the lowest to above the highest that was seen, by as much as a modelled figure may be off.

    Args:
        power_w: Readings in watts.
        source: What told them.
        longest_s: For so many seconds it may be unknown; if for longer, the energy is unavailable.
    """
    why = f"; the last one: {power_w.missed[-1]}" if power_w.missed else ""
    taken = [sample for sample in power_w.taken if power_w.began_s <= sample.at_s <= power_w.ended_s]
    if not taken:
        return Energy.unavailable(f"{source} gave no reading in {power_w.ended_s - power_w.began_s:.3g} s{why}")
    lowest, highest = min(s.value for s in taken), max(s.value for s in taken)
    points = [Sample(power_w.began_s, taken[0].value), *taken, Sample(power_w.ended_s, taken[-1].value)]
    joules = low = high = 0.0
    unseen = 0
    for one, next_one in itertools.pairwise(points):
        dt = next_one.at_s - one.at_s
        if dt > longest_s:
            return Energy.unavailable(f"{source} gave no reading for {dt:.3g} s, longer than {longest_s:g} s{why}")
        part = (one.value + next_one.value) / 2 * dt
        is_seen = dt <= LATE * power_w.every_s
        unseen += 0 if is_seen else max(1, round(dt / power_w.every_s) - 1)
        joules += part
        low += part if is_seen else (1 - UNSURE) * lowest * dt
        high += part if is_seen else (1 + UNSURE) * highest * dt
    if joules == 0:
        seconds = power_w.ended_s - power_w.began_s
        return Energy.unavailable(f"{source} reads 0 J in {seconds:.3g} s, which no running machine takes")
    told = f"{source}, readings missing" if unseen else source
    return Energy.measured(joules, told, low=min(low, joules), high=max(high, joules))
