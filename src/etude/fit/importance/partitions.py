"""Partitions: which rank trains which examples, by their importance.

A partition is a small value that can be used alone. It takes the importance of N examples and gives one array of ids
for each rank: each example once, and as many to each rank as to any other, or one more. The ids of a rank ascend, since
a partition is a set: in which order they are trained is drawn anew in every epoch.

**Hardest first.** Examples are ranked from the highest importance to the lowest. The paper leaves the direction open;
its authors' program sorts like this. NaN is higher than infinity, and examples that are equal are ranked by their id.

    >>> Stripes().assign([0.1, 0.9, 0.5, 0.3], ranks=2)
    [array([1, 3]), array([0, 2])]
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from etude.core.errors import ConfigError
from etude.core.streams import stream_seed
from etude.core.text import brief
from etude.fit.importance.measures import measure_of
from etude.fit.importance.orders import Ids, hardest_first, rank_of
from etude.fit.importance.schedule import Schedule, Window


@runtime_checkable
class Partition(Protocol):
    """Assigns examples to ranks. Equal arguments give equal answers, on every rank.

    One of a user's own may also have ``schedule``, a ``Schedule``, and ``measure``; else it has those of ``Stripes()``.
    One with ``covers = False`` may give an example to several ranks, or to none.
    """

    def assign(
        self, importance: npt.ArrayLike, ranks: int, previous: Sequence[npt.ArrayLike] | None = None
    ) -> Sequence[npt.ArrayLike]:
        """Return the ids of each rank's examples.

        Args:
            importance: A number for each example, shape ``(N,)``; the higher, the harder, and NaN is the hardest.
            ranks: How many there are.
            previous: What it returned the last time; None the first time.

        Returns:
            An array of ids for each rank: each of 0 to N - 1 once.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """What partitions that need no importance have in common.

    Args:
        warmup: Epochs before the first assignment; 0 for none.
        interval: Epochs for which an assignment holds.
        seed: What it draws with, beside ``previous``; None for that of the trial, and for 0 where it is used alone.
    """

    warmup: int = 10
    interval: int = 15
    seed: int | None = None

    def __post_init__(self) -> None:
        _ = self.schedule
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            name = type(self).__name__
            raise ConfigError(f"{name}(seed={brief(self.seed)}) is no whole number. Pass one, or leave it out.")

    @property
    def schedule(self) -> Schedule:
        """When it assigns."""
        return Schedule(self.warmup, self.interval, ignore=0)

    @property
    def measure(self) -> None:
        """None: it needs no importance."""
        return None

    def _stream(self, n: int, ranks: int, previous: Sequence[npt.ArrayLike] | None) -> np.random.Generator:
        """Return what it draws from after ``previous``."""
        told = hashlib.sha256()
        for part in previous or ():
            told.update(np.ascontiguousarray(part, dtype=np.int64).tobytes() + b";")
        return np.random.default_rng(
            stream_seed(self.seed or 0, "partition", n, ranks, told.hexdigest() if previous else "first")
        )


@dataclass(frozen=True, kw_only=True)
class Random(_Drawn):
    """Any examples for any rank, drawn anew for each interval. What the others are to be better than.

    Args:
        warmup: Epochs before the first assignment; 0 for none.
        interval: Epochs for which an assignment holds.
        seed: What it draws with, beside ``previous``; None for that of the trial, and for 0 where it is used alone.
    """

    def assign(
        self, importance: npt.ArrayLike, ranks: int, previous: Sequence[npt.ArrayLike] | None = None
    ) -> list[Ids]:
        """Return the ids of each rank's examples; only the length of ``importance`` counts."""
        n = len(_checked(importance, ranks))
        drawn = self._stream(n, ranks, previous).permutation(n)
        return [np.sort(part) for part in np.array_split(drawn, ranks)]


@dataclass(frozen=True, kw_only=True)
class RandomSubsets(_Drawn):
    """A random subset of all examples for each rank, drawn anew for each interval: the second one to be better than.

    Ranks draw by themselves, so that two may have the same example, and others none: each has as many as in ``Random``.

    Args:
        warmup: Epochs before the first assignment; 0 for none.
        interval: Epochs for which an assignment holds.
        seed: What it draws with, beside ``previous``; None for that of the trial, and for 0 where it is used alone.

    Source: Okanovic et al. 2024, "Repeated Random Sampling for Minimizing the Time-to-Accuracy of Learning", ICLR, with
    replacement between epochs. There one machine trains a subset; here each rank does.
    """

    warmup: int = 0
    interval: int = 1

    covers: ClassVar[bool] = False

    def assign(
        self, importance: npt.ArrayLike, ranks: int, previous: Sequence[npt.ArrayLike] | None = None
    ) -> list[Ids]:
        """Return the ids of each rank's examples; only the length of ``importance`` counts."""
        n = len(_checked(importance, ranks))
        drawing = self._stream(n, ranks, previous)
        sizes = [len(part) for part in np.array_split(np.arange(n), ranks)]
        return [np.sort(drawing.permutation(n)[:size]) for size in sizes]


