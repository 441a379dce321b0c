"""Panels of figures, as SVG: frames, axes and words, put together on one sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from etude.analyse.report.scales import round_ticks

__all__ = ["frame", "lines_at", "round_ticks", "scale", "sheet", "text"]

WIDE, HIGH, LEFT, TOP, FOOT, GAP = 420, 190, 56, 34, 34, 16
"""In pixels: the plot of a panel, and what is free around it."""

COLUMNS: Final = 2


def sheet(drawn: Sequence[Sequence[str]]) -> str:
    """Return panels side by side, as one SVG."""
    wide, high = LEFT + WIDE + GAP, TOP + HIGH + FOOT
    rows = -(-len(drawn) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide * COLUMNS}" height="{high * rows}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for nth, panel in enumerate(drawn):
        at = f"{nth % COLUMNS * wide} {nth // COLUMNS * high}"
        parts += [f'<g transform="translate({at})">', *panel, "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def frame(title: str) -> Iterator[str]:
    """Yield the frame of a panel, and its title."""
    yield text(LEFT, TOP - 12, title)
    yield f'<rect x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#bbbbbb"/>'


def lines_at(ticks: Mapping[str, float], y: Callable[[float], float]) -> Iterator[str]:
    """Yield a line across the panel at each tick: what stands beside it -> its value."""
    for told, value in ticks.items():
        yield f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{LEFT + WIDE}" y2="{y(value):.1f}" stroke="#dddddd"/>'
        yield text(LEFT - 6, y(value) + 4, told, anchor="end")


def scale(least: float, most: float) -> Callable[[float], float]:
    """Return what maps values to heights in a panel, with a little room beyond both ends."""
    room = (most - least) * 0.06 or 1.0
    return lambda value: TOP + HIGH * (most + room - value) / (most - least + 2 * room)


def text(x: float, y: float, told: str, *, anchor: str = "start", colour: str = "black") -> str:
    """Return words at a place in a panel."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{told}</text>'
