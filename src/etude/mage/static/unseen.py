"""Lines that hold characters which nobody sees, or names whose letters only look Latin."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from etude.mage.patch.invisible import is_invisible, lookalike, looks_latin, numbered
from etude.mage.patch.lines import bare
from etude.mage.static.policy import Broken, Change, Rule


def find_invisible(change: Change) -> Iterator[Broken]:
    """Yield the lines that come and hold such characters."""
    for number, line in change.diff.numbered("+"):
        text = bare(line)
        if number == 1:
            text = text.removeprefix("\ufeff")
        odd = sorted({f"U+{ord(c):04X} {unicodedata.name(c, 'unnamed')}" for c in text if is_invisible(c)})
        if odd:
            yield Broken(
                Rule.INVISIBLE,
                f"{change.path}, line {number}, holds {', '.join(odd)}, which nobody sees: {numbered(text.strip())}. "
                "Write such characters as escapes, if they are meant.",
                expected="characters that are seen",
                found=", ".join(odd),
            )
        elif word := lookalike(text):
            shown = numbered(word, looks_latin)
            yield Broken(
                Rule.INVISIBLE,
                f"{change.path}, line {number}, has the name {word}, in which letters only look Latin: {shown}.",
                expected="letters of one script",
                found=shown,
            )