@dataclass(frozen=True, kw_only=True)
class _Ranked:
    """What partitions by importance have in common.

    Args:
        warmup: Epochs before the first assignment, 1 or more.
        interval: Epochs for which an assignment holds, 1 or more.
        ignore: So many epochs at the beginning do not count; fewer than ``warmup``.
        measure: How important an example is: a name, a value of ``etude.measures``, or a function of ``Records``.
        window: Which epochs count after the first assignment: those of the last ``"interval"``, or ``"all"``.
    """

    warmup: int = 10
    interval: int = 15
    ignore: int = 5
    measure: Any = "variance"
    window: Window = "interval"

    def __post_init__(self) -> None:
        _ = self.schedule
        measure_of(self.measure)
        if self.ignore >= self.warmup:
            raise ConfigError(
                f"{type(self).__name__}(warmup={self.warmup}, ignore={self.ignore}) leaves no epoch by which examples "
                f"could be assigned. Pass an ignore below {max(self.warmup, 1)}, or a longer warm-up."
            )

    @property
    def schedule(self) -> Schedule:
        """When it assigns."""
        return Schedule(self.warmup, self.interval, self.ignore, self.window)


@dataclass(frozen=True, kw_only=True)
class Stripes(_Ranked):
    """Hands the ranked examples out in turn, so that each rank has hard ones and easy ones: the k-th to rank k mod W.

    Args:
        warmup: Epochs before the first assignment, 1 or more.
        interval: Epochs for which an assignment holds, 1 or more.
        ignore: So many epochs at the beginning do not count; fewer than ``warmup``.
        measure: How important an example is: a name, a value of ``etude.measures``, or a function of ``Records``.
        window: Which epochs count after the first assignment: those of the last ``"interval"``, or ``"all"``.

    Source: equation 2 of Sheikholeslami et al. 2023, DAIS, pages 74-89. It holds for any number of examples.
    """

    def assign(
        self, importance: npt.ArrayLike, ranks: int, previous: Sequence[npt.ArrayLike] | None = None
    ) -> list[Ids]:
        """Return the ids of each rank's examples."""
        order = hardest_first(_checked(importance, ranks))
        return [np.sort(order[rank::ranks]) for rank in range(ranks)]


