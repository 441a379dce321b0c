"""Implementation errors: does the base come to the number that was published for it?

Source:
    ABLATOR's table 1 (Fostiropoulos and Itti 2023): the best trial of a study beside the published one, "similarly but
    not better".
"""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import Final

from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count, show

NAME: Final = "reference not reproduced"

NEAR: Final = 0.05
"""A single value is taken to be near where it is off by no more than this share of the reference."""

QUANTILE: Final = (math.inf, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Of Student's t, 97.5 %, by degrees of freedom from 0; 1.96 + 2.7 / degrees beyond, off by less than 0.01."""


def reference_missed(evidence: Evidence) -> Threat | None:
    """Say whether the base, or the best trial, misses a number that was published; None if not, or if none is known."""
    if evidence.reference is None:
        return None
    found = reached(evidence)
    if found is None:
        return Threat(
            NAME,
            f"nothing has come to a value yet that could be compared with {show(evidence.reference)}.",
            Seriousness.UNKNOWN,
            "Wait for it.",
        )
    value, low, high, n = found
    off = evidence.sign * (value - evidence.reference)
    if low <= evidence.reference <= high:
        return None
    whose = f"the mean of {count(n, 'run')} of the base" if evidence.verb == "ablate" else "the best trial"
    spread = f" ({show(low)} to {show(high)})" if n > 1 else ""
    numbers = {"reference": evidence.reference, "value": value, "low": low, "high": high, "runs": n, "better_by": off}
    said = f"{whose} is {show(value)}{spread}, and the reference is {show(evidence.reference)}"
    if off < 0:
        mend = "Look for an error in what was built, or in what was given, before comparing anything with it."
        return Threat(NAME, f"{said}: {show(-off)} worse.", Seriousness.SERIOUS, mend, numbers)
    mend = "Look whether it is judged on the same data, and whether it sees what it is judged by."
    return Threat(NAME, f"{said}: {show(off)} better.", Seriousness.MINOR, mend, numbers)


def reached(evidence: Evidence) -> tuple[float, float, float, int] | None:
    """Return what stands beside the reference, from where to where it may lie, and of how many runs it is.

    Of a base with several seeds that is the 95 % interval of its mean, by Student's t; of one value, ``NEAR`` about it.
    """
    if evidence.verb == "ablate":
        values = [run.value for run in evidence.of(evidence.base) if run.value is not None]
    else:
        known = [run.value for run in evidence.runs if run.known and run.value is not None]
        values = [max(known, key=lambda value: evidence.sign * value)] if known else []
    if not values:
        return None
    middle, n = fmean(values), len(values)
    if n == 1:
        off = NEAR * abs(evidence.reference or 0.0)
    else:
        off = (QUANTILE[n - 1] if n <= len(QUANTILE) else 1.96 + 2.7 / (n - 1)) * stdev(values) / math.sqrt(n)
    return middle, middle - off, middle + off, n
