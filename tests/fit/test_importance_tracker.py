"""A training of several ranks, in threads that exchange bytes: who has which examples from which epoch on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from etude.core.errors import ConfigError, ResultError
from etude.fit.importance.tracker import Assignment, Tracker
from etude.frameworks.aspects import LOSS
from etude.partitions import Random, StickyStripes, Stripes

N = 40


class Hall:
    """Where ranks meet."""

    def __init__(self, ranks: int) -> None:
        self._barrier = threading.Barrier(ranks, timeout=20)
        self._brought = [b""] * ranks
        self.bytes_by_meeting: list[int] = []

    def door(self, rank: int) -> Callable[[bytes], list[bytes]]:
        def exchange(brought: bytes) -> list[bytes]:
            self._brought[rank] = brought
            self._barrier.wait()
            found = list(self._brought)
            if rank == 0:
                self.bytes_by_meeting.append(sum(map(len, found)))
            self._barrier.wait()
            return found

        return exchange

    def let_in(self, run: Callable[[int], Any]) -> list[Any]:
        """Return what each rank's run gives; raise what went wrong first, and not that the others waited in vain."""

        def guarded(rank: int) -> Any:
            try:
                return run(rank)
            except BaseException:
                self._barrier.abort()
                raise

        with ThreadPoolExecutor(self._barrier.parties) as pool:
            futures = [pool.submit(guarded, rank) for rank in range(self._barrier.parties)]
        wrong = [error for future in futures if (error := future.exception()) is not None]
        if wrong:
            raise next((error for error in wrong if not isinstance(error, threading.BrokenBarrierError)), wrong[0])
        return [future.result() for future in futures]


def loss_of(epoch: int, ids: Any) -> Any:
    return np.sin(np.asarray(ids) * 1.7 + epoch) + 1


def train(partition: Any, *, ranks: int, epochs: int, hall: Hall | None = None) -> list[list[Assignment | None]]:
    """Return for each rank what its tracker said before each epoch."""
    hall = hall or Hall(ranks)

    def rank_of(rank: int) -> list[Assignment | None]:
        tracker = Tracker(partition, n=N, ranks=ranks, exchange=hall.door(rank), seed=5, epochs=epochs)
        told = []
        for epoch in range(epochs):
            told.append(tracker.begin(epoch))
            shuffled = np.random.default_rng(epoch).permutation(N)
            ids = shuffled[rank::ranks] if tracker.parts is None else tracker.parts[rank]
            if tracker.records(epoch):
                for batch in np.array_split(ids, 3):
                    tracker.saw(epoch, batch, {LOSS: loss_of(epoch, batch)})
        return told

    return hall.let_in(rank_of)


def test_examples_are_assigned_by_what_all_ranks_saw_in_the_epochs_that_count() -> None:
    partition = Stripes(warmup=3, interval=2, ignore=1, measure="mean")
    told = train(partition, ranks=3, epochs=8)
    assert [epoch for epoch in range(8) if told[0][epoch]] == [3, 5]
    for epoch, uses in ((3, (1, 2)), (5, (3, 4))):
        mean = np.mean([loss_of(e, np.arange(N)).astype(np.float32) for e in uses], axis=0)
        expected = partition.assign(mean, 3)
        for rank in range(3):
            found = told[rank][epoch]
            assert found is not None
            assert [part.tolist() for part in found.parts] == [part.tolist() for part in expected]
            np.testing.assert_allclose(found.importance, mean, rtol=1e-6)  # type: ignore[arg-type]
    first, second = told[0][3], told[0][5]
    assert first is not None
    assert second is not None
    assert first.moved == N
    assert 0 < second.moved < N


def test_with_one_rank_the_importance_is_the_same() -> None:
    partition = StickyStripes(warmup=2, interval=1, ignore=0, window="all")
    one, four = (train(partition, ranks=ranks, epochs=5)[0] for ranks in (1, 4))
    for alone, together in zip(one, four, strict=True):
        assert (alone is None) == (together is None)
        if alone is not None and together is not None:
            np.testing.assert_array_equal(alone.importance, together.importance)  # type: ignore[arg-type]


