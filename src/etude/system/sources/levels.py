"""Turns levels, such as memory, into totals that grow."""

from __future__ import annotations

from collections.abc import Mapping

from etude.core.clock import Clock


class Levels:
    """Integrates levels over time: between two looks, a level counts as the mean of both.

    Args:
        clock: Gives the time.

    Example:
        >>> from etude.core.clock import VirtualClock
        >>> clock = VirtualClock()
        >>> levels = Levels(clock)
        >>> levels.seen({"resident GB": 2.0})
        {'resident GB': 0.0}
        >>> clock.advance(10)
        >>> levels.seen({"resident GB": 4.0})
        {'resident GB': 30.0}
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock.now_s()
        self._last: Mapping[str, float] = {}
        self._totals: dict[str, float] = {}

    def seen(self, levels: Mapping[str, float]) -> dict[str, float]:
        """Take what the levels are now, and return their integrals, in the unit of the level times seconds."""
        now_s = self._clock.now_s()
        went_s, self._at_s = now_s - self._at_s, now_s
        for name, level in levels.items():
            mean = (self._last.get(name, level) + level) / 2
            self._totals[name] = self._totals.get(name, 0.0) + (mean * went_s if name in self._last else 0.0)
        self._last = dict(levels)
        return {name: self._totals[name] for name in levels}
