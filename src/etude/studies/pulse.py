"""Tells time in which the whole process stood still from time that it took over something."""

from __future__ import annotations

import threading

from etude.core.clock import Clock, Standstill


class Pulse:
    """A thread that does nothing but live: a gap in its life is one in that of the process, as a SIGSTOP leaves it.

    A driver that waits for a lock or a slow disk is at work, and its pulse goes on.

    Args:
        clock: The driver's clock.
        limit_s: Longest gap that has other reasons, in seconds.
        beat_s: Time between two beats, in seconds.
    """

    def __init__(self, clock: Clock, *, limit_s: float, beat_s: float) -> None:
        self._clock = clock
        self._beat_s = beat_s
        self._standstill = Standstill(limit_s)
        self._missed_s = 0.0
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to beat."""
        self._beat()
        threading.Thread(target=self._live, name="etude-pulse", daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def missed_s(self) -> float:
        """Return for how many seconds the process stood still since this was last asked."""
        self._beat()  # whoever asks is awake, maybe before the thread is
        with self._lock:
            missed_s, self._missed_s = self._missed_s, 0.0
        return missed_s

    def _beat(self) -> None:
        with self._lock:
            self._missed_s += self._standstill.over(self._clock.now_s())

    def _live(self) -> None:
        while not self._stopped.wait(self._beat_s):
            self._beat()
