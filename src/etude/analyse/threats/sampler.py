"""Sampler bias: a search that learns takes what looked good more often, so its trials are no random sample.

Means over such trials say where the sampler went, and not how good values are: what it tried seldom was tried beside
configurations of the beginning, what it tried often beside tuned ones.
"""

from __future__ import annotations

import math
from typing import Any, Final

from etude.analyse.columns import Column, cell_names, cells
from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count

NAME: Final = "sampler bias"

FAR: Final = 0.15
"""How far shares may be from those of random draws beside what chance does: half the sum of their differences."""

SHOWN: Final = 3


def sampler_bias(evidence: Evidence) -> Threat | None:
    """Say how far a search is from a random sample; None if its configurations were drawn without regard to results."""
    if evidence.verb != "tune" or not evidence.runs:
        return None
    drawn = sum(run.drawn for run in evidence.runs)
    led = sum(not run.drawn and not run.given for run in evidence.runs)
    if not led:
        return None
    told = sorted((one for column in evidence.columns if (one := _skewed(column))), key=lambda one: -one["far"])
    which = "; ".join(f"{one['said']}" for one in told[:SHOWN])
    by = f" by {evidence.sampler}" if evidence.sampler else ""
    return Threat(
        NAME,
        f"{led:,} of {count(len(evidence.runs), 'trial')} were proposed{by} for what earlier ones came to, and are no "
        f"random sample{f': {which}' if which else ''}.",
        Seriousness.MINOR,
        "The best is the best; do not read means of its trials as the worth of a value. search.effects(...) has means "
        "that are corrected, and those of the random part; sampler='random' has no such bias.",
        {"led": led, "drawn": drawn, "of": len(evidence.runs), "skewed": told},
    )


def _skewed(column: Column) -> dict[str, Any] | None:
    """Return which cell of a parameter was taken how much too often, if it is more than chance does."""
    import numpy as np

    cell, n, expected = cells(column)
    there = cell[cell >= 0]
    if len(there) == 0 or n < 2:  # noqa: PLR2004
        return None
    shares = np.bincount(there, minlength=n) / len(there)
    far = float(abs(shares - expected).sum()) / 2
    noise = sum(math.sqrt(2 * p * (1 - p) / (math.pi * len(there))) for p in expected) / 2
    if far <= noise + FAR:
        return None
    most = int(np.argmax(shares - expected))
    name = cell_names(column, cell, n)[most]
    said = f"{column.name} is {name} in {shares[most]:.0%}, where a random draw has {expected[most]:.0%}"
    return {
        "parameter": column.name,
        "value": name,
        "share": float(shares[most]),
        "expected": float(expected[most]),
        "far": far,
        "said": said,
    }
