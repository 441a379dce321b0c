"""A plan decides which trials a study runs; the driver carries it through.

A search, an ablation and a final training are plans. A plan is pure: it sees the history, answers
at once, and gives equal answers to equal histories.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from etude.core.events import Params
from etude.core.history import Trial


class Act(StrEnum):
    """What becomes of a trial after a report."""

    GO_ON = "go on"
    STOP = "stop"
    PAUSE = "pause"


class Decision(msgspec.Struct, frozen=True):
    """What becomes of a trial after a report, and why."""

    act: Act
    reason: str = ""


GO_ON: Final = Decision(Act.GO_ON)


class Report(msgspec.Struct, frozen=True):
    """The study's metric at a step of a running trial.

    Attributes:
        trial: The trial's number.
        step: How many times it has reported the metric, this time included: 1, 2, ...
        value: The metric, in the user's unit and direction. NaN means that it diverged.
        elapsed_s: Seconds since this attempt started.
    """

    trial: int
    step: int
    value: float
    elapsed_s: float


class Propose(msgspec.Struct, frozen=True):
    """Run one more trial, with this seed; without ``params`` the sampler is asked for them."""

    seed: int
    params: Params | None = None


class Promote(msgspec.Struct, frozen=True):
    """Let a paused trial go on."""

    trial: int


class Wait(msgspec.Struct, frozen=True):
    """Nothing to run before something else has ended."""


class Done(msgspec.Struct, frozen=True):
    """No more trials, and why."""

    reason: str


class Standing(Protocol):
    """What a plan may see of a study: values of the past, nothing that moves."""

    @property
    def trials(self) -> Sequence[Trial]:
        """All trials, by number."""
        ...

    @property
    def finished(self) -> Sequence[Trial]:
        """Trials that finished, in the order in which they did; it only grows."""
        ...

    @property
    def distinct(self) -> int:
        """How many different configurations there are among the trials."""
        ...


class Plan(Protocol):
    """Decides which trials a study runs."""

    def ask(self, standing: Standing, *, asked: int) -> Propose | Promote | Wait | Done:
        """Say what to run next.

        Args:
            standing: The study as it stands.
            asked: How many proposals the driver has asked for, those without an answer included.
        """
        ...

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Say what becomes of the trial that sent ``report``."""
        ...
