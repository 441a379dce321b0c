"""Energy, which is never without a word on how it is known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from etude.core.system import Joules

UNSURE: Final = 0.4
"""A modelled figure may be off by this share of it, at least."""
REASONS: Final = 3
"""A sum names no more sources, or reasons, than this."""
UNITS: Final = ((1e6, "MJ"), (1e3, "kJ"), (0.0, "J"))
DIGITS: Final = 3


class Label(StrEnum):
    """How an energy is known, from the best to the weakest."""

    MEASURED = "measured"
    MODELLED = "modelled"
    UNAVAILABLE = "unavailable"


STRENGTH: Final = tuple(Label)


@dataclass(frozen=True)
class Energy:
    """What was taken between two moments. Made by ``measured``, ``modelled`` and ``unavailable``.

    Attributes:
        joules: How much; None if nobody knows.
        label: How it is known. Of a sum, the weakest of its parts.
        low: The least that it may have been, in joules; None if nobody knows.
        high: The most, likewise.
        source: What told it, or why nothing could.

    Example:
        >>> print(Energy.measured(12.3, "RAPL"))
        12.3 J measured (RAPL)
        >>> print(Energy.modelled(40, "CPU seconds x 15 W"))
        about 40 J modelled (24 to 56), CPU seconds x 15 W
        >>> print(Energy.measured(12.3, "RAPL") + Energy.unavailable("the power meter does not answer"))
        energy unavailable: the power meter does not answer
    """

    joules: float | None
    label: Label
    low: float | None
    high: float | None
    source: str

    def __post_init__(self) -> None:
        figures = (self.low, self.joules, self.high)
        if self.label is Label.UNAVAILABLE:
            assert figures == (None, None, None), "what is unavailable has no joules"
            return
        assert self.joules is not None
        assert self.low is not None
        assert self.high is not None
        if self.label is Label.MODELLED:
            object.__setattr__(self, "low", min(self.low, self.joules * (1 - UNSURE)))
            object.__setattr__(self, "high", max(self.high, self.joules * (1 + UNSURE)))
        assert 0 <= self.low <= self.joules <= self.high < math.inf, f"{figures} is no energy"

    @classmethod
    def measured(cls, joules: float, source: str, *, low: float | None = None, high: float | None = None) -> Energy:
        """Return what a meter says; with bounds, where parts of it were not seen."""
        return cls(joules, Label.MEASURED, joules if low is None else low, joules if high is None else high, source)

    @classmethod
    def modelled(cls, joules: float, source: str, *, low: float | None = None, high: float | None = None) -> Energy:
        """Return what follows from something else that was measured. No bound is nearer than 40 % of it."""
        return cls(joules, Label.MODELLED, joules if low is None else low, joules if high is None else high, source)

    @classmethod
    def unavailable(cls, why: str) -> Energy:
        """Return that nobody knows, and why."""
        return cls(None, Label.UNAVAILABLE, None, None, why)

    def __add__(self, other: Energy) -> Energy:
        """Return both together: joules and bounds are added, and the weakest label wins."""
        return total((self, other))

    def __str__(self) -> str:
        """Return it as people say it, always with its label."""
        if self.joules is None or self.low is None or self.high is None:
            return f"energy {self.label}: {self.source}"
        scale, unit = next((scale or 1.0, unit) for scale, unit in UNITS if self.joules >= scale)
        said = f"{_digits(self.joules / scale)} {unit} {self.label}"
        bounds = f"({_digits(self.low / scale)} to {_digits(self.high / scale)})"
        if self.label is Label.MODELLED:
            return f"about {said} {bounds}, {self.source}"
        return f"{said} ({self.source})" if self.low == self.high else f"{said} {bounds}, {self.source}"


def total(energies: Iterable[Energy]) -> Energy:
    """Return energies added up. One that is unavailable makes the sum so; so does none at all, which is not 0."""
    parts = tuple(energies)
    if not parts:
        return Energy.unavailable("nothing was measured")
    label = max((part.label for part in parts), key=STRENGTH.index)
    if label is Label.UNAVAILABLE:
        return Energy.unavailable(_joined("; ", [part.source for part in parts if part.label is label]))
    joules = math.fsum(part.joules or 0.0 for part in parts)
    low = min(math.fsum(part.low or 0.0 for part in parts), joules)
    high = max(math.fsum(part.high or 0.0 for part in parts), joules)
    return Energy(joules, label, low, high, _joined(" + ", [part.source for part in parts]))


def as_joules(energy: Energy) -> Joules:
    """Return an energy as the journal has it."""
    return Joules(energy.label.value, energy.source, energy.joules, energy.low, energy.high)


def as_energy(joules: Joules) -> Energy:
    """Return an energy that the journal has."""
    return Energy(joules.joules, Label(joules.label), joules.low, joules.high, joules.source)


def _digits(number: float) -> str:
    """Return a number with three digits, and never with an exponent where it is large."""
    return f"{number:.{DIGITS}g}" if number < 10**DIGITS - 0.5 else f"{number:.0f}"


def _joined(between: str, texts: list[str]) -> str:
    """Return different texts in their order, no more than a few; a text may be joined of several already."""
    found = list(dict.fromkeys(part for text in texts for part in text.split(between)))
    return between.join(found if len(found) <= REASONS else [*found[:REASONS], "others"])
