"""What becomes of a trial: one table, and everything that is computed from it.

The table holds the rules and nothing else does. The set of final states, the error for a step
that cannot be, and the diagram in ``docs/architecture.md`` are all read from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from etude.core.turns import drawn, following


class State(StrEnum):
    """Where a trial stands."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    PAUSED = "paused"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INVALID = "invalid"


class Turn(StrEnum):
    """What happens to a trial, in the past participle."""

    ASSIGNED = "assigned"
    FINISHED = "finished"
    STOP_ASKED = "stop_asked"
    STOP_SEEN = "stop_seen"
    PAUSED = "paused"
    PROMOTED = "promoted"
    LOST = "lost"
    GIVEN_UP = "given_up"
    REFUSED = "refused"
    REUSED = "reused"
    STUDY_ENDED = "study_ended"


NEXT: Final[Mapping[tuple[State, Turn], State]] = MappingProxyType(
    {
        (State.QUEUED, Turn.ASSIGNED): State.RUNNING,
        (State.QUEUED, Turn.REUSED): State.FINISHED,  # the same configuration has finished already, here or elsewhere
        (State.QUEUED, Turn.STOP_SEEN): State.STOPPED,  # ... or was stopped, so this one would be too
        (State.QUEUED, Turn.GIVEN_UP): State.FAILED,  # ... or failed
        (State.QUEUED, Turn.REFUSED): State.INVALID,  # ruled out by `constraint=`, never started
        (State.RUNNING, Turn.FINISHED): State.FINISHED,
        (State.RUNNING, Turn.STOP_ASKED): State.STOPPING,
        (State.RUNNING, Turn.STOP_SEEN): State.STOPPED,  # a probe, which ends by itself
        (State.RUNNING, Turn.PAUSED): State.PAUSED,
        (State.RUNNING, Turn.LOST): State.QUEUED,  # the attempt died, not the trial: run it again
        (State.RUNNING, Turn.GIVEN_UP): State.FAILED,
        (State.RUNNING, Turn.REFUSED): State.INVALID,
        (State.STOPPING, Turn.STOP_SEEN): State.STOPPED,
        (State.STOPPING, Turn.FINISHED): State.FINISHED,  # it was done before it saw the stop
        (State.STOPPING, Turn.PAUSED): State.STOPPED,
        (State.STOPPING, Turn.LOST): State.STOPPED,  # nobody would want it back
        (State.STOPPING, Turn.GIVEN_UP): State.FAILED,
        (State.STOPPING, Turn.REFUSED): State.INVALID,
        (State.PAUSED, Turn.PROMOTED): State.QUEUED,
        (State.PAUSED, Turn.STUDY_ENDED): State.STOPPED,
    }
)
FINAL: Final = frozenset(State) - {state for state, _ in NEXT}
LIVE: Final = frozenset({State.RUNNING, State.STOPPING})
"""States in which a worker holds an attempt of the trial."""


def after(state: State, turn: Turn, *, trial: int) -> State:
    """Return the state that follows ``state`` when ``turn`` happens.

    Raises:
        TransitionError: The table has no such row; the message lists what could happen instead.
    """
    return following(NEXT, state, turn, of=f"trial {trial}")


def diagram() -> str:
    """Return the table as a Mermaid state diagram, for the docs."""
    return drawn(NEXT, begins=State.QUEUED, ends=[state for state in State if state in FINAL])
