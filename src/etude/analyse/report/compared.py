"""Figures of two studies in one."""

from __future__ import annotations

import msgspec

from etude.analyse.report.courses import steps_of_best
from etude.analyse.report.facts import Facts
from etude.analyse.report.figure import Figure, across, legend, plot, upward
from etude.analyse.report.palette import series
from etude.analyse.report.parameters import groups
from etude.analyse.report.scales import window


def beside(one: Facts, other: Facts) -> list[Figure]:
    """Return the figures of two studies whose values compare; of arms, what came of each that both have."""
    if one.groups or other.groups:
        found = _arms(one, other)
        return [found] if found is not None else []
    return [figure for figure in (_progress(one, other), _values(one, other)) if figure is not None]


def _progress(one: Facts, other: Facts) -> Figure | None:
    """Return the best value so far of both; None where one of them has none, or no direction."""
    courses = [steps_of_best(facts) for facts in (one, other)]
    if not all(courses) or one.mode is None:
        return None
    low, high, _ = window([value for course in courses for _, value in course])
    x = across(1, max(course[-1][0] for course in courses) + 0.5)
    y = upward(low, high)
    drawing = plot("The best values so far of two studies", x, y, x_name="finished trials", y_name=one.metric)
    for nth, course in enumerate(courses):
        drawing.curve([(x(at), y(value)) for at, value in course], series(nth), width=2.2)
    legend(drawing, [one.name, other.name])
    return Figure("progress", "The best value so far", drawing)


def _arms(one: Facts, other: Facts) -> Figure | None:
    shared = [name for name in one.groups if name in other.groups]
    trials = [
        msgspec.structs.replace(trial, group=f"{trial.group} ({facts.name})")
        for facts in (one, other)
        for trial in facts.trials
    ]
    names = [f"{name} ({facts.name})" for name in shared for facts in (one, other)]
    found = groups(msgspec.structs.replace(one, trials=trials, groups=names))
    title = f"{one.metric} of arms that both have"
    return None if found is None else Figure("values", title, found.drawing, found.caption)


def _values(one: Facts, other: Facts) -> Figure | None:
    trials = [
        msgspec.structs.replace(trial, group=f"{nth}. {facts.name}")
        for nth, facts in enumerate((one, other), 1)
        for trial in facts.trials
    ]
    both = msgspec.structs.replace(one, trials=trials, groups=[f"1. {one.name}", f"2. {other.name}"])
    found = groups(both)
    return None if found is None else Figure("values", f"{one.metric} of all trials", found.drawing, found.caption)
