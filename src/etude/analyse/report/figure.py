"""A figure: a drawing with its title and what is to be said of it; and the axes that most of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from etude.analyse.report.palette import series
from etude.analyse.report.scales import Scale
from etude.analyse.report.svg import WIDE, Drawing

HIGH: Final = 270
LEFT, RIGHT, TOP, FOOT = 52.0, 12.0, 12.0, 42.0
"""In pixels: what is free around the plot."""

T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """A figure of a report.

    Attributes:
        name: The name of its file, without an ending.
        title: What it shows.
        drawing: It.
        caption: How to read it, and what it leaves out.
        narrow: The same for phones, where the other one is too wide.
    """

    name: str
    title: str
    drawing: Drawing
    caption: str = ""
    narrow: Drawing | None = None


def plot(label: str, x: Scale, y: Scale, *, x_name: str, y_name: str, high: float = HIGH) -> Drawing:
    """Return a drawing with axes, to draw into.

    Args:
        label: What it shows, for those who cannot see it.
        x: The axis below.
        y: The axis at the left.
        x_name: What stands below.
        y_name: What stands above the left axis.
        high: Its height.
    """
    drawing = Drawing(high, label)
    right = WIDE - RIGHT
    for told, value in y.ticks().items():
        drawing.line(LEFT, y(value), right, y(value), "grid")
        drawing.text(LEFT - 7, y(value) + 4, told, colour="soft", kind="tick", anchor="end")
    drawing.line(LEFT, y.start, right, y.start, "rule")
    for told, value in x.ticks().items():
        drawing.line(x(value), y.start, x(value), y.start + 4, "rule")
        drawing.text(x(value), y.start + 16, told, colour="soft", kind="tick", anchor="middle")
    drawing.text((LEFT + right) / 2, high - 8, x_name, colour="soft", kind="tick", anchor="middle", room=right - LEFT)
    drawing.text(2, TOP + 2, y_name, colour="soft", kind="tick", room=WIDE / 2)
    return drawing


def across(low: float, high: float, *, log: bool = False) -> Scale:
    """Return the scale of the axis below."""
    return Scale(low, high, LEFT + 6, WIDE - RIGHT - 6, log)


def upward(low: float, high: float, tall: float = HIGH) -> Scale:
    """Return the scale of the axis at the left."""
    return Scale(low, high, tall - FOOT, TOP + 14)


def legend(drawing: Drawing, names: Sequence[str]) -> None:
    """Write below the plot which colour is whose, two in a row."""
    for nth, name in enumerate(names):
        left, top = LEFT + nth % 2 * 190, drawing.high + 8 + nth // 2 * 20
        drawing.bar(left, top - 5, 16, 4, series(nth))
        drawing.text(left + 23, top + 2, name, kind="tick", room=150)
    drawing.high += 20 * (-(-len(names) // 2)) + 4


def thinned(ordered: Sequence[T], most: int) -> list[T]:
    """Return ``most`` of some things at most, evenly by their order, the first and the last among them.

    Example:
        >>> thinned(range(10), 4)
        [0, 3, 6, 9]
    """
    if len(ordered) <= most:
        return list(ordered)
    step = (len(ordered) - 1) / (most - 1)
    return [ordered[round(nth * step)] for nth in range(most)]
