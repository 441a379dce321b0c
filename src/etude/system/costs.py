"""What settings cost beside the default, estimated from epochs that are never twice the same.

Trials differ in what an epoch costs, so a setting is compared with the default within a trial, and what trials say is
put together, each by how many epochs it says it with. How far epochs spread is seen from those that follow one another
under one setting. So each estimate has an error, and whoever decides can tell what is shown from what one slow epoch
pretends.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from etude.system.knobs import Key

WINDOW: Final = 16
"""Of a trial's epochs under one setting, so many are looked at, the last ones: machines change."""
USUAL: Final = 0.05
"""Epochs are taken to spread by this share until they have shown it."""
WEIGHT: Final = 10
"""That counts like so many that were seen."""
APART: Final = 1.128
"""Two draws from a normal distribution lie so many of its standard deviations apart, on average."""
FAR: Final = 4.0
"""A difference of more of what is usual counts like this many: one slow epoch says little of the others."""


@dataclass(frozen=True)
class Ratio:
    """What a setting costs beside the default.

    Attributes:
        value: The estimate: 0.8 is four fifths of it.
        error: Its standard error.
        alone: The part of that which comes from the setting's own epochs, and not from those by default: it matters
            where two settings are compared.
    """

    value: float
    error: float
    alone: float

    def above(self, errors: float) -> float:
        """Return what it costs at most, if the estimate is too low by so many errors."""
        return self.value + errors * self.error

    def below(self, errors: float, *, alone: bool = False) -> float:
        """Return what it costs at least, if the estimate is too high by so many errors."""
        return self.value - errors * (self.alone if alone else self.error)


@dataclass(frozen=True)
class Beside:
    """What a trial says of a setting.

    Attributes:
        ratio: What it costs beside the default.
        mine: By how many epochs.
        default: By how many by default.
    """

    ratio: float
    mine: int
    default: int

    @property
    def weight(self) -> float:
        """The inverse of its variance, in units of one epoch's: one epoch of each weighs a half."""
        return self.mine * self.default / (self.mine + self.default)


class Seen:
    """The epochs of one trial, by setting.

    Args:
        default: The setting that others are compared with.
    """

    def __init__(self, default: Key) -> None:
        self._default = default
        self._costs: dict[Key, deque[float]] = {}

    def take(self, setting: Key, cost: float) -> None:
        """Take in what an epoch cost."""
        self._costs.setdefault(setting, deque(maxlen=WINDOW)).append(cost)

    @property
    def settings(self) -> Iterable[Key]:
        """Under which settings there were epochs."""
        return self._costs.keys()

    def of(self, setting: Key) -> tuple[float, ...]:
        """Return what the last epochs under a setting cost."""
        return tuple(self._costs.get(setting, ()))

    def clear(self) -> None:
        """Forget them."""
        self._costs.clear()

    def copy(self) -> Seen:
        """Return another one that has seen the same."""
        other = Seen(self._default)
        other._costs = {setting: costs.copy() for setting, costs in self._costs.items()}
        return other

    @property
    def baseline(self) -> float | None:
        """What an epoch by default costs; None if none was seen."""
        costs = self.of(self._default)
        return median(costs) if costs else None

    def beside(self, setting: Key) -> Beside | None:
        """Return what a setting costs beside the default; None if nobody can tell."""
        mine, default = self.of(setting), self.of(self._default)
        return Beside(median(mine) / median(default), len(mine), len(default)) if mine and default else None


class Costs:
    """What settings cost for a kind of work, by all its trials."""

    def __init__(self) -> None:
        self._said: dict[Key, dict[Hashable, Beside]] = {}
        self._sums: dict[Key, _Sum] = {}
        self._moves, self._n = WEIGHT * APART * USUAL, WEIGHT

    @property
    def spread(self) -> float:
        """By which share epochs under one setting spread: the standard deviation."""
        return self._moves / self._n / APART

    @property
    def settings(self) -> Iterable[Key]:
        """What was tried."""
        return self._sums.keys()

    def follow(self, before: float, cost: float) -> None:
        """Take in what two epochs cost that followed one another under one setting."""
        self._moves += min(abs(math.log(cost / before)), FAR * APART * self.spread)
        self._n += 1

    def say(self, trial: Hashable, setting: Key, beside: Beside) -> None:
        """Take in what a trial says of a setting; it replaces what that said before."""
        said, sums = self._said.setdefault(setting, {}), self._sums.setdefault(setting, _Sum())
        if (before := said.get(trial)) is not None:
            sums.add(before, -1)
        sums.add(beside, 1)
        said[trial] = beside

    def ratio(self, setting: Key) -> Ratio:
        """Return what a setting that was tried costs beside the default."""
        sums = self._sums[setting]
        return self._ratio(sums.ratios / sums.weight, sums.weight, sums.epochs)

    def of(self, beside: Beside) -> Ratio:
        """Return what is known by what one trial says."""
        return self._ratio(beside.ratio, beside.weight, beside.mine)

    def _ratio(self, ratio: float, weight: float, epochs: int) -> Ratio:
        return Ratio(ratio, ratio * self.spread / math.sqrt(weight), ratio * self.spread / math.sqrt(epochs))

    def clear(self) -> None:
        """Forget what settings cost; how far epochs spread is still known."""
        self._said.clear()
        self._sums.clear()


@dataclass
class _Sum:
    """What trials say of one setting, put together."""

    ratios: float = 0.0
    weight: float = 0.0
    epochs: int = 0

    def add(self, beside: Beside, times: int) -> None:
        """Add what a trial says; minus once takes it away again."""
        self.ratios += times * beside.weight * beside.ratio
        self.weight += times * beside.weight
        self.epochs += times * beside.mine
