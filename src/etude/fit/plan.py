"""A final training as a plan: trials that are all known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from etude.core.events import Params, Start
from etude.core.plan import GO_ON, Answer, Decision, Done, Propose, Report, Standing
from etude.core.text import count


class Wanted(NamedTuple):
    """One trial: its configuration, its training seed, and the weights that it begins with if they are not random."""

    params: Params
    seed: int
    start: Start | None = None


@dataclass(frozen=True)
class FitPlan:
    """Run these trials to their end.

    Attributes:
        wanted: The trials, in order.
    """

    wanted: tuple[Wanted, ...]
    resumes: ClassVar[bool] = False

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Ask for the next one."""
        asked = len(standing.trials) + len(pending)
        if asked >= len(self.wanted):
            return Done(f"all {count(len(self.wanted), 'trial')} ended")
        params, seed, start = self.wanted[asked]
        return Propose(seed, params, start=start)

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let it go on."""
        return GO_ON

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Return none: nobody asks, since no trial carries on another."""
        return ()
