"""The figures of ABLATOR's paper, drawn of our trials by the code that draws those of a report."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

from benchmarks.common import Result
from benchmarks.golden.budget import BY, groups_of, held
from etude.analyse.report.facts import FINISHED, Facts, Parameter, Ran
from etude.analyse.report.figure import across, legend, plot, upward
from etude.analyse.report.palette import series
from etude.analyse.report.parameters import scatter, violins
from etude.analyse.report.svg import Drawing
from etude.analyse.report.varied import Varied, varied

SCORE: Final = "score"
SIZE: Final = "size"
DASHES: Final = {"mean": "", "best": "5 3"}


def figures(details: Result) -> dict[str, str]:
    """Return the figures: name of the file -> its content."""
    simulated = {table: found["random"] for table, found in details["simulated"].items()}
    drawn = {f"tablator-budget-{by}": _budget(simulated, by) for by in BY}
    drawn["tablator-first"] = _first(simulated)
    for table, live in details["live"].items():
        facts = facts_of(live)
        known = {one.name: one for one in varied(facts)[0]}
        drawn[f"tablator-size-{table}"] = scatter(facts, known[SIZE], SIZE).drawing
        drawn[f"tablator-optimizer-{table}"] = violins(facts, _in_order(known["optimizer"]), "optimizer").drawing
    return {f"{name}.svg": drawing.alone() for name, drawing in drawn.items()}


def facts_of(live: Result) -> Facts:
    """Return kept trials as the figures of a report take them."""
    rows = [dict(zip(live["params"], row, strict=True)) for row in zip(*live["params"].values(), strict=True)]
    trials = [
        Ran(trial=nth, state=FINISHED, values={SCORE: score}, params=row | {SIZE: size})
        for nth, (row, score, size) in enumerate(zip(rows, live["score"], live["size"], strict=True))
    ]
    return Facts(name="tablator", modes={SCORE: "max"}, trials=trials, parameters=[Parameter(SIZE, log=True)])


def _in_order(one: Varied) -> Varied:
    return Varied(one.name, one.numeric, one.log, one.points, tuple(sorted(one.levels)), one.share)


def _budget(simulated: Mapping[str, Result], by: str) -> Drawing:
    """Return what so many trials come to by the mean or by the best: the mean of it, and nine ways in ten."""
    curves = {table: found["budget"] for table, found in simulated.items()}
    ends = [value for curve in curves.values() for part in (f"{by}_low", f"{by}_high") for value in curve[part][1:]]
    x = across(2, max(curve["sizes"][-1] for curve in curves.values()), log=True)
    y = upward(min(ends), max(ends))
    drawing = plot(f"the {by} of so many trials", x, y, x_name="trials, logarithmic", y_name=f"{by} {SCORE}")
    for nth, curve in enumerate(curves.values()):
        at = [nth for nth, size in enumerate(curve["sizes"]) if size > 1]
        upper = [(x(curve["sizes"][i]), y(curve[f"{by}_high"][i])) for i in at]
        lower = [(x(curve["sizes"][i]), y(curve[f"{by}_low"][i])) for i in at]
        drawing.area([*upper, *reversed(lower)], series(nth))
        drawing.curve([(x(curve["sizes"][i]), y(curve[by][i])) for i in at], series(nth), width=2)
    legend(drawing, list(curves))
    return drawing


def _first(simulated: Mapping[str, Result]) -> Drawing:
    """Return how often so many trials put the same optimizer first as all of them."""
    shares = {
        (table, by): held(groups_of(found, "optimizer"), by=by) for table, found in simulated.items() for by in BY
    }
    sizes = sorted({size for found in shares.values() for size in found})
    x, y = across(sizes[0], sizes[-1], log=True), upward(0.0, 1.0)
    drawing = plot("how often the same optimizer is first", x, y, x_name="trials, logarithmic", y_name="share of draws")
    for nth, ((_, by), found) in enumerate(shares.items()):
        points = [(x(size), y(share)) for size, share in found.items()]
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            drawing.line(x1, y1, x2, y2, series(nth // len(BY)), width=2, dash=DASHES[by])
    legend(drawing, [*simulated])
    return drawing