def test_ranks_meet_twice_for_an_assignment_and_never_else() -> None:
    hall = Hall(2)
    train(Stripes(warmup=3, interval=2, ignore=1), ranks=2, epochs=8, hall=hall)
    assert len(hall.bytes_by_meeting) == 2 * 2
    assert hall.bytes_by_meeting[1] == 2 * 32


def test_random_records_nothing() -> None:
    hall = Hall(2)
    told = train(Random(warmup=1, interval=3), ranks=2, epochs=7, hall=hall)
    assert [epoch for epoch in range(7) if told[0][epoch]] == [1, 4]
    assert all(size == 2 * 32 for size in hall.bytes_by_meeting)
    tracker = Tracker(Random(), n=N, ranks=2, exchange=hall.door(0), seed=1)
    assert (tracker.needs, tracker.wants, tracker.records(6)) == (frozenset(), frozenset(), False)


def test_a_run_goes_on_from_its_state_with_other_ranks() -> None:
    partition = Stripes(warmup=2, interval=2, ignore=0, measure="mean")
    whole = train(partition, ranks=1, epochs=6)[0][4]
    assert whole is not None
    states = []
    for rank in range(2):  # two ranks that end after epoch 2
        tracker = Tracker(partition, n=N, ranks=2, exchange=lambda told: [told, told], seed=5)
        tracker.saw(2, np.arange(N)[rank::2], {LOSS: loss_of(2, np.arange(N)[rank::2])})
        states.append(tracker.state())
    hall = Hall(4)

    def go_on(rank: int) -> Assignment | None:
        tracker = Tracker(partition, n=N, ranks=4, exchange=hall.door(rank), seed=5)
        tracker.restore(states, books=rank == 0)
        ids = np.arange(N)[rank::4]
        tracker.saw(3, ids, {LOSS: loss_of(3, ids)})
        return tracker.begin(4)

    for one in hall.let_in(go_on):
        assert one is not None
        np.testing.assert_array_equal(one.importance, whole.importance)
        assert [len(part) for part in one.parts] == [10] * 4


def test_a_run_that_goes_on_within_an_interval_has_examples_for_all_its_ranks() -> None:
    partition = Stripes(warmup=1, interval=5, ignore=0, measure="mean")

    def tracker(ranks: int) -> Tracker:
        return Tracker(partition, n=N, ranks=ranks, exchange=lambda told: [told] * ranks, seed=5)

    first = tracker(2)
    first.saw(0, np.arange(N), {LOSS: loss_of(0, np.arange(N))})
    begun = first.begin(1)
    assert begun is not None
    for ranks in (1, 2, 4):
        again = tracker(ranks)
        again.restore([first.state(), first.state()], books=False)
        assert again.parts is not None
        expected = partition.assign(begun.importance, ranks)  # type: ignore[arg-type]
        assert [part.tolist() for part in again.parts] == [part.tolist() for part in expected]


def test_where_no_loss_was_recorded_nothing_is_assigned() -> None:
    tracker = Tracker(Stripes(warmup=3, interval=2, ignore=1), n=N, ranks=2, exchange=lambda told: [told] * 2, seed=0)
    with pytest.raises(ResultError) as refused:
        tracker.begin(3)
    assert str(refused.value) == (
        "No loss of any example was recorded in the epochs 1 to 2, so there is nothing to assign examples by. "
        "Wrap the loss that trains: criterion = run.criterion(criterion)."
    )


class Unsteady:
    """Gives each rank another answer."""

    def __init__(self) -> None:
        self._shifts = iter(range(1000))

    def __repr__(self) -> str:
        return "Unsteady()"

    def assign(self, importance: Any, ranks: int, previous: Any = None) -> Any:
        return np.array_split(np.roll(np.arange(len(importance)), next(self._shifts)), ranks)


def test_ranks_that_disagree_end_with_an_error() -> None:
    with pytest.raises(ResultError, match="came to another assignment of the examples than this one, from the same"):
        train(Unsteady(), ranks=2, epochs=12)


def test_more_ranks_than_examples_are_refused_before_the_first_step() -> None:
    with pytest.raises(ConfigError) as refused:
        Tracker(Stripes(), n=3, ranks=4, exchange=lambda told: [told], seed=0)
    assert str(refused.value) == (
        "ranks=4 are more than the 3 examples, so that a rank would have none. Pass ranks<=3."
    )
