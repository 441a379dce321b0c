"""Which setting is tried next: all of a grid, as in PipeTune, or one knob after the other from the default on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from etude.system.knobs import Key, Setting, key, setting_of

DEFAULT: Final[Setting] = {}
"""The setting that names no knob."""
STEP: Final = 0.01
"""What costs less by a smaller share than this is no better: clocks are not that exact."""
RUINOUS: Final = 2.0
"""What costs so many times the default is the wrong way: what goes further that way is not tried."""


class Prober(Protocol):
    """Proposes settings. It is a function of what was tried, so it can be asked again at any time."""

    def propose(self, tried: Mapping[Key, float]) -> Setting | None:
        """Return what to try next; None if nothing more is worth it.

        Args:
            tried: Settings, and what they cost beside the default: 0.8 is four fifths of it.
        """
        ...


@dataclass(frozen=True)
class Grid:
    """Every setting of a list, in its order: algorithm 1 of PipeTune, lines 11 to 14.

    Attributes:
        settings: The settings.
    """

    settings: tuple[Setting, ...]

    def propose(self, tried: Mapping[Key, float]) -> Setting | None:
        """Return the first that was not tried."""
        return next((one for one in self.settings if key(one) not in tried), None)


@dataclass(frozen=True)
class Axis:
    """What is tried of one knob, or of several that interact.

    Attributes:
        settings: In the order in which they are tried, such as 2, 4 and 8 workers.
        ordered: Whether a step that is no better ends it: what comes after is further away from what was best. Of
            choices that have no order all are tried; but after one that is ruinous, none that changes the same knobs.
        only_if: Says of the best setting so far whether these mean anything beside it; None if they always do.
    """

    settings: tuple[Setting, ...]
    ordered: bool = True
    only_if: Callable[[Setting], bool] | None = None


@dataclass(frozen=True)
class Axes:
    """One knob after the other, each from the best that is known so far.

    A grid of five knobs with four values has a thousand settings; this needs about two probes a knob. It may miss what
    only two knobs together bring: such are one axis.

    Attributes:
        axes: In the order in which they are tried, what brings most first.
    """

    axes: tuple[Axis, ...]

    def propose(self, tried: Mapping[Key, float]) -> Setting | None:
        """Return the next step along an axis."""
        best, least = DEFAULT, 1.0
        for axis in self.axes:
            start = best
            if axis.only_if is not None and not axis.only_if(start):
                continue
            ruinous: list[Setting] = []
            for step in axis.settings:
                if any(one.keys() <= step.keys() for one in ruinous):
                    continue
                setting = {**start, **step}
                found = tried.get(key(setting))
                if found is None:
                    return setting
                if found < least * (1 - STEP):
                    best, least = setting, found
                elif axis.ordered:
                    break
                elif found >= RUINOUS:
                    ruinous.append(step)
        return None


def best_of(tried: Mapping[Key, float]) -> tuple[Setting, float]:
    """Return the setting that costs least, and what share of the default that is; the default, if none is better.

    Args:
        tried: Settings, and what they cost beside the default.
    """
    found = min(tried, key=tried.__getitem__, default=key(DEFAULT))
    cost = tried.get(found, 1.0)
    return (setting_of(found), cost) if cost < 1 - STEP else (DEFAULT, 1.0)
