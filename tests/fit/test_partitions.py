"""Partitions: each example once, sizes within one, the equations of the paper, and what stays where it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import etude
from etude.core.errors import ConfigError, ResultError
from etude.fit.importance.assigning import assigned, check_partition, schedule_of, wanted_by
from etude.fit.importance.balance import imbalance
from etude.fit.importance.measures import Variance
from etude.fit.importance.orders import hardest_first, moved, rank_of
from etude.fit.importance.partitions import seeded
from etude.fit.importance.schedule import Schedule
from etude.partitions import Blocks, Random, RandomSubsets, SnakeStripes, StickyStripes, Stripes

EVERY = (Random(seed=3), Stripes(), Blocks(), SnakeStripes(), StickyStripes())

numbers = st.one_of(
    st.floats(0, 4).map(lambda x: round(x, 1)), st.just(math.nan), st.just(math.inf), st.just(0.0), st.just(-0.0)
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], int, list[float]]:
    """Importance, ranks, and importance of an interval before."""
    n = draw(st.integers(1, 60))
    lists = st.lists(numbers, min_size=n, max_size=n)
    return draw(lists), draw(st.integers(1, min(n, 9))), draw(lists)


def by_hand(importance: Sequence[float]) -> list[int]:
    """Return the order as a sort in plain Python gives it."""

    def key(nth: int) -> tuple[bool, float, int]:
        value = importance[nth]
        return (not math.isnan(value), 0.0 if math.isnan(value) else -value, nth)

    return sorted(range(len(importance)), key=key)


@given(cases())
@settings(max_examples=300, deadline=None)
def test_every_partition_gives_each_example_to_one_rank_and_all_ranks_as_many(
    case: tuple[list[float], int, list[float]],
) -> None:
    importance, ranks, before = case
    for partition in EVERY:
        previous = assigned(partition, before, ranks)
        for found in (previous, assigned(partition, importance, ranks, previous)):
            sizes = [len(part) for part in found]
            assert max(sizes) - min(sizes) <= 1
            assert sorted(np.concatenate(found).tolist()) == list(range(len(importance)))
            assert all((np.diff(part) > 0).all() for part in found)


@given(cases())
@settings(max_examples=200, deadline=None)
def test_stripes_and_blocks_are_the_equations_of_the_paper(case: tuple[list[float], int, list[float]]) -> None:
    importance, ranks, _ = case
    n = len(importance)
    order = by_hand(importance)
    assert hardest_first(np.array(importance)).tolist() == order
    index = {example: k for k, example in enumerate(order)}
    for rank, part in enumerate(Stripes().assign(importance, ranks)):
        assert set(part.tolist()) == {e for e in range(n) if index[e] % ranks == rank}
    for rank, part in enumerate(Blocks().assign(importance, ranks)):
        assert set(part.tolist()) == {e for e in range(n) if rank * n <= index[e] * ranks < (rank + 1) * n}


@given(cases())
@settings(max_examples=200, deadline=None)
def test_sticky_stripes_keep_as_many_of_each_stripe_as_there_are_ranks_among_them(
    case: tuple[list[float], int, list[float]],
) -> None:
    importance, ranks, before = case
    n = len(importance)
    previous = Random(seed=1).assign(before, ranks)
    was, order = rank_of(previous, n), by_hand(importance)
    new = StickyStripes().assign(importance, ranks, previous)
    now = rank_of(new, n)
    stripes = [order[at : at + ranks] for at in range(0, n, ranks)]
    for stripe in stripes:
        assert len({now[e] for e in stripe}) == len(stripe)
        stayed = [e for e in stripe if now[e] == was[e]]
        assert len(stayed) == len({was[e] for e in stripe})
        for e in stripe:  # the hardest of a rank is the one that stays
            assert was[e] not in {was[f] for f in stripe[: stripe.index(e)]} or e not in stayed
    assert moved(previous, new) == n - sum(len({was[e] for e in stripe}) for stripe in stripes)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_share_that_stays_is_the_expected_one(ranks: int) -> None:
    draws = np.random.default_rng(0)
    n = 40_000
    previous: Any = StickyStripes().assign(draws.random(n), ranks)
    sticky = StickyStripes().assign(draws.random(n), ranks, previous)
    stripes = Stripes().assign(draws.random(n), ranks, previous)
    assert 1 - moved(previous, sticky) / n == pytest.approx(1 - (1 - 1 / ranks) ** ranks, abs=0.01)
    assert 1 - moved(previous, stripes) / n == pytest.approx(1 / ranks, abs=0.01)


def test_nothing_moves_where_the_stripes_have_the_same_examples() -> None:
    importance = np.arange(12.0)
    previous = Stripes().assign(importance, 4)
    within = importance.reshape(3, 4)[:, ::-1].ravel()  # another order within each stripe
    assert moved(previous, StickyStripes().assign(within, 4, previous)) == 0
    assert moved(previous, Stripes().assign(within, 4, previous)) > 0


def test_sticky_stripes_go_on_with_another_number_of_ranks() -> None:
    importance = np.arange(20.0)
    for ranks in (2, 5):
        new = StickyStripes().assign(importance, ranks, Stripes().assign(importance, 4))
        assert sorted(len(part) for part in new) == [20 // ranks] * ranks


def test_snake_stripes_balance_better() -> None:
    draws = np.random.default_rng(0)

    def imbalance(partition: Any, ranks: int) -> float:
        found = []
        for _ in range(50):
            losses = draws.lognormal(size=1000)
            sums = [losses[part].sum() for part in partition.assign(losses, ranks)]
            found.append(max(sums) / np.mean(sums) - 1)
        return float(np.mean(found))

    for ranks in (4, 8):
        assert imbalance(SnakeStripes(), ranks) < 0.85 * imbalance(Stripes(), ranks)
    assert [part.tolist() for part in SnakeStripes().assign([6, 5, 4, 3, 2, 1], 2)] == [[0, 3, 4], [1, 2, 5]]


def test_figure_4_of_the_paper() -> None:
    importance = np.arange(8.0, 0.0, -1.0)  # eight examples, indexed in order of importance
    assert [part.tolist() for part in Stripes().assign(importance, 4)] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert [part.tolist() for part in Blocks().assign(importance, 4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_random_draws_from_its_seed_and_anew_each_interval() -> None:
    def lists(parts: Sequence[npt.ArrayLike]) -> list[list[int]]:
        return [np.asarray(part).tolist() for part in parts]

    first = Random(seed=1).assign(np.zeros(50), 4)
    assert lists(Random(seed=1).assign(np.ones(50), 4)) == lists(first)
    assert lists(Random(seed=2).assign(np.zeros(50), 4)) != lists(first)
    second = Random(seed=1).assign(np.zeros(50), 4, first)
    assert lists(second) != lists(first)
    assert lists(second) == lists(Random(seed=1).assign(np.zeros(50), 4, first))
    assert seeded(Random(), 7) == Random(seed=7)
    assert seeded(Random(seed=1), 7) == Random(seed=1)
    assert seeded(Stripes(), 7) == Stripes()


def test_random_subsets_are_as_large_as_parts_and_each_rank_draws_by_itself() -> None:
    subsets, n = RandomSubsets(seed=3), 1001
    first = assigned(subsets, np.zeros(n), 4)
    assert [len(part) for part in first] == [251, 250, 250, 250]
    assert all((np.diff(part) > 0).all() for part in first)
    reached = len(np.unique(np.concatenate(first))) / n
    assert reached == pytest.approx(1 - (1 - 1 / 4) ** 4, abs=0.03)  # so many of all in expectation, and not all
    again = assigned(subsets, np.zeros(n), 4, first)
    assert moved(first, again) == sum(len(np.setdiff1d(new, old)) for old, new in zip(first, again, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(first, subsets.assign(np.zeros(n), 4), strict=True))
    assert seeded(RandomSubsets(), 7) == RandomSubsets(seed=7)
    assert [stage.first for stage in subsets.schedule.stages(epochs=3)] == [0, 1, 2]
    with pytest.raises(ConfigError, match=r"RandomSubsets.*is no whole number"):
        RandomSubsets(seed="x")  # type: ignore[arg-type]


def test_a_partition_that_says_so_need_not_give_each_example_to_one_rank() -> None:
    class Few(Own):
        covers = False

    assert [part.tolist() for part in assigned(Few([[0, 1], [1]]), np.zeros(3), 2)] == [[0, 1], [1]]
    with pytest.raises(ResultError, match="it has 1 more than once"):
        assigned(Few([[0], [1, 1]]), np.zeros(3), 2)


def test_examples_that_a_rank_had_not_have_moved() -> None:
    assert moved([], [[0, 1], [2]]) == 3
    assert moved([[0, 1], [2]], [[0], [1], [2]]) == 2
    assert moved([[0, 1], [1, 2]], [[1, 2], [1, 2]]) == 1


def test_how_far_the_classes_of_a_rank_are_from_those_of_the_data() -> None:
    labels = [0] * 6 + [1] * 2
    assert imbalance([[0, 1, 2, 6], [3, 4, 5, 7]], labels) == 0.0
    assert imbalance([[0, 1, 2, 3], [4, 5, 6, 7]], labels) == pytest.approx(0.25)
    assert imbalance([[0, 6], []], labels) == pytest.approx(0.25)


def test_a_partition_is_a_value() -> None:
    assert Stripes(warmup=10, interval=15) == Stripes()
    assert Stripes() != SnakeStripes()
    assert len({Stripes(), Stripes(), Stripes(measure="mean"), Blocks()}) == 3
    assert repr(Blocks(interval=5)) == "Blocks(warmup=10, interval=5, ignore=5, measure='variance', window='interval')"
    assert all(isinstance(partition, etude.partitions.Partition) for partition in EVERY)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Stripes(interval=0),
            "interval=0 (int) is no number of epochs. Pass a whole number of 1 or more.",
        ),
        (
            lambda: Stripes(warmup=2.5),  # type: ignore[arg-type]
            "warmup=2.5 (float) is no number of epochs. Pass a whole number of 0 or more.",
        ),
        (
            lambda: Stripes(warmup=5, ignore=5),
            "Stripes(warmup=5, ignore=5) leaves no epoch by which examples could be assigned. "
            "Pass an ignore below 5, or a longer warm-up.",
        ),
        (
            lambda: Blocks(warmup=3, ignore=5),
            "ignore=5 is more than warmup=3, so epochs would be ignored by which examples are assigned. "
            "Pass ignore<=3, or a longer warm-up.",
        ),
        (
            lambda: Stripes(window="some"),  # type: ignore[arg-type]
            "window='some' (str) says not which epochs count. Pass 'interval' for those of the interval that has "
            "just ended, or 'all'.",
        ),
        (
            lambda: Stripes(measure="loss"),
            "measure='loss' (str) is no measure. Pass one of 'mean', 'variance', 'last', 'ema', 'forgetting', 'el2n', "
            "'confidence', 'variability', a value such as etude.measures.EMA(decay=0.5), or a function of records "
            "that returns an array.",
        ),
        (lambda: Random(seed=1.5), "Random(seed=1.5 (float)) is no whole number. Pass one, or leave it out."),  # type: ignore[arg-type]
        (
            lambda: Stripes().assign([1.0, 2.0], 3),
            "ranks=3 are more than the 2 examples, so that a rank would have none. Pass ranks<=2.",
        ),
        (lambda: Blocks().assign([1.0], 0), "ranks=0 (int) is no number of ranks. Pass a whole number of 1 or more."),
        (
            lambda: Stripes().assign([[1.0]], 1),
            "importance has the shape (1, 1). Pass one number for each example, in the order of their ids.",
        ),
        (
            lambda: Stripes().assign(["a"], 1),
            "importance=['a'] (list) is no array of numbers. Pass one for each example.",
        ),
        (
            lambda: check_partition(Stripes),
            "partition=<class 'etude.fit.importance.partitions.Stripes'> (type) assigns no examples. Pass a value such "
            "as etude.partitions.Stripes(), or one of your own with assign(importance, ranks, previous=None).",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(make: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message


class Own:
    """A partition that gives what it was made with."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __repr__(self) -> str:
        return "Own()"

    def assign(self, importance: Any, ranks: int, previous: Any = None) -> Any:
        return self.given


