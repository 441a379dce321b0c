"""How an answer or a change is refused: what was claimed, what was expected, what was found."""

from __future__ import annotations

from collections.abc import Sequence

from etude.core.errors import ChangeRefused
from etude.mage.verdicts import Outcome, Reason, Rung, Verdict


class BadReply(ChangeRefused):
    """An answer that holds no change that could be read, and nothing was changed.

    Attributes:
        reason: Why.
        reasons: The same, as of other refusals.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason
        self.reasons = (reason,)

    @property
    def verdict(self) -> Verdict:
        """What the ladder says of it."""
        return Verdict(rung=Rung.REPLY, outcome=Outcome.FAILED, reasons=self.reasons)


class PatchRefused(ChangeRefused):
    """A change that cannot be applied, and of which nothing was applied.

    Attributes:
        reasons: Why, of all blocks.
        rung: Which rung says so: APPLY, or REPLY where code was left out, or PARSE where it is no Python.
        outcome: FAILED, or FOR_A_PERSON where only a person may allow it.
    """

    def __init__(
        self, reasons: Sequence[Reason], *, rung: Rung = Rung.APPLY, outcome: Outcome = Outcome.FAILED
    ) -> None:
        super().__init__("\n".join(reason.text for reason in reasons))
        self.reasons = tuple(reasons)
        self.rung = rung
        self.outcome = outcome

    @property
    def verdict(self) -> Verdict:
        """What the ladder says of it."""
        return Verdict(rung=self.rung, outcome=self.outcome, reasons=self.reasons)


def refuse(text: str, *, claim: str = "", expected: str = "", found: str = "", rung: Rung = Rung.APPLY) -> PatchRefused:
    """Return a refusal for one reason."""
    return PatchRefused((Reason(text=text, claim=claim, expected=expected, found=found),), rung=rung)
