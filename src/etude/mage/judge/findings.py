"""What a comparison of two runs finds, and how much it weighs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from etude.mage.verdicts import Outcome, Reason


class Weight(StrEnum):
    """What a finding does to the verdict."""

    FAILS = "fails"
    FOR_A_PERSON = "for a person"
    UNCLEAR = "unclear"
    ALARM = "alarm"


class Finding(NamedTuple):
    """Something that was found, and what it does to the verdict."""

    weight: Weight
    reason: Reason


def fails(text: str, *, claim: str = "", expected: str = "", found: str = "") -> Finding:
    """Return a finding that no verdict survives."""
    return Finding(Weight.FAILS, Reason(text=text, claim=claim, expected=expected, found=found))


def for_a_person(text: str, *, claim: str = "", expected: str = "", found: str = "") -> Finding:
    """Return a finding that may be what was wanted; facts alone do not say so."""
    return Finding(Weight.FOR_A_PERSON, Reason(text=text, claim=claim, expected=expected, found=found))


def unclear(text: str, *, claim: str = "", expected: str = "", found: str = "") -> Finding:
    """Return a finding that nothing can be told."""
    return Finding(Weight.UNCLEAR, Reason(text=text, claim=claim, expected=expected, found=found))


def alarm(text: str) -> Finding:
    """Return a finding that is odd, and no failure."""
    return Finding(Weight.ALARM, Reason(text=text))


def outcome_of(findings: Iterable[Finding]) -> tuple[Outcome, tuple[Reason, ...], tuple[str, ...]]:
    """Return the outcome, its reasons, and the alarms, each said once.

    One failure is enough. What nobody can tell comes before what a person may allow: there is nothing to allow yet.
    """
    kept = {(one.weight, one.reason.text): one for one in findings}.values()
    of = {weight: tuple(one.reason for one in kept if one.weight is weight) for weight in Weight}
    alarms = tuple(one.text for one in of[Weight.ALARM])
    open_ = of[Weight.UNCLEAR] + of[Weight.FOR_A_PERSON]
    if of[Weight.FAILS]:
        return Outcome.FAILED, of[Weight.FAILS] + open_, alarms
    if of[Weight.UNCLEAR]:
        return Outcome.INCONCLUSIVE, open_, alarms
    return (Outcome.FOR_A_PERSON if open_ else Outcome.PASSED), open_, alarms
