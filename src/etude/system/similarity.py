"""Whether a run is like one that is known, by the rates of an epoch.

A ``Similarity`` is asked to learn what past runs are like, and gives what recognises others. The default, ``Nearest``,
knows when it does not know. The clusterings of the paper are in ``system.clusterings``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

import numpy as np

from etude.core.errors import ConfigError
from etude.core.text import count
from etude.system.vectors import Array, Rates, Ruler, ruler

LEAST_LIMIT: Final = 0.5
"""Half of what two runs of one workload lie apart on average: what lies nearer is never unknown. The nearest of many
repeats lies nearer than the average one, so a higher bar would let in what is foreign."""


@dataclass(frozen=True)
class Match:
    """What a run was found to be like.

    Attributes:
        nth: Number of the nearest past run, or of the cluster; None if there is nothing to compare with.
        score: How far it lies from there, as a share of how far it may: up to 1 is known. Infinite if nobody knows.
        known: Whether it is like past runs.
        why: The same in a sentence, with the numbers.
        like: Numbers of the past runs that it is like, the nearest first; empty if it is unknown.
    """

    nth: int | None
    score: float
    known: bool
    why: str
    like: tuple[int, ...] = ()


class Recogniser(Protocol):
    """Has learned what past runs are like."""

    def look_up(self, rates: Rates) -> Match:
        """Return what a run is like. It gives equal answers to equal rates, and raises nothing."""
        ...


class Similarity(Protocol):
    """Learns what past runs are like."""

    def fit(self, past: Sequence[Rates], groups: Sequence[str]) -> Recogniser:
        """Return what has learned past runs.

        Args:
            past: The rates of each.
            groups: The digest of the workload of each; runs of the same workload have the same.
        """
        ...


@final
@dataclass(frozen=True)
class Nearest:
    """A run is known if it lies as near to a past one as runs of one workload lie to each other.

    How near that is, is learned: of each past run that has been repeated, the distance to the nearest of its repeats is
    taken, and the limit is where ``1 - miss`` of these lie within. It is rounded up to the next run, so that of new
    repeats no more than ``miss`` are called unknown on average. If the repeats are too few for that share, the limit is
    the largest distance among them, and with n of them one in n + 1 is missed. With fewer than ``repeats`` everything
    is unknown.

    Attributes:
        miss: Share of repeated workloads that may be called unknown.
        repeats: How many past runs have to have a repeat.

    Raises:
        ConfigError: ``miss`` is no share between 0 and 1, or ``repeats`` is below 2.

    Source:
        The rounding up is split conformal prediction's: Lei et al. 2018, "Distribution-Free Predictive Inference for
        Regression", doi:10.1080/01621459.2017.1307116. Leave-one-out distances stand in for a set that is held out.

    Example:
        >>> past = [{"a": 100.0 + n, "b": 5.0} for n in range(6)]
        >>> recogniser = Nearest().fit(past, ["w"] * 6)
        >>> recogniser.look_up({"a": 102.5, "b": 5.0}).known, recogniser.look_up({"a": 9000.0, "b": 5.0}).known
        (True, False)
    """

    miss: float = 0.05
    repeats: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.miss < 1:
            raise ConfigError(
                f"miss={self.miss} is no share between 0 and 1. It says how many of the workloads that were "
                "seen before may be called unknown. Pass 0.05, for instance."
            )
        if self.repeats < 2:  # noqa: PLR2004
            raise ConfigError(
                f"repeats={self.repeats} is below 2. How far repeated runs lie apart cannot be learned from fewer. "
                "Pass 5, for instance."
            )

    def fit(self, past: Sequence[Rates], groups: Sequence[str]) -> Recogniser:
        """Return what has learned past runs; see ``Similarity.fit``."""
        by = ruler(past, groups)
        rows = np.array([by.place(rates) for rates in past]).reshape(len(past), len(by.names))
        apart = _nearest_repeats(by, rows, groups)
        return _NearestRuns(by, rows, _limit(apart, self.miss), len(apart), self.repeats)


@dataclass(frozen=True, eq=False)
class _NearestRuns:
    by: Ruler
    rows: Array
    limit: float
    repeated: int
    least: int

    def look_up(self, rates: Rates) -> Match:
        distances = self.by.distances(self.by.place(rates), self.rows)
        if not np.isfinite(distances).any():
            return Match(None, math.inf, False, "no past run has rates to compare with")
        nth = int(distances.argmin())
        if self.repeated < self.least:
            why = (
                f"{count(self.repeated, 'past run')} with a repeat, of the {self.least} it takes to know how far runs "
                "of one workload lie apart"
            )
            return Match(nth, math.inf, False, why)
        score = float(distances[nth]) / self.limit
        lies = f"the nearest past run is {distances[nth]:.2g} away, and repeats lie within {self.limit:.2g}"
        like = np.flatnonzero(distances <= self.limit)
        nearest_first = like[distances[like].argsort(kind="stable")]
        return Match(nth, score, score <= 1, lies, tuple(int(one) for one in nearest_first))


def _nearest_repeats(by: Ruler, rows: Array, groups: Sequence[str]) -> list[float]:
    """Return for each run that has been repeated how far the nearest of its repeats is."""
    of = np.array(groups)
    found = []
    for nth, row in enumerate(rows):
        repeats = of == of[nth]
        repeats[nth] = False
        if repeats.any():
            found.append(float(by.distances(row, rows[repeats]).min()))
    return [distance for distance in found if math.isfinite(distance)]


def _limit(apart: Sequence[float], miss: float) -> float:
    if not apart:
        return LEAST_LIMIT
    within = math.ceil((1 - miss) * (len(apart) + 1))
    return max(sorted(apart)[min(within, len(apart)) - 1], LEAST_LIMIT)
