"""The one module that asks what time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Gives the driver's time, in seconds since 1970 that never run backwards."""

    def now_s(self) -> float:
        """Return the time."""
        ...


class WallClock:
    """Wall time at the start, monotonic from there on: a clock that is set mid-way moves no study."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now_s(self) -> float:
        """Return the time."""
        return self._offset_s + time.monotonic()


class VirtualClock:
    """Time that moves only when somebody moves it.

    Args:
        now_s: What time it is at first, in seconds.
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        """Return the time."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time go by.

        Args:
            seconds: How much.
        """
        self._now_s += seconds

    def move_to(self, now_s: float) -> None:
        """Let it be another time.

        Args:
            now_s: That time, exactly, in seconds.
        """
        self._now_s = now_s


class Standstill:
    """Says for how long its owner stood still: a gap in its own signs of life, as a SIGSTOP leaves one.

    Args:
        limit_s: Longest gap that has other reasons, in seconds.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._awake_at: float | None = None

    @property
    def begun(self) -> bool:
        """Whether there was a sign of life yet."""
        return self._awake_at is not None

    def awake(self, now_s: float) -> None:
        """Note that the owner is at work."""
        self._awake_at = now_s if self._awake_at is None else max(self._awake_at, now_s)

    def over(self, now_s: float) -> float:
        """Return for how many seconds the owner stood still until now, 0 if it did not; it is awake from here on."""
        gap_s = now_s - self._awake_at if self._awake_at is not None else 0.0
        self.awake(now_s)
        return gap_s if gap_s > self.limit_s else 0.0


class Silence:
    """Says which workers have been silent for too long.

    A gap in the listener's own ticks (a laptop that slept, a SIGSTOP) restarts all clocks: whoever
    could not be heard is not to blame. The first word counts as a tick, since a gap may come before the first one.

    Args:
        limit_s: Longest silence that is no reason for concern, in seconds; more than twice the time between two ticks.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._heard_at: dict[str, float] = {}
        self._listener = Standstill(limit_s / 2)

    def heard(self, worker: str, now_s: float) -> None:
        """Note that ``worker`` gave a sign of life."""
        self._heard_at[worker] = now_s
        if not self._listener.begun:
            self._listener.awake(now_s)

    def forget(self, worker: str) -> None:
        """Note that ``worker`` is gone."""
        self._heard_at.pop(worker, None)

    def tick(self, now_s: float) -> list[str]:
        """Return the workers that have been silent for longer than the limit, and forget them."""
        if self._listener.over(now_s):
            self._heard_at = dict.fromkeys(self._heard_at, now_s)
        silent = [w for w, at in self._heard_at.items() if now_s - at > self.limit_s]
        for worker in silent:
            self.forget(worker)
        return silent
