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
    """Time that moves only when somebody moves it."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        """Return the time."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` go by."""
        self._now_s += seconds


class Silence:
    """Says which workers have been silent for too long.

    A gap in the driver's own ticks (a laptop that slept, a SIGSTOP) restarts all clocks: whoever
    could not be heard is not to blame.

    Args:
        limit_s: Longest silence that is no reason for concern.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._heard_at: dict[str, float] = {}
        self._ticked_at: float | None = None

    def heard(self, worker: str, now_s: float) -> None:
        """Note that ``worker`` gave a sign of life."""
        self._heard_at[worker] = now_s

    def forget(self, worker: str) -> None:
        """Note that ``worker`` is gone."""
        self._heard_at.pop(worker, None)

    def tick(self, now_s: float) -> list[str]:
        """Return the workers that have been silent for longer than the limit, and forget them."""
        gap_s = now_s - self._ticked_at if self._ticked_at is not None else 0.0
        self._ticked_at = now_s
        if gap_s > self.limit_s / 2:
            self._heard_at = dict.fromkeys(self._heard_at, now_s)
        silent = [w for w, at in self._heard_at.items() if now_s - at > self.limit_s]
        for worker in silent:
            self.forget(worker)
        return silent
