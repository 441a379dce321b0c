"""Characters that nobody sees, or that let a text look like another one: found, and shown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")
"""Letters and marks that show nothing."""
_PLAIN: Final = "\t\n\r\f"
_WORD: Final = re.compile(r"[^\W\d]\w*")


def is_invisible(character: str) -> bool:
    """Say whether a character shows nothing, or changes how others are shown."""
    if " " <= character <= "~" or character in _PLAIN:
        return False
    if character in _BLANK or "\ufe00" <= character <= "\ufe0f" or "\U000e0000" <= character <= "\U000e0fff":
        return True
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Zs", "Cs", "Co", "Cn")


def numbered(text: str, odd: Callable[[str], bool] = is_invisible) -> str:
    r"""Return a text in which odd characters are shown by number.

    Example:
        >>> numbered("admin\u202e")
        'admin⟨U+202E⟩'
    """
    return "".join(f"⟨U+{ord(c):04X}⟩" if odd(c) else c for c in text)


def lookalike(text: str) -> str:
    """Return the first word of a text that mixes Latin letters with Cyrillic or Greek ones that look like them."""
    for word in _WORD.findall(text):
        if not word.isascii() and any("a" <= c.lower() <= "z" for c in word) and any(map(looks_latin, word)):
            return str(word)
    return ""


def looks_latin(character: str) -> bool:
    """Say whether a letter of another script looks like a Latin one."""
    name = unicodedata.name(character, "")
    return name.startswith("CYRILLIC") or character in "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοκν"
