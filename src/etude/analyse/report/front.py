"""Two metrics against each other, and the trials that no other is better than."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Final

from etude.analyse.report.facts import Facts
from etude.analyse.report.figure import Figure, across, plot, thinned, upward
from etude.analyse.report.scales import window

MOST_POINTS: Final = 1500
MOST_PAIRS: Final = 3


def fronts(facts: Facts) -> list[Figure]:
    """Return a figure for each two metrics, of the first three pairs; none of a study with one metric."""
    pairs = list(combinations(facts.modes, 2))[:MOST_PAIRS]
    found = [_front(facts, a, b, nth) for nth, (a, b) in enumerate(pairs)]
    return [one for one in found if one is not None]


def _front(facts: Facts, first: str, second: str, nth: int) -> Figure | None:
    points = [(one, one.values.get(first, math.nan), one.values.get(second, math.nan)) for one in facts.finished]
    points = [point for point in points if math.isfinite(point[1]) and math.isfinite(point[2])]
    if not points:
        return None
    low, high, _ = window([a for _, a, _ in points])
    least, most, _ = window([b for _, _, b in points])
    x, y = across(low, high), upward(least, most)
    ways = {"max": "more is better", "min": "less is better"}
    drawing = plot(
        f"{second} over {first}, {len(points)} trials",
        x,
        y,
        x_name=f"{first} ({ways.get(facts.modes[first] or '', 'no direction')})",
        y_name=f"{second} ({ways.get(facts.modes[second] or '', 'no direction')})",
    )
    best = set(facts.best)
    dots = [(x(a), y(b), one.trial) for one, a, b in points if one.trial not in best]
    drawing.dots(thinned(sorted(dots), MOST_POINTS), "mute", radius=2.8, faint=0.7)
    chosen = sorted((a, b, one.trial) for one, a, b in points if one.trial in best)
    if len(facts.modes) == 2 and len(chosen) > 1:  # noqa: PLR2004 - of three, a line would say nothing
        stairs = []
        for nth_chosen, (a, b, _) in enumerate(chosen):
            if nth_chosen:
                stairs.append(_corner(facts, chosen[nth_chosen - 1], (a, b)))
            stairs.append((a, b))
        drawing.curve([(x(a), y(b)) for a, b in stairs], "best", width=1.4, faint=0.7)
    for a, b, trial in chosen:
        drawing.diamond(x(a), y(b), "best", trial=trial)
    caption = f"Diamonds are the Pareto front: the {len(chosen)} trials that no other is better than."
    name = "front" if nth == 0 else f"front-{nth + 1}"
    return Figure(name, f"{second} against {first}", drawing, caption)


def _corner(facts: Facts, one: tuple[float, float, int], other: tuple[float, float]) -> tuple[float, float]:
    """Return the corner between two points of a front, on the side that is worse."""
    _, second = facts.modes
    worse = min if facts.modes[second] == "max" else max
    low = worse(one[1], other[1])
    return (one[0], low) if low == other[1] else (other[0], low)
