"""How trials learned, and how the best value grew while the study ran."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from etude.analyse.report.facts import FINISHED, Facts, Ran, better_of
from etude.analyse.report.figure import Figure, across, legend, plot, thinned, upward
from etude.analyse.report.palette import series
from etude.analyse.report.scales import Scale, window
from etude.analyse.report.svg import Drawing
from etude.core.text import count

MOST_CURVES: Final = 150
MOST_POINTS: Final = 80
MOST_DOTS: Final = 1500
MOST_GROUPS: Final = 8
BEST: Final = 3


def curves(facts: Facts) -> Figure | None:
    """Return the learning curves; None if nothing was reported while trials ran."""
    drawn = [one for one in facts.trials if _points(one)]
    if not drawn:
        return None
    values = [value for one in drawn for _, value in _points(one)]
    low, high, beyond = window(values)
    last = max(step for one in drawn for step, _ in _points(one))
    x, y = across(0 if last > 1 else 0.5, max(last, 1.5)), upward(low, high)
    drawing = plot(f"Learning curves of {len(drawn)} trials", x, y, x_name="report", y_name=facts.watched)
    caption = _by_group(drawing, facts, drawn, x, y) if facts.groups else _by_trial(drawing, facts, drawn, x, y)
    if beyond:
        caption += f" {count(beyond, 'value')} beyond the axis {'lies' if beyond == 1 else 'lie'} on its edge."
    return Figure("curves", f"How {facts.watched} grew", drawing, caption)


def _points(one: Ran) -> list[tuple[int, float]]:
    steps = one.steps or range(1, len(one.curve) + 1)
    return [(step, value) for step, value in zip(steps, one.curve, strict=False) if math.isfinite(value)]


def _by_trial(drawing: Drawing, facts: Facts, drawn: Sequence[Ran], x: Scale, y: Scale) -> str:
    place = {number: nth for nth, number in enumerate(facts.best)}
    ordered = sorted(drawn, key=lambda one: (place.get(one.trial, len(place)), one.trial))
    best = [one for one in ordered if one.trial in place][:BEST]
    rest = thinned([one for one in ordered if one not in best] if len(ordered) < 5000 else ordered[BEST:], MOST_CURVES)  # noqa: PLR2004
    for one in sorted(rest, key=lambda one: one.state == FINISHED):
        done = one.state == FINISHED
        drawing.curve(
            _placed(one, x, y), "mute" if done else "bad", width=1, faint=0.55 if done else 0.5, trial=one.trial
        )
    for nth, one in reversed(list(enumerate(best))):
        drawing.curve(
            _placed(one, x, y), "best" if nth == 0 else "good", width=2.4 if nth == 0 else 1.6, trial=one.trial
        )
    told = [f"The best trial is orange, the next {len(best) - 1} blue"] if len(best) > 1 else []
    if any(one.state != FINISHED for one in rest):
        told.append("those that did not finish are red")
    if len(rest) + len(best) < len(drawn):
        told.append(f"of {len(drawn):,} curves {len(rest) + len(best)} are drawn, evenly by rank")
    return f"{'; '.join(told)}." if told else ""


def _placed(one: Ran, x: Scale, y: Scale) -> list[tuple[float, float]]:
    return [(x(step), y(value)) for step, value in thinned(_points(one), MOST_POINTS)]


def _by_group(drawing: Drawing, facts: Facts, drawn: Sequence[Ran], x: Scale, y: Scale) -> str:
    """Draw the mean of each group at each step, with a standard deviation around it."""
    names = [name for name in facts.groups if any(one.group == name for one in drawn)][:MOST_GROUPS]
    for nth, name in reversed(list(enumerate(names))):
        by_step: dict[int, list[float]] = {}
        for one in drawn:
            for step, value in _points(one) if one.group == name else ():
                by_step.setdefault(step, []).append(value)
        runs = max(map(len, by_step.values()))
        steps = thinned([step for step in sorted(by_step) if len(by_step[step]) == runs], MOST_POINTS)
        mean = {step: float(np.mean(by_step[step])) for step in steps}
        off = {step: float(np.std(by_step[step], ddof=1)) if runs > 1 else 0.0 for step in steps}
        if runs > 1 and len(steps) > 1:
            upper = [(x(step), y(mean[step] + off[step])) for step in steps]
            lower = [(x(step), y(mean[step] - off[step])) for step in reversed(steps)]
            drawing.area([*upper, *lower], series(nth), faint=0.12)
        drawing.curve([(x(step), y(mean[step])) for step in steps], series(nth), width=2)
    legend(drawing, names)
    left_out = f" {len(facts.groups) - len(names)} more are not drawn." if len(facts.groups) > len(names) else ""
    return f"Means over seeds, and a standard deviation around them, where all runs of an arm reported.{left_out}"


def steps_of_best(facts: Facts) -> list[tuple[int, float]]:
    """Return the best value so far as a line in steps: how many trials have finished, and the value."""
    found: list[tuple[int, float]] = []
    for nth, (_, value) in enumerate(_in_time(facts), 1):
        best = better_of(facts.mode, (found[-1][1], value)) if found else value
        if not found or best != found[-1][1]:
            found += [(nth, found[-1][1])] if found else []
            found.append((nth, best))
    return [*found, (len(facts.numbers()), found[-1][1])] if found else []


def _in_time(facts: Facts) -> list[tuple[Ran, float]]:
    """Return the finished trials in the order in which they ended."""
    return sorted(facts.numbers(), key=lambda one: (one[0].ended_s is None, one[0].ended_s or 0.0, one[0].trial))


def progress(facts: Facts) -> Figure | None:
    """Return the value of each trial in the order in which they ended, and the best so far; None without two values."""
    ordered = _in_time(facts)
    if len(ordered) < 2 or facts.groups:  # noqa: PLR2004
        return None
    low, high, beyond = window([value for _, value in ordered])
    x, y = across(1, len(ordered)), upward(low, high)
    drawing = plot(
        f"{facts.metric} of {len(ordered)} trials as they ended", x, y, x_name="finished trials", y_name=facts.metric
    )
    places = [(x(nth + 1), y(value), one.trial) for nth, (one, value) in enumerate(ordered)]
    drawing.dots(thinned(places, MOST_DOTS), "mute", radius=2.6, faint=0.75)
    caption = ""
    if facts.mode is not None:
        drawing.curve([(x(at), y(value)) for at, value in steps_of_best(facts)], "best", width=2.2)
        caption = "Each point is a trial; the line is the best value so far."
    if len(ordered) > MOST_DOTS:
        caption += f" Of {len(ordered):,} points {MOST_DOTS:,} are drawn, evenly in time."
    if beyond:
        caption += f" {count(beyond, 'value')} beyond the axis {'lies' if beyond == 1 else 'lie'} on its edge."
    return Figure("progress", "The best value so far", drawing, caption)
