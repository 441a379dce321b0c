"""What was found out about a patch: never a bare yes or no."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

from etude.mage.values import Value


class Rung(IntEnum):
    """What is checked, the cheapest first."""

    REPLY = 0
    APPLY = 1
    PARSE = 2
    POLICY = 3
    IMPORT = 4
    FIRST_STEP = 5
    BASELINE = 6
    GONE = 7
    SHORT_RUN = 8
    PERSON = 9
    TRIAL = 10


OPTIONAL: Final = frozenset({Rung.SHORT_RUN})
"""Rungs that may be left out without the whole being no pass: what was not run is told."""


class Outcome(StrEnum):
    """What a rung says."""

    PASSED = "passed"
    FAILED = "failed"
    """It goes back to whoever wrote it."""
    FOR_A_PERSON = "for a person"
    """A rule is broken that only a person may allow."""
    INCONCLUSIVE = "inconclusive"
    """Nobody can tell. It is no pass."""
    NOT_RUN = "not run"


class Reason(Value, frozen=True):
    """Why.

    Attributes:
        text: In words, with what was claimed, expected and found.
        claim: Which claim or rule.
        expected: What was expected.
        found: What was found.
    """

    text: str
    claim: str = ""
    expected: str = ""
    found: str = ""


class Verdict(Value, frozen=True):
    """What a rung, or the whole ladder, says about a patch.

    Attributes:
        rung: The rung; of a whole ladder the highest that was reached.
        outcome: What it says.
        reasons: Why, all of them.
        alarms: What is odd and no failure: a person should look.
        not_run: Rungs that could not be.
        facts: The digest of the facts behind it; empty where there are none.
        patch: The digest of the patch.
    """

    rung: Rung
    outcome: Outcome
    reasons: tuple[Reason, ...] = ()
    alarms: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    facts: str = ""
    patch: str = ""

    @property
    def passed(self) -> bool:
        """Whether it says so."""
        return self.outcome is Outcome.PASSED
