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

import copy
from bisect import insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Generic, TypeVar

from etude.core.system import Phase
from etude.system.knobs import Key, Setting, key
from etude.system.probing import DEFAULT, Prober, best_of

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


@dataclass(frozen=True)
class Learned:
    """What was learned of a kind of work.

    Attributes:
        best: The best setting.
        tried: What each that was tried cost beside the default.
        baseline: What a step by default cost, in the trial that measured it last.
    """

    best: Setting
    tried: Mapping[Key, float]
    baseline: float


@dataclass
class _Work:
    """A kind of work, and what its settings cost beside the default; ``ratios`` are kept sorted."""

    known: Known
    most: int
    trials: int = 0
    baseline: float | None = None
    ratios: dict[Key, list[float]] = field(default_factory=dict)
    probing: dict[Key, Hashable] = field(default_factory=dict)
    probes: int = 0
    harmful: set[Key] = field(default_factory=set)

    @property
    def tried(self) -> dict[Key, float]:
        return {setting: _middle(ratios) for setting, ratios in self.ratios.items()}


@dataclass
class _Trial:
    """A trial, and what its epochs cost; ``refused`` is what was best for others, and did harm here."""

    work: _Work | None = None
    first: float | None = None
    default: list[float] = field(default_factory=list)
    last: dict[Key, float] = field(default_factory=dict)
    slower: int = 0
    refused: set[Key] = field(default_factory=set)

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

    def begin(self, trial: Hashable, earlier: Hashable = None) -> Decision:
        """Return the setting of a trial's first epoch.

        Args:
            trial: The trial.
            earlier: One that it carries on: it knows what that knew.
        """
        if (before := self._trials.get(earlier)) is not None and before.work is not None:
            told = self._trials[trial] = copy.deepcopy(before, {id(before.work): before.work})
            return self._next(trial, told, before.work)
        told = self._trials[trial] = _Trial()
        works = list(self._works.values())
        if len(works) == 1 and works[0].trials >= ALIKE and self._wanted(works[0]) is None:
            told.work = works[0]
            told.work.trials += 1
            return self._kept(told, told.work)
        return Decision(DEFAULT, Phase.PROFILE, "the first epoch shows what kind of work it is")

    def allow(self, most: int) -> None:
        """Let more epochs be probes, if that is more than before: there are more of them than was known."""
        more = max(0, most - self._most)
        self._most += more
        for work in self._works.values():
            work.most += more

    def ended(self, trial: Hashable) -> None:
        """Take in that a trial is over, or pauses: what it was probing is for others."""
        gone = self._trials.get(trial)
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
            return self._look_into(told, cost, profile)
        work, here = told.work, key(decision.setting)
        is_first = here not in told.last
        for setting in [one for one, who in work.probing.items() if who == trial]:
            del work.probing[setting]  # what was to be tried has been, or the order came too late
        if drifted := self._has_drifted(told, here, cost):
            self._begin_anew(work, told)
            return Decision(DEFAULT, Phase.BASELINE, "epochs cost more than before: all is measured anew", drifted)
        by_default = here == key(DEFAULT)
        if told.baseline is None and not by_default and told.first is not None and cost > HARM * told.first:
            told.refused.add(here)  # first epochs are slow ones, so this one is more than that
            return Decision(DEFAULT, Phase.BASELINE, "what was best for other trials does harm in this one")
        if by_default:
            told.default.append(cost)
            work.baseline = told.baseline
        elif told.baseline is not None:
            insort(work.ratios.setdefault(here, []), cost / told.baseline)
            if work.tried[here] > HARM:
                work.harmful.add(here)
            if is_first and decision.phase is Phase.KEEP and cost > HARM * told.baseline:
                told.refused.add(here)
        return self._next(trial, told, work)

    def _look_into(self, told: _Trial, cost: float, profile: P | None) -> Decision:
        """Find out which kind of work a trial is, after its first epoch."""
        if profile is None:
            return Decision(DEFAULT, Phase.DEFAULT, "nothing is known of what kind of work it is")
        known = self._look_up(profile)
        told.work, told.first = self._works.setdefault(known.work, _Work(known, self._most)), cost
        told.work.trials += 1
        if told.work.ratios and self._wanted(told.work) is None:
            return self._kept(told, told.work)
        return Decision(DEFAULT, Phase.BASELINE, "a second epoch by default: a first one pays for what comes once")

    def is_clearly_worse(self, trial: Hashable, cost: float, done: float) -> bool:
        """Say whether a probe is to be cut short, and the rest of its epoch to go on as ``meanwhile`` says.

        It is compared with the best that is known, not with the default: where something else is four times as fast,
        one more epoch at the default's pace costs as much as four.

        Args:
            trial: The trial.
            cost: What a step of it has cost so far.
            done: Which share of the epoch is over.
        """
        above = self.cut_above(trial)
        return above is not None and done >= SHOWN and cost > above

    def cut_above(self, trial: Hashable) -> float | None:
        """Return what a step costs above which a probe of a trial is cut short; None before that is known."""
        told = self._trials.get(trial)
        if told is None or told.work is None or told.baseline is None:
            return None
        return CLEARLY * told.baseline * self._best(told.work)[1]

    def meanwhile(self, trial: Hashable) -> Setting:
        """Return the best setting that is known of a trial's work; the default, if there is none."""
        told = self._trials.get(trial)
        return self._best(told.work)[0] if told is not None and told.work is not None else DEFAULT

    def work_of(self, trial: Hashable) -> Hashable | None:
        """Return which kind of work a trial is; None if nobody knows yet."""
        told = self._trials.get(trial)
        return told.work.known.work if told is not None and told.work is not None else None

    def learned(self) -> Mapping[Hashable, Learned]:
        """Return what was learned of each kind of work of which something was tried."""
        return {
            of: Learned(self._best(work)[0], work.tried, work.baseline)
            for of, work in self._works.items()
            if work.ratios and work.baseline is not None
        }

    def _next(self, trial: Hashable, told: _Trial, work: _Work) -> Decision:
        reused = work.known.setting
        if reused is not None and key(reused) not in work.ratios:
            return Decision(reused, Phase.REUSE, work.known.why, work.known.evidence)
        wanted = self._wanted(work) if told.baseline is not None else None
        if wanted is None:
            return self._kept(told, work)
        work.probes += 1
        work.probing[key(wanted)] = trial
        why = f"probe {work.probes} of {work.most} at most"
        return Decision(wanted, Phase.PROBE, why, {"best so far": self._best(work)[1]})

    def _wanted(self, work: _Work) -> Setting | None:
        """Return what is to be tried of a kind of work; None if that is done, or what was reused does."""
        reused = work.known.setting
        if work.probes >= work.most or (reused is not None and key(reused) not in work.harmful):
            return None
        beside = dict.fromkeys(work.probing, 1.0)  # others are at it
        return self._prober.propose({**beside, **work.tried})

    @staticmethod
    def _best(work: _Work) -> tuple[Setting, float]:
        return best_of(work.tried, unless=tuple(work.harmful))

    def _kept(self, told: _Trial, work: _Work) -> Decision:
        tried, (best, _) = work.tried, self._best(work)
        if best and key(best) in told.refused:
            return Decision(DEFAULT, Phase.DEFAULT, "what is best for other trials does harm in this one")
        if best:
            return Decision(best, Phase.KEEP, "the best of what was tried", _evidence(tried, key(best)))
        return Decision(
            DEFAULT,
            Phase.DEFAULT,
            "nothing that was tried was better",
            _evidence(tried, min(tried, key=tried.__getitem__, default=key(DEFAULT))),
        )

    @staticmethod
    def _has_drifted(told: _Trial, here: Key, cost: float) -> Mapping[str, float] | None:
        before = told.last.setdefault(here, cost)
        told.slower = told.slower + 1 if cost > (1 + DRIFT) * before else 0
        if told.slower < TWICE:
            told.last[here] = min(before, cost) if not told.slower else before
            return None
        return {"now": cost, "before": before}

    def _begin_anew(self, work: _Work, told: _Trial) -> None:
        work.ratios.clear()
        work.harmful.clear()
        work.most = min(work.most + self._most, 2 * self._most)  # however often others come and go
        told.default.clear()
        told.last.clear()
        told.refused.clear()
        told.slower = 0


def _middle(ordered: Sequence[float]) -> float:
    """Return the median of what is sorted already."""
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _evidence(tried: Mapping[Key, float], setting: Key) -> Mapping[str, float]:
    return {"of the default": tried[setting], "tried": float(len(tried))} if setting in tried else {}
