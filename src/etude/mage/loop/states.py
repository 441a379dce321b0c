"""What becomes of a variant: one table, and everything that is computed from it.

Turns are what happens, by whoever does it. Those of ``BY_HAND`` are not done by the loop: nothing that the loop does by
itself leads out of an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from etude.core.turns import drawn, following


class Stage(StrEnum):
    """Where a variant stands."""

    SCANNED = "scanned"
    PLANNED = "planned"
    PLAN_APPROVED = "plan approved"
    DRAFTING = "drafting"
    REPAIRING = "repairing"
    APPLIED = "applied"
    CHECKED = "checked"
    PROBED = "probed"
    JUDGED = "judged"
    COMPLETED = "completed"
    SHARED = "shared"
    AWAITING_REVIEW = "awaiting review"
    ACCEPTED = "accepted"
    HANDED_OVER = "handed over"
    GAVE_UP = "gave up"
    BUDGET_SPENT = "budget spent"
    BACKEND_DOWN = "backend down"
    REJECTED = "rejected by human"
    UNCLEAR = "unclear"
    BASELINE_BROKEN = "baseline broken"


class Turn(StrEnum):
    """What happens to a variant."""

    PLANNED = "planned"
    FOUND_UNCLEAR = "found unclear"
    APPROVED = "plan approved"
    REFUSED = "plan refused"
    BEGUN = "begun"
    PATCHED = "patched"
    HANDED_IN = "handed in"
    CHECKED = "checked"
    PROBED = "probed"
    JUDGED = "judged"
    COMPLETED = "completed"
    SHARED = "shared"
    SHOWN = "shown"
    FAILED = "failed"
    TRIED_AGAIN = "tried again"
    GIVEN_UP = "given up"
    BUDGET_ENDED = "budget ended"
    BACKEND_FAILED = "backend failed"
    BASELINE_FAILED = "baseline failed"
    TAKEN_UP = "taken up"
    BEGUN_ANEW = "begun anew"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    VOIDED = "voided"
    HANDED_OVER = "handed over"
    TRIAL_FAILED = "trial failed"


_WORK: Final = (Stage.DRAFTING, Stage.APPLIED, Stage.CHECKED, Stage.PROBED, Stage.JUDGED)
"""What the loop goes through by itself."""

NEXT: Final[Mapping[tuple[Stage, Turn], Stage]] = MappingProxyType(
    {
        (Stage.SCANNED, Turn.PLANNED): Stage.PLANNED,
        (Stage.PLANNED, Turn.FOUND_UNCLEAR): Stage.UNCLEAR,  # it can be read in several ways, and nobody has chosen
        (Stage.PLANNED, Turn.APPROVED): Stage.PLAN_APPROVED,
        (Stage.PLANNED, Turn.REFUSED): Stage.REJECTED,
        (Stage.PLAN_APPROVED, Turn.BEGUN): Stage.DRAFTING,
        (Stage.PLAN_APPROVED, Turn.BASELINE_FAILED): Stage.BASELINE_BROKEN,
        (Stage.APPLIED, Turn.BASELINE_FAILED): Stage.BASELINE_BROKEN,  # handed in before anything was measured
        (Stage.PLAN_APPROVED, Turn.HANDED_IN): Stage.APPLIED,  # a person's own patch, which nobody has to draft
        (Stage.DRAFTING, Turn.PATCHED): Stage.APPLIED,
        (Stage.DRAFTING, Turn.HANDED_IN): Stage.APPLIED,
        (Stage.DRAFTING, Turn.BUDGET_ENDED): Stage.BUDGET_SPENT,
        (Stage.DRAFTING, Turn.BACKEND_FAILED): Stage.BACKEND_DOWN,
        (Stage.APPLIED, Turn.CHECKED): Stage.CHECKED,
        (Stage.CHECKED, Turn.PROBED): Stage.PROBED,
        (Stage.PROBED, Turn.JUDGED): Stage.JUDGED,
        (Stage.JUDGED, Turn.COMPLETED): Stage.COMPLETED,  # run to its end, or it is known why not
        (Stage.COMPLETED, Turn.SHOWN): Stage.AWAITING_REVIEW,
        (Stage.COMPLETED, Turn.SHARED): Stage.SHARED,  # what others share waits for nobody: each of them does
        (Stage.SHARED, Turn.VOIDED): Stage.AWAITING_REVIEW,  # judged anew, or of no use to those that share it
        **{(stage, Turn.FAILED): Stage.REPAIRING for stage in (*_WORK, Stage.AWAITING_REVIEW)},
        (Stage.REPAIRING, Turn.TRIED_AGAIN): Stage.DRAFTING,
        (Stage.REPAIRING, Turn.GIVEN_UP): Stage.GAVE_UP,
        (Stage.REPAIRING, Turn.REJECTED): Stage.REJECTED,  # a person's note, and nobody is left who could heed it
        (Stage.AWAITING_REVIEW, Turn.ACCEPTED): Stage.ACCEPTED,
        (Stage.AWAITING_REVIEW, Turn.REJECTED): Stage.REJECTED,
        (Stage.AWAITING_REVIEW, Turn.HANDED_IN): Stage.APPLIED,  # edited by the reviewer: all rungs anew
        (Stage.AWAITING_REVIEW, Turn.VOIDED): Stage.AWAITING_REVIEW,  # judged anew
        (Stage.AWAITING_REVIEW, Turn.TAKEN_UP): Stage.JUDGED,  # by now there is time to run it to its end
        (Stage.ACCEPTED, Turn.VOIDED): Stage.AWAITING_REVIEW,  # patch or verdict are no longer those approved
        (Stage.ACCEPTED, Turn.HANDED_OVER): Stage.HANDED_OVER,
        (Stage.ACCEPTED, Turn.TRIAL_FAILED): Stage.AWAITING_REVIEW,  # whoever approved it did not know of that
        (Stage.HANDED_OVER, Turn.TRIAL_FAILED): Stage.AWAITING_REVIEW,  # with a later seed
        (Stage.GAVE_UP, Turn.HANDED_IN): Stage.APPLIED,
        (Stage.GAVE_UP, Turn.BEGUN_ANEW): Stage.DRAFTING,  # somebody wants it tried again, by somebody else perhaps
        (Stage.BUDGET_SPENT, Turn.HANDED_IN): Stage.APPLIED,
        (Stage.BUDGET_SPENT, Turn.TAKEN_UP): Stage.DRAFTING,  # somebody has raised the budget
        (Stage.BACKEND_DOWN, Turn.HANDED_IN): Stage.APPLIED,
        (Stage.BACKEND_DOWN, Turn.TAKEN_UP): Stage.DRAFTING,
        (Stage.BASELINE_BROKEN, Turn.TAKEN_UP): Stage.PLAN_APPROVED,  # its data may be there by now: it is run again
    }
)
ENDS: Final = frozenset(
    {
        Stage.HANDED_OVER,
        Stage.GAVE_UP,
        Stage.BUDGET_SPENT,
        Stage.BACKEND_DOWN,
        Stage.REJECTED,
        Stage.UNCLEAR,
        Stage.BASELINE_BROKEN,
    }
)
"""Where the loop does nothing more."""
FINAL: Final = frozenset(Stage) - {stage for stage, _ in NEXT}
"""Ends that people leave neither, but by planning anew."""
BY_HAND: Final = frozenset({Turn.HANDED_IN, Turn.TAKEN_UP, Turn.BEGUN_ANEW, Turn.TRIAL_FAILED})
"""What only people do, or trials that they have started."""


def after(stage: Stage, turn: Turn, *, variant: str) -> Stage:
    """Return the stage that follows when ``turn`` happens.

    Raises:
        TransitionError: The table has no such row; the message lists what could happen instead.
    """
    return following(NEXT, stage, turn, of=f"variant {variant}")


def diagram() -> str:
    """Return the table as a Mermaid state diagram, for the docs."""
    return drawn(NEXT, begins=Stage.SCANNED, ends=[stage for stage in Stage if stage in FINAL | {Stage.HANDED_OVER}])
