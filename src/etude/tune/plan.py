"""A search as a plan: so many trials from a sampler, watched by a stopper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.lifecycle import FINAL
from etude.core.plan import Act, Answer, Decision, Done, Halt, Propose, Report, Standing, Wait
from etude.core.text import brief, count
from etude.tune.stop import Stopper


@dataclass(frozen=True)
class SearchPlan:
    """Run ``trials`` configurations that the sampler proposes.

    Attributes:
        trials: How many, those of earlier runs of the same study included.
        seed: The training seed of all trials: they differ in their configurations alone.
        stopper: Ends trials that are not worth going on with.
        size: How many different configurations there are to propose; None if there is no end of them.
        start: Configurations that are tried first.
        fixed: Parameters that have this value in every trial.
        wants_reports: The stopper, as it was asked for, if it needs reports: then a study in which a trial finished
            and none has ever reported ends with an error. Empty if it was not asked for.
        points: After how many proposals the sampler has come to its end; None if it goes on for ever.
    """

    trials: int
    seed: int
    stopper: Stopper
    size: int | None = None
    start: tuple[Params, ...] = ()
    fixed: Params = field(default_factory=dict)
    wants_reports: str = ""
    points: int | None = None
    resumes: ClassVar[bool] = False

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Ask for one more configuration, unless there are enough or none is left."""
        asked = len(standing.trials) + len(pending)
        if self.wants_reports:
            problem = unheard(self.wants_reports, standing, all_asked=asked >= self.trials)
            if problem is not None:
                return Halt(problem)
        if self.points is not None and asked >= len(self.start) + self.points:
            return Done(f"the sampler has come to its end: {count(self.points, 'point')}, all of them tried")
        if asked >= self.trials:
            return Done(f"all {count(self.trials, 'trial')} ended")
        if asked < len(self.start):
            return Propose(self.seed, self.start[asked], self.fixed)
        if self.size is not None and asked >= self.size and standing.distinct + len(pending) >= self.size:
            return Wait() if pending else Done(used_up_by(self.size))
        return Propose(self.seed, fixed=self.fixed)

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let the stopper decide.

        Raises:
            ConfigError: It returned something else than a decision.
        """
        return checked(self.stopper, report, standing)

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Return none: nobody asks, since no trial carries on another."""
        return ()


def checked(stopper: Stopper, report: Report, standing: Standing) -> Decision:
    """Return what a stopper decides.

    Raises:
        ConfigError: It returned something else than a decision.
    """
    answer = stopper.decide(report, standing)
    if isinstance(answer, Decision) and isinstance(answer.act, Act) and isinstance(answer.reason, str):
        return answer
    kind = type(stopper)
    raise ConfigError(
        f"The stopper {kind.__module__}.{kind.__qualname__} returned {brief(answer)} from decide(), which does not "
        f"say what becomes of trial {report.trial}. Return etude.Decision(etude.Act.STOP, reason), or etude.GO_ON."
    )


def unheard(stopper: str, standing: Standing, *, all_asked: bool) -> str | None:
    """Say what is wrong if a trial has finished, and none has ever reported what the stopper goes by.

    Where all trials have been asked for and have ended, nothing can be spared any more, and nothing is wrong.
    """
    first = next((trial for trial in standing.finished if trial.taken_from is None), None)  # else nothing was run
    if first is None or first.reports:
        return None
    if any(trial.reports for trial in standing.trials):
        return None
    if all_asked and all(trial.state in FINAL for trial in standing.trials):
        return None
    metric = standing.metrics.watched
    return (
        f"Trial {first.number} finished without one report of {metric!r}, so stopper={stopper} has "
        f"nothing to go by and would never stop a trial. Report on the way, run.report({metric}=...), or leave it out "
        "(stopper='none' if there is no other). What has finished is kept."
    )


def used_up_by(size: int) -> str:
    """Say that there is nothing left to propose."""
    return f"the space is used up: {count(size, 'configuration')}, all of them tried"
