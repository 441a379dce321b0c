"""A final training as a plan: trials that are all known beforehand, or that begin as probes say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from etude.core.events import Params, Probe, Start
from etude.core.history import Trial
from etude.core.lifecycle import FINAL, State
from etude.core.plan import GO_ON, Answer, Decision, Done, Halt, Propose, Report, Standing, Wait
from etude.core.text import count
from etude.fit.choosing import Choice, Instead, Probed, choose
from etude.fit.weights import RANDOM


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

    @property
    def trials(self) -> int:
        """How many there are."""
        return len(self.wanted)

    @property
    def params(self) -> Params:
        """The configuration of the first."""
        return self.wanted[0].params

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


@dataclass(frozen=True)
class ProbedPlan:
    """Have probes show what the training is to begin with, and train with each seed.

    Attributes:
        params: The configuration.
        seeds: The training seeds; probes have the first.
        candidates: What there is to begin with, random weights (None) first.
        share: What all probes may take together, of the run's epochs.
        judge: The metric that they are judged by; None for the one that ``choosing.judge_of`` says.
        instead: Which candidate is taken where another did best, by their places.
    """

    params: Params
    seeds: tuple[int, ...]
    candidates: tuple[Start | None, ...]
    share: float
    judge: str | None = None
    instead: Mapping[int, Instead] = field(default_factory=dict)
    resumes: ClassVar[bool] = False

    @property
    def trials(self) -> int:
        """How many trials it has."""
        return len(self.candidates) + len(self.seeds)

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Ask for the next one; for the first that is no probe when all probes have ended."""
        asked, probes = len(standing.trials) + len(pending), len(self.candidates)
        if asked < probes:
            start = self.candidates[asked]
            return Propose(self.seeds[0], self.params, start=start, probe=Probe(self.share, probes))
        if asked >= self.trials:
            return Done(f"all {count(self.trials, 'trial')} ended")
        ended = [trial for trial in standing.trials[:probes] if trial.state in FINAL]
        if len(ended) < probes:
            return Wait()
        if (problem := self._problem([_told(trial) for trial in ended])) is not None:
            return Halt(problem)
        nth, why = self._choice(standing)
        return Propose(self.seeds[asked - probes], self.params, start=self.candidates[nth], because=why)

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let it go on; a probe ends by itself."""
        return GO_ON

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Return none: nobody asks, since no trial carries on another."""
        return ()

    def _problem(self, told: Sequence[Mapping[str, Any]]) -> str | None:
        """Say why nothing can be chosen, if so."""
        well = [one["reported"] for one in told if one]
        if not well:
            return (
                f"None of {count(len(told), 'probe')} came to its end, so nothing says what the training is to begin "
                "with. Their logs say more (etude logs STUDY 0); or say it: weights=search.best.weights."
            )
        if self.judge is not None and not all(self.judge in reported for reported in well):
            return (
                f"Auto(judge={self.judge!r}) is not among what the probes reported: {', '.join(sorted(well[0]))}. "
                "Judge by one of these, or leave judge= out."
            )
        return None

    def _choice(self, standing: Standing) -> Choice:
        probes = [
            Probed(start.name if start is not None else RANDOM, told.get("reported"), told.get("portion", 1.0))
            for start, told in zip(self.candidates, map(_told, standing.trials), strict=False)
        ]
        metrics = standing.metrics
        return choose(probes, metrics.modes, watched=metrics.watched, wanted=self.judge, instead=self.instead)


def _told(probe: Trial) -> dict[str, Any]:
    """Return what a probe left behind (``worker.probing``); nothing if it failed."""
    return probe.extra if probe.state is State.STOPPED else {}
