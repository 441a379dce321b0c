"""Puts it together for one rank: what is recorded, and which examples each rank has from an epoch on.

It knows no framework and no network. What other ranks saw comes through ``exchange``, once for each assignment; every
rank then computes the same assignment from the same records, and they compare what came out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from etude.core.errors import ConfigError, ResultError
from etude.fit.importance.assigning import assigned, check_partition, schedule_of, wanted_by
from etude.fit.importance.measures import score
from etude.fit.importance.orders import Ids, moved
from etude.fit.importance.partitions import Partition, seeded
from etude.fit.importance.records import Book, merged

Exchange = Callable[[bytes], Sequence[bytes]]
"""Gives the bytes of this rank to all, and returns those of all ranks, rank 0's first."""


class Assignment(NamedTuple):
    """Which examples each rank has.

    Attributes:
        parts: The ids of each rank's examples, ascending.
        moved: How many examples ranks have that they had not before; of the first assignment, all.
        importance: Of each example; None if the partition needs none.
        notes: What the user should know.
    """

    parts: list[Ids]
    moved: int
    importance: npt.NDArray[np.float64] | None
    notes: tuple[str, ...]


class Tracker:
    """What a rank knows of the examples.

    Args:
        partition: The user's.
        n: How many examples there are.
        ranks: How many ranks.
        exchange: How they exchange bytes.
        seed: The trial's seed.
        epochs: How many epochs there are to be; None if that is not known.

    Raises:
        ConfigError: The partition is none, or there are more ranks than examples.
    """

    def __init__(
        self, partition: object, *, n: int, ranks: int, exchange: Exchange, seed: int, epochs: int | None = None
    ) -> None:
        if ranks > n:
            raise ConfigError(
                f"ranks={ranks} are more than the {n} examples, so that a rank would have none. Pass ranks<={n}."
            )
        self._partition: Partition = seeded(check_partition(partition), seed)
        self._schedule, self._measure = schedule_of(self._partition), wanted_by(self._partition)
        self._n, self._ranks, self._epochs, self._exchange = n, ranks, epochs, exchange
        self._book = Book(n)
        self._parts: list[Ids] | None = None
        self._importance: npt.NDArray[np.float64] | None = None

    @property
    def parts(self) -> list[Ids] | None:
        """The ids of each rank's examples; None in the warm-up, where every rank may have any."""
        return self._parts

    @property
    def needs(self) -> frozenset[str]:
        """The aspects that must be recorded."""
        return self._measure.needs if self._measure is not None else frozenset()

    @property
    def wants(self) -> frozenset[str]:
        """Those that are recorded where the loss is one of classes."""
        return self._measure.wants if self._measure is not None else frozenset()

    def records(self, epoch: int) -> bool:
        """Say whether what is seen in an epoch has to be recorded."""
        return self._measure is not None and self._schedule.records(epoch, epochs=self._epochs)

    @property
    def assigns(self) -> bool:
        """Whether it assigns anything in as many epochs as there are to be."""
        n = self._epochs
        return n is None or any(self._schedule.assigns(epoch, epochs=n) for epoch in range(n))

    def saw(self, epoch: int, ids: npt.ArrayLike, values: Mapping[str, npt.ArrayLike]) -> None:
        """Take what this rank saw in an epoch."""
        self._book.write(epoch, ids, values)

    def begin(self, epoch: int) -> Assignment | None:
        """Return the assignment that holds from this epoch on, if it begins one; all ranks have to call it.

        Raises:
            ResultError: The partition or its measure gave nothing that can be used, or ranks came to different ends.
        """
        if not self._schedule.assigns(epoch, epochs=self._epochs):
            return None
        importance: npt.NDArray[np.float64] | None = None
        notes: tuple[str, ...] = ()
        if self._measure is not None:
            uses = self._schedule.uses(epoch)
            packs = self._exchange(self._book.packed(uses))
            records = merged(packs, n=self._n, epochs=uses)
            if records.empty:
                raise ResultError(
                    f"No loss of any example was recorded in the epochs {uses.start} to {uses.stop - 1}, so there is "
                    "nothing to assign examples by. Wrap the loss that trains: criterion = run.criterion(criterion)."
                )
            importance, notes = score(self._measure, records)
            if self._schedule.window == "interval":
                self._book.forget(before=epoch)
        before, self._importance = self._parts, importance
        self._parts = self._assigned(before)
        self._compare(self._parts)
        return Assignment(self._parts, moved(before or [], self._parts), importance, notes)

    def _assigned(self, before: list[Ids] | None) -> list[Ids]:
        given = self._importance if self._importance is not None else np.zeros(self._n)
        return assigned(self._partition, given, self._ranks, before)

    def state(self) -> dict[str, Any]:
        """Return what an attempt needs to go on: bytes and arrays."""
        return {"book": self._book.packed(), "parts": self._parts, "importance": self._importance}

    def hand_over(self) -> bytes:
        """Return what this rank saw, for another one to keep, and forget it."""
        packed = self._book.packed()
        self._book = Book(self._n)
        return packed

    def take_over(self, packed: bytes) -> None:
        """Take in what another rank handed over."""
        self._book.unpack(packed)

    def restore(self, states: Sequence[Mapping[str, Any]], *, books: bool) -> None:
        """Go on from what the ranks had saved. Were they more or fewer, examples are assigned again by what is known.

        Args:
            states: Of each rank that there was.
            books: Whether this rank takes what they all saw; one of the ranks has to.
        """
        for state in states:
            if books:
                self._book.unpack(state["book"])
            if state["parts"] is not None:
                self._parts = [np.asarray(part, dtype=np.int64) for part in state["parts"]]
                self._importance = state["importance"]
        if self._parts is not None and len(self._parts) != self._ranks:
            self._parts = self._assigned(self._parts)

    def _compare(self, parts: Sequence[Ids]) -> None:
        told = hashlib.sha256(b";".join(part.tobytes() for part in parts)).digest()
        others = [rank for rank, other in enumerate(self._exchange(told)) if other != told]
        if others:
            raise ResultError(
                f"Rank {others[0]} came to another assignment of the examples than this one, from the same records. "
                f"The partition {self._partition!r} or its measure gives other answers to equal questions: let it draw "
                "from a generator with a fixed seed."
            )
