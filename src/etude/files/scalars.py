"""What a plain word of YAML means: by the core schema of YAML 1.2, and never what 1.1 and 1.2 take for two things.

Half of all programs read ``no`` as False and ``1e-4`` as a text, as YAML 1.1 has it, the other half as YAML 1.2 does.
Here ``1e-4`` is a number, and words that would be another value elsewhere are refused with both ways to write them.
"""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

Plain: TypeAlias = "bool | int | float | str | None"

CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{f"{sign}{word}": math.inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{f"-{word}": -math.inf for word in (".inf", ".Inf", ".INF")},
}
SWITCHES: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""Words that are true and false to YAML 1.1, and texts to YAML 1.2."""

WHOLE: Final = re.compile(r"[-+]?[0-9]+")
NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
OCTAL: Final = re.compile(r"0o[0-7]+")
HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+")
LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9]+")
UNDERSCORES: Final = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?")
SIXTIES: Final = re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?")
BINARY: Final = re.compile(r"[-+]?0b[01_]+")
MOST_DIGITS: Final = 400


class AmbiguousError(ValueError):
    """A plain word that means one thing here and another one elsewhere."""


def meaning(text: str) -> Plain:
    """Return what a plain word means.

    Raises:
        AmbiguousError: That would be another value to other readers, or nobody can say.

    Example:
        >>> meaning("1e-4"), meaning("64"), meaning("true"), meaning("relu"), meaning("~")
        (0.0001, 64, True, 'relu', None)
        >>> meaning("no")
        Traceback (most recent call last):
        ...
        etude.files.scalars.AmbiguousError: no is false in YAML 1.1 and a text in YAML 1.2. Write false, or 'no' quoted.
    """
    if text in CONSTANTS:
        return CONSTANTS[text]
    lower = text.lower()
    if lower in SWITCHES and text in (lower, lower.title(), lower.upper()):
        true = SWITCHES[lower]
        raise AmbiguousError(f"{text} is {true} in YAML 1.1 and a text in YAML 1.2. Write {true}, or {text!r} quoted.")
    if text == "None":
        raise AmbiguousError("None is Python; in YAML it is a text. Write null, or 'None' quoted.")
    return _number_or_text(text) if text[0].isdigit() or text[0] in "+-." else text


def _number_or_text(text: str) -> int | float | str:
    if len(text) > MOST_DIGITS and (WHOLE.fullmatch(text) or NUMBER.fullmatch(text)):
        raise AmbiguousError(f"A number of {len(text)} digits is more than can be computed with. Put a text in quotes.")
    if LEADING_ZERO.fullmatch(text):
        plain = str(int(text))
        raise AmbiguousError(f"{text} is octal in YAML 1.1 and {plain} in YAML 1.2. Write {plain}, or {text!r} quoted.")
    if WHOLE.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        return _number(text)
    if OCTAL.fullmatch(text) or HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if UNDERSCORES.fullmatch(text):
        without = text.replace("_", "")
        raise AmbiguousError(
            f"{text} is a number in YAML 1.1 and a text in YAML 1.2. Write {without}, or {text!r} quoted."
        )
    if SIXTIES.fullmatch(text) or BINARY.fullmatch(text):
        raise AmbiguousError(
            f"{text} is a number in YAML 1.1 and a text in YAML 1.2. Write the number, or {text!r} quoted."
        )
    return text


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise AmbiguousError(f"{text} is larger than any number with a point. Write .inf if infinity is meant.")
    return number
