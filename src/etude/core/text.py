"""Small words for messages."""

from __future__ import annotations

import math
from collections.abc import Iterable


def brief(value: object, limit: int = 80) -> str:
    """Return what a value looks like, cut to ``limit`` characters, and its type."""
    text = repr(value)
    text = text if len(text) <= limit else text[: limit - 3] + "..."
    return f"{text} ({type(value).__name__})"


def count(n: int, noun: str) -> str:
    """Return ``n`` with its noun: ``1 trial``, ``2 trials``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def few(names: Iterable[str], most: int = 8) -> str:
    """Return names for a message: the first of them, and how many there are beside these."""
    listed = list(names)
    shown = ", ".join(listed[:most]) or "none"
    return shown if len(listed) <= most else f"{shown} and {len(listed) - most} more"


def times(number: int) -> str:
    """Return how often, in words for once and never."""
    return {0: "not at all", 1: "once"}.get(number, f"{number:,} times")


def seconds(value: float) -> str:
    """Return a duration as people say it: ``0.35 s``, ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if value < 10:  # noqa: PLR2004
        return f"{value:.2g} s"
    if value < 60:  # noqa: PLR2004
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def shortened(text: str, most: int) -> str:
    """Return a text of ``most`` characters at most, its middle left out if it is longer.

    Example:
        >>> shortened("a_very_long_name", 9)
        'a_ver…ame'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) * 2 // 5
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}" if tail else f"{text[: most - 1]}…"


def visible(text: str, *, keep: str = "") -> str:
    r"""Return a text in which what cannot be seen, moves other text or is no text is spelled out.

    Args:
        text: Anybody's: a name of a file, an answer, what a program printed.
        keep: Characters that stay as they are all the same.

    Example:
        >>> visible("a\x1b[31mb\u202ec\n")
        'a\\x1b[31mb\\u202ec\\n'
    """
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    """Return a text of several lines in which each is visible; line ends and tabs stay."""
    return visible(text, keep="\n\t")


def p_value(p: float) -> str:
    """Return a p-value as it stands in sentences: ``p = 0.012``, ``p < 0.001``."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"  # noqa: PLR2004


def span(low: float, high: float) -> tuple[float, float]:
    """Return both ends of an interval with four significant digits of the larger: what is less is no part of it.

    Example:
        >>> span(-1.2e-06, 0.056666)
        (0.0, 0.05667)
    """
    largest = max(abs(low), abs(high))
    if not 0 < largest < math.inf:
        return low, high
    digits = 3 - math.floor(math.log10(largest))
    return round(low, digits) + 0.0, round(high, digits) + 0.0


def show(value: object) -> str:
    """Return a value as it stands in tables."""
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
