"""An ablation as a plan: each arm with each seed, all arms of a seed before those of the next one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar, Final

from etude.ablate.arms import Results, removal
from etude.ablate.asking import more_of
from etude.ablate.pairing import NO_SEEDS, are_seeds_none
from etude.ablate.policies import Policy
from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.history import Trial
from etude.core.lifecycle import FINAL
from etude.core.metrics import Metrics
from etude.core.plan import GO_ON, Answer, Decision, Done, Halt, Propose, Report, Standing, Wait
from etude.core.removal import Arm
from etude.core.text import count

STREAM: Final = "ablate"
"""Name of the random stream that training seeds of ablations are from: no search draws from it."""


@dataclass(frozen=True)
class AblationPlan:
    """Train each arm with each seed.

    Attributes:
        arms: What is taken away, the base first, with how the rest still runs.
        seeds: The training seeds; all arms have the same, so that they are pairs.
        params: The configuration of the base.
        policy: Decides on further arms once there are results, if it does that.
        components: What the policy joins arms of.
        finish: Returns an arm with how the rest still runs, or raises ConfigError.
    """

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    params: Params
    policy: Policy
    components: tuple[Arm, ...] = ()
    finish: Callable[[Arm], Arm] = field(default=lambda arm: arm)
    resumes: ClassVar[bool] = False

    @property
    def trials(self) -> int:
        """How many trials it begins with."""
        return len(self.arms) * len(self.seeds)

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Ask for the next arm of the seed that is at turn; for further arms when all before them have ended."""
        if (problem := self._problem(standing)) is not None:
            return Halt(problem)
        asked, begin, arms = len(standing.trials) + len(pending), 0, list(self.arms)
        while arms:
            if asked < begin + len(arms) * len(self.seeds):
                seed, arm = divmod(asked - begin, len(arms))
                chosen = arms[arm]
                return Propose(self.seeds[seed], {**self.params, **chosen.settings}, arm=chosen)
            begin += len(arms) * len(self.seeds)
            before = standing.trials[:begin]
            if len(before) < begin or any(trial.state not in FINAL for trial in before):
                return Wait()
            try:
                more = more_of(self.policy, self.components, Results(mean_losses(before, standing.metrics)))
                arms = list(map(self.finish, more))
            except ConfigError as refused:  # only results have led to it
                return Halt(str(refused))
        return Done(f"all {count(asked, 'trial')} ended")

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let it go on: arms that are stopped early do not compare."""
        return GO_ON

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Return none: nobody asks, since no trial carries on another."""
        return ()

    def _problem(self, standing: Standing) -> str | None:
        """Say what is wrong if the first runs of the base show that seeds are none."""
        base = self.arms[0].name
        runs = (trial for trial in standing.finished if trial.arm is not None and trial.arm.name == base)
        first = list(itertools.islice(runs, 2))
        prints = [trial.extra.get("fingerprints", {}) for trial in first]
        values = [math.nan if trial.value is None else trial.value for trial in first]
        if not are_seeds_none(prints, values):
            return None
        return NO_SEEDS.format(seeds=" and ".join(str(trial.seed) for trial in first))


def mean_losses(trials: Sequence[Trial], metrics: Metrics) -> list[tuple[Arm, float]]:
    """Return each arm with the mean of its trials' losses by the main metric; NaN if one of them came to no number."""
    found: dict[object, tuple[Arm, list[float]]] = {}
    for trial in trials:
        if trial.arm is not None:
            loss = math.nan if trial.value is None else metrics.loss(trial.value, metrics.main)
            found.setdefault(removal(trial.arm), (trial.arm, []))[1].append(loss)
    return [(arm, fmean(losses)) for arm, losses in found.values()]
