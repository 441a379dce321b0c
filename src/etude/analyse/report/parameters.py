"""What values of one parameter came with: a scatter with its trend, or violins with points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from etude.analyse.report.facts import Facts, Ran, better_of
from etude.analyse.report.figure import FOOT, RIGHT, Figure, across, plot, thinned, upward
from etude.analyse.report.palette import series
from etude.analyse.report.scales import Scale, window
from etude.analyse.report.svg import WIDE, Drawing
from etude.analyse.report.varied import Varied, bins_of, told
from etude.analyse.report.words import number
from etude.core.text import count

MOST_POINTS: Final = 1200
MOST_LEVELS: Final = 12
FEWEST_FOR_SHAPE: Final = 6
ROW: Final = 46.0
GOLDEN: Final = 0.6180339887498949


def scatter(facts: Facts, one: Varied, name: str) -> Figure:
    """Return the metric over a numeric parameter, with the mean, the spread and the best of neighbouring trials."""
    low, high, beyond = window([value for _, _, value in one.points])
    places = [float(p) for _, p, _ in one.points]
    x = _range(facts, one)
    y = upward(low, high)
    label = f"{facts.metric} over {one.name}, {count(len(one.points), 'trial')}"
    drawing = plot(label, x, y, x_name=f"{one.name}{', logarithmic' if one.log else ''}", y_name=facts.metric)
    dots = [(x(float(p)), y(v), trial.trial) for trial, p, v in sorted(one.points, key=lambda point: point[2])]
    drawing.dots(thinned(dots, MOST_POINTS), "mute", radius=2.8, faint=0.7)
    lost = [
        t for t in facts.trials if t.state in ("failed", "invalid") and isinstance(t.params.get(one.name), int | float)
    ]
    drawing.crosses([(x(float(t.params[one.name])), y.start - 5, t.trial) for t in thinned(lost, 200)], "bad")
    trended = _trend(drawing, facts, one, places, x, y)
    parts = [trended] if trended else []
    parts += [f"red crosses: {count(len(lost), 'trial')} that failed"] if lost else []
    parts += [f"{count(beyond, 'value')} beyond the axis on its edge"] if beyond else []
    parts += [f"{MOST_POINTS:,} of {len(dots):,} points, evenly by value"] if len(dots) > MOST_POINTS else []
    return Figure(name, one.name, drawing, _sentence(parts))


def _range(facts: Facts, one: Varied) -> Scale:
    values = [float(v) for t in facts.trials if isinstance(v := t.params.get(one.name), int | float)]
    low, high = min(values), max(values)
    return across(low, high, log=one.log)


def _trend(drawing: Drawing, facts: Facts, one: Varied, places: Sequence[float], x: Scale, y: Scale) -> str:
    """Draw mean, standard deviation and best of bins with as many trials each."""
    bins = bins_of(places)
    if len(set(bins)) < 2:  # noqa: PLR2004
        return ""
    values = np.asarray([value for _, _, value in one.points])
    turned = np.log10(places) if one.log else np.asarray(places)
    rows = []
    for b in sorted(set(bins)):
        inside = np.asarray(bins) == b
        middle = float(turned[inside].mean())
        off = float(values[inside].std(ddof=1)) if inside.sum() > 1 else 0.0
        best = better_of(facts.mode, [float(v) for v in values[inside]])
        rows.append((x(10**middle if one.log else middle), float(values[inside].mean()), off, best))
    drawing.area(
        [
            *((at, y(mean + off)) for at, mean, off, _ in rows),
            *((at, y(mean - off)) for at, mean, off, _ in reversed(rows)),
        ],
        "band",
        faint=0.14,
    )
    drawing.curve([(at, y(mean)) for at, mean, _, _ in rows], "good", width=2)
    if facts.mode is None:
        return "blue: mean of neighbouring trials and a standard deviation"
    drawing.curve([(at, y(best)) for at, _, _, best in rows], "best", width=2)
    return "blue: mean of neighbouring trials and a standard deviation; orange: the best of them"


def violins(facts: Facts, one: Varied, name: str) -> Figure:
    """Return the metric for each value of a parameter: every trial a point, and the shape that they make."""
    by_level = {level: [(t, v) for t, p, v in one.points if told(p) == level] for level in one.levels}
    levels = list(one.levels)
    if len(levels) > MOST_LEVELS:
        often = sorted(levels, key=lambda level: -len(by_level[level]))[:MOST_LEVELS]
        levels = [level for level in levels if level in often]
    left_out = len(one.levels) - len(levels)
    rows = [(level, by_level[level]) for level in levels]
    caption = [f"the {len(levels)} most frequent of {len(one.levels)} values"] if left_out else []
    return _rows(facts, rows, name, one.name, caption)


def groups(facts: Facts) -> Figure | None:
    """Return the metric of each arm or start, every run a point; None if there are none, or no values."""
    numbers = facts.numbers()
    if not facts.groups or not numbers:
        return None
    names = facts.groups[:40]
    rows = [(name, [(one, value) for one, value in numbers if one.group == name]) for name in names]
    caption = [f"{len(names)} of {len(facts.groups)} arms"] if len(names) < len(facts.groups) else []
    return _rows(facts, rows, "arms", f"{facts.metric} of each arm", caption, coloured=True)


def _rows(
    facts: Facts,
    rows: Sequence[tuple[str, Sequence[tuple[Ran, float]]]],
    name: str,
    title: str,
    caption: list[str],
    *,
    coloured: bool = False,
) -> Figure:
    values = [value for _, points in rows for _, value in points]
    low, high, beyond = window(values)
    x = Scale(low, high, 12, WIDE - RIGHT)
    drawing = Drawing(8 + ROW * len(rows) + FOOT, f"{facts.metric} of {len(rows)} groups")
    foot = 8 + ROW * len(rows)
    for tick, value in x.ticks(5).items():
        drawing.line(x(value), 8, x(value), foot, "grid")
        drawing.text(x(value), foot + 16, tick, colour="soft", kind="tick", anchor="middle")
    drawing.line(12, foot, WIDE - RIGHT, foot, "rule")
    drawing.text(WIDE / 2, foot + 34, facts.metric, colour="soft", kind="tick", anchor="middle", room=WIDE)
    share = max(20, MOST_POINTS // max(1, len(rows)))
    thin = False
    for nth, (level, points) in enumerate(rows):
        middle = 8 + ROW * nth + 29
        colour = series(nth) if coloured else series(0)
        drawing.text(12, middle - 16, level, kind="tick strong", room=WIDE * 0.55)
        mean = f", mean {number(float(np.mean([v for _, v in points])), 5)}" if points else ""
        drawing.text(
            WIDE - RIGHT, middle - 16, f"{count(len(points), 'trial')}{mean}", colour="soft", kind="tick", anchor="end"
        )
        _violin(drawing, [v for _, v in points], x, middle, colour)
        ordered = thinned(sorted(points, key=lambda point: point[1]), share)
        thin = thin or len(ordered) < len(points)
        dots = [(x(v), middle + ((GOLDEN * at) % 1.0 - 0.5) * 13, t.trial) for at, (t, v) in enumerate(ordered)]
        drawing.dots(dots, colour, radius=2.4, faint=0.75)
        if points:
            place = x(float(np.mean([v for _, v in points])))
            drawing.line(place, middle - 10, place, middle + 10, "ink", width=2)
    told_of = [*caption, "points are trials, the black line is their mean"]
    told_of += ["the shape is their density" if any(len(p) >= FEWEST_FOR_SHAPE for _, p in rows) else ""]
    told_of += [f"{share} points a row at most, evenly by value"] if thin else []
    told_of += [f"{count(beyond, 'value')} beyond the axis on its edge"] if beyond else []
    return Figure(name, title, drawing, _sentence([part for part in told_of if part]))


def _violin(drawing: Drawing, values: Sequence[float], x: Scale, middle: float, colour: str) -> None:
    """Draw the density of values by Gaussian kernels, their width by Silverman's rule."""
    inside = np.asarray([v for v in values if x.low <= v <= x.high])
    if inside.size < FEWEST_FOR_SHAPE or np.ptp(inside) == 0:
        return
    iqr = float(np.subtract(*np.quantile(inside, [0.75, 0.25])))
    spread = min(float(inside.std(ddof=1)), iqr / 1.34 if iqr > 0 else math.inf)
    width = 0.9 * spread * inside.size**-0.2
    grid = np.linspace(max(x.low, inside.min() - 2 * width), min(x.high, inside.max() + 2 * width), 48)
    some = np.asarray(thinned(sorted(inside), 2000))
    density = np.exp(-0.5 * ((grid[:, None] - some[None, :]) / width) ** 2).sum(axis=1)
    half = 11.0 * density / density.max()
    upper = [(x(float(v)), middle - float(h)) for v, h in zip(grid, half, strict=True)]
    lower = [(x(float(v)), middle + float(h)) for v, h in zip(grid[::-1], half[::-1], strict=True)]
    drawing.area([*upper, *lower], colour, faint=0.22)


def _sentence(parts: Sequence[str]) -> str:
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}." if said else ""
