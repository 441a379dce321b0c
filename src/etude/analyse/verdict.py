"""A verdict: what can be said of a component."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from etude.analyse.better import Better


class Word(StrEnum):
    """What can be said of a component."""

    MATTERS = "matters"
    SAME = "does not matter"
    HURTS = "hurts"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict:
    """What can be said of a component.

    Attributes:
        component: What is taken away in the arm.
        effect: The mean of the base minus that of the arm, in the metric's direction: a positive one says that the
            component helps.
        low: Lower end of its interval, which is not corrected: the differences that the test would not refuse.
        high: Upper end; both are infinite where there are too few runs for one.
        p: Of the claim that there is an effect, two-sided.
        p_corrected: The same, by Holm for all components.
        better: How often a run of the base is better than one of the arm.
        standardised: The effect in standard deviations of the difference of a pair; of runs that are no pairs, in the
            pooled standard deviation of a run.
        test: Which test.
        verdict: ``"matters"``, ``"does not matter"``, ``"hurts"`` or ``"undecided"``.
        seeds_needed: Of one that is undecided, with how many seeds it would be decided four times out of five, if the
            effect is what was found; None if no number does it, or if it is decided.
        n: How many pairs there are; of runs that are no pairs, how many the smaller arm has.
        missing: Seeds that came to no number in one of the two arms.
        p_same: Of the claim that the effect is smaller than the margin; NaN without one.
        p_same_corrected: The same, by Holm.
        says: What else is to be said.
    """

    component: str
    effect: float
    low: float
    high: float
    p: float
    p_corrected: float
    better: Better
    standardised: float
    test: str
    verdict: Word
    seeds_needed: int | None
    n: int
    missing: tuple[Any, ...] = ()
    p_same: float = math.nan
    p_same_corrected: float = math.nan
    says: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the interval."""
        return self.low, self.high
