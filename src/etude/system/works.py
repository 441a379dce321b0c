"""What a tuner knows: of each kind of work what its settings cost, of each trial what its epochs did."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from etude.system.costs import Costs, Ratio, Seen
from etude.system.knobs import Key, Setting, key, setting_of
from etude.system.probing import DEFAULT, STEP

HARM: Final = 1.02
"""A setting that costs more than so much of the default does harm."""
SHY: Final = 2.0
"""So many standard errors a setting has to be better than the default to be kept."""
DOUBT: Final = 0.5
"""What may be better than what is kept, if its estimate is too high by so many, is tried once more."""
SURE: Final = 3.0
"""What is so many away from the default is better than it, or worse, and needs no further epoch to show it."""
DRIFT: Final = 0.25
"""A trial whose epochs cost more by this share than its own earlier ones, or less, runs beside another job that has
come, or gone."""
CHANCE: Final = 3.0
"""But not if so many standard deviations are more than that: then such epochs come by chance."""
ROW: Final = 3
"""So often in a row, and beyond all earlier ones, or twice as often: any epoch may be a slow one."""

BY_DEFAULT: Final = key(DEFAULT)
"""The key of the default."""


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
class Work:
    """A kind of work.

    Attributes:
        known: What history says of it.
        trials: How many did it.
        baseline: What a step by default cost, in the trial that measured it last.
        costs: What settings cost beside that.
        probing: Setting -> the trial that is trying it.
        before: What was learned of it before all was measured anew.
    """

    known: Known
    trials: int = 0
    baseline: float | None = None
    costs: Costs = field(default_factory=Costs)
    probing: dict[Key, Hashable] = field(default_factory=dict)
    before: Learned | None = None

    @property
    def tried(self) -> dict[Key, float]:
        """What each setting that was tried costs beside the default."""
        return {setting: self.costs.ratio(setting).value for setting in self.costs.settings}

    @property
    def reused(self) -> Key | None:
        """What history says, unless it was shown to do harm."""
        if self.known.setting is None:
            return None
        setting = key(self.known.setting)
        does_harm = setting in self.costs.settings and self.costs.ratio(setting).below(SURE) > HARM
        return None if does_harm else setting

    @property
    def best(self) -> tuple[Key, Ratio]:
        """What is kept, and what it costs beside the default: that itself, if nothing was shown to be better."""
        least, best, reused = 1 - STEP, (BY_DEFAULT, Ratio(1.0, 0.0, 0.0)), self.reused
        for setting in self.costs.settings:
            ratio = self.costs.ratio(setting)
            cost = ratio.value - STEP if setting == reused else ratio.above(SHY)  # history has tried it before
            if cost < least:
                least, best = cost, (setting, ratio)
        return best

    @property
    def contender(self) -> Key | None:
        """What may well be better than what is kept, and was tried too seldom to tell."""
        kept, ratio = self.best
        least, found = ratio.value * (1 - STEP), None
        for setting in self.costs.settings:
            cost = self.costs.ratio(setting).below(DOUBT, alone=kept != BY_DEFAULT)
            if cost < least and setting != kept and setting not in self.probing:
                least, found = cost, setting
        return found

    @property
    def learned(self) -> Learned | None:
        """What was learned of it: before all is measured anew, until something was; None if nothing was tried."""
        if self.baseline is None or not self.tried:
            return self.before
        return Learned(setting_of(self.best[0]), self.tried, self.baseline)

    def begin_anew(self) -> None:
        """Measure all again; what was best is tried first, as if it had been known from other studies."""
        best = setting_of(self.best[0])
        self.before = self.learned
        self.known = replace(self.known, setting=best or None, why="what was best before", evidence={})
        self.costs.clear()


@dataclass
class Trial:
    """A trial.

    Attributes:
        work: Which kind it does; None before that is known.
        first: What a step of its first epoch cost, which pays for what comes once.
        seen: Its later epochs.
        off: How many in a row cost more than earlier ones; less than 0 where they cost less.
    """

    work: Work | None = None
    first: float | None = None
    seen: Seen = field(default_factory=lambda: Seen(BY_DEFAULT))
    off: int = 0

    @property
    def baseline(self) -> float | None:
        """What a step by default costs in this trial; None before that was seen."""
        return self.seen.baseline

    def forget(self) -> None:
        """Forget its epochs: they cost other than those to come."""
        self.seen.clear()
        self.off = 0

    def drifted(self, setting: Key, cost: float, costs: Costs) -> Mapping[str, float] | None:
        """Take in what an epoch cost; return what epochs cost now and before, if these have become two things.

        Args:
            setting: That of the epoch.
            cost: It.
            costs: What is known of the trial's work, and is told how far its epochs spread.
        """
        epochs = self.seen.of(setting)
        if epochs:
            costs.follow(epochs[-1], cost)
        earlier = epochs[: len(epochs) - abs(self.off)]
        if len(earlier) < 2 * ROW:
            return None
        before, far = median(earlier), 1 + max(DRIFT, CHANCE * costs.spread)
        if cost > far * before:
            self.off = max(self.off, 0) + 1
        elif cost < before / far:
            self.off = min(self.off, 0) - 1
        else:
            self.off = 0
        late = (*epochs[len(earlier) :], cost)
        beyond = min(late) > max(earlier) or max(late) < min(earlier)
        if abs(self.off) >= (ROW if beyond else 2 * ROW):
            return {"now": cost, "before": before}
        return None