def test_a_partition_of_ones_own_has_the_usual_schedule_and_measure() -> None:
    own = Own([[0, 2], [1]])
    assert check_partition(own) is own
    assert schedule_of(own) == Stripes().schedule == Schedule()
    assert wanted_by(own) == Variance()
    assert wanted_by(Random()) is None
    assert [part.tolist() for part in assigned(own, [1.0, 2.0, 3.0], 2)] == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ([[0, 1, 2]], "it gave 1 arrays. Return one array of ids for each rank."),
        (5, "it gave 5 (int). Return one array of ids for each rank."),
        ([[0, 1], [1, 2]], "it has 1 more than once. Give each to one rank."),
        ([[0], [2]], "1 is missing. Give each to one rank."),
        ([[0, 1, 2], []], "rank 1 has none. Give each rank some examples."),
        ([[0, 1], [2, 3]], "there is no example 3. Ids are those from 0 to 2."),
        (
            [[0.0, 1.0], [2.0]],
            "rank 0 has an array of float64 with the shape (2,). Return whole numbers, one after the other.",
        ),
    ],
)
def test_an_assignment_that_is_none_is_refused(given: Any, wrong: str) -> None:
    with pytest.raises(ResultError) as refused:
        assigned(Own(given), [1.0, 2.0, 3.0], 2)
    assert str(refused.value) == f"The partition Own() (Own) gave no assignment of 3 examples to 2 ranks: {wrong}"
