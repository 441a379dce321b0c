"""The marks of a component, which go when it goes: one that stayed behind would be about what follows."""

from __future__ import annotations

import re
from typing import Final

COMPONENT: Final = "ABLATABLE_COMPONENT"
_MARK: Final = re.compile(rf"#\s*{COMPONENT}\b")
_BEHIND: Final = re.compile(r"[ \t]*(#[^\r\n]*)")
_ABOVE: Final = re.compile(r"(?<![^\r\n])([ \t]*)(#[^\r\n]*)(?:\r\n|\n|\r)\1\Z")


def has_mark(comment: str) -> bool:
    """Say whether a comment marks a component, whatever else it says.

    Example:
        >>> has_mark("# small steps  #ABLATABLE_COMPONENT (with=pool)"), has_mark("# ABLATABLE_COMPONENTS")
        (True, False)
    """
    return _MARK.search(comment) is not None


def with_marks(text: str, start: int, end: int) -> tuple[int, int]:
    r"""Return a place in a source with the marks behind it, and with those on lines of their own directly above it.

    Args:
        text: The source.
        start: Where the place begins, in characters.
        end: Where it ends.

    Example:
        >>> text = "a()\n# ABLATABLE_COMPONENT\nclip()  #ABLATABLE_COMPONENT\nb()\n"
        >>> first, last = with_marks(text, text.index("clip"), text.index("clip") + len("clip()"))
        >>> text[:first] + text[last:]
        'a()\n\nb()\n'
    """
    behind = _BEHIND.match(text, end)
    if behind is not None and has_mark(behind[1]):
        end = behind.end()
    while (above := _ABOVE.search(text[:start])) is not None and has_mark(above[2]):
        start = above.start(2)
    return start, end
