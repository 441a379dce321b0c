"""From values to places in a figure, and the round numbers that stand beside an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

LARGEST_TURN: Final = 1e4
"""From here on, and below its inverse, ticks are written with a power of ten."""

MOST_DECADES: Final = 6
FEWEST_TICKS: Final = 4


@dataclass(frozen=True)
class Scale:
    """Maps values from ``low`` to ``high`` to pixels from ``start`` to ``end``; what lies beyond, to the nearer end.

    On a logarithmic scale both ends are above zero.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        low, high = self._turned(self.low), self._turned(self.high)
        if high == low:
            return (self.start + self.end) / 2
        share = (self._turned(value) - low) / (high - low)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def _turned(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def ticks(self, about: int = 5) -> dict[str, float]:
        """Return some round numbers on it: what stands beside -> the value."""
        if not self.log:
            return self._plain_ticks(about)
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        if last - first < 1:
            return self._plain_ticks(about)
        step = max(1, -(-(last - first + 1) // min(about + 2, MOST_DECADES)))
        powers = range(first, last + 1, step)
        return {tick_text(10.0**power): 10.0**power for power in powers}

    def _plain_ticks(self, about: int) -> dict[str, float]:
        found = round_ticks(self.low, self.high, about)
        found = found if len(found) >= FEWEST_TICKS else round_ticks(self.low, self.high, about * 3 // 2)
        return {tick_text(float(told)): value for told, value in found.items()}


def round_ticks(least: float, most: float, about: int = 4) -> dict[str, float]:
    """Return some four round numbers between two: what stands beside -> the value.

    Example:
        >>> round_ticks(0.0, 1.0)
        {'0': 0.0, '0.5': 0.5, '1': 1.0}
    """
    rough = (most - least) / about or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(least / step)
    return {f"{nth * step:g}": nth * step for nth in range(first, math.floor(most / step) + 1)}


def tick_text(value: float) -> str:
    """Return a number as it stands beside an axis.

    Example:
        >>> tick_text(0.001), tick_text(1e-5), tick_text(20.0)
        ('0.001', '1e−5', '20')
    """
    if value and not 1 / LARGEST_TURN < abs(value) < LARGEST_TURN:
        base, _, power = f"{value:.3e}".partition("e")
        return f"{float(base):g}e{int(power)}".replace("-", "\u2212")
    return f"{value:g}".replace("-", "\u2212")


def window(values: Sequence[float]) -> tuple[float, float, int]:
    """Return from where to where an axis goes, and how many values lie beyond.

    It holds all of them, unless a few are so far off that the others would lie on one line.
    """
    known = np.asarray([value for value in values if math.isfinite(value)], dtype=float)
    if not known.size:
        return 0.0, 1.0, 0
    low, high = float(known.min()), float(known.max())
    if known.size >= 8:  # noqa: PLR2004 - of fewer, none is off
        near, far = (float(q) for q in np.quantile(known, [0.1, 0.9]))
        reach = 3.0 * (far - near)
        if reach > 0:
            inside = known[(known >= near - reach) & (known <= far + reach)]
            low, high = float(inside.min()), float(inside.max())
    room = (high - low) * 0.05 or abs(high) * 0.05 or 0.5
    beyond = int(((known < low) | (known > high)).sum())
    return low - room, high + room, beyond
