"""Colours: one table for light and dark, which people who see no red or green can tell apart.

The hues of the series are those of Okabe and Ito 2008, "Color Universal Design", changed in lightness so that each
has a contrast of 3 to 1 with its paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIGHT: Final[Mapping[str, str]] = {
    "paper": "#ffffff",
    "wash": "#f5f6f8",
    "ink": "#1a1d23",
    "soft": "#5b6370",
    "rule": "#d8dce2",
    "grid": "#e8eaee",
    "link": "#0b5cad",
    "mute": "#9aa3af",
    "s0": "#0067a5",
    "s1": "#c25700",
    "s2": "#00805c",
    "s3": "#a8487f",
    "s4": "#2b8cc4",
    "s5": "#8a6d00",
    "s6": "#6b4fbb",
    "s7": "#4d4d4d",
    "best": "#c25700",
    "good": "#0067a5",
    "bad": "#b3261e",
    "band": "#0067a5",
}
DARK: Final[Mapping[str, str]] = {
    "paper": "#15181d",
    "wash": "#1d2128",
    "ink": "#eceff4",
    "soft": "#a7b0bd",
    "rule": "#363c47",
    "grid": "#282d36",
    "link": "#7cbcff",
    "mute": "#6d7683",
    "s0": "#58a9e8",
    "s1": "#f2954b",
    "s2": "#2fc294",
    "s3": "#e48fbb",
    "s4": "#8fd0f5",
    "s5": "#e0c341",
    "s6": "#ab94f0",
    "s7": "#c3c8d0",
    "best": "#f2954b",
    "good": "#58a9e8",
    "bad": "#ff8a80",
    "band": "#58a9e8",
}
SERIES: Final = 8

FONT: Final = "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',Helvetica,Arial,sans-serif"


def series(nth: int) -> str:
    """Return the name of the colour of the nth thing."""
    return f"s{nth % SERIES}"


def variables(colours: Mapping[str, str]) -> str:
    """Return the colours as properties of CSS."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def classes(colours: Mapping[str, str] | None = None) -> str:
    """Return the rules by which figures are painted: by the page's properties, or with colours of their own."""

    def colour(name: str) -> str:
        return colours[name] if colours is not None else f"var(--{name})"

    fills = "".join(f".f-{name}{{fill:{colour(name)}}}" for name in LIGHT)
    lines = "".join(f".l-{name}{{fill:none;stroke:{colour(name)}}}" for name in LIGHT)
    # The words inherit their font; a figure alone names it.
    words = ".tick{font-size:11px}.name{font-size:12.5px}.strong{font-weight:600}"
    halo = f".halo{{paint-order:stroke;stroke:{colour('paper')};stroke-width:4px;stroke-linejoin:round}}"
    return f"{fills}{lines}{words}{halo}"