@dataclass(frozen=True, kw_only=True)
class Blocks(_Ranked):
    """Cuts the ranked examples into blocks: rank 0 has the hardest, and the last rank the easiest.

    Args:
        warmup: Epochs before the first assignment, 1 or more.
        interval: Epochs for which an assignment holds, 1 or more.
        ignore: So many epochs at the beginning do not count; fewer than ``warmup``.
        measure: How important an example is: a name, a value of ``etude.measures``, or a function of ``Records``.
        window: Which epochs count after the first assignment: those of the last ``"interval"``, or ``"all"``.

    Source: equation 3 of Sheikholeslami et al. 2023, DAIS, pages 74-89. Where N is not divisible by W, N / W in it is
    read as the fraction that it is: then sizes are within 1, and no example is left over.
    """

    def assign(
        self, importance: npt.ArrayLike, ranks: int, previous: Sequence[npt.ArrayLike] | None = None
    ) -> list[Ids]:
        """Return the ids of each rank's examples."""
        order = hardest_first(_checked(importance, ranks))
        ends = [-(-rank * len(order) // ranks) for rank in range(ranks + 1)]  # the first k with k >= rank * N / W
        return [np.sort(order[first:end]) for first, end in itertools.pairwise(ends)]


@dataclass(frozen=True, kw_only=True)
class SnakeStripes(_Ranked):
    """Stripes that turn round: every other stripe is handed out from the last rank to the first.

    Plain stripes give rank 0 the hardest example of every stripe. Here all ranks have nearly the same sum.

    Args:
        warmup: Epochs before the first assignment, 1 or more.
        interval: Epochs for which an assignment holds, 1 or more.
        ignore: So many epochs at the beginning do not count; fewer than ``warmup``.
        measure: How important an example is: a name, a value of ``etude.measures``, or a function of ``Records``.
        window: Which epochs count after the first assignment: those of the last ``"interval"``, or ``"all"``.
    """

    def assign(
        self, importance: npt.ArrayLike, ranks: int, previous: Sequence[npt.ArrayLike] | None = None
    ) -> list[Ids]:
        """Return the ids of each rank's examples."""
        order = hardest_first(_checked(importance, ranks))
        stripe, place = np.divmod(np.arange(len(order)), ranks)
        return _by_rank(order, np.where(stripe % 2 == 0, place, ranks - 1 - place), ranks)


@dataclass(frozen=True, kw_only=True)
class StickyStripes(_Ranked):
    """Stripes that leave as many examples as possible on the rank where they are, so that fewer have to be moved.

    Each rank still has one example of every stripe. If several examples of a stripe were on one rank, the hardest of
    them stays; those that cannot stay go to the ranks that have none of the stripe, the hardest to the first. If
    importance has changed beyond recognition, the expected share that stays is 1 - (1 - 1/W)^W: 0.68 with 4 ranks,
    where plain stripes keep 0.25.

    Args:
        warmup: Epochs before the first assignment, 1 or more.
        interval: Epochs for which an assignment holds, 1 or more.
        ignore: So many epochs at the beginning do not count; fewer than ``warmup``.
        measure: How important an example is: a name, a value of ``etude.measures``, or a function of ``Records``.
        window: Which epochs count after the first assignment: those of the last ``"interval"``, or ``"all"``.
    """

    def assign(
        self, importance: npt.ArrayLike, ranks: int, previous: Sequence[npt.ArrayLike] | None = None
    ) -> list[Ids]:
        """Return the ids of each rank's examples. An example whose rank is gone may go anywhere."""
        order = hardest_first(_checked(importance, ranks))
        n = len(order)
        stripe, place = np.divmod(np.arange(n), ranks)
        if previous is None:
            return _by_rank(order, place, ranks)
        was = rank_of(previous, n)[order]
        known = np.flatnonzero((was >= 0) & (was < ranks))
        # A seat is a rank in a stripe. Who comes first to the seat of its own rank keeps it.
        taken, first = np.unique(stripe[known] * ranks + was[known], return_index=True)
        seat = np.full(n, -1, dtype=np.int64)
        seat[known[first]] = taken
        free = np.ones(-(-n // ranks) * ranks, dtype=bool)
        free[taken] = False
        moving = seat < 0
        # As many of each stripe are moving as it has seats left, but for the last stripe, which may have more seats.
        seat[moving] = np.flatnonzero(free)[: np.count_nonzero(moving)]
        return _by_rank(order, seat % ranks, ranks)


def covers(partition: Partition) -> bool:
    """Say whether a partition gives each example to one rank; a value with ``covers = False`` need not."""
    return bool(getattr(partition, "covers", True))


def seeded(partition: Partition, seed: int) -> Partition:
    """Return the partition with the trial's seed, if it draws and has no seed of its own."""
    if isinstance(partition, _Drawn) and partition.seed is None:
        return replace(partition, seed=seed)
    return partition


def _checked(importance: npt.ArrayLike, ranks: int) -> npt.NDArray[np.float64]:
    """Return importance as an array of doubles.

    Raises:
        ConfigError: It is none, or there are not as many examples as ranks.
    """
    try:
        found = np.asarray(importance, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"importance={brief(importance)} is no array of numbers. Pass one for each example."
        ) from error
    if found.ndim != 1:
        raise ConfigError(
            f"importance has the shape {found.shape}. Pass one number for each example, in the order of their ids."
        )
    if isinstance(ranks, bool) or not isinstance(ranks, int | np.integer) or ranks < 1:
        raise ConfigError(f"ranks={brief(ranks)} is no number of ranks. Pass a whole number of 1 or more.")
    if ranks > len(found):
        raise ConfigError(
            f"ranks={ranks} are more than the {len(found)} examples, so that a rank would have none. "
            f"Pass ranks<={len(found)}."
        )
    return found


def _by_rank(order: Ids, ranks_in_order: Ids, ranks: int) -> list[Ids]:
    """Return the ids of each rank, given the rank of each place in the order."""
    return [np.sort(order[ranks_in_order == rank]) for rank in range(ranks)]
