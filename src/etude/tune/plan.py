"""A search as a plan: so many trials from a sampler, watched by a stopper."""

from __future__ import annotations

from dataclasses import dataclass

from etude.core.errors import ConfigError
from etude.core.plan import Act, Decision, Done, Promote, Propose, Report, Standing, Wait
from etude.core.text import brief, count
from etude.tune.stop import Stopper


@dataclass(frozen=True)
class SearchPlan:
    """Run ``trials`` configurations that the sampler proposes.

    Attributes:
        trials: How many, those of earlier runs of the same study included.
        seed: The training seed of all trials: they differ in their configurations alone.
        stopper: Ends trials that are not worth going on with.
        size: How many different configurations the space has; None if there is no end of them.
    """

    trials: int
    seed: int
    stopper: Stopper
    size: int | None = None

    def ask(self, standing: Standing, *, asked: int) -> Propose | Promote | Wait | Done:
        """Ask for one more configuration, unless there are enough or none is left."""
        if asked >= self.trials:
            return Done(f"all {count(self.trials, 'trial')} ended")
        if self.size is not None and asked >= self.size:
            waiting = asked - len(standing.trials)
            if standing.distinct + waiting >= self.size:
                used_up = f"the space is used up: {count(self.size, 'configuration')}, all of them tried"
                return Wait() if waiting else Done(used_up)
        return Propose(self.seed)

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let the stopper decide.

        Raises:
            ConfigError: It returned something else than a decision.
        """
        answer = self.stopper.decide(report, standing)
        if isinstance(answer, Decision) and isinstance(answer.act, Act) and isinstance(answer.reason, str):
            return answer
        kind = type(self.stopper)
        raise ConfigError(
            f"The stopper {kind.__module__}.{kind.__qualname__} returned {brief(answer)} from decide(), which does not "
            f"say what becomes of trial {report.trial}. Return Decision(Act.STOP, reason), or GO_ON; both are in "
            "etude.core.plan."
        )
