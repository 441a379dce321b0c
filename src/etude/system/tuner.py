"""Who decides on the setting of each epoch: PipeTune's loop, as a machine that is told of epochs and answers.

It has no clock, no thread and no file. All trials of a study tell the same machine, so that what one of them tries is
known to all (``system.costs``).

    profile   the first epoch, by default: what kind of work is it?
    baseline  the next one, by default as well: a first epoch pays for much that comes only once
              (work that others have tried needs none)
    reuse     what was best for similar work
    probe     one setting for one epoch: each once, and what may still be the best once more
    keep      the best that is known, for the rest
    default   nothing was better, or something turned out to do harm

Epochs are not exact, and one slow epoch by default would make all else look good. So what is to be kept has to be
better by more than chance gives, and as long as that is not sure, an epoch by default comes in between.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from etude.core.system import Phase
from etude.system.costs import Beside
from etude.system.knobs import Key, Setting, key, setting_of
from etude.system.probing import DEFAULT, Prober
from etude.system.works import BY_DEFAULT, SURE, Known, Learned, Trial, Work

P = TypeVar("P")

ONCE_MORE: Final = 0.75
"""With this share of the probes at most something is tried once more: another job may come, and then all is."""
OFTEN: Final = 3
"""As long as what is kept was not shown to be better, an epoch by default follows so many with it."""
ALIKE: Final = 3
"""After so many trials of one kind, and none of another, the next ones are taken for the same from the start."""
FEWEST: Final = 2
"""Where a first epoch by default costs much more than what is kept, so many have to do."""
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


class Tuner(Generic[P]):
    """Decides on settings.

    Args:
        prober: Which settings are tried, and in which order.
        most: How many epochs may be probes.
        look_up: Says what is known of work with a profile, and which kind it is.
    """

    def __init__(self, prober: Prober, *, most: int, look_up: Callable[[P], Known]) -> None:
        self._prober, self._most, self._look_up = prober, most, look_up
        self._probes = 0
        self._works: dict[Hashable, Work] = {}
        self._trials: dict[Hashable, Trial] = {}

    def begin(self, trial: Hashable, earlier: Hashable = None) -> Decision:
        """Return the setting of a trial's first epoch.

        Args:
            trial: The trial.
            earlier: One that it carries on: it knows what that knew.
        """
        if (before := self._trials.get(earlier)) is not None and before.work is not None:
            told = self._trials[trial] = replace(before, seen=before.seen.copy())
            return self._next(trial, told, before.work)
        told = self._trials[trial] = Trial()
        if (work := self._only()) is not None:
            told.work = work
            work.trials += 1
            return self._kept(told, work)
        return Decision(DEFAULT, Phase.PROFILE, "the first epoch shows what kind of work it is")

    def _only(self) -> Work | None:
        """Return the kind of work that all trials were so far, if there were enough and all is tried; else None."""
        if len(self._works) != 1:
            return None
        (work,) = self._works.values()
        enough = max(FEWEST, ALIKE * work.best[1].value)
        return work if work.trials >= enough and self._wanted(work) is None else None

    def allow(self, most: int) -> None:
        """Let more epochs be probes, if that is more than before: there are more of them than was known."""
        self._most = max(self._most, most)

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
        is_first, told.first = told.first is None, cost if told.first is None else told.first
        if told.work is None:
            return self._look_into(told, cost, profile)
        work, here = told.work, key(decision.setting)
        for setting in [one for one, who in work.probing.items() if who == trial]:
            del work.probing[setting]  # what was to be tried has been, or the order came too late
        if is_first:
            return self._next(trial, told, work)
        if drifted := told.drifted(here, cost, work.costs):
            work.begin_anew()
            told.forget()
            return Decision(DEFAULT, Phase.BASELINE, "epochs cost other than before: all is measured anew", drifted)
        told.seen.take(here, cost)
        if told.baseline is None and told.first < cost / work.costs.of(Beside(1.0, 1, 1)).above(SURE):
            why = "what was best for other trials does harm in this one"  # first epochs are slow ones, so this is more
            return Decision(DEFAULT, Phase.BASELINE, why)
        self._say(trial, told, work)
        return self._next(trial, told, work)

    def _look_into(self, told: Trial, cost: float, profile: P | None) -> Decision:
        """Find out which kind of work a trial is, after its first epoch."""
        if profile is None:
            return Decision(DEFAULT, Phase.DEFAULT, "nothing is known of what kind of work it is")
        known = self._look_up(profile)
        if known.work not in self._works:
            self._works[known.work] = Work(self._guessed(known) if self._probes >= self._most else known)
        work = told.work = self._works[known.work]
        work.trials += 1
        if work.tried and self._wanted(work) is None:
            return self._kept(told, work)
        return Decision(DEFAULT, Phase.BASELINE, "a second epoch by default: a first one pays for what comes once")

    def _guessed(self, known: Known) -> Known:
        """Return what to begin with for work that nothing is known of, and that is not to be probed any more."""
        bests = [best for work in self._works.values() if (best := work.best[0]) != BY_DEFAULT]
        if known.setting is not None or not bests:
            return known
        return replace(known, setting=setting_of(bests[-1]), why=f"{known.why}: what was best for other work here")

    @staticmethod
    def _say(trial: Hashable, told: Trial, work: Work) -> None:
        """Tell other trials what settings cost in this one."""
        if told.baseline is None:
            return
        work.baseline = told.baseline
        for setting in told.seen.settings:
            if setting != BY_DEFAULT and (beside := told.seen.beside(setting)) is not None:
                work.costs.say(trial, setting, beside)

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
        return CLEARLY * told.baseline * told.work.best[1].value

    def meanwhile(self, trial: Hashable) -> Setting:
        """Return the best setting that is known of a trial's work; the default, if there is none."""
        told = self._trials.get(trial)
        return setting_of(told.work.best[0]) if told is not None and told.work is not None else DEFAULT

    def work_of(self, trial: Hashable) -> Hashable | None:
        """Return which kind of work a trial is; None if nobody knows yet."""
        told = self._trials.get(trial)
        return told.work.known.work if told is not None and told.work is not None else None

    def learned(self) -> Mapping[Hashable, Learned]:
        """Return what was learned of each kind of work of which something was tried."""
        return {of: learned for of, work in self._works.items() if (learned := work.learned) is not None}

    def _next(self, trial: Hashable, told: Trial, work: Work) -> Decision:
        reused = work.known.setting
        if reused is not None and key(reused) not in work.costs.settings:
            return Decision(reused, Phase.REUSE, work.known.why, work.known.evidence)
        wanted = self._wanted(work) if told.baseline is not None else None
        if wanted is None:
            return self._kept(told, work)
        again = key(wanted) in work.costs.settings
        few = len(told.seen.of(BY_DEFAULT)) <= len(told.seen.of(key(wanted)))
        best, ratio = work.best
        if again and few and best == BY_DEFAULT:
            return Decision(DEFAULT, Phase.BASELINE, "what is tried once more is compared with more than one epoch")
        self._probes += 1
        work.probing[key(wanted)] = trial
        why = f"probe {self._probes} of {self._most} at most" + (", once more: it may be the best" if again else "")
        return Decision(wanted, Phase.PROBE, why, {"best so far": ratio.value})

    def _wanted(self, work: Work) -> Setting | None:
        """Return what is to be tried of a kind of work; None if that is done."""
        if self._probes >= self._most:
            return None
        if work.reused is None:
            beside = dict.fromkeys(work.probing, 1.0)  # others are at it
            if (setting := self._prober.propose({**beside, **work.tried})) is not None:
                return setting
        if self._probes >= ONCE_MORE * self._most:
            return None
        return None if (again := work.contender) is None else setting_of(again)

    def _kept(self, told: Trial, work: Work) -> Decision:
        tried, (best, ratio) = work.tried, work.best
        if best == BY_DEFAULT:
            least = min(tried, key=tried.__getitem__, default=BY_DEFAULT)
            return Decision(DEFAULT, Phase.DEFAULT, "nothing that was tried was better", _evidence(tried, least))
        mine, default = len(told.seen.of(best)), len(told.seen.of(BY_DEFAULT))
        beside = told.seen.beside(best)
        if beside is not None and work.costs.of(beside).below(SURE) > 1:
            return Decision(DEFAULT, Phase.DEFAULT, "what is best for other trials does harm in this one")
        if ratio.above(SURE) >= 1 and mine >= OFTEN * max(1, default):
            return Decision(DEFAULT, Phase.BASELINE, "what is kept is hardly better: is it?", _evidence(tried, best))
        return Decision(setting_of(best), Phase.KEEP, "the best of what was tried", _evidence(tried, best))


def _evidence(tried: Mapping[Key, float], setting: Key) -> Mapping[str, float]:
    return {"of the default": tried[setting], "tried": float(len(tried))} if setting in tried else {}
