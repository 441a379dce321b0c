"""Figures after PipeTune's: bars in groups, curves that grow in steps or by factors, and a map of epochs, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks.panels import HIGH, LEFT, TOP, WIDE, frame, lines_at, round_ticks, scale, sheet, text

COLOURS: Final = ("#4477aa", "#ccbb44", "#228833", "#aa3377", "#66ccee")
FREE: Final = 0.25
"""Of a group's width, how much lies between it and the next one."""
KEY: Final = 90
"""Pixels that a name has in the legend."""
LABELS: Final = 150
"""Pixels for the names beside a map."""

Groups = Mapping[str, Mapping[str, float]]
"""Group -> name of a bar -> how long it is. Bars that a group lacks are left out."""

Curve = Sequence[tuple[float, float]]


def bars(panels: Mapping[str, Groups]) -> str:
    """Return panels of bars: title -> its groups."""
    return sheet([[*_bars(title, groups)] for title, groups in panels.items()])


def steps(panels: Mapping[str, Mapping[str, Curve]], *, ends: bool = False) -> str:
    """Return panels of curves that hold until they change: title -> name -> its points.

    Args:
        panels: What is drawn.
        ends: Whether a curve ends at its last point, with a dot, and does not hold to the end of the panel.
    """
    return sheet([[*_steps(title, curves, ends=ends)] for title, curves in panels.items()])


def growing(title: str, x: str, curves: Mapping[str, Curve]) -> str:
    """Return two panels of the same curves, with a dot at each point: as they are, and by powers of ten.

    Args:
        title: What is drawn.
        x: What is counted from 1 on along the panels.
        curves: Name -> its points; values are above 0.
    """
    told = {f"{title}, by {x}": False, f"{title}, by {x}, in powers of ten": True}
    return sheet([[*_growing(panel, curves, powers=powers)] for panel, powers in told.items()])


def heat(title: str, rows: Mapping[str, Sequence[float]]) -> str:
    """Return a map: a line for each name, and each cell as dark as its share of the most in its line."""
    high = 15
    wide, tall = LABELS + WIDE, TOP + high * len(rows) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide + 16}" height="{tall}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        text(LABELS, TOP - 12, title),
    ]
    for nth, (name, values) in enumerate(rows.items()):
        y, most, cell = TOP + nth * high, max(map(abs, values)) or 1.0, WIDE / len(values)
        parts.append(text(LABELS - 6, y + 11, name, anchor="end"))
        parts += [
            f'<rect class="cell" x="{LABELS + at * cell:.1f}" y="{y}" width="{cell - 1:.1f}" height="{high - 1}" '
            f'fill="{COLOURS[0]}" fill-opacity="{abs(value) / most:.3f}"/>'
            for at, value in enumerate(values)
        ]
    epochs = max(map(len, rows.values()), default=0)
    for at in range(epochs):
        x = LABELS + WIDE * (at + 0.5) / epochs
        parts.append(text(x, tall - 8, "first" if at == 0 else f"epoch {at}", anchor="middle"))
    return "\n".join([*parts, "</svg>", ""])


def _bars(title: str, groups: Groups) -> Iterator[str]:
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    values = [value for group in groups.values() for value in group.values()]
    least, most = min(0.0, *values), max(0.0, *values)
    y = scale(least, most)
    yield from frame(title)
    yield from lines_at(round_ticks(least, most), y)
    wide = WIDE / len(groups)
    bar = wide * (1 - FREE) / len(names)
    for nth, (group, told) in enumerate(groups.items()):
        left = LEFT + wide * (nth + FREE / 2)
        for name, value in told.items():
            at = names.index(name)
            yield (
                f'<rect class="bar" x="{left + at * bar:.1f}" y="{min(y(value), y(0)):.1f}" width="{bar * 0.9:.1f}" '
                f'height="{abs(y(value) - y(0)):.1f}" fill="{COLOURS[at % len(COLOURS)]}"/>'
            )
        yield text(left + wide * (1 - FREE) / 2, TOP + HIGH + 14, group, anchor="middle")
    yield from _legend(names)


def _steps(title: str, curves: Mapping[str, Curve], *, ends: bool) -> Iterator[str]:
    points = [point for curve in curves.values() for point in curve]
    values = [value for _, value in points]
    last = max(x for x, _ in points) or 1.0
    y = scale(min(values), max(values))
    yield from frame(title)
    yield from lines_at(round_ticks(min(values), max(values)), y)
    for nth, curve in enumerate(curves.values()):
        path, before = [], None
        for x, value in curve if ends else [*curve, (last, curve[-1][1])]:
            at = LEFT + WIDE * x / last
            path += ([f"{at:.1f},{y(before):.1f}"] if before is not None else []) + [f"{at:.1f},{y(value):.1f}"]
            before = value
        yield (
            f'<polyline points="{" ".join(path)}" fill="none" stroke="{COLOURS[nth % len(COLOURS)]}" stroke-width="2"/>'
        )
        if ends:
            x, value = curve[-1]
            yield (
                f'<circle cx="{LEFT + WIDE * x / last:.1f}" cy="{y(value):.1f}" r="4" '
                f'fill="{COLOURS[nth % len(COLOURS)]}"/>'
            )
    for told, x in round_ticks(0.0, last).items():
        yield text(LEFT + WIDE * x / last, TOP + HIGH + 14, told, anchor="middle")
    yield from _legend(list(curves))


def _growing(title: str, curves: Mapping[str, Curve], *, powers: bool) -> Iterator[str]:
    values = [value for curve in curves.values() for _, value in curve]
    most = max(x for curve in curves.values() for x, _ in curve)
    least_power, most_power = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    if powers:
        high = scale(least_power, most_power)
        ticks = {f"{10.0**power:g}": float(power) for power in range(least_power, most_power + 1)}
    else:
        high, ticks = scale(0.0, max(values)), dict(round_ticks(0.0, max(values)))

    def at(x: float, value: float) -> tuple[float, float]:
        return LEFT + WIDE * (x - 0.5) / most, high(math.log10(value) if powers else value)

    yield from frame(title)
    yield from lines_at(ticks, high)
    for nth, curve in enumerate(curves.values()):
        colour, points = COLOURS[nth % len(COLOURS)], [at(*point) for point in curve]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for left, top in points:
            yield f'<circle class="dot" cx="{left:.1f}" cy="{top:.1f}" r="4" fill="{colour}"/>'
    for n in range(1, int(most) + 1):
        yield text(at(n, 1.0)[0], TOP + HIGH + 14, str(n), anchor="middle")
    yield from _legend(list(curves))


def _legend(names: Sequence[str]) -> Iterator[str]:
    for nth, name in enumerate(names):
        x, y = LEFT + nth * KEY, TOP + HIGH + 22
        yield f'<rect x="{x}" y="{y}" width="8" height="8" fill="{COLOURS[nth % len(COLOURS)]}"/>'
        yield text(x + 12, y + 8, name)
