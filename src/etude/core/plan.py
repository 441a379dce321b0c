"""A plan decides which trials a study runs; the driver carries it through.

A search, an ablation and a final training are plans. A plan is pure: it sees the history, answers
at once, and gives equal answers to equal histories.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from etude.core.events import Params, Probe, Start
from etude.core.history import Trial
from etude.core.metrics import Metrics
from etude.core.removal import Arm


class Act(StrEnum):
    """What becomes of a trial after a report.

    ``STOP`` ends it because it is not worth going on with: it has no final value. ``ENOUGH`` ends it because it has
    shown what it can: its last report is its final value. ``PAUSE`` has it wait, without a worker, for
    a plan to let it go on; a search never does, so it is no answer of a stopper.
    """

    GO_ON = "go on"
    STOP = "stop"
    ENOUGH = "enough"
    PAUSE = "pause"


class Decision(msgspec.Struct, frozen=True):
    """What becomes of a trial after a report, and why.

    Attributes:
        act: What becomes of it.
        reason: Why, in a few words for people; ``trial.reason`` shows it.
    """

    act: Act
    reason: str = ""


GO_ON: Final = Decision(Act.GO_ON)


class Report(msgspec.Struct, frozen=True):
    """The watched metric at a step of a running trial.

    Attributes:
        trial: The trial's number.
        step: How many times it has reported the watched metric, this time included: 1, 2, ...
        value: That metric, in the user's unit and direction; ``standing.metrics.loss`` makes it one of which less is
            better. NaN means that it diverged.
        elapsed_s: Seconds since this attempt started.
    """

    trial: int
    step: int
    value: float
    elapsed_s: float


class Propose(msgspec.Struct, frozen=True):
    """Run one more trial.

    Attributes:
        seed: Its training seed.
        params: Its configuration; without one the sampler is asked.
        fixed: Parameters that are not the sampler's to choose; they are added to what it proposes.
        promotes: The earlier trial that this one carries on with a larger budget.
        because: Why, for people; said of trials that were decided on, as promotions are.
        start: The weights that it begins with; None for random ones.
        probe: How much of a run it is, if it is none.
        arm: What is taken away; None if nothing but settings is.
        tunes: Whether it is one of a search within the study, which chooses with what others are run.
    """

    seed: int
    params: Params | None = None
    fixed: Params = {}
    promotes: int | None = None
    because: str = ""
    start: Start | None = None
    probe: Probe | None = None
    arm: Arm | None = None
    tunes: bool = False


class Promote(msgspec.Struct, frozen=True):
    """Let a paused trial go on."""

    trial: int


class Wait(msgspec.Struct, frozen=True):
    """Nothing to run before something else has ended."""


class Done(msgspec.Struct, frozen=True):
    """No more trials, and why."""

    reason: str


class Halt(msgspec.Struct, frozen=True):
    """The study cannot give what it was asked for, and ends with this error; what has ended is kept."""

    problem: str


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
    def ended(self) -> Sequence[Trial]:
        """Trials that have come to a final state, in the order in which they did; it only grows."""
        ...

    @property
    def moved(self) -> Sequence[int]:
        """Which trials changed otherwise than by a report that was asked about; it only grows.

        The numbers of those that were handed out (with which an attempt that starts over withdraws its reports), that
        went on from a state and with the reports before it, that went on reporting after they were to stop, or that
        ended, one for each time. Who goes by reports and looks at these, and at the trial that is asked about, knows
        all curves.
        """
        ...

    @property
    def distinct(self) -> int:
        """How many different configurations there are among the trials."""
        ...

    @property
    def metrics(self) -> Metrics:
        """What the study measures."""
        ...


Answer = Propose | Promote | Wait | Done | Halt
"""What a plan says when it is asked for more."""


class Plan(Protocol):
    """Decides which trials a study runs."""

    @property
    def resumes(self) -> bool:
        """Whether a trial that promotes another goes on from that one's state, if there is one."""
        ...

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Say what to run next.

        Args:
            standing: The study as it stands.
            pending: What was asked for before and is no trial yet, in order.
        """
        ...

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Say what becomes of the trial that sent ``report``."""
        ...

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Say of which trials that have ended it has become clear that none will carry them on; it may say so twice."""
        ...
