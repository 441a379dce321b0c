"""An ablation whose seeds are added until it is decided: new seeds go to what is open, and to the base.

A look is taken when all that is open has a pair more, so it does not depend on which trial was faster. While the last
trials of a seed run, workers that are free begin with the next seed of what has its pair already: some of that may turn
out not to be needed, and is kept all the same.

What a look came to is why the next trials are run, so it is in the journal with them; what the last one came to is why
the study ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from etude.ablate.plan import AblationPlan
from etude.analyse.arms import LARGEST
from etude.analyse.race_rules import FIRST, Rules
from etude.analyse.racing import Look, Standing, looks_of
from etude.core import plan as plans
from etude.core.history import Trial
from etude.core.lifecycle import FINAL
from etude.core.metrics import Metrics
from etude.core.plan import Answer, Done, Halt, Propose, Wait
from etude.core.text import count


@dataclass(frozen=True)
class RacingPlan(AblationPlan):
    """Train what is open with one seed more, look, and go on.

    Attributes:
        rules: What it goes by; ``seeds`` has as many as it may take.
    """

    rules: Rules = field(default_factory=lambda: Rules(components=1, most=1))

    def ask(self, standing: plans.Standing, *, pending: Sequence[Propose]) -> Answer:
        """Ask for what the next look needs; then for the seed after it, of what has its pair already."""
        if (problem := self.problem(standing)) is not None:
            return Halt(problem)
        ended = [trial for trial in standing.trials if trial.state in FINAL]
        race, looks = self.race(ended, standing.metrics)
        began = [(trial.arm, trial.seed) for trial in standing.trials] + [(one.arm, one.seed) for one in pending]
        asked = {(arm.name, seed) for arm, seed in began if arm is not None}
        if not race.open:
            return Done(_reason(looks, len(asked))) if len(ended) == len(standing.trials) and not pending else Wait()
        because = str(looks[-1]) if looks else ""
        for nth, arm in self._needed(race, ended):
            chosen = self.arms[arm]
            if (chosen.name, self.seeds[nth]) not in asked:
                return Propose(self.seeds[nth], self.configuration(chosen), arm=chosen, because=because)
        return Wait()

    def race(self, ended: Sequence[Trial], metrics: Metrics) -> tuple[Standing, list[Look]]:
        """Return how the race stands after some trials, and the looks that led there."""
        losses: dict[tuple[str, int], float] = {}
        for trial in ended:
            if trial.arm is not None:
                usable = trial.value is not None and abs(trial.value) <= LARGEST
                loss = metrics.loss(trial.value, metrics.main) if usable and trial.value is not None else math.nan
                losses[trial.arm.name, trial.seed] = loss
        return looks_of(self.rules, differences([arm.name for arm in self.arms], self.seeds, losses))

    def _needed(self, race: Standing, ended: Sequence[Trial]) -> Iterator[tuple[int, int]]:
        """Yield the place of a seed and of an arm, what is needed first before what may be."""
        goal = max(FIRST, race.looked + 1)
        going = [0, *(place + 1 for place in race.open)]
        for nth in range(min(goal, len(self.seeds))):
            yield from ((nth, arm) for arm in going)
        if goal < len(self.seeds):
            have = {(trial.arm.name, trial.seed) for trial in ended if trial.arm is not None}
            last = self.seeds[goal - 1]
            yield from ((goal, arm) for arm in going if (self.arms[arm].name, last) in have)


def differences(
    arms: Sequence[str], seeds: Sequence[int], losses: dict[tuple[str, int], float]
) -> dict[str, list[float]]:
    """Return for each arm its differences of pairs so far, up to the first seed that has not ended in both arms.

    Args:
        arms: Their names, the base first.
        seeds: In the order in which they are run.
        losses: Of trials that have ended, by arm and seed; NaN if they came to no number.
    """
    base, *others = arms
    found: dict[str, list[float]] = {}
    for arm in others:
        row = found.setdefault(arm, [])
        for seed in seeds:
            if (base, seed) not in losses or (arm, seed) not in losses:
                break
            row.append(losses[arm, seed] - losses[base, seed])
    return found


def _reason(looks: Sequence[Look], trials: int) -> str:
    return f"decided {looks[-1]} ({count(trials, 'trial')})" if looks else f"all {count(trials, 'trial')} ended"
