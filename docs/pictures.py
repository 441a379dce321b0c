"""The pictures of the pages, drawn from the code that they are about: ``make diagram`` writes them.

A test compares what lies in ``docs/pictures`` with what would be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import etude
from etude.analyse.report.palette import series
from etude.analyse.report.svg import Drawing
from etude.core.rungs import Rung

IMPORTANCE: Final = (0.9, 0.1, 0.6, 0.3, 0.8, 0.2, 0.7, 0.05, 0.5, 0.4, 0.95, 0.15)
"""Of twelve examples."""
RANKS: Final = 3

BOX, GAP, LEFT, TOP = 30.0, 6.0, 118.0, 30.0


def pictures() -> Mapping[str, str]:
    """Return the name of each picture's file, and what is in it."""
    return {"partitions.svg": partitions().alone(), "ladder.svg": ladder().alone()}


def partitions() -> Drawing:
    """Return which rank trains which of twelve examples, the hardest first, by each partition."""
    kinds = [
        etude.partitions.Stripes(),
        etude.partitions.SnakeStripes(),
        etude.partitions.Blocks(),
        etude.partitions.Random(seed=0),
    ]
    order = sorted(range(len(IMPORTANCE)), key=lambda example: -IMPORTANCE[example])
    drawing = Drawing(
        TOP + len(kinds) * (BOX + GAP) + 40,
        f"Which of {RANKS} ranks trains which of {len(IMPORTANCE)} examples, by partition",
        LEFT + len(order) * (BOX + GAP) + 10,
    )
    drawing.text(LEFT, 16, "the hardest example", kind="tick", colour="soft")
    drawing.text(LEFT + len(order) * (BOX + GAP) - GAP, 16, "the easiest", kind="tick", colour="soft", anchor="end")
    for nth, kind in enumerate(kinds):
        y = TOP + nth * (BOX + GAP)
        drawing.text(LEFT - 12, y + BOX / 2 + 4, type(kind).__name__, kind="name", anchor="end")
        rank_of = {int(example): rank for rank, ids in enumerate(kind.assign(IMPORTANCE, RANKS)) for example in ids}
        for place, example in enumerate(order):
            x = LEFT + place * (BOX + GAP)
            drawing.bar(x, y, BOX, BOX, series(rank_of[example]))
            drawing.text(
                x + BOX / 2, y + BOX / 2 + 4, str(rank_of[example]), kind="name", colour="paper", anchor="middle"
            )
    foot = TOP + len(kinds) * (BOX + GAP) + 22
    _legend(drawing, foot, [f"rank {rank}" for rank in range(RANKS)])
    return drawing


def ladder() -> Drawing:
    """Return the rungs by which a model is repaired, the first at the bottom: it is climbed upwards."""
    rungs = sorted(Rung, reverse=True)
    drawing = Drawing(len(rungs) * 40 + 30, "The rungs of a repair, from identity upwards", 420)
    for nth, rung in enumerate(rungs):
        y = 10 + nth * 40
        drawing.bar(60, y, 100 + 40 * rung.value, 30, series(0))
        drawing.text(40, y + 20, str(rung.value), kind="name", colour="soft", anchor="end")
        drawing.text(74, y + 20, rung.name.lower(), kind="name", colour="paper")
    drawing.text(
        60, len(rungs) * 40 + 24, "the further up, the more of the model is touched", kind="tick", colour="soft"
    )
    return drawing


def _legend(drawing: Drawing, y: float, names: Sequence[str]) -> None:
    for nth, name in enumerate(names):
        drawing.bar(LEFT + nth * 90, y - 10, 12, 12, series(nth))
        drawing.text(LEFT + nth * 90 + 18, y, name, kind="tick")
