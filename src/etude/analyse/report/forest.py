"""Effects with their intervals, one component below the other."""

from __future__ import annotations

import math
from typing import Final

from etude.analyse.report.facts import Facts, Judged, Verdicts
from etude.analyse.report.figure import Figure
from etude.analyse.report.scales import Scale
from etude.analyse.report.svg import WIDE, Drawing
from etude.analyse.report.words import number

ROW, HEAD, FOOT, SIDE = 44.0, 20.0, 44.0, 14.0
COLOURS: Final = {
    "matters": "good",
    "hurts": "bad",
    "does not matter": "s2",
    "undecided": "mute",
    "better": "good",
    "worse": "bad",
    "as good": "s2",  # of weights to begin with
}
DECIDED: Final = ("matters", "hurts", "better", "worse")
MOST: Final = 60
"""Components that are drawn; a table has all."""


def forest(facts: Facts) -> Figure | None:
    """Return the effects of components with their intervals; None where nothing was compared."""
    judged = facts.verdicts
    if judged is None or not any(math.isfinite(one.effect) for one in judged.found):
        return None
    rows = sorted(judged.found, key=lambda one: -one.effect if math.isfinite(one.effect) else math.inf)[:MOST]
    ends = [end for one in rows for end in (one.effect, one.low, one.high) if math.isfinite(end)]
    ends += [0.0, *((judged.margin, -judged.margin) if judged.margin else ())]
    room = (max(ends) - min(ends)) * 0.04 or 1.0
    scale = Scale(min(ends) - room, max(ends) + room, SIDE, WIDE - SIDE)
    drawing = Drawing(HEAD + ROW * len(rows) + FOOT, f"Effects of {len(rows)} components beside {judged.base}")
    foot = HEAD + ROW * len(rows)
    if judged.margin:
        low, high = scale(-judged.margin), scale(judged.margin)
        drawing.bar(low, HEAD, high - low, foot - HEAD, "s2", faint=0.14)
    for told, value in scale.ticks(5).items():
        drawing.line(scale(value), HEAD, scale(value), foot, "grid")
        drawing.text(scale(value), foot + 16, told, colour="soft", kind="tick", anchor="middle")
    drawing.line(scale(0.0), HEAD - 4, scale(0.0), foot, "soft")
    for nth, one in enumerate(rows):
        _row(drawing, one, scale, HEAD + ROW * nth)
    worse, better = ("hurts", "helps") if facts.verb == "ablate" else ("worse", "better")
    drawing.text(scale(0.0) - 6, 10, f"← {worse}", colour="soft", kind="tick", anchor="end")
    drawing.text(scale(0.0) + 6, 10, f"{better} →", colour="soft", kind="tick")
    drawing.text(WIDE / 2, foot + 36, _below(facts, judged), colour="soft", kind="tick", anchor="middle", room=WIDE)
    return Figure(
        "forest",
        "What each component does" if facts.verb == "ablate" else f"Beside {judged.base}",
        drawing,
        _caption(judged, len(rows)),
    )


def _row(drawing: Drawing, one: Judged, scale: Scale, top: float) -> None:
    colour = COLOURS.get(one.verdict, "mute")
    middle = top + 31
    drawing.text(SIDE, top + 16, one.component, kind="name strong", room=WIDE * 0.62)
    drawing.text(WIDE - SIDE, top + 16, one.verdict, colour=colour, kind="name", anchor="end")
    if not math.isfinite(one.effect):
        drawing.text(SIDE, middle + 4, "no pair of runs came to a number", colour="soft", kind="tick")
        return
    ends = [end if math.isfinite(end) else math.copysign(math.inf, end) for end in (one.low, one.high)]
    low, high = (scale(min(max(end, scale.low), scale.high)) for end in ends)
    drawing.line(low, middle, high, middle, colour, width=2, dash="" if all(map(math.isfinite, ends)) else "3 3")
    for end, value in ((low, ends[0]), (high, ends[1])):
        if math.isfinite(value):
            drawing.line(end, middle - 4, end, middle + 4, colour, width=2)
    if one.verdict in DECIDED:
        drawing.bar(scale(one.effect) - 5, middle - 5, 10, 10, colour)
    else:
        drawing.dots([(scale(one.effect), middle, None)], colour, radius=5, faint=1)


def _below(facts: Facts, judged: Verdicts) -> str:
    if facts.verb != "ablate":
        return f"{facts.metric} beside {judged.base}, in its direction"
    return f"effect on {facts.metric}: {judged.base} minus without, in its direction"


def _caption(judged: Verdicts, drawn: int) -> str:
    parts = [f"Mean difference and its {1 - judged.level:.0%} interval; squares are decided, discs are not"]
    if judged.margin:
        parts.append(f"in the shaded band, less than {number(judged.margin)}, an effect does not matter")
    if drawn < len(judged.found):
        parts.append(f"the {drawn} largest effects of {len(judged.found)}")
    if any(not math.isfinite(one.low) for one in judged.found):
        parts.append("a dashed line has no interval: too few runs")
    return f"{'; '.join(parts)}."
