"""How the cores and the memory of a machine are shared among studies: a rule, without files, clocks and processes.

Who comes first is let in first. Whoever is let in gets what it needs at least; when the next one's least no longer
fits, that one waits, and all who came later wait behind it. What is left is given out step by step, each time to the
one that has least. So everybody who waits gets in when those before it have gone, and what one no longer wants goes to
those who want more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from etude.core.errors import ConfigError

MB: Final = 1024
"""In a GB."""


@dataclass(frozen=True)
class Amount:
    """Some cores, and some memory.

    Attributes:
        cores: How many.
        memory_mb: In MB (2**20 bytes). 0 where nobody counts it.

    Raises:
        ConfigError: One is below 0, or no whole number.
    """

    cores: int = 0
    memory_mb: int = 0

    def __post_init__(self) -> None:
        for name, value in (("cores", self.cores), ("memory_mb", self.memory_mb)):
            if type(value) is not int or value < 0:
                raise ConfigError(f"{name}={value!r} is no amount. Pass a whole number, 0 or more.")

    @classmethod
    def of(cls, *, cores: int, memory_gb: float | None = None) -> Amount:
        """Return an amount whose memory is given in GB (2**30 bytes); None if nobody knows or counts it.

        Example:
            >>> Amount.of(cores=2, memory_gb=1.5)
            Amount(cores=2, memory_mb=1536)
        """
        if memory_gb is not None and not 0 <= memory_gb < math.inf:
            raise ConfigError(f"memory_gb={memory_gb!r} is no memory. Pass GB, 0 or more, or None.")
        return cls(cores, int((memory_gb or 0) * MB))

    @property
    def memory_gb(self) -> float:
        """The memory in GB."""
        return self.memory_mb / MB

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cores + other.cores, self.memory_mb + other.memory_mb)

    def __sub__(self, other: Amount) -> Amount:
        """Return what is left; of what there is too little of, nothing."""
        return Amount(max(0, self.cores - other.cores), max(0, self.memory_mb - other.memory_mb))

    def within(self, most: Amount) -> Amount:
        """Return as much of it as there is."""
        return Amount(min(self.cores, most.cores), min(self.memory_mb, most.memory_mb))

    def fits(self, room: Amount) -> bool:
        """Say whether it is no more than there is room for."""
        return self.cores <= room.cores and self.memory_mb <= room.memory_mb


NOTHING: Final = Amount()


@dataclass(frozen=True)
class Want:
    """What a study wants of a machine.

    Attributes:
        least: What it cannot begin without: one trial's.
        most: More than this it has no use for: that of as many trials as it may run at a time.
        step: By how much more it can use: one trial's.

    Raises:
        ConfigError: ``least`` is more than ``most``, or ``step`` has no core.
    """

    least: Amount
    most: Amount
    step: Amount = Amount(1)

    def __post_init__(self) -> None:
        if not self.least.fits(self.most):
            raise ConfigError(f"least={self.least} is more than most={self.most}. Pass what one trial needs as least=.")
        if self.step.cores < 1:
            raise ConfigError(f"step={self.step} has no core. Pass what one more trial needs.")

    @classmethod
    def of_trials(cls, trial: Amount, *, most: int, least: int = 1) -> Want:
        """Return what trials of equal needs want.

        Args:
            trial: What each of them needs.
            most: How many may run at a time.
            least: How many have to.

        Example:
            >>> Want.of_trials(Amount(2), most=3).most
            Amount(cores=6, memory_mb=0)
        """
        return cls(times(trial, min(least, most)), times(trial, most), trial)

    def within(self, budget: Amount) -> Want:
        """Return the same for a machine with a budget: whoever wants more than all of it wants all of it."""
        return Want(self.least.within(budget), self.most.within(budget), self.step)

    def then(self, later: Want) -> Want:
        """Return what holds when somebody who is there changes what it wants.

        Its least may only fall: if it rose, somebody who was let in later would have to go.
        """
        return Want(later.least.within(self.least), later.most, later.step)


def times(trial: Amount, n: int) -> Amount:
    """Return what so many trials need."""
    return Amount(trial.cores * n, trial.memory_mb * n)


def total(amounts: Iterable[Amount]) -> Amount:
    """Return the sum."""
    return sum(amounts, NOTHING)


def shares(budget: Amount, wants: Sequence[Want]) -> tuple[Amount, ...]:
    """Return how much each may hold. Together that is never more than the budget.

    A step goes to the one whose share is the smallest, and that is the larger of its share of the cores and its share
    of the memory; of equals to the one who came first. Whoever has all that it wants, or whose step no longer fits,
    gets no more, and the others go on.

    Args:
        budget: What the machine has.
        wants: What each wants, in the order in which they came.

    Returns:
        The share of each, in that order: nothing for those who wait, and at least ``least`` for all others.

    Source:
        Ghodsi et al. 2011, "Dominant Resource Fairness", NSDI: max-min fairness where there is more than one resource.
        That nobody overtakes, and the least, are our additions.

    Example:
        >>> small, large = Want(Amount(1), Amount(2)), Want(Amount(1), Amount(8))
        >>> [share.cores for share in shares(Amount(8), [small, large])]
        [2, 6]
        >>> wide = Want(Amount(6), Amount(6))
        >>> [share.cores for share in shares(Amount(8), [wide, wide, small])]
        [6, 0, 0]
    """
    wants = [want.within(budget) for want in wants]
    hungry = list(range(let_in(budget, wants)))
    granted = [want.least if nth in hungry else NOTHING for nth, want in enumerate(wants)]
    rest = budget - total(granted)
    while hungry:
        nth = min(hungry, key=lambda one: (level(granted[one], budget), one))
        more = (granted[nth] + wants[nth].step).within(wants[nth].most)
        step = more - granted[nth]
        if step == NOTHING or not step.fits(rest):
            hungry.remove(nth)  # for good: there will not be more
        else:
            granted[nth], rest = more, rest - step
    return tuple(granted)


def let_in(budget: Amount, wants: Sequence[Want]) -> int:
    """Return how many get anything: the first ones, up to the one whose least no longer fits."""
    rest = budget
    for nth, want in enumerate(wants):
        least = want.least.within(budget)
        if not least.fits(rest):
            return nth  # those behind wait as well, or it might wait for ever
        rest -= least
    return len(wants)


def level(share: Amount, budget: Amount) -> float:
    """Return which part of a machine somebody has: of the cores or of the memory, whichever is more."""
    return max(share.cores / max(budget.cores, 1), share.memory_mb / max(budget.memory_mb, 1))
