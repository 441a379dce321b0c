"""An ablation whose arms are tuned first: a search of equal size for each, and then the comparison with what it found.

The searches take turns, and all of them are over before the first trial of the comparison: what is compared was chosen
by other trials, with another training seed. The first trial of each search has the configuration of the whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from etude.ablate.plan import AblationPlan
from etude.core.events import Params
from etude.core.history import Trial
from etude.core.lifecycle import FINAL, State
from etude.core.metrics import Metrics
from etude.core.numbers import is_finite
from etude.core.plan import GO_ON, Answer, Decision, Done, Propose, Report, Standing, Wait
from etude.core.ranking import best_of
from etude.core.text import count


@dataclass(frozen=True)
class Retuning:
    """The searches.

    Attributes:
        order: For each of their trials, the place of the arm that it is of.
        seed: Their training seed: none of the comparison's.
        first: For each arm, the configuration of its first trial.
        searched: For each arm, the names that may be in its proposals.
    """

    order: tuple[int, ...]
    seed: int
    first: tuple[Params, ...]
    searched: tuple[frozenset[str], ...]


def in_rotation(trials: Sequence[int]) -> tuple[int, ...]:
    """Return the order in which searches take turns: for each trial the place of its search.

    Args:
        trials: How many each of them has.

    Example:
        >>> in_rotation([3, 1, 2])
        (0, 1, 2, 0, 2, 0)
    """
    return tuple(place for nth in range(max(trials, default=0)) for place, n in enumerate(trials) if nth < n)


@dataclass(frozen=True)
class RetunedPlan:
    """Search for each arm, then compare.

    Attributes:
        compares: The ablation.
        retuning: The searches.
    """

    compares: AblationPlan
    retuning: Retuning
    resumes: ClassVar[bool] = False

    @property
    def params(self) -> Params:
        """The configuration of the whole, with which each search begins."""
        return self.compares.params

    @property
    def seeds(self) -> tuple[int, ...]:
        """The training seeds of the comparison."""
        return self.compares.seeds

    @property
    def trials(self) -> int:
        """How many trials there are to begin with, those of the searches included."""
        return len(self.retuning.order) + self.compares.trials

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Ask for the next trial of a search; when all have ended, for what the comparison wants."""
        order = self.retuning.order
        k = len(standing.trials) + len(pending)
        if k < len(order):
            return self._tunes(order[k], first=order[k] not in order[:k])
        tuned = standing.trials[: len(order)]
        if len(tuned) < len(order) or any(trial.state not in FINAL for trial in tuned):
            return Wait()
        chosen = {name: trial.params for name, trial in chosen_of(tuned, standing.metrics).items() if trial is not None}
        compares = dataclasses.replace(self.compares, chosen=chosen)
        answer = compares.ask(_Compared(standing, len(order)), pending=pending)
        if isinstance(answer, Done):
            return Done(f"{answer.reason}, after {count(len(order), 'trial')} that tuned the arms")
        return answer

    def _tunes(self, place: int, *, first: bool) -> Propose:
        arm, whole = self.compares.arms[place], self.retuning.first[place]
        if first:
            return Propose(self.retuning.seed, whole, arm=arm, tunes=True)
        held = {name: value for name, value in whole.items() if name not in self.retuning.searched[place]}
        return Propose(self.retuning.seed, fixed=held, arm=arm, tunes=True)

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let it go on: what searches stop early would be compared with what nobody stops."""
        return GO_ON

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Return none: nobody asks, since no trial carries on another."""
        return ()


def chosen_of(tuned: Sequence[Trial], metrics: Metrics) -> Mapping[str, Trial | None]:
    """Return for each arm the best trial of its search by the main metric; None where none came to a number."""
    by: dict[str, list[Trial]] = {}
    for trial in tuned:
        if trial.arm is not None:
            by.setdefault(trial.arm.name, []).append(trial)
    return {
        name: best_of((one for one in several if one.state is State.FINISHED and is_finite(one.value)), metrics)
        for name, several in by.items()
    }


@dataclass(frozen=True)
class _Compared:
    """A study without its first trials, which tuned the arms."""

    whole: Standing
    begin: int

    @property
    def trials(self) -> Sequence[Trial]:
        """Those of the comparison."""
        return self.whole.trials[self.begin :]

    @property
    def finished(self) -> Sequence[Trial]:
        """Those of them that finished."""
        return [trial for trial in self.whole.finished if trial.number >= self.begin]

    @property
    def ended(self) -> Sequence[Trial]:
        """Those of them that ended."""
        return [trial for trial in self.whole.ended if trial.number >= self.begin]

    @property
    def moved(self) -> Sequence[int]:
        """Those of them that changed."""
        return [number for number in self.whole.moved if number >= self.begin]

    @property
    def distinct(self) -> int:
        """How many different configurations there are in the study."""
        return self.whole.distinct

    @property
    def metrics(self) -> Metrics:
        """What the study measures."""
        return self.whole.metrics
