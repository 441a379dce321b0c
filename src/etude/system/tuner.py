"""Who decides on the setting of each epoch: PipeTune's loop, as a machine that is told of epochs and answers.

It has no clock, no thread and no file. All trials of a study tell the same machine, so that what one of them tries is
known to all: each setting is compared with the default in the same trial, since trials differ in what an epoch costs.

    profile   the first epoch, by default: what kind of work is it?
    baseline  the next one, by default as well: a first epoch pays for much that comes only once
              (work that others have tried needs none)
    reuse     what was best for similar work
    probe     one setting for one epoch
    keep      the best that is known, for the rest
    default   nothing was better, or something turned out to do harm
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Final, Generic, TypeVar

from etude.system.knobs import Setting
from etude.system.probing import DEFAULT, Key, Prober, best_of, key

P = TypeVar("P")

HARM: Final = 1.02
"""A setting that costs more than so much of the default does harm."""
DRIFT: Final = 0.25
"""A trial whose epochs cost more by this share than its own earlier ones runs beside another job that has come."""
TWICE: Final = 2
"""So often in a row, since any epoch may be a slow one."""
ALIKE: Final = 3
"""After so many trials of one kind, and none of another, the next ones are taken for the same from the start."""
CLEARLY: Final = 1.25
"""A probe that costs so much of the best that is known is cut short."""
SHOWN: Final = 0.1
"""So much of an epoch says whether a probe is clearly worse."""


class Phase(StrEnum):
    """What an epoch is for."""

    PROFILE = "profile"
    BASELINE = "baseline"
    REUSE = "reuse"
    PROBE = "probe"
    KEEP = "keep"
    DEFAULT = "default"


@dataclass(frozen=True)
class Decision:
    """The setting of a trial's next epoch.

    Attributes:
        setting: The setting.
        phase: What the epoch is for.
        why: A sentence for people.
        evidence: The numbers behind it, by name.
    """

    setting: Setting
    phase: Phase
    why: str
    evidence: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """What history says of a profile.

    Attributes:
        work: Which kind of work it is: trials of one kind share what they find.
        setting: What was best for it; None if nobody knows.
        why: Why, in words.
        evidence: The numbers behind it, by name.
    """

    work: Hashable
    setting: Setting | None = None
    why: str = "nothing similar is known"
    evidence: Mapping[str, float] = field(default_factory=dict)


@dataclass
class _Work:
    """A kind of work, and what its settings cost beside the default."""

    known: Known
    trials: int = 0
    ratios: dict[Key, list[float]] = field(default_factory=dict)
    probing: dict[Key, Hashable] = field(default_factory=dict)
    probes: int = 0
    harmful: set[Key] = field(default_factory=set)

    @property
    def tried(self) -> dict[Key, float]:
        return {setting: median(ratios) for setting, ratios in self.ratios.items()}


@dataclass
class _Trial:
    """A trial, and what its epochs cost."""

    work: _Work | None = None
    default: list[float] = field(default_factory=list)
    last: dict[Key, float] = field(default_factory=dict)
    slower: int = 0

    @property
    def baseline(self) -> float | None:
        return median(self.default) if self.default else None


class Tuner(Generic[P]):
    """Decides on settings.

    Args:
        prober: Which settings are tried, and in which order.
        most: How many epochs of each kind of work may be probes.
        look_up: Says what is known of work with a profile, and which kind it is.
    """

    def __init__(self, prober: Prober, *, most: int, look_up: Callable[[P], Known]) -> None:
        self._prober, self._most, self._look_up = prober, most, look_up
        self._works: dict[Hashable, _Work] = {}
        self._trials: dict[Hashable, _Trial] = {}

    def begin(self, trial: Hashable) -> Decision:
        """Return the setting of a trial's first epoch."""
        told = self._trials[trial] = _Trial()
        works = list(self._works.values())
        if len(works) == 1 and works[0].trials >= ALIKE and self._wanted(works[0]) is None:
            told.work = works[0]
            return self._kept(told.work)
        return Decision(DEFAULT, Phase.PROFILE, "the first epoch shows what kind of work it is")

    def ended(self, trial: Hashable) -> None:
        """Forget a trial; what it was probing is for others."""
        gone = self._trials.pop(trial, None)
        if gone is not None and gone.work is not None:
            for setting in [one for one, who in gone.work.probing.items() if who == trial]:
                del gone.work.probing[setting]

    def epoch(self, trial: Hashable, decision: Decision, cost: float, profile: P | None = None) -> Decision:
        """Return the setting of a trial's next epoch.

        Args:
            trial: The trial.
            decision: What the epoch that is over was for.
            cost: What a step of it cost; of one that was cut short, of the steps that there were.
            profile: What kind of work it showed; after the first epoch.
        """
        told = self._trials[trial]
        if told.work is None:
            if profile is None:
                return Decision(DEFAULT, Phase.DEFAULT, "nothing is known of what kind of work it is")
            known = self._look_up(profile)
            told.work = self._works.setdefault(known.work, _Work(known))
            told.work.trials += 1
            if told.work.ratios and self._wanted(told.work) is None:
                return self._kept(told.work)
            return Decision(DEFAULT, Phase.BASELINE, "a second epoch by default: a first one pays for what comes once")
        here = key(decision.setting)
        drifted = self._has_drifted(told, here, cost)
        if drifted:
            self._begin_anew(told.work, told)
            return Decision(DEFAULT, Phase.BASELINE, "epochs cost more than before: all is measured anew", drifted)
        if not here:
            told.default.append(cost)
        elif told.baseline is not None:
            told.work.ratios.setdefault(here, []).append(cost / told.baseline)
            if told.work.tried[here] > HARM:
                told.work.harmful.add(here)
        if told.work.probing.get(here) == trial:
            del told.work.probing[here]
        return self._next(trial, told, told.work)

    def is_clearly_worse(self, trial: Hashable, cost: float, done: float) -> bool:
        """Say whether a probe is to be cut short, and the rest of its epoch to go on as ``meanwhile`` says.

        It is compared with the best that is known, not with the default: where something else is four times as fast,
        one more epoch at the default's pace costs as much as four.

        Args:
            trial: The trial.
            cost: What a step of it has cost so far.
            done: Which share of the epoch is over.
        """
        told = self._trials.get(trial)
        if told is None or told.work is None or told.baseline is None or done < SHOWN:
            return False
        return cost > CLEARLY * told.baseline * self._best(told.work)[1]

    def meanwhile(self, trial: Hashable) -> Setting:
        """Return the best setting that is known of a trial's work; the default, if there is none."""
        told = self._trials.get(trial)
        return self._best(told.work)[0] if told is not None and told.work is not None else DEFAULT

    def learned(self) -> Mapping[Hashable, tuple[Setting, Mapping[Key, float]]]:
        """Return for each kind of work the best setting, and what each that was tried cost beside the default."""
        return {of: (best_of(work.tried)[0], work.tried) for of, work in self._works.items() if work.ratios}

    def _next(self, trial: Hashable, told: _Trial, work: _Work) -> Decision:
        reused = work.known.setting
        if reused is not None and key(reused) not in work.ratios:
            return Decision(reused, Phase.REUSE, work.known.why, work.known.evidence)
        wanted = self._wanted(work) if told.baseline is not None else None
        if wanted is None:
            return self._kept(work)
        work.probes += 1
        work.probing[key(wanted)] = trial
        why = f"probe {work.probes} of {self._most} at most"
        return Decision(wanted, Phase.PROBE, why, {"best so far": self._best(work)[1]})

    def _wanted(self, work: _Work) -> Setting | None:
        """Return what is to be tried of a kind of work; None if that is done, or what was reused does."""
        reused = work.known.setting
        if work.probes >= self._most or (reused is not None and key(reused) not in work.harmful):
            return None
        beside = dict.fromkeys(work.probing, 1.0)  # others are at it
        return self._prober.propose({**beside, **work.tried})

    @staticmethod
    def _best(work: _Work) -> tuple[Setting, float]:
        return best_of(work.tried, unless=tuple(work.harmful))

    def _kept(self, work: _Work) -> Decision:
        tried, (best, _) = work.tried, self._best(work)
        if best:
            return Decision(best, Phase.KEEP, "the best of what was tried", _evidence(tried, key(best)))
        return Decision(
            DEFAULT, Phase.DEFAULT, "nothing that was tried was better", _evidence(tried, min(tried, default=()))
        )

    @staticmethod
    def _has_drifted(told: _Trial, here: Key, cost: float) -> Mapping[str, float] | None:
        before = told.last.setdefault(here, cost)
        told.slower = told.slower + 1 if cost > (1 + DRIFT) * before else 0
        if told.slower < TWICE:
            told.last[here] = min(before, cost) if not told.slower else before
            return None
        return {"now": cost, "before": before}

    @staticmethod
    def _begin_anew(work: _Work, told: _Trial) -> None:
        work.ratios.clear()
        work.harmful.clear()
        work.probes = 0
        told.default.clear()
        told.last.clear()
        told.slower = 0


def _evidence(tried: Mapping[Key, float], setting: Key) -> Mapping[str, float]:
    return {"of the default": tried[setting], "tried": float(len(tried))} if setting in tried else {}
