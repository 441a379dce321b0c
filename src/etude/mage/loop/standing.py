"""How far a variant is: all that the loop knows of it, as it is written down after every event."""

from __future__ import annotations

from etude.mage.asking.evidence import Evidence
from etude.mage.loop.states import ENDS, Stage
from etude.mage.values import Value
from etude.mage.variants import Route
from etude.mage.verdicts import Outcome


class Standing(Value, frozen=True):
    """How far a variant is.

    Attributes:
        variant: Its name.
        digest: That of what is wanted: another one is another variant.
        stage: Where it stands.
        route: Who writes it now.
        why: Why it stands there, where there is something to say.
        calls: How often somebody was asked for it since it was begun.
        again: How often it was begun anew.
        draft: Which draft it is, from 1; 0 before the first one by whoever is asked.
        repairs: How many repairs of this draft there were.
        evidence: What the next repair is told.
        notes: What reviewers have said; each draft is told.
        patch: The digest of the patch that is looked at.
        patches: Those of all that there were.
        signatures: Of all that failed in this draft.
        verdict: The digest of what the ladder says of the patch; empty until it says something.
        outcome: What that is.
        shares: The variant whose change it is; empty if its change is its own.
    """

    variant: str
    digest: str = ""
    stage: Stage = Stage.SCANNED
    route: Route = Route.MODEL
    why: str = ""
    calls: int = 0
    again: int = 0
    draft: int = 0
    repairs: int = 0
    evidence: Evidence | None = None
    notes: tuple[str, ...] = ()
    patch: str = ""
    patches: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    verdict: str = ""
    outcome: Outcome | None = None
    shares: str = ""

    @property
    def ended(self) -> bool:
        """Whether the loop does nothing more for it."""
        return self.stage in ENDS
