"""What the machine of the loop hears and says: events are what happened, commands what is to be done."""

from __future__ import annotations

from etude.mage.asking.evidence import Evidence
from etude.mage.values import Tagged, Value
from etude.mage.variants import Route
from etude.mage.verdicts import Outcome

# --- events ---------------------------------------------------------------------------------------


class Planned(Tagged, frozen=True):
    """It is wanted."""

    variant: str
    digest: str
    route: Route = Route.MODEL
    unclear: str = ""
    shares: str = ""


class PlanApproved(Tagged, frozen=True):
    """A person agrees that it is wanted, and how it is known to be done."""

    variant: str


class PlanRefused(Tagged, frozen=True):
    """A person does not want it."""

    variant: str


class BaselineHeld(Tagged, frozen=True):
    """The untouched program runs, and it is known how."""


class BaselineBroke(Tagged, frozen=True):
    """The untouched program does not run."""

    why: str


class Asked(Tagged, frozen=True):
    """Somebody is about to be asked for it."""

    variant: str


class Patched(Tagged, frozen=True):
    """There is a patch, and it applies."""

    variant: str
    patch: str


class HandedIn(Tagged, frozen=True):
    """A person has written a patch."""

    variant: str
    patch: str


class Checked(Tagged, frozen=True):
    """Nothing speaks against the patch as it stands."""

    variant: str


class Probed(Tagged, frozen=True):
    """The patched program ran far enough to be judged."""

    variant: str


class Judged(Tagged, frozen=True):
    """The ladder says something of the patch, and it is no failure that goes back."""

    variant: str
    patch: str
    verdict: str
    outcome: Outcome


class Completed(Tagged, frozen=True):
    """The patched program was run to its end, or it is known why not; the ladder says something of both."""

    variant: str
    patch: str
    verdict: str
    outcome: Outcome


class Failed(Tagged, frozen=True):
    """A rung says no."""

    variant: str
    evidence: Evidence
    patch: str = ""


class CannotBeWritten(Tagged, frozen=True):
    """Whoever was asked says that it cannot be done."""

    variant: str
    why: str


class BudgetEnded(Tagged, frozen=True):
    """The next call could pass a limit; if ``whole``, that of the study."""

    variant: str
    why: str
    whole: bool = True


class BackendFailed(Tagged, frozen=True):
    """There is no answer, and asking again does not help; if ``whole``, nor would it for other variants."""

    variant: str
    why: str
    whole: bool = True


class TakenUp(Tagged, frozen=True):
    """Somebody goes on with it."""

    variant: str


class Accepted(Tagged, frozen=True):
    """It is approved.

    Attributes:
        patch: The digest of the patch that was approved.
        verdict: That of the verdict.
        despite: Whether a person knows that the verdict is no pass.
    """

    variant: str
    patch: str
    verdict: str
    despite: bool = False


class Rejected(Tagged, frozen=True):
    """A person does not approve it; with a note it is repaired."""

    variant: str
    note: str = ""


class JudgedAnew(Tagged, frozen=True):
    """The same patch was judged again."""

    variant: str
    verdict: str
    outcome: Outcome


class TrialFailed(Tagged, frozen=True):
    """A trial of it failed: with that, the verdict is another one."""

    variant: str
    verdict: str
    outcome: Outcome
    why: str


class TriedAgain(Tagged, frozen=True):
    """Somebody wants it to be begun anew: it came to nothing, or a trial of it failed, as the note says."""

    variant: str
    note: str = ""


class HandedOver(Tagged, frozen=True):
    """It is part of an ablation study."""

    variant: str


Event = (
    Planned | PlanApproved | PlanRefused | BaselineHeld | BaselineBroke | Asked | Patched | HandedIn | Checked | Probed
    | Judged | Completed | Failed | CannotBeWritten | BudgetEnded | BackendFailed | TakenUp | Accepted | Rejected
    | JudgedAnew | TrialFailed | TriedAgain | HandedOver
)  # fmt: skip

# --- commands -------------------------------------------------------------------------------------


class MeasureBaseline(Value, frozen=True):
    """Run the untouched program, twice or more."""


class Draft(Value, frozen=True):
    """Have it written: by a rule, or by whoever is asked, who hears the evidence if there is any."""

    variant: str
    route: Route


class Check(Value, frozen=True):
    """Look at the patch."""

    variant: str


class Probe(Value, frozen=True):
    """Run the patched program."""

    variant: str


class Judge(Value, frozen=True):
    """Hold what it did against what was claimed."""

    variant: str


class Complete(Value, frozen=True):
    """Run the patched program to its end, where that can be."""

    variant: str


class Review(Value, frozen=True):
    """Show it to a person, or to a policy."""

    variant: str


Command = MeasureBaseline | Draft | Check | Probe | Judge | Complete | Review
