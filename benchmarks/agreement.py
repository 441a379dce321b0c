"""How the numbers that a paper prints come of its raw runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Final

from benchmarks.common import Quantity, Result, Target

AGREEMENTS: Final = ("rounded", "half-way", "truncated", "differs")
"""How a printed number comes of an exact one; ``agreement`` says more."""

SAME: Final = AGREEMENTS[:-1]
"""The ways in which a printed number is the raw runs'."""

COUNTED: Final = ("printed", "same", *AGREEMENTS, "not in the runs")
"""The rows of a benchmark that ``counted`` gives."""

QUANTITIES: Final = tuple(Quantity(row, "", 0) for row in COUNTED)
"""The same, as numbers that cells give."""


def agreement(printed: str, exact: Fraction, *, digits: int) -> str:
    """Say how a printed number comes of an exact one.

    Returns:
        ``rounded`` if it is the nearest one with so many digits; ``half-way`` if two are equally near, and it is one of
        them; ``truncated`` if the digits beyond were cut off, which is not the nearest; ``differs`` otherwise.

    Example:
        >>> [agreement("0.12", Fraction(x), digits=2) for x in ("0.1234", "0.125", "0.129", "0.13")]
        ['rounded', 'half-way', 'truncated', 'differs']
    """
    one = Fraction(1, 10**digits)
    off = exact - Fraction(printed)
    if abs(off) * 2 < one:
        return "rounded"
    if abs(off) * 2 == one:
        return "half-way"
    return "truncated" if 0 <= off < one else "differs"


def number(where: str, what: str, printed: str, exact: Fraction, *, digits: int) -> Result:
    """Return a printed number, with what comes of the raw runs."""
    how = agreement(printed, exact, digits=digits)
    return {"where": where, "what": what, "printed": printed, "found": float(exact), "how": how}


def counted(numbers: Sequence[Result], absent: Sequence[Result]) -> Result:
    """Return how many numbers are printed, agree in each way, and are not in the runs."""
    counts = Counter(one["how"] for one in numbers)
    same = sum(counts[how] for how in SAME)
    agree = (counts[how] for how in AGREEMENTS)
    return dict(zip(COUNTED, (len(numbers), same, *agree, len(absent)), strict=True))


def all_same(printed: int) -> Target:
    """Return the target that so many printed numbers, all that there are, are the raw runs'."""
    return Target("printed numbers that are the raw runs'", "étude: same", printed, "")


def mean(values: Sequence[Fraction]) -> Fraction:
    """Return the exact mean."""
    return sum(values, Fraction()) / len(values)


def deviation(values: Sequence[Fraction]) -> Fraction:
    """Return the standard deviation of a sample (n - 1), to 30 digits."""
    middle = mean(values)
    variance = sum(((value - middle) ** 2 for value in values), Fraction()) / (len(values) - 1)
    with localcontext(prec=40):
        return Fraction((Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt())
