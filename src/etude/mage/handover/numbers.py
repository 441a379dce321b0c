"""Whether every number of a text occurs in what it is about, to the digits that it shows.

A number that was rounded occurs if what it was rounded from does; a percentage if the share does. Numbers that follow
from others by arithmetic do not occur: whoever wants a ratio told puts it into the report. That a number stands beside
the right name is not looked at, and cannot be without understanding the sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

LEVEL: Final = "level"
"""A report's key of the level of its tests: of 0.05 the intervals are of 95 %."""
ROUNDED_FROM: Final = 10.0
"""A whole number below this is a count, and none that was rounded: "1" is no way to tell 0.97."""

_WORDS: Final = {
    word: value
    for value, words in {
        2: "two twice double doubles doubled doubling", 3: "three thrice triple triples tripled", 4: "four", 5: "five",
        6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve dozen", 13: "thirteen",
        14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twenty",
        30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety",
        100: "hundred", 1000: "thousand", 0.5: "half halves halved", 0.25: "quarter",
    }.items()
    for word in words.split()
}  # fmt: skip
_NUMBER: Final = re.compile(
    r"(?P<sign>(?<![\w.)%])[-+\u2212])?(?<![\w.])(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"(?P<power>[eE][-+]?\d+|\s*(?:\u00d7|x|\*)\s*10\^\{?[-+\u2212]?\d+\}?)?"
    r"(?P<percent>\s*(?:%|percent\b|per cent\b)|(?=\s*(?:[-\u2013]|to)\s*[\d.,]+\s*(?:%|percent\b)))?(?!\w)"
)
_SUFFIXED: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:st|nd|rd|th|x|fold|k|M|s|ms|MB|GB)\b")
_NAME: Final = re.compile(r"(?=[\w.\-]*[A-Za-z_])(?=[\w.\-]*\d)[A-Za-z_][\w.\-]*\w|(?<![\w.])\d\w*[A-Za-z_]\w*")


@dataclass(frozen=True)
class Number:
    """A number as it stands in a text.

    Attributes:
        text: As it stands there.
        value: What it says; of a percentage the share.
        half: Half of what its last digit counts: so far it may be from what it was rounded from.
        signed: Whether it has a sign.
        whole: Whether it is written without a point, an exponent or a percent sign.
    """

    text: str
    value: float
    half: float
    signed: bool = False
    whole: bool = False


def numbers_in(text: str) -> Iterator[Number]:
    """Yield the numbers of a text, those in words as well, and not those that are part of a name such as ``conv2``.

    Example:
        >>> [(one.text, one.value) for one in numbers_in("conv2 costs 50 % in two of 1,000 runs")]
        [('50 %', 0.5), ('two', 2.0), ('1,000', 1000.0)]
    """
    found = [(match.start(), _number(match)) for match in _NUMBER.finditer(text)]
    for match in _SUFFIXED.finditer(text):  # "3x" and "2nd": what stands before the letters counts
        digits = re.match(r"[\d.]+", match[0])
        assert digits is not None
        found.append((match.start(), _plain(match[0], digits[0])))
    for match in re.finditer(r"[A-Za-z]+", text):
        if (value := _WORDS.get(match[0].lower())) is not None:
            found.append((match.start(), Number(match[0], float(value), 0.0, whole=True)))
    yield from (number for _, number in sorted(found, key=lambda one: one[0]))


def missing_numbers(text: str, report: Any) -> list[str]:
    """Return the numbers of a text that do not occur in a report, as they stand in the text.

    Args:
        text: What somebody wrote.
        report: Mappings, sequences, texts and numbers; numbers within texts count.

    Example:
        >>> missing_numbers("It loses 3.1 % (p = 0.02).", {"effect": 0.0312, "p": 0.018})
        []
        >>> missing_numbers("It loses 3.2 %.", {"effect": 0.0312})
        ['3.2 %']
    """
    known = sorted(set(values_of(report)), key=abs)
    return list(dict.fromkeys(one.text for one in numbers_in(text) if not any(_is_said(one, value) for value in known)))


def missing_names(text: str, report: Any) -> list[str]:
    """Return what a text calls by a name that does not occur in a report: in backticks, or with digits in it."""
    there = " ".join(_texts_of(report))
    quoted = [match[1].strip() for match in re.finditer(r"`([^`\n]+)`", text)]
    bare = re.sub(r"`[^`\n]*`", " ", text)
    named = [match[0].rstrip(".-") for match in _NAME.finditer(_SUFFIXED.sub(" ", _NUMBER.sub(" ", bare)))]
    return list(dict.fromkeys(name for name in (*quoted, *named) if not _occurs(name, there)))


class Whole(float):
    """A number that is said in full or not at all: an interval of 95 % is none of 90 %, however it be rounded."""


def values_of(report: Any) -> Iterator[float]:
    """Yield the numbers of a report, and how sure an interval of its level is."""
    match report:
        case bool() | None:
            return
        case int() | float():
            if math.isfinite(report):
                yield float(report)
        case str():
            yield from (one.value for one in numbers_in(report))
        case Mapping():
            if isinstance(report.get(LEVEL), float):
                yield Whole(1 - report[LEVEL])
            for key, value in report.items():
                yield from values_of(key)
                yield from values_of(value)
        case Sequence():
            for value in report:
                yield from values_of(value)


def _is_said(number: Number, value: float) -> bool:
    if isinstance(value, Whole):
        return math.isclose(number.value, value, rel_tol=1e-9)
    told = value if number.signed else abs(value)
    if number.whole and (number.value < ROUNDED_FROM or number.half == 0):
        return math.isclose(number.value, told, rel_tol=1e-9)
    if number.value == 0:
        return value == 0 or (not number.whole and abs(value) <= number.half)
    return abs(told - number.value) <= number.half * (1 + 1e-9) + 1e-12 * abs(value)


def _number(match: re.Match[str]) -> Number:
    power = match["power"] or ""
    raised = re.search(r"[-+\u2212]?\d+(?=\}?$)", power)
    exponent = int(raised[0].replace("\u2212", "-")) if raised is not None else 0
    share = 1.0 if match["percent"] is None else 0.01  # "2 to 4 %" are two of them
    sign = -1.0 if match["sign"] in ("-", "\u2212") else 1.0
    digits = match["digits"].replace(",", "")
    places = len(digits.partition(".")[2])
    scale = 10.0**exponent * share
    whole = not power and match["percent"] is None and "." not in digits
    return Number(
        match[0].strip(), sign * float(digits) * scale, 0.5 * 10.0**-places * scale, bool(match["sign"]), whole
    )


def _plain(text: str, digits: str) -> Number:
    return Number(text, float(digits), 0.5 * 10.0 ** -len(digits.partition(".")[2]), whole="." not in digits)


def _texts_of(report: Any) -> Iterator[str]:
    match report:
        case str():
            yield report
        case Mapping():
            for key, value in report.items():
                yield str(key)
                yield from _texts_of(value)
        case Sequence():
            for value in report:
                yield from _texts_of(value)


def _occurs(name: str, there: str) -> bool:
    return (
        re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", there) is not None
        or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", there) is not None
    )
