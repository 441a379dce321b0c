"""A small writer of SVG: figures are made of a dozen kinds of marks, each a line here.

Colours are classes, so that one drawing is light and dark on a page, and has colours of its own in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from etude.analyse.report.palette import FONT, LIGHT, classes
from etude.analyse.report.words import safe
from etude.core.text import shortened

WIDE: Final = 440
"""Pixels of a usual figure: it is not made much smaller on a phone, and two or three stand side by side elsewhere."""

VERY_WIDE: Final = 900
LETTER: Final = 6.4
"""About how wide a letter of a name is, in pixels."""

Anchor = Literal["start", "middle", "end"]


def at(value: float) -> str:
    """Return a coordinate, in few letters."""
    told = f"{value:.1f}"
    return told[:-2] if told.endswith(".0") else told


def _of(trial: int | None) -> str:
    return f' data-t="{trial}"' if trial is not None else ""


def _faint(opacity: float) -> str:
    return f' opacity="{opacity:g}"' if opacity < 1 else ""


def letters(pixels: float) -> int:
    """Return how many letters of a name fit."""
    return max(3, int(pixels / LETTER))


@dataclass
class Drawing:
    """A figure as it is drawn.

    Attributes:
        high: Its height, in pixels.
        label: What it shows, for those who cannot see it.
        wide: Its width, in pixels.
        parts: What was drawn so far.
    """

    high: float
    label: str
    wide: float = WIDE
    parts: list[str] = field(default_factory=list)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1.0, dash: str = ""
    ) -> None:
        """Draw a straight line."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<path class="l-{colour}" stroke-width="{width:g}"{dashed} d="M{at(x1)} {at(y1)}L{at(x2)} {at(y2)}"/>'
        )

    def curve(
        self,
        points: Iterable[tuple[float, float]],
        colour: str,
        *,
        width: float = 1.5,
        faint: float = 1.0,
        trial: int | None = None,
    ) -> None:
        """Draw a line through points."""
        through = "L".join(f"{at(x)} {at(y)}" for x, y in points)
        self.parts.append(
            f'<path class="l-{colour}" stroke-width="{width:g}" stroke-linejoin="round"{_faint(faint)}{_of(trial)}'
            f' d="M{through}"/>'
        )

    def area(self, points: Iterable[tuple[float, float]], colour: str, *, faint: float = 0.18) -> None:
        """Fill what lies between points."""
        around = "L".join(f"{at(x)} {at(y)}" for x, y in points)
        self.parts.append(f'<path class="f-{colour}" {_faint(faint).strip()} d="M{around}Z"/>')

    def bar(
        self, x: float, y: float, wide: float, high: float, colour: str, *, trial: int | None = None, faint: float = 1.0
    ) -> None:
        """Draw a filled rectangle."""
        self.parts.append(
            f'<rect class="f-{colour}" x="{at(x)}" y="{at(y)}" width="{max(0.4, wide):.4g}" height="{at(high)}"'
            f"{_faint(faint)}{_of(trial)}/>"
        )

    def dots(
        self, points: Sequence[tuple[float, float, int | None]], colour: str, *, radius: float = 3.0, faint: float = 0.6
    ) -> None:
        """Draw discs: places, and the trial that each is of."""
        inner = "".join(f'<circle cx="{at(x)}" cy="{at(y)}" r="{radius:g}"{_of(trial)}/>' for x, y, trial in points)
        self.parts.append(f'<g class="f-{colour}"{_faint(faint)}>{inner}</g>')

    def crosses(self, points: Sequence[tuple[float, float, int | None]], colour: str, *, size: float = 3.0) -> None:
        """Draw crosses."""
        for x, y, trial in points:
            self.parts.append(
                f'<path class="l-{colour}" stroke-width="1.4"{_of(trial)} d="M{at(x - size)} {at(y - size)}'
                f'l{2 * size:g} {2 * size:g}m0 {-2 * size:g}l{-2 * size:g} {2 * size:g}"/>'
            )

    def diamond(self, x: float, y: float, colour: str, *, size: float = 5.5, trial: int | None = None) -> None:
        """Draw a diamond."""
        self.parts.append(
            f'<path class="f-{colour}"{_of(trial)} d="M{at(x)} {at(y - size)}'
            f'l{size:g} {size:g}l{-size:g} {size:g}l{-size:g} {-size:g}z"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        said: str,
        *,
        colour: str = "ink",
        kind: str = "name",
        anchor: Anchor = "start",
        room: float | None = None,
    ) -> None:
        """Write words; where they do not fit into ``room`` pixels they are shortened, and whole when pointed at."""
        short = shortened(said, letters(room)) if room is not None else said
        whole = f"<title>{safe(said)}</title>" if short != said else ""
        to = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(f'<text class="f-{colour} {kind}" x="{at(x)}" y="{at(y)}"{to}>{whole}{safe(short)}</text>')

    def inline(self, kind: str = "") -> str:
        """Return it for a page, which paints it."""
        named = f' class="{kind}"' if kind else ""
        return self._as_svg(f' role="img" aria-label="{safe(self.label)}"{named}', "")

    def alone(self) -> str:
        """Return it as a file: painted, on light paper."""
        paint = f"<style>text{{font-family:{FONT}}}{classes(LIGHT)}</style>"
        paper = f'<rect class="f-paper" width="{at(self.wide)}" height="{at(self.high)}"/>'
        size = f' xmlns="http://www.w3.org/2000/svg" width="{at(self.wide)}" height="{at(self.high)}"'
        return self._as_svg(size, f"<title>{safe(self.label)}</title>{paint}{paper}") + "\n"

    def _as_svg(self, more: str, before: str) -> str:
        return f'<svg viewBox="0 0 {at(self.wide)} {at(self.high)}"{more}>{before}{"".join(self.parts)}</svg>'
