"""What becomes of a trial when an attempt of it, or its waiting, has ended.

Nothing happens here. The history and how the attempt ended go in, a ``Fate`` comes out, and ``settled`` makes the fact
of it. What that means for others, followers and workers, is the driver's.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from etude.core.events import How, Outcome, Settled
from etude.core.history import History, Trial
from etude.core.lifecycle import State, Turn
from etude.core.limits import Limits
from etude.core.reuse import Donor
from etude.core.trust import may_be_the_workers_fault

TURN_OF: Final = {
    How.FINISHED: Turn.FINISHED,
    How.PAUSED: Turn.PAUSED,
    How.INVALID: Turn.REFUSED,
    How.TIMED_OUT: Turn.GIVEN_UP,  # the same limit would cut it off again
}
"""Ends that mean the same whatever happened before."""

TURN_OF_FOLLOWER: Final = {
    State.FINISHED: Turn.REUSED,
    State.STOPPED: Turn.STOP_SEEN,
    State.FAILED: Turn.GIVEN_UP,
    State.INVALID: Turn.REFUSED,
}
"""What the end of a trial means for a later one with the same configuration."""

WENT_WELL: Final = frozenset({State.FINISHED, State.STOPPED, State.PAUSED})
"""A trial that ran and is in one of these shows that the experiment's functions work."""


PROBED: Final = "a probe of what a training is to begin with"
"""Why a probe ended."""


class Fate(NamedTuple):
    """What becomes of a trial.

    Attributes:
        turn: What happens to it.
        reason: Why, for people.
        charged: Whether it counts as one of the losses that a trial may have.
        doubtful: Whether it tells of all other trials as well; see ``Doubt``.
        alone: Whether it runs on a machine of its own from now on.
        taken_from: The study and the trial whose outcome it gets, where that is another study's.
    """

    turn: Turn
    reason: str = ""
    charged: bool = False
    doubtful: bool = False
    alone: bool = False
    taken_from: tuple[str, int] | None = None


class Doubt(NamedTuple):
    """A trial that ended as all most likely would: while none has gone well, no other is started.

    Attributes:
        trial: Its number.
        outcome: How it ended.
    """

    trial: int
    outcome: Outcome

    @property
    def said(self) -> str:
        """What happened, in a sentence."""
        what = f"data() raised in trial {self.trial}" if self._raised else f"Trial {self.trial} gave no result"
        return f"{what}: {self.outcome.reason.rstrip('.')}."

    @property
    def problem(self) -> str:
        """What happened, why the study ends for it, and the mend."""
        return (
            f"{self.outcome.traceback if self._raised else ''}{self.said} No trial has gone well so far, so all would "
            "most likely end like this, and the study ends here. Mend it and call again. If only some configurations "
            "cannot be, raise etude.Invalid(reason) for those."
        )

    @property
    def _raised(self) -> bool:
        return self.outcome.raised_in == "data"


def after_end(trial: Trial, outcome: Outcome, history: History, limits: Limits) -> Fate:
    """Return what becomes of a trial whose attempt has ended, well or not.

    Args:
        trial: The trial, as it stood until then.
        outcome: How the attempt ended.
        history: The study so far.
        limits: How patient it is.
    """
    how, stopping = outcome.how, trial.state is State.STOPPING
    if how is How.STOPPED and (stopping or trial.probe is not None):
        return Fate(Turn.STOP_SEEN, "" if stopping else PROBED)  # why it was to stop stays its reason
    if how in TURN_OF:
        return Fate(TURN_OF[how], outcome.reason)
    if how is How.RAISED and not stopping and may_be_the_workers_fault(trial, history, limits):
        return Fate(Turn.LOST, outcome.reason)
    if how in (How.RAISED, How.UNUSABLE):
        return _given_up(trial, outcome, history)
    if how is How.OUT_OF_MEMORY and not stopping and limits.retry_alone:
        return _out_of_memory(trial, outcome, limits)
    return _lost(trial, outcome, limits)  # also if it stopped and nobody had asked it to: that is no result


def went_well(trial: Trial) -> bool:
    """Say whether a trial shows that the functions work here; one that was taken from elsewhere does not."""
    return trial.state in WENT_WELL and trial.taken_from is None


def _lost(trial: Trial, outcome: Outcome, limits: Limits) -> Fate:
    if trial.state is State.STOPPING:
        return Fate(Turn.LOST)  # it was not wanted any more
    if trial.losses < limits.retries:
        return Fate(Turn.LOST, outcome.reason, charged=True)
    times = "once" if trial.losses == 0 else f"{trial.losses + 1} times"
    last = outcome.reason or outcome.how.value
    return Fate(Turn.GIVEN_UP, f"lost {times}, the last time: {last}", charged=True)


def _out_of_memory(trial: Trial, outcome: Outcome, limits: Limits) -> Fate:
    """Run it again with nobody beside it, who may have taken the memory; if that was so already, it needs too much."""
    if not trial.alone and limits.workers > 1:
        return Fate(Turn.LOST, outcome.reason, alone=True)
    return Fate(Turn.GIVEN_UP, f"out of memory with no other trial on its machine: {outcome.reason}", charged=True)


def _given_up(trial: Trial, outcome: Outcome, history: History) -> Fate:
    """End a trial that failed by its own fault; or doubt all of them, if it tells of them as well."""
    doubtful = outcome.how is How.UNUSABLE or outcome.raised_in == "data"
    if doubtful and trial.state is State.RUNNING and not any(map(went_well, history.trials)):
        return Fate(Turn.LOST, outcome.reason, doubtful=True)
    return Fate(Turn.GIVEN_UP, outcome.reason)


def when_interrupted(trial: Trial, reason: str) -> Fate:
    """Return what becomes of a live trial if nobody is to blame; why it was to stop stays its reason."""
    return Fate(Turn.LOST, reason if trial.state is State.RUNNING else "")


def of_follower(first: Trial) -> Fate:
    """Return what becomes of a trial whose configuration was tried before: equal identity is one trial."""
    return Fate(TURN_OF_FOLLOWER[first.state], f"same configuration as trial {first.number}")


def of_taken(found: Donor) -> Fate:
    """Return what becomes of a trial that has finished in another study already."""
    reason = f"taken from trial {found.trial} of study {found.study}"
    return Fate(Turn.REUSED, reason, taken_from=(found.study, found.trial))


def settled(
    at: float, trial: Trial, fate: Fate, outcome: Outcome | None, history: History, *, resumable: bool = False
) -> Settled:
    """Return the fact that a trial has met its fate; one that had shown enough finishes, however its attempt ended.

    Args:
        at: When.
        trial: The trial, as it stood until then.
        fate: What becomes of it.
        outcome: What its attempt left behind, if one has ended.
        history: The study so far.
        resumable: Whether other trials may go on from the state of one that finishes.
    """
    turn, reason, charged = fate.turn, fate.reason, fate.charged
    if turn in (Turn.STOP_SEEN, Turn.LOST) and trial.enough and (said := history.said_last(trial)) is not None:
        turn, reason, charged = Turn.FINISHED, trial.reason, False
        outcome = msgspec.structs.replace(outcome or Outcome(How.STOPPED), value=said[0], extra=said[1])
    attempt = trial.attempt if trial.worker is not None else None
    return Settled(
        at=at,
        trial=trial.number,
        turn=turn,
        attempt=attempt,
        outcome=outcome,
        reason=reason,
        charged=charged,
        alone=fate.alone and turn is Turn.LOST,
        resumable=resumable and turn is Turn.FINISHED and bool(history.shelf.points(trial.number)),
        taken_from=fate.taken_from,
    )
