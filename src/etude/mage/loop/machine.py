"""The loop as a machine without wires: events in, commands out; ``work`` carries the commands out.

Each variant has at most one command under way, and commands are carried out in the order in which they were given: so
variants take turns, and one that fails early is known early. A variant is drafted, repaired at most so often with the
evidence of what failed, drafted once more by somebody who has not seen the failures, and then given up. What came
before comes again once, and no more: the same patch, or the same error, ends a draft early.

All that is known of a variant is in its ``Standing``, which is written down after every event; a machine that is made
of standings goes on where another one ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from etude.core.errors import TransitionError
from etude.mage.asking.evidence import Evidence
from etude.mage.loop import sharing
from etude.mage.loop.events import (
    Accepted,
    Asked,
    BackendFailed,
    BaselineBroke,
    BaselineHeld,
    BudgetEnded,
    CannotBeWritten,
    Check,
    Checked,
    Command,
    Complete,
    Completed,
    Draft,
    Event,
    Failed,
    HandedIn,
    HandedOver,
    Judge,
    Judged,
    JudgedAnew,
    MeasureBaseline,
    Patched,
    PlanApproved,
    Planned,
    PlanRefused,
    Probe,
    Probed,
    Rejected,
    Review,
    TakenUp,
    TrialFailed,
    TriedAgain,
)
from etude.mage.loop.standing import Standing
from etude.mage.loop.states import Stage, Turn, after
from etude.mage.values import Value
from etude.mage.variants import Route
from etude.mage.verdicts import Outcome, Rung


class Tries(Value, frozen=True):
    """How often is tried.

    Attributes:
        repairs: Repairs of one draft, at most.
        drafts: Drafts by whoever writes, at most; the later ones do not know of the earlier ones.
        writer: Whether there is somebody to be asked. Without, there are rules and people only.
    """

    repairs: int = 3
    drafts: int = 2
    writer: bool = True

    @property
    def calls(self) -> int:
        """So often a variant is asked for, at most."""
        return self.drafts * (1 + self.repairs)


NOBODY: Final = "nobody was there who could be asked; name somebody with --backend"

APPROVABLE: Final = frozenset({Outcome.PASSED, Outcome.FOR_A_PERSON, Outcome.INCONCLUSIVE})
"""What a person may accept; all but the first only knowingly."""


class Machine:
    """Decides what comes next.

    Args:
        standings: How far the variants are.
        tries: How often is tried.
        has_baseline: Whether it is known how the untouched program runs.
    """

    def __init__(
        self,
        standings: Iterable[Standing] = (),
        tries: Tries = Tries(),  # noqa: B008 - it is frozen
        *,
        has_baseline: bool = False,
    ) -> None:
        self._standings = {one.variant: one for one in standings}
        self._tries = tries
        self._has_baseline = has_baseline
        self._is_measuring = False
        self._down: Turn | None = None
        self._why_down = ""

    @property
    def standings(self) -> Mapping[str, Standing]:
        """How far each variant is."""
        return self._standings

    def handle(self, event: Event) -> list[Command]:
        """Take an event, and return what is to be done.

        Raises:
            TransitionError: It cannot be now; nothing has changed.
        """
        before = dict(self._standings), self._has_baseline, self._is_measuring, self._down, self._why_down
        try:
            return self._handle(event)
        except TransitionError:
            self._standings, self._has_baseline, self._is_measuring, self._down, self._why_down = before
            raise

    def resume(self) -> list[Command]:
        """Return what is to be done for variants as they stand, by whoever takes the study up."""
        self._is_measuring = False  # whatever was under way is not any more
        commands: list[Command] = []
        for standing in list(self._standings.values()):
            commands += self._go_on(standing)
        return commands

    def wants(self, command: Command) -> bool:
        """Say whether a command is still to be carried out: something else may have happened to its variant."""
        if isinstance(command, MeasureBaseline):
            return not self._has_baseline
        standing = self._standings[command.variant]
        if isinstance(command, Draft):
            is_due = standing.route is not Route.SHARED or standing in sharing.due(self._standings, standing.shares)
            return standing.stage is Stage.DRAFTING and standing.route is command.route and is_due
        return _COMMAND_AT.get(standing.stage) is type(command)

    # --- events -----------------------------------------------------------------------------------

    def _handle(self, event: Event) -> list[Command]:
        if isinstance(event, BaselineHeld):
            self._has_baseline, self._is_measuring = True, False
            return [c for s in list(self._standings.values()) if s.stage in _BEFORE for c in self._go_on(s)]
        if isinstance(event, BaselineBroke):
            self._is_measuring = False
            for standing in list(self._standings.values()):
                if standing.stage in _BEFORE:
                    self._turn(standing, Turn.BASELINE_FAILED, why=event.why)
            return []
        if isinstance(event, Planned):
            return self._planned(event)
        if isinstance(event, TakenUp | TriedAgain):
            self._down = None  # whoever goes on believes that somebody can be asked again
        found = self._standings.get(event.variant)
        if found is None:
            raise TransitionError(f"variant {event.variant} is not planned, and got {type(event).__name__!r}.")
        return self._happened(found, event)

    def _happened(self, standing: Standing, event: Event) -> list[Command]:  # noqa: PLR0911 - one for each kind
        """Do what an event comes to that needs more than its row of the table; else take that row."""
        if (turn := _PLAIN.get(type(event))) is not None:
            return self._go_on(self._turn(standing, turn))
        match event:
            case Asked():
                return self._asked(standing)
            case Patched() | HandedIn():
                return self._new_patch(standing, event)
            case Judged() | Completed() | JudgedAnew():
                return self._judgement(standing, event)
            case Failed() | CannotBeWritten() | Rejected():
                return self._setback(standing, event)
            case BudgetEnded() | BackendFailed():
                return self._halt(standing, event)
            case TriedAgain(note=note):
                return self._begin_anew(standing, note)
            case TrialFailed(verdict=verdict, outcome=outcome, why=why):
                return self._go_on(
                    self._turn(standing, Turn.TRIAL_FAILED, verdict=verdict, outcome=outcome, why=why.split("\n")[0])
                )
        assert isinstance(event, Accepted), f"{type(event).__name__} is no event of a variant"
        return self._accepted(standing, event)

    def _new_patch(self, standing: Standing, event: Patched | HandedIn) -> list[Command]:
        by_hand = isinstance(event, HandedIn)
        return (self._handed_in if by_hand else self._patched)(standing, event.patch)

    def _judgement(self, standing: Standing, event: Judged | Completed | JudgedAnew) -> list[Command]:
        if isinstance(event, JudgedAnew):
            return self._judged_anew(standing, event)
        return self._judged(standing, event)

    def _setback(self, standing: Standing, event: Failed | CannotBeWritten | Rejected) -> list[Command]:
        if isinstance(event, Failed):
            return self._failed(standing, event.evidence, event.patch)
        return (
            self._rejected(standing, event.note) if isinstance(event, Rejected) else self._cannot(standing, event.why)
        )

    def _planned(self, event: Planned) -> list[Command]:
        before = self._standings.get(event.variant)
        if before is not None and before.digest == event.digest:
            return []  # it is wanted already
        standing = Standing(variant=event.variant, digest=event.digest, route=event.route, shares=event.shares)
        standing = self._turn(standing, Turn.PLANNED)
        if event.unclear:
            self._turn(standing, Turn.FOUND_UNCLEAR, why=event.unclear)
        return []

    def _begin(self, standing: Standing) -> list[Command]:
        if standing.route is Route.PERSON:
            return []  # it waits for a patch
        first = 1 if standing.route is Route.MODEL else 0
        return self._draft(self._turn(standing, Turn.BEGUN, draft=first))

    def _draft(self, standing: Standing) -> list[Command]:
        """Give the command for what is drafted now, if somebody can be asked."""
        if standing.route is Route.MODEL:
            if not self._tries.writer:
                self._set(standing, why=NOBODY)  # it waits until somebody goes on who brings one
                return []
            if self._down is not None:
                self._turn(standing, self._down, why=self._why_down)
                return []
        if standing.route is Route.SHARED and standing not in sharing.due(self._standings, standing.shares):
            self._set(standing, why=sharing.WAITS.format(shares=standing.shares))
            return []
        return [Draft(variant=standing.variant, route=standing.route)]

    def _draft_shared(self, change: str) -> list[Command]:
        """Give the commands for those that share a change, as far as it is their turn."""
        return [Draft(variant=one.variant, route=one.route) for one in sharing.due(self._standings, change)]

    def _asked(self, standing: Standing) -> list[Command]:
        if standing.stage is not Stage.DRAFTING or standing.route is not Route.MODEL or not self._may_ask(standing):
            raise TransitionError(
                f"variant {standing.variant} is {standing.stage.value} after {standing.calls} calls, and got 'asked'."
            )
        self._set(standing, calls=standing.calls + 1, why="" if standing.why == NOBODY else standing.why)
        return []

    def _may_ask(self, standing: Standing) -> bool:
        return standing.calls < self._tries.calls

    def _patched(self, standing: Standing, patch: str) -> list[Command]:
        if patch in standing.patches:
            text = f"The same change came back. It failed before: {standing.why}" if standing.why else "It came before."
            known = Evidence(rung=Rung.APPLY, text=text, signature=f"same {patch}")
            return self._failed(standing, known, patch, came_before=True)
        standing = self._turn(standing, Turn.PATCHED, **_looked_at(standing, patch))
        return self._go_on(standing)

    def _handed_in(self, standing: Standing, patch: str) -> list[Command]:
        standing = self._turn(standing, Turn.HANDED_IN, route=Route.PERSON, why="", **_looked_at(standing, patch))
        return self._go_on(standing)

    def _judged(self, standing: Standing, event: Judged | Completed) -> list[Command]:
        if event.patch != standing.patch or event.outcome not in APPROVABLE:
            raise TransitionError(
                f"variant {standing.variant} has the patch {standing.patch}, and got a verdict of "
                f"{event.outcome.value} on {event.patch}."
            )
        turn = Turn.JUDGED if isinstance(event, Judged) else Turn.COMPLETED
        standing = self._turn(standing, turn, verdict=event.verdict, outcome=event.outcome, why="")
        return [*self._go_on(standing), *(self._draft_shared(standing.shares) if standing.shares else [])]

    def _judged_anew(self, standing: Standing, event: JudgedAnew) -> list[Command]:
        if standing.stage in sharing.SERVES and event.verdict == standing.verdict:
            return []
        standing = self._turn(standing, Turn.VOIDED, verdict=event.verdict, outcome=event.outcome)
        return self._go_on(standing)

    def _failed(
        self, standing: Standing, evidence: Evidence, patch: str, *, came_before: bool = False
    ) -> list[Command]:
        """Repair, draft anew, or give up."""
        if patch and not came_before and patch != standing.patch:
            raise TransitionError(f"variant {standing.variant} has the patch {standing.patch}, and {patch} failed.")
        again = came_before or evidence.signature in standing.signatures
        standing = self._turn(
            standing,
            Turn.FAILED,
            why=evidence.text,
            evidence=evidence,
            signatures=(*standing.signatures, evidence.signature),
            **_NOT_JUDGED,
        )
        if standing.route is Route.SHARED:
            return self._change_failed(standing, evidence)
        return self._try_again(standing, may_repair=not again)

    def _change_failed(self, standing: Standing, evidence: Evidence) -> list[Command]:
        """Have the change mended that failed for one of those that share it; if nobody can, only that one is given up.

        All whose course is not ended go back, and take the mended change; those that passed with it keep theirs.
        """
        change = self._standings[standing.shares]
        if change.stage not in sharing.SERVES:  # it is being mended already
            self._turn(standing, Turn.TRIED_AGAIN)
            return []
        if not self._may_mend(change):
            return [*self._give_up(standing, standing.why), *self._draft_shared(change.variant)]
        self._turn(standing, Turn.TRIED_AGAIN)
        for other in sharing.at_work(self._standings, change.variant):
            self._turn(self._turn(other, Turn.FAILED, **_NOT_JUDGED), Turn.TRIED_AGAIN)
        told = msgspec.structs.replace(evidence, text=f"Called for {standing.variant}: {evidence.text}")
        return self._failed(self._turn(change, Turn.VOIDED), told, change.patch)

    def _may_mend(self, change: Standing) -> bool:
        more = change.repairs < self._tries.repairs or change.draft < self._tries.drafts
        return change.route is Route.MODEL and self._tries.writer and self._may_ask(change) and more

    def _try_again(self, standing: Standing, *, may_repair: bool = True) -> list[Command]:
        unasked = standing.route in (Route.RULE, Route.SHARED)
        noted = standing.evidence is not None and standing.evidence.rung is Rung.PERSON
        if standing.route is Route.PERSON and not noted:  # it is theirs to mend, and they are told why
            return self._give_up(standing, standing.why)
        could = self._may_ask(standing)
        if could and not unasked and may_repair and standing.repairs < self._tries.repairs:
            repairs, draft = standing.repairs + 1, max(1, standing.draft)
            standing = self._turn(standing, Turn.TRIED_AGAIN, route=Route.MODEL, repairs=repairs, draft=draft)
            return self._draft(standing)
        if could and standing.draft < self._tries.drafts:
            standing = self._turn(
                standing,
                Turn.TRIED_AGAIN,
                route=Route.MODEL,
                draft=standing.draft + 1,
                repairs=0,
                evidence=None,
                signatures=(),
            )
            return self._draft(standing)
        return self._give_up(standing, standing.why)

    def _begin_anew(self, standing: Standing, note: str) -> list[Command]:
        """Begin with a variant as if nobody had been asked yet; no patch is tried twice.

        One that came to nothing is drafted; one that a note is about is repaired with it.
        """
        standing = self._set(standing, calls=0, again=standing.again + 1, draft=0, repairs=0, signatures=())
        if note:
            return self._rejected(standing, note)
        if standing.shares and self._may_mend(self._standings[standing.shares]):
            return self._draft(self._turn(standing, Turn.BEGUN_ANEW, route=Route.SHARED, evidence=None))
        # a change that nobody may mend any more would only fail again
        return self._draft(self._turn(standing, Turn.BEGUN_ANEW, route=Route.MODEL, draft=1, evidence=None))

    def _give_up(self, standing: Standing, why: str) -> list[Command]:
        evidence = standing.evidence
        by_person = evidence is not None and evidence.rung is Rung.PERSON
        self._turn(standing, Turn.REJECTED if by_person else Turn.GIVEN_UP, why=why)
        return []

    def _cannot(self, standing: Standing, why: str) -> list[Command]:
        if standing.stage is not Stage.DRAFTING:
            raise TransitionError(f"variant {standing.variant} is {standing.stage.value}, and nobody was asked.")
        if standing.route is Route.RULE:  # a rule that is not sure leaves it to others
            self._set(standing, route=Route.MODEL, draft=1)
            return self._draft(self._standings[standing.variant])
        return self._give_up(self._turn(standing, Turn.FAILED, evidence=None), why)

    def _halt(self, standing: Standing, event: BudgetEnded | BackendFailed) -> list[Command]:
        """End what waits for an answer; if nobody can be asked any more, all that does."""
        turn = Turn.BUDGET_ENDED if isinstance(event, BudgetEnded) else Turn.BACKEND_FAILED
        why = event.why
        self._turn(standing, turn, why=why)
        if not event.whole:
            return []
        self._down, self._why_down = turn, why
        for other in list(self._standings.values()):
            if other.stage is Stage.DRAFTING and other.route is Route.MODEL:
                self._turn(other, turn, why=why)
        return []

    def _accepted(self, standing: Standing, event: Accepted) -> list[Command]:
        if (event.patch, event.verdict) != (standing.patch, standing.verdict) or not standing.verdict:
            raise TransitionError(
                f"variant {standing.variant} is not what was approved: its patch or its verdict is another one by now."
            )
        if standing.outcome not in APPROVABLE or (standing.outcome is not Outcome.PASSED and not event.despite):
            raise TransitionError(f"variant {standing.variant} has not passed, and nobody has accepted it knowingly.")
        self._turn(standing, Turn.ACCEPTED, why="")
        return self._draft_shared(standing.variant)

    def _rejected(self, standing: Standing, note: str) -> list[Command]:
        if not note.strip():
            self._turn(standing, Turn.REJECTED, why="rejected without a note")
            return []
        evidence = Evidence(rung=Rung.PERSON, text=note, signature=f"note {note}")
        notes = (*standing.notes, note)
        standing = self._turn(standing, Turn.FAILED, why=note, evidence=evidence, notes=notes, **_NOT_JUDGED)
        return self._try_again(standing)

    # --- what comes next --------------------------------------------------------------------------

    def _go_on(self, standing: Standing) -> list[Command]:
        """Return what is to be done for a variant as it stands."""
        match standing.stage:
            case Stage.PLAN_APPROVED | Stage.APPLIED if not self._has_baseline:
                return self._measure()
            case Stage.PLAN_APPROVED:
                return self._begin(standing)
            case Stage.DRAFTING:
                return self._draft_again(standing)
            case Stage.REPAIRING:  # its writer ended between two facts
                return self._try_again(standing)
            case Stage.COMPLETED if standing.outcome is Outcome.PASSED and sharing.is_shared(self._standings, standing):
                self._turn(standing, Turn.SHARED)
                return self._draft_shared(standing.variant)
            case Stage.COMPLETED:
                standing = self._turn(standing, Turn.SHOWN)
        command = _COMMAND_AT.get(standing.stage)
        return [command(variant=standing.variant)] if command is not None else []

    def _draft_again(self, standing: Standing) -> list[Command]:
        """Go on with a draft that was under way when its writer ended."""
        if standing.route is Route.MODEL and not self._may_ask(standing):
            return self._give_up(self._turn(standing, Turn.FAILED), "asked as often as may be, without an answer")
        return self._draft(standing)

    def _measure(self) -> list[Command]:
        """Have the untouched program measured, once for all variants."""
        if self._is_measuring:
            return []
        self._is_measuring = True
        return [MeasureBaseline()]

    def _turn(self, standing: Standing, turn: Turn, **changes: object) -> Standing:
        return self._set(standing, stage=after(standing.stage, turn, variant=standing.variant), **changes)

    def _set(self, standing: Standing, **changes: object) -> Standing:
        changed = msgspec.structs.replace(standing, **changes)
        self._standings[standing.variant] = changed
        return changed


_BEFORE: Final = frozenset({Stage.PLAN_APPROVED, Stage.APPLIED})
"""Where a variant waits until it is known how the untouched program runs."""
_NOT_JUDGED: Final[Mapping[str, object]] = {"verdict": "", "outcome": None}
_COMMAND_AT: Final[Mapping[Stage, type[Check] | type[Probe] | type[Judge] | type[Complete] | type[Review]]] = {
    Stage.APPLIED: Check,
    Stage.CHECKED: Probe,
    Stage.PROBED: Judge,
    Stage.JUDGED: Complete,
    Stage.AWAITING_REVIEW: Review,
}
_PLAIN: Final[Mapping[type, Turn]] = {
    PlanApproved: Turn.APPROVED,
    PlanRefused: Turn.REFUSED,
    Checked: Turn.CHECKED,
    Probed: Turn.PROBED,
    TakenUp: Turn.TAKEN_UP,
    HandedOver: Turn.HANDED_OVER,
}
"""Events that are rows of the table and nothing more."""


def _looked_at(standing: Standing, patch: str) -> dict[str, object]:
    return {"patch": patch, "patches": tuple(dict.fromkeys((*standing.patches, patch))), **_NOT_JUDGED}
