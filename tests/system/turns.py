"""Time for what samples in a thread of its own."""

from __future__ import annotations

import threading

PATIENCE_S = 20.0


class Turns:
    """A clock, and the pauses of a thread that samples: each lasts until the test ends it."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self._paused, self._ended = threading.Semaphore(0), threading.Semaphore(0)

    def now_s(self) -> float:
        return self.time_s

    def wait(self, over: threading.Event, _: float) -> bool:
        self._paused.release()
        assert self._ended.acquire(timeout=PATIENCE_S)
        return over.is_set()

    def pause(self) -> None:
        """Come back when the thread rests."""
        assert self._paused.acquire(timeout=PATIENCE_S)

    def go_on(self) -> None:
        """Let the thread read again, or end."""
        self._ended.release()

    def let_pass(self, seconds: float) -> None:
        """Let time go by while the thread rests, which reads once after it."""
        self.pause()
        self.time_s += seconds
        self.go_on()
