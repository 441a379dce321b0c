"""An ablation as a plan: each arm with each seed, all arms of a seed before those of the next one.

Within a seed those arms go first that take the longest, so that no worker is left alone with a long one at the end. How
long an arm takes is known from its earlier seeds. Of one that has not ended yet it is not, and then the larger model
goes first: what is taken away is not computed any more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar, Final

from etude.ablate.arms import Results, removal
from etude.ablate.asking import more_of
from etude.ablate.pairing import NO_SEEDS, NOTHING_VARIES, are_seeds_none, is_constant, varies_nowhere
from etude.ablate.policies import Policy
from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.history import Trial
from etude.core.lifecycle import FINAL, State
from etude.core.metrics import Metrics
from etude.core.plan import GO_ON, Answer, Decision, Done, Halt, Propose, Report, Standing, Wait
from etude.core.removal import FINGERPRINTS, Arm
from etude.core.text import count, few

STREAM: Final = "ablate"
"""Name of the random stream that training seeds of ablations are from: no search draws from it."""


TOGETHER: Final = 2
"""The arms of so many last seeds go in one order, longest first: it is the end that leaves workers alone."""


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
        sizes: By the name of an arm, how many parameters it trains, where that is known.
        judge: Decides after a report whether a trial goes on.
        chosen: By the name of an arm, with which configuration it is run, where it has one of its own.
    """

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    params: Params
    policy: Policy
    components: tuple[Arm, ...] = ()
    finish: Callable[[Arm], Arm] = field(default=lambda arm: arm)
    sizes: Mapping[str, int] = field(default_factory=dict)
    judge: Callable[[Report, Standing], Decision] = field(default=lambda report, standing: GO_ON)
    chosen: Mapping[str, Params] = field(default_factory=dict)
    resumes: ClassVar[bool] = False

    @property
    def trials(self) -> int:
        """How many trials it begins with."""
        return len(self.arms) * len(self.seeds)

    def configuration(self, arm: Arm) -> Params:
        """Return with which configuration an arm is run."""
        return self.chosen.get(arm.name, {**self.params, **arm.settings})

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Ask for the next arm of the seed that is at turn; for further arms when all before them have ended."""
        if (problem := self.problem(standing)) is not None:
            return Halt(problem)
        asked, begin, arms = len(standing.trials) + len(pending), 0, list(self.arms)
        while arms:
            if (next_ := self._next(arms, standing.trials[begin:], pending)) is not None:
                seed, arm = next_
                return Propose(seed, self.configuration(arm), arm=arm)
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

    def _next(self, arms: Sequence[Arm], trials: Sequence[Trial], pending: Sequence[Propose]) -> tuple[int, Arm] | None:
        """Return the seed and the arm that go next: of the seed that is at turn, or of the last ones together.

        What is not known yet goes first, seed by seed, and then the longest.

        Args:
            arms: Those that are at turn.
            trials: Theirs so far.
            pending: What was asked for and is no trial yet.
        """
        gone = {(one.seed, one.arm.name) for one in trials if one.arm is not None}
        gone |= {(one.seed, one.arm.name) for one in pending if one.arm is not None}
        if not gone:
            return self.seeds[0], arms[0]
        left = [(nth, place) for nth, seed in enumerate(self.seeds) for place, arm in enumerate(arms)
                if (seed, arm.name) not in gone]  # fmt: skip
        if not left:
            return None
        turn, took = left[0][0], _lengths(trials)

        def first(one: tuple[int, int]) -> tuple[bool, int, float, int, int]:
            nth, place = one
            name = arms[place].name
            if name in took:
                return True, 0, -took[name], nth, place
            return False, nth, -self._size(arms[place]), nth, place

        together = len(self.seeds) - TOGETHER
        nth, place = min((one for one in left if one[0] == turn or turn >= together), key=first)
        return self.seeds[nth], arms[place]

    def _size(self, arm: Arm) -> float:
        return self.sizes.get(arm.name, self.sizes.get(self.arms[0].name, 0))

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let it go on, unless early stopping was asked for: arms that are stopped early do not compare."""
        return self.judge(report, standing)

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Return none: nobody asks, since no trial carries on another."""
        return ()

    def problem(self, standing: Standing) -> str | None:
        """Say what is wrong if the first runs show that seeds are none: the base's, or those of all arms."""
        base = self.arms[0].name
        of_base = (trial for trial in standing.finished if trial.arm is not None and trial.arm.name == base)
        first = list(itertools.islice(of_base, 2))
        values = [math.nan if trial.value is None else trial.value for trial in first]
        if len(first) < 2 or not is_constant(values):  # noqa: PLR2004
            return None
        if are_seeds_none([trial.extra.get(FINGERPRINTS, {}) for trial in first], values):
            return NO_SEEDS.format(seeds=" and ".join(str(trial.seed) for trial in first))
        runs = _values(standing.finished)
        if not varies_nowhere(runs.values()):
            return None
        several = [name for name, of_arm in runs.items() if len(of_arm) > 1]
        most = max(len(of_arm) for of_arm in runs.values())
        return NOTHING_VARIES.format(arms=few(several), seeds=most)


def _values(trials: Iterable[Trial]) -> dict[str, list[float]]:
    """Return the values that trials came to, by the name of their arm."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        if trial.arm is not None and trial.value is not None:
            found.setdefault(trial.arm.name, []).append(trial.value)
    return found


def _lengths(trials: Sequence[Trial]) -> dict[str, float]:
    """Return how many seconds trials took, by the name of their arm."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        took_s = trial.outcome.usage.wall_s if trial.outcome is not None and trial.state is State.FINISHED else 0.0
        if took_s and trial.arm is not None:
            found.setdefault(trial.arm.name, []).append(took_s)
    return {name: fmean(lengths) for name, lengths in found.items()}


def mean_losses(trials: Sequence[Trial], metrics: Metrics) -> list[tuple[Arm, float]]:
    """Return each arm with the mean of its trials' losses by the main metric; NaN if one of them came to no number."""
    found: dict[object, tuple[Arm, list[float]]] = {}
    for trial in trials:
        if trial.arm is not None:
            loss = math.nan if trial.value is None else metrics.loss(trial.value, metrics.main)
            found.setdefault(removal(trial.arm), (trial.arm, []))[1].append(loss)
    return [(arm, fmean(losses)) for arm, losses in found.values()]
