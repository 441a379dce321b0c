"""Draws what asynchrony and early stopping leave of the time, with intervals, and how soon good trials are found.

It takes what ``asynchrony`` or ``paper2`` found. Each group of bars is a number of workers, each whisker an interval; a
diamond is the ratio that the paper gives. The best so far, after the paper's fifth figure, is of ``paper2`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.paper2 import COMPARED, PAPER
from benchmarks.pipetune import figures
from benchmarks.shares import RATIOS

COLOURS: Final = dict(zip(RATIOS, ("#4477aa", "#ccbb44", "#aa3377"), strict=True))
NAMES: Final = dict(zip(RATIOS, ("asynchrony alone", "median rule alone", "both"), strict=True))
FORMS: Final = dict(zip(COMPARED, ("waves", "async, rule"), strict=True))
CELL: Final = re.compile(r"étude (\d+) workers")
GROUP: Final = re.compile(r"étude (\d+) workers: ([a-z]+?)(_low|_high)?")

LEFT, TOP, HEIGHT, BAR, GAP = 56, 44, 240, 26, 40
"""In pixels: where the axes begin, how high they are, how wide a bar is, and what is free between two groups."""


def figure(result: Mapping[str, Any]) -> str:
    """Return the figure for a result, as SVG."""
    groups = read(result)
    wide = LEFT + len(groups) * (len(RATIOS) * BAR + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{TOP + HEIGHT + 56}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_legend(paper=result["benchmark"] == "paper2"),
        *_axis(wide),
    ]
    for nth, (workers, rows) in enumerate(groups.items()):
        x = LEFT + GAP // 2 + nth * (len(RATIOS) * BAR + GAP)
        for at, name in enumerate(RATIOS):
            parts += _bar(x + at * BAR, rows[name], COLOURS[name])
        middle = x + len(RATIOS) * BAR / 2
        parts.append(f'<text x="{middle:g}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{workers}</text>')
        if result["benchmark"] == "paper2" and workers in PAPER:
            parts.append(_diamond(x + (len(RATIOS) - 0.5) * BAR, _y(PAPER[workers])))
    parts.append(f'<text x="{wide / 2:g}" y="{TOP + HEIGHT + 40}" text-anchor="middle">workers</text>')
    return "\n".join([*parts, "</svg>", ""])


def sooner(result: Mapping[str, Any]) -> str:
    """Return the best accuracy so far by seconds, a panel for each number of workers, as SVG."""
    cells = {match[1]: told for cell, told in result["details"].items() if (match := CELL.fullmatch(cell))}
    return figures.steps(
        {
            f"{workers} workers: best accuracy so far, by seconds": {
                name: told["best_so_far"][form] for form, name in FORMS.items()
            }
            for workers, told in cells.items()
        },
        ends=True,
    )


def read(result: Mapping[str, Any]) -> dict[int, dict[str, tuple[float, float, float]]]:
    """Return by workers and name: the mean, and the two ends of its interval."""
    found: dict[int, dict[str, dict[str, float]]] = {}
    for row in result["rows"]:
        match = GROUP.fullmatch(row["name"])
        if match is not None and match[2] in RATIOS:
            found.setdefault(int(match[1]), {}).setdefault(match[2], {})[match[3] or ""] = row["median"]
    return {
        workers: {name: (ends[""], ends["_low"], ends["_high"]) for name, ends in rows.items()}
        for workers, rows in sorted(found.items())
    }


def _y(value: float) -> float:
    return TOP + HEIGHT * (1.0 - value)


def _legend(*, paper: bool) -> Iterator[str]:
    for at, name in enumerate(RATIOS):
        x = LEFT + at * 126
        yield f'<rect x="{x}" y="12" width="12" height="12" fill="{COLOURS[name]}"/>'
        yield f'<text x="{x + 17}" y="22">{NAMES[name]}</text>'
    if paper:
        yield _diamond(LEFT + 3 * 126 - 40, 18)
        yield f'<text x="{LEFT + 3 * 126 - 30}" y="22">the paper</text>'


def _axis(wide: int) -> Iterator[str]:
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        yield f'<line x1="{LEFT}" y1="{y:g}" x2="{wide - 8}" y2="{y:g}" stroke="#dddddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:g}" text-anchor="end">{tenth / 10:g}</text>'
    middle = TOP + HEIGHT / 2
    yield (
        f'<text x="14" y="{middle:g}" text-anchor="middle" transform="rotate(-90 14 {middle:g})">'
        "time over that of waves</text>"
    )


def _bar(x: float, row: tuple[float, float, float], colour: str) -> Iterator[str]:
    mean, low, high = row
    middle = x + BAR / 2
    yield f'<rect x="{x:g}" y="{_y(mean):.1f}" width="{BAR - 3}" height="{HEIGHT * mean:.1f}" fill="{colour}"/>'
    yield f'<line x1="{middle:g}" y1="{_y(low):.1f}" x2="{middle:g}" y2="{_y(high):.1f}" stroke="black"/>'


def _diamond(x: float, y: float) -> str:
    return f'<path d="M {x:g} {y - 6:g} l 6 6 l -6 6 l -6 -6 z" fill="white" stroke="black"/>'
