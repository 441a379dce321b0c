"""Examples in the order of their importance, the ranks that they are on, and how many of them change it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


def hardest_first(importance: npt.NDArray[np.float64]) -> Ids:
    """Return all ids from the highest importance to the lowest: NaN first, equal ones by id.

    Example:
        >>> hardest_first(np.array([1.0, np.nan, 2.0, np.inf, 2.0])).tolist()
        [1, 3, 2, 4, 0]
    """
    order = np.argsort(-importance, kind="stable")  # NaN comes last, in the order of ids
    nan = np.count_nonzero(np.isnan(importance))
    return np.roll(order, nan)


def rank_of(parts: Sequence[npt.ArrayLike], n: int) -> Ids:
    """Return the rank of each of ``n`` examples; -1 for one that no rank has."""
    found = np.full(n, -1, dtype=np.int64)
    for rank, part in enumerate(parts):
        ids = np.asarray(part, dtype=np.int64)
        found[ids[(ids >= 0) & (ids < n)]] = rank
    return found


def moved(previous: Sequence[npt.ArrayLike], new: Sequence[npt.ArrayLike]) -> int:
    """Return how many examples ranks have that they had not, so that they have to fetch them.

    Args:
        previous: The ids of each rank's examples, as ``Partition.assign`` returns them. A rank that
            is not there had none.
        new: Those that they have now.

    Example:
        >>> moved([[0, 1], [2, 3]], [[0, 2], [1, 3]])
        2
    """
    before, after = ([np.asarray(part, dtype=np.int64) for part in parts] for parts in (previous, new))
    n = 1 + max((int(part.max()) for part in (*before, *after) if part.size), default=0)
    fetched = 0
    for rank, part in enumerate(after):
        had = np.zeros(n, dtype=bool)
        if rank < len(before):
            had[before[rank]] = True
        fetched += int(np.count_nonzero(~had[part]))
    return fetched
