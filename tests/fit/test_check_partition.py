"""The check of partitions: ours pass, and each broken promise is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from etude import partitions
from etude.testing import check_partition

EVERY = ("Random", "RandomSubsets", "Stripes", "Blocks", "SnakeStripes", "StickyStripes")


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(("examples", "ranks"), [(2, 2), (7, 3), (50, 4)])
def test_ours_keep_what_they_promise(name: str, examples: int, ranks: int) -> None:
    found = check_partition(getattr(partitions, name), examples=examples, ranks=ranks)
    assert {len(parts) for parts in found} == {ranks}
    sizes = [len(part) for parts in found for part in parts]
    assert max(sizes) - min(sizes) <= 1


def stripes(importance: Any, ranks: int) -> list[Any]:
    order = np.argsort(-importance, kind="stable")
    return [order[rank::ranks] for rank in range(ranks)]


def own(assign: Callable[..., Any], **attributes: Any) -> Callable[[], Any]:
    """Return what makes a partition of a function."""
    return type(
        "Own", (), {"assign": lambda self, *args: assign(*args), "__repr__": lambda self: "Own()", **attributes}
    )


class Keeps:
    """Assigns by the importance that it was asked about first."""

    def assign(self, importance: Any, ranks: int, previous: Any = None) -> Any:
        self.first = getattr(self, "first", importance)
        return stripes(self.first, ranks)


def whatever_was_drawn_before(importance: Any, ranks: int, previous: Any) -> Any:
    return np.array_split(np.random.permutation(len(importance)), ranks)


def sorts_in_place(importance: Any, ranks: int, previous: Any) -> Any:
    found = stripes(importance, ranks)
    importance.sort()
    return found


def sorts_previous(importance: Any, ranks: int, previous: Any) -> Any:
    for part in previous or ():
        part[::-1].sort()
    return stripes(importance, ranks)


def goes_by_ranks_that_are_gone(importance: Any, ranks: int, previous: Any) -> Any:
    return stripes(importance, ranks) if previous is None else previous


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (own(lambda importance, ranks, previous: stripes(importance, ranks)), ""),
        (own(lambda importance, ranks, previous: stripes(importance, ranks), measure=None), ""),
        (own(lambda importance, ranks, previous: [np.arange(2)] * ranks, covers=False), ""),
        (
            own(lambda importance, ranks, previous: [np.arange(2)] * ranks),
            "The partition Own() (Own) gave no assignment of 12 examples to 4 ranks: it has 0, 1 more than once. Give "
            "each to one rank.",
        ),
        (
            own(lambda importance, ranks, previous: stripes(importance[:-1], ranks)),
            "The partition Own() (Own) gave no assignment of 12 examples to 4 ranks: 11 is missing. Give each to one "
            "rank.",
        ),
        (
            own(lambda importance, ranks, previous: np.split(np.arange(len(importance)), [1, len(importance)])),
            "The partition Own() (Own) gave no assignment of 12 examples to 4 ranks: it gave 3 arrays. Return one "
            "array of ids for each rank.",
        ),
        (
            own(goes_by_ranks_that_are_gone),
            "The partition Own() (Own) gave no assignment of 12 examples to 4 ranks: it gave 1 arrays. Return one "
            "array of ids for each rank.",
        ),
        (own(whatever_was_drawn_before), "asked the same again, a partition gives the same again"),
        (
            Keeps,
            "a partition that is made anew, as on another rank and after an interruption, gives what one gives "
            "that was there from the start: it goes by importance, ranks and previous, and by nothing that it keeps",
        ),
        (own(sorts_in_place), "a partition changes nothing of the importance it is given"),
        (own(sorts_previous), "a partition leaves previous as it is"),
        (
            own(stripes, schedule=5),
            "The partition Own() (Own) has schedule=5 (int). Make it an etude.partitions.Schedule.",
        ),
        (
            lambda: object,
            "partition=<class 'object'> (type) assigns no examples. Pass a value such as etude.partitions.Stripes(), "
            "or one of your own with assign(importance, ranks, previous=None).",
        ),
    ],
)
def test_each_broken_promise_is_named(make: Callable[[], Any], said: str) -> None:
    if not said:
        assert len(check_partition(make, examples=12)[0]) == 4
        return
    with pytest.raises(AssertionError) as broken:
        check_partition(make, examples=12)
    assert str(broken.value) == said
