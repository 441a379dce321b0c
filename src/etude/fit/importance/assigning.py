"""Asks a partition for an assignment, and looks at what it gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from etude.core.errors import ConfigError, ResultError
from etude.core.text import brief
from etude.fit.importance.measures import Measure, measure_of
from etude.fit.importance.orders import Ids
from etude.fit.importance.partitions import Partition, covers
from etude.fit.importance.schedule import Schedule

SHOWN = 5
"""So many ids stand in a message."""


def check_partition(given: object) -> Partition:
    """Return what a user gave as a partition.

    Raises:
        ConfigError: It is none.
    """
    if isinstance(given, type) or not isinstance(given, Partition):
        raise ConfigError(
            f"partition={brief(given)} assigns no examples. Pass a value such as etude.partitions.Stripes(), or one of "
            "your own with assign(importance, ranks, previous=None)."
        )
    _ = schedule_of(given), wanted_by(given)
    return given


def schedule_of(partition: Partition) -> Schedule:
    """Return when a partition assigns: its ``schedule``, or the usual one.

    Raises:
        ConfigError: Its ``schedule`` is none.
    """
    found = getattr(partition, "schedule", Schedule())
    if not isinstance(found, Schedule):
        raise ConfigError(
            f"The partition {brief(partition)} has schedule={brief(found)}. Make it an etude.partitions.Schedule."
        )
    return found


def wanted_by(partition: Partition) -> Measure | None:
    """Return the measure of a partition: its ``measure``, or the usual one; None if it needs none.

    Raises:
        ConfigError: Its ``measure`` is none.
    """
    given = getattr(partition, "measure", "variance")
    return None if given is None else measure_of(given)


def assigned(
    partition: Partition, importance: npt.ArrayLike, ranks: int, previous: Sequence[npt.ArrayLike] | None = None
) -> list[Ids]:
    """Return a partition's assignment, if it is one: each example for one rank, unless it says that it does not.

    Raises:
        ResultError: It is not; the message says what is wrong with it.
    """
    n = len(np.asarray(importance))
    given = partition.assign(importance, ranks, previous)
    wrong = f"The partition {brief(partition)} gave no assignment of {n} examples to {ranks} ranks: "
    try:
        parts = [np.asarray(part) for part in given]
    except TypeError as error:
        raise ResultError(f"{wrong}it gave {brief(given)}. Return one array of ids for each rank.") from error
    if len(parts) != ranks:
        raise ResultError(f"{wrong}it gave {len(parts)} arrays. Return one array of ids for each rank.")
    for rank, part in enumerate(parts):
        if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
            raise ResultError(
                f"{wrong}rank {rank} has an array of {part.dtype} with the shape {part.shape}. Return whole numbers, "
                "one after the other."
            )
        if not part.size:
            raise ResultError(f"{wrong}rank {rank} has none. Give each rank some examples.")
    ids = np.concatenate(parts).astype(np.int64)
    outside = ids[(ids < 0) | (ids >= n)]
    if outside.size:
        raise ResultError(f"{wrong}there is no example {_some(outside)}. Ids are those from 0 to {n - 1}.")
    whole = covers(partition)
    for some in [ids] if whole else parts:
        times = np.bincount(some, minlength=n)
        if (times > 1).any():
            mend = "Give each to one rank" if whole else "Give each to a rank once"
            raise ResultError(f"{wrong}it has {_some(np.flatnonzero(times > 1))} more than once. {mend}.")
    if whole and (times == 0).any():
        raise ResultError(f"{wrong}{_some(np.flatnonzero(times == 0))} is missing. Give each to one rank.")
    return [part.astype(np.int64) for part in parts]


def _some(ids: npt.NDArray[np.integer]) -> str:
    return ", ".join(map(str, ids[:SHOWN].tolist())) + (", ..." if len(ids) > SHOWN else "")
