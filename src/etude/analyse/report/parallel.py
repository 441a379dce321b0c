"""All parameters at once: one axis below the other, one line a trial. Names are long, so the axes lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from etude.analyse.report.facts import Facts, Ran
from etude.analyse.report.figure import Figure, thinned
from etude.analyse.report.scales import Scale, tick_text, window
from etude.analyse.report.svg import VERY_WIDE, WIDE, Drawing
from etude.analyse.report.varied import Varied, told

MOST_AXES: Final = 12
MOST_LINES: Final = 250
MOST_LEVELS: Final = 14
ROW, TOP, SIDE = 54.0, 26.0, 16.0
BEST_SHARE: Final = 0.1


def parallel(facts: Facts, found: Sequence[Varied]) -> Figure | None:
    """Return all varied parameters and the metric on axes; None with fewer than two parameters or values."""
    axes = list(found[:MOST_AXES])
    numbers = facts.numbers()
    if len(axes) < 2 or len(numbers) < 2 or facts.mode is None:  # noqa: PLR2004
        return None
    ordered = [one for one, _ in sorted(numbers, key=lambda n: n[1], reverse=facts.mode == "max")]
    whole = [one for one in ordered if any(axis.name in one.params for axis in axes)]
    best = whole[: max(1, min(25, round(len(whole) * BEST_SHARE)))]
    rest = thinned(whole[len(best) :], MOST_LINES)
    drawing, narrow = (_drawn(facts, axes, best, rest, wide) for wide in (VERY_WIDE, WIDE))
    caption = f"Each line is a trial; the best {len(best)} of {len(whole):,} are orange, the others grey."
    if len(rest) + len(best) < len(whole):
        caption += f" Of the others {len(rest)} are drawn, evenly by rank."
    if len(axes) < len(found):
        caption += f" The {len(axes)} of {len(found)} parameters that go along with the most of the ranking."
    return Figure("parallel", "Which combinations went well", drawing, caption, narrow)


def _drawn(facts: Facts, axes: Sequence[Varied], best: Sequence[Ran], rest: Sequence[Ran], wide: float) -> Drawing:
    drawing = Drawing(TOP + ROW * len(axes) + 46, f"Parallel coordinates of {len(axes)} parameters", wide)
    scales: list[Any] = [_scale(facts, axis, wide) for axis in axes]
    low, high, _ = window([value for _, value in facts.numbers()])
    last = Scale(low, high, SIDE, wide - SIDE)
    foot = TOP + ROW * len(axes)
    _lines(drawing, facts, axes, scales, last, best, rest)
    for nth, axis in enumerate(axes):
        _axis(drawing, axis, scales[nth], TOP + ROW * nth)
    drawing.line(SIDE, foot, wide - SIDE, foot, "soft", width=1.4)
    drawing.text(SIDE, foot + 34, facts.metric, kind="tick strong halo", room=wide / 2)
    direction = "better →" if facts.mode == "max" else "← better"
    drawing.text(wide - SIDE, foot + 34, direction, colour="soft", kind="tick", anchor="end")
    for text, value in last.ticks(4).items():
        drawing.line(last(value), foot, last(value), foot + 4, "soft")
        drawing.text(last(value), foot + 17, text, colour="soft", kind="tick halo", anchor="middle")
    return drawing


def _lines(
    drawing: Drawing,
    facts: Facts,
    axes: Sequence[Varied],
    scales: Sequence[Any],
    last: Scale,
    best: Sequence[Ran],
    rest: Sequence[Ran],
) -> None:
    """Draw the trials, the best on top; the axes come later, so that their words can be read."""
    good = {one.trial for one in best}
    foot = TOP + ROW * len(axes)
    for one in reversed([*best, *rest]):
        points = [
            (scales[nth](one.params[axis.name]), TOP + ROW * nth)
            for nth, axis in enumerate(axes)
            if axis.name in one.params
        ]
        points.append((last(one.values[facts.metric]), foot))
        if one.trial in good:
            drawing.curve(points, "best", width=1.6, faint=0.85, trial=one.trial)
        else:
            drawing.curve(points, "mute", width=0.9, faint=0.35, trial=one.trial)


def _scale(facts: Facts, axis: Varied, wide: float) -> Any:
    if axis.numeric:
        values = [float(v) for t in facts.trials if isinstance(v := t.params.get(axis.name), int | float)]
        return Scale(min(values), max(values), SIDE + 8, wide - SIDE - 8, axis.log)
    places = {level: nth for nth, level in enumerate(axis.levels)}
    inner = Scale(-0.5, len(places) - 0.5, SIDE, wide - SIDE)
    return lambda value: inner(places[told(value)])


def _axis(drawing: Drawing, axis: Varied, scale: Any, y: float) -> None:
    drawing.line(SIDE, y, drawing.wide - SIDE, y, "soft", width=1.4)
    drawing.text(SIDE, y - 9, axis.name, kind="tick strong halo", room=drawing.wide * 0.6)
    if axis.numeric:
        for text, value in scale.ticks(4).items():
            drawing.line(scale(value), y, scale(value), y + 4, "soft")
            drawing.text(scale(value), y + 16, text, colour="soft", kind="tick halo", anchor="middle")
        return
    step = (drawing.wide - 2 * SIDE) / len(axis.levels)
    if len(axis.levels) > MOST_LEVELS:
        drawing.text(SIDE, y + 16, f"{len(axis.levels)} values", colour="soft", kind="tick")
        return
    for level in axis.levels:
        middle = SIDE + step * (axis.levels.index(level) + 0.5)
        drawing.line(middle, y, middle, y + 4, "soft")
        drawing.text(middle, y + 16, _level(level), colour="soft", kind="tick halo", anchor="middle", room=step - 4)


def _level(level: str) -> str:
    try:
        return tick_text(float(level))
    except ValueError:
        return level
