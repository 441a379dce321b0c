"""Two figures: all runs of the figures 2 to 8, and how the lead of inherited weights depends on the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final

from benchmarks.common import Result
from benchmarks.paper5.printed import WORKLOADS, Workload

WIDE, HIGH, LEFT, TOP, FOOT, GAP = 420, 190, 56, 34, 34, 16
"""In pixels: the plot of a panel, and what is free around it."""

COLUMNS: Final = 2
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
    return _sheet([_runs(*each) for each in drawn])


def ratios(workloads: Sequence[Result]) -> str:
    """Return the ratio of times at each target, one panel for each workload, as SVG."""
    return _sheet([_ratios(found) for found in workloads])


def _runs(figure: int, workload: Workload, found: Result, key: str, what: str) -> list[str]:
    values = {arm["start"]: arm[key] for arm in found["arms"]}
    printed = {row.start: float(row.best if key == "best_of_runs" else row.epochs) for row in workload.rows}
    each = [value for mine in values.values() for value in mine] + list(printed.values())
    y = _scale(min(each), max(each))
    parts = [*_frame(f"Figure {figure}. {workload.name}: {what}"), *_ticks(_round_ticks(min(each), max(each)), y)]
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
        parts.append(_text(x, TOP + HIGH + 16, start.removeprefix("Epoch "), anchor="middle"))
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
        *_frame(f"{found['name']}: random over final, by target in %"),
        *_ticks({f"{2.0**power:g}": 2.0**power for power in range(-5, 5)}, y),
        f'<line x1="{LEFT}" y1="{y(1):.1f}" x2="{LEFT + WIDE}" y2="{y(1):.1f}" stroke="black"/>',
        f'<line x1="{x(found["target"]):.1f}" y1="{TOP}" x2="{x(found["target"]):.1f}" y2="{TOP + HIGH}" '
        'stroke="black" stroke-dasharray="4 3"/>',
    ]
    for key, colour in (("sunk", OWN), ("charged", PAID)):
        points = " ".join(f"{x(at['target']):.1f},{y(at[key]):.1f}" for at in found["targets"])
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for target in targets:
        if target % 10 == 0:
            parts.append(_text(x(target), TOP + HIGH + 16, f"{target:g}", anchor="middle"))
    for nth, (name, colour) in enumerate((("sunk", OWN), ("charged", PAID), ("dashed: the paper's target", "black"))):
        parts.append(_text(LEFT + 6 + 60 * nth, TOP + HIGH - 6, name, colour=colour))
    return parts


def _sheet(drawn: Sequence[Sequence[str]]) -> str:
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


def _frame(title: str) -> Iterator[str]:
    yield _text(LEFT, TOP - 12, title)
    yield f'<rect x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#bbbbbb"/>'


def _ticks(ticks: Mapping[str, float], y: Callable[[float], float]) -> Iterator[str]:
    for told, value in ticks.items():
        yield f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{LEFT + WIDE}" y2="{y(value):.1f}" stroke="#dddddd"/>'
        yield _text(LEFT - 6, y(value) + 4, told, anchor="end")


def _round_ticks(least: float, most: float) -> dict[str, float]:
    """Return some four round numbers between two."""
    rough = (most - least) / 4 or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(least / step)
    return {f"{nth * step:g}": nth * step for nth in range(first, math.floor(most / step) + 1)}


def _scale(least: float, most: float) -> Callable[[float], float]:
    room = (most - least) * 0.06 or 1.0
    return lambda value: TOP + HIGH * (most + room - value) / (most - least + 2 * room)


def _text(x: float, y: float, told: str, *, anchor: str = "start", colour: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{told}</text>'
