"""Numbers in order behave like a sorted list."""

from __future__ import annotations

from bisect import bisect_left, insort

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.tune import ranks
from etude.tune.ranks import Ranks

VALUES = st.one_of(st.integers(0, 9).map(float), st.floats(allow_nan=False))


@given(st.lists(st.tuples(st.booleans(), VALUES), max_size=200))
def test_they_are_what_a_sorted_list_is(steps: list[tuple[bool, float]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "BLOCK", 3)
        found, expected = Ranks(), list[float]()
        for adds, value in steps:
            if adds or value not in expected:
                found.add(value)
                insort(expected, value)
            else:
                found.remove(value)
                expected.remove(value)
            assert len(found) == len(expected)
            assert found.below(value) == bisect_left(expected, value)
        assert [found[place] for place in range(len(found))] == expected
        copy = found.copy()
        copy.add(1.0)
        assert len(copy) == len(found) + 1


def test_there_is_nothing_beyond_the_last() -> None:
    with pytest.raises(IndexError):
        Ranks()[0]
