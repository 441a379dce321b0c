"""Words on a page: escaped, shortened, and numbers as people read them."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from typing import Any, Final

_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""What neither XML nor UTF-8 can hold."""

_TURNING: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""What turns the direction of all text after it."""


def safe(value: object) -> str:
    """Return a text that can stand anywhere in HTML and SVG, in quotes as well.

    Example:
        >>> safe('<b a="1">&')
        '&lt;b a=&quot;1&quot;&gt;&amp;'
    """
    return html.escape(_TURNING.sub("", _UNPRINTABLE.sub("\ufffd", str(value))))


def number(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, the sign of a negative one as a minus.

    Example:
        >>> number(-0.001234567), number(1234567.0), number(float("nan"))
        ('\u22120.001235', '1.235e6', 'NaN')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "\u2212∞"
    told = f"{value:.{digits}g}"
    if "e" in told:
        base, _, power = told.partition("e")
        told = f"{base}e{int(power)}"
    return told.replace("-", "\u2212", 1) if told.startswith("-") else told


def shown(value: Any) -> str:
    """Return any value as a reader sees it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value)
    return number(float(value), 6) if isinstance(value, float) else str(value)


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals tell numbers of a column apart: four significant digits of their spread.

    Example:
        >>> decimals([0.9123, 0.9188]), decimals([1200.0, 3400.0])
        (6, 0)
    """
    known = [value for value in values if math.isfinite(value)]
    spread = max(known, default=0.0) - min(known, default=0.0) or abs(next(iter(known), 0.0))
    return min(8, max(0, 3 - math.floor(math.log10(spread)))) if spread else 1
