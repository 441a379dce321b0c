"""Two figures: the paper's box plots of the best five settings, and the lead over random partitions epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, quantiles
from typing import Final

from benchmarks.common import Result
from benchmarks.panels import HIGH, LEFT, TOP, WIDE, frame, lines_at, round_ticks, scale, sheet, text
from benchmarks.paper4.compared import VANILLA_NAME
from benchmarks.paper4.seeds import FIRST

SHOWN: Final = 5
BOX, HALF, REACH = "#4477aa", 18, 1.5
"""Colour and half the width of a box; whiskers end at the last run within so many times its height."""

MEAN, RANGE = "#4477aa", "#bbccdd"


def boxes(tables: Sequence[Result]) -> str:
    """Return figure 5, one panel for each table, as SVG."""
    return sheet([_boxes(table) for table in tables])


def epochs(tables: Sequence[Result]) -> str:
    """Return the lead of the settings over random partitions after each epoch, one panel for each table, as SVG."""
    return sheet([_epochs(table) for table in tables])


def shown(table: Result) -> list[tuple[str, list[float]]]:
    """Return what a panel of figure 5 shows: random partitions, and the best settings, best first."""
    ranked = sorted(table["settings"], key=lambda each: -round(each["mean"], 3))  # stable: equal ones by warm-up
    return [
        (VANILLA_NAME, table["vanilla"]["values"]),
        *((each["setting"], each["values"]) for each in ranked[:SHOWN]),
    ]


def _boxes(table: Result) -> list[str]:
    drawn = shown(table)
    every = [value for _, values in drawn for value in values]
    y = scale(min(every), max(every))
    parts = [
        *frame(f"({table['table']}) {table['name']}: best test accuracy, %"),
        *lines_at(round_ticks(min(every), max(every)), y),
    ]
    for nth, (name, values) in enumerate(drawn):
        x = LEFT + WIDE * (nth + 0.5) / len(drawn)
        low, middle, high = quantiles(values, n=4, method="inclusive")
        within = [value for value in values if low - REACH * (high - low) <= value <= high + REACH * (high - low)]
        for end, box in ((min(within), low), (max(within), high)):
            parts.append(_line(x, y(end), x, y(box)))
            parts.append(_line(x - HALF / 2, y(end), x + HALF / 2, y(end)))
        parts.append(
            f'<rect class="box" x="{x - HALF:.1f}" y="{y(high):.1f}" width="{2 * HALF}" '
            f'height="{y(low) - y(high):.1f}" fill="{BOX}" fill-opacity="0.4" stroke="black"/>'
        )
        parts.append(_line(x - HALF, y(middle), x + HALF, y(middle)))
        for value in values:
            if value not in within:
                parts.append(f'<circle cx="{x:.1f}" cy="{y(value):.1f}" r="2.5" fill="black"/>')
        mean = y(fmean(values))
        parts.append(
            f'<rect class="mean" x="{x - 3:.1f}" y="{mean - 3:.1f}" width="6" height="6" fill="white" stroke="blue"/>'
        )
        parts.append(text(x, TOP + HIGH + 16, name, anchor="middle"))
    return parts


def _epochs(table: Result) -> list[str]:
    found = table["epochs"]
    last = len(found["mean"])
    y = scale(min(found["least"][FIRST // 2 :]), max(found["most"][FIRST // 2 :]))
    low, high = TOP, TOP + HIGH

    def points(values: Sequence[float]) -> Iterator[str]:
        for nth, value in enumerate(values, 1):
            yield f"{LEFT + WIDE * nth / last:.1f},{min(max(y(value), low), high):.1f}"

    around = [*points(found["least"]), *reversed([*points(found["most"])])]
    begins = LEFT + WIDE * FIRST / last
    return [
        *frame(f"({table['table']}) {table['name']}: points more than vanilla, by epoch"),
        *lines_at(round_ticks(min(found["least"][FIRST // 2 :]), max(found["most"][FIRST // 2 :])), y),
        f'<polygon points="{" ".join(around)}" fill="{RANGE}" fill-opacity="0.6"/>',
        f'<polyline points="{" ".join(points(found["mean"]))}" fill="none" stroke="{MEAN}" stroke-width="1.5"/>',
        f'<line x1="{LEFT}" y1="{y(0):.1f}" x2="{LEFT + WIDE}" y2="{y(0):.1f}" stroke="black"/>',
        f'<line x1="{begins:.1f}" y1="{TOP}" x2="{begins:.1f}" y2="{TOP + HIGH}" stroke="black" '
        'stroke-dasharray="4 3"/>',
        *(text(LEFT + WIDE * at / last, TOP + HIGH + 16, f"{at}", anchor="middle") for at in range(20, last + 1, 20)),
    ]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="black"/>'
