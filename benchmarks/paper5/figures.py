"""Two figures: all runs of the figures 2 to 8, and how the lead of inherited weights depends on the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from benchmarks.common import Result
from benchmarks.panels import HIGH, LEFT, TOP, WIDE, frame, lines_at, round_ticks, scale, sheet, text
from benchmarks.paper5.printed import WORKLOADS, Workload

RUN, OWN, PAID = "#4477aa", "#4477aa", "#aa3377"
LEAST, MOST = 1 / 32, 16
"""Ends of the axis of ratios; what lies beyond is drawn at the end."""


def panels(workloads: Sequence[Result]) -> str:
    """Return the figures 2 to 8, one panel each, as SVG."""
    drawn = []
    for workload, found in zip(WORKLOADS, workloads, strict=True):
        for figure, key, what in zip(
            workload.figures,
            ("best_of_runs", "epochs_of_runs"),
            ("best test accuracy, %", f"first epoch with {workload.target} %"),
            strict=False,
        ):
            drawn.append((figure, workload, found, key, what))
    drawn.sort(key=lambda each: each[0])
    return sheet([_runs(*each) for each in drawn])


def ratios(workloads: Sequence[Result]) -> str:
    """Return the ratio of times at each target, one panel for each workload, as SVG."""
    return sheet([_ratios(found) for found in workloads])


def _runs(figure: int, workload: Workload, found: Result, key: str, what: str) -> list[str]:
    values = {arm["start"]: arm[key] for arm in found["arms"]}
    printed = {row.start: float(row.best if key == "best_of_runs" else row.epochs) for row in workload.rows}
    each = [value for mine in values.values() for value in mine] + list(printed.values())
    y = scale(min(each), max(each))
    parts = [*frame(f"Figure {figure}. {workload.name}: {what}"), *lines_at(round_ticks(min(each), max(each)), y)]
    for nth, (start, mine) in enumerate(values.items()):
        x = LEFT + WIDE * (nth + 0.5) / len(values)
        for at, value in enumerate(mine):
            aside = 14 * (at / max(len(mine) - 1, 1) - 0.5)
            parts.append(f'<circle cx="{x + aside:.1f}" cy="{y(value):.1f}" r="2.5" fill="{RUN}" fill-opacity="0.6"/>')
        mean = y(fmean(mine))
        parts.append(f'<line x1="{x - 14:.1f}" y1="{mean:.1f}" x2="{x + 14:.1f}" y2="{mean:.1f}" stroke="black"/>')
        parts.append(
            f'<path d="M {x:.1f} {y(printed[start]) - 5:.1f} l 5 5 l -5 5 l -5 -5 z" fill="none" stroke="{PAID}"/>'
        )
        parts.append(text(x, TOP + HIGH + 16, start.removeprefix("Epoch "), anchor="middle"))
    return parts


def _ratios(found: Result) -> list[str]:
    targets = [at["target"] for at in found["targets"]]
    first, last = min(targets), max(targets)

    def x(target: float) -> float:
        return float(LEFT + WIDE * (target - first) / max(last - first, 1.0))

    def y(ratio: float) -> float:
        share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
        return TOP + HIGH * (1 - share)

    parts = [
        *frame(f"{found['name']}: random over final, by target in %"),
        *lines_at({f"{2.0**power:g}": 2.0**power for power in range(-5, 5)}, y),
        f'<line x1="{LEFT}" y1="{y(1):.1f}" x2="{LEFT + WIDE}" y2="{y(1):.1f}" stroke="black"/>',
        f'<line x1="{x(found["target"]):.1f}" y1="{TOP}" x2="{x(found["target"]):.1f}" y2="{TOP + HIGH}" '
        'stroke="black" stroke-dasharray="4 3"/>',
    ]
    for key, colour in (("sunk", OWN), ("charged", PAID)):
        points = " ".join(f"{x(at['target']):.1f},{y(at[key]):.1f}" for at in found["targets"])
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for target in targets:
        if target % 10 == 0:
            parts.append(text(x(target), TOP + HIGH + 16, f"{target:g}", anchor="middle"))
    for nth, (name, colour) in enumerate((("sunk", OWN), ("charged", PAID), ("dashed: the paper's target", "black"))):
        parts.append(text(LEFT + 6 + 60 * nth, TOP + HIGH - 6, name, colour=colour))
    return parts
