"""What every partition promises, as one check that a third-party partition runs in its own tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cloudpickle
import numpy as np
import numpy.typing as npt

from etude.core.errors import ConfigError, ResultError
from etude.fit.importance import assigning
from etude.fit.importance.orders import Ids
from etude.fit.importance.partitions import Partition

Importance = npt.NDArray[np.float64]


def check_partition(make: Callable[[], Partition], *, examples: int = 50, ranks: int = 4) -> list[list[Ids]]:
    """Check what every partition promises.

    It gives each example to one rank, and each rank some, unless it has ``covers = False``; equal answers to equal
    questions, on every rank and after an interruption; and it changes nothing of what it is shown. It is asked for
    2 to ``ranks`` ranks, with importance of every kind, with as many examples as ranks, after an assignment of its
    own, and after one for another number of ranks, as when a trial goes on with more ranks or fewer.

    Args:
        make: Returns a new partition each time.
        examples: How many there are.
        ranks: How many ranks at most, 2 or more, and no more than examples.

    Returns:
        Its assignments to ``ranks`` ranks, one after the other: the ids of each rank's examples.

    Raises:
        AssertionError: A promise was broken; the message says which.

    Example:
        >>> from etude.partitions import Stripes
        >>> [part.tolist() for part in check_partition(Stripes, examples=4, ranks=2)[0]]
        [[1, 3], [0, 2]]
    """
    try:
        needs = assigning.wanted_by(assigning.check_partition(make())) is not None
        first, *_ = [
            _intervals(make, _kinds(n) if needs else [np.zeros(n)] * 2, w, _evenly(n, w % ranks + 1))
            for n in (examples, ranks)
            for w in range(ranks, 1, -1)
        ]
    except (ConfigError, ResultError) as error:
        raise AssertionError(str(error)) from error
    return first


def _intervals(
    make: Callable[[], Partition], kinds: Sequence[Importance], ranks: int, others: list[Ids]
) -> list[list[Ids]]:
    """Return the assignments of a training; ``others`` is one for another number of ranks."""
    partition, found = make(), list[list[Ids]]()
    for importance in kinds:
        for previous in (others, found[-1] if found else None):  # the second is the training's own
            parts = _asked(partition, importance, ranks, previous)
            resumed = cloudpickle.loads(cloudpickle.dumps(make()))
            assert _same(_asked(partition, importance, ranks, previous), parts), (
                "asked the same again, a partition gives the same again"
            )
            assert _same(_asked(resumed, importance, ranks, previous), parts), (
                "a partition that is made anew, as on another rank and after an interruption, gives what one gives "
                "that was there from the start: it goes by importance, ranks and previous, and by nothing that it keeps"
            )
        found.append(parts)
    return found


def _asked(partition: Partition, importance: Importance, ranks: int, previous: list[Ids] | None) -> list[Ids]:
    seen, before = importance.copy(), None if previous is None else [part.copy() for part in previous]
    found = assigning.assigned(partition, seen, ranks, before)
    assert np.array_equal(seen, importance, equal_nan=True), "a partition changes nothing of the importance it is given"
    assert before is None or previous is None or _same(before, previous), "a partition leaves previous as it is"
    return found


def _kinds(n: int) -> list[Importance]:
    """Return importance of every kind: different for each, of which some have nothing to do with the one before."""
    drawing = np.random.default_rng(0)
    odd = drawing.random(n)
    odd[:2] = np.nan, np.inf
    return [drawing.random(n), drawing.random(n), np.zeros(n), odd, -drawing.random(n)]


def _evenly(n: int, ranks: int) -> list[Ids]:
    return [np.arange(rank, n, ranks) for rank in range(ranks)]


def _same(one: Sequence[Ids], other: Sequence[Ids]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))
