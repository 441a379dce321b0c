"""Sketches of sets of rows: exact where they are small, close where they are large."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.data.hashes import rows_of
from etude.data.leaks import Overlap, overlap, tail
from etude.data.sketch import KEPT, LARGEST, Sketch

HASHES = st.integers(0, LARGEST)
NONE = np.empty(0, dtype=np.uint64)


def part(numbers: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(sorted(set(numbers)), dtype=np.uint64)


@given(st.sets(HASHES, max_size=60), st.integers(1, 20))
def test_a_sketch_is_the_smallest_and_can_be_written_down(numbers: set[int], kept: int) -> None:
    sketch = Sketch.of(sorted(numbers), kept=kept)
    assert list(sketch.least) == sorted(numbers)[:kept]
    assert sketch.whole == (len(numbers) <= kept)
    assert Sketch.read(json.loads(json.dumps(sketch.plain()))) == sketch


@given(st.sets(HASHES, max_size=60), st.sets(HASHES, max_size=60), st.integers(1, 20), st.integers(1, 20))
def test_two_sketches_are_one_of_both_sets(one: set[int], other: set[int], kept: int, kept_too: int) -> None:
    both = Sketch.of(sorted(one), kept=kept) | Sketch.of(sorted(other), kept=kept_too)
    assert list(both.least) == sorted(number for number in one | other if number <= both.upto)
    assert both == Sketch.of(sorted(other), kept=kept_too) | Sketch.of(sorted(one), kept=kept)
    assert both | both == both


@given(st.sets(HASHES, max_size=40), st.sets(HASHES, max_size=40), st.sets(HASHES, max_size=10))
def test_of_small_sets_the_overlap_is_exact(seen: set[int], judged: set[int], own: set[int]) -> None:
    found = overlap(part(list(judged)), Sketch.of(sorted(seen)), own=part(list(own)))
    assert found == (len((seen & judged) - own), len(judged), len(judged))


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 1), st.integers(0, 2**32), st.integers(3_000, 30_000))
def test_of_large_sets_it_is_close_to_the_exact_one(share: float, seed: int, n: int) -> None:
    """The rows that are looked at are a sample without return of those of the part: the bound is five deviations."""
    draw = np.random.default_rng(seed)
    rows = np.arange(n) + seed
    known = draw.random(n) < share
    seen = np.concatenate([rows[known], np.arange(4 * KEPT) + 2**40])
    found = overlap(rows_of(rows), Sketch.of(rows_of(seen)), own=NONE)
    exact = float(known.mean())
    assert found.rows == n
    assert found.of > 0
    assert abs(found.share - exact) <= 5 * math.sqrt(exact * (1 - exact) / found.of) + 1e-9


def test_a_sample_refuses_only_beyond_doubt() -> None:
    assert Overlap(25, 2_000, 2_000).is_leak, "all were looked for, and 1.25 % are known"
    assert not Overlap(20, 2_000, 2_000).is_leak
    assert not Overlap(25, 2_000, 20_000).is_leak, "of rows of which 1 % are known one sample in six has so many"
    assert Overlap(40, 2_000, 20_000).is_leak
    assert not Overlap(1, 1, 20).is_leak
    assert Overlap(2, 2, 20).is_leak


@pytest.mark.parametrize(("known", "of"), [(0, 5), (1, 5), (3, 40), (40, 40)])
def test_the_tail_is_that_of_the_binomial(known: int, of: int) -> None:
    exact = sum(math.comb(of, k) * 0.1**k * 0.9 ** (of - k) for k in range(known, of + 1))
    assert tail(known, of, 0.1) == pytest.approx(exact, abs=1e-12)
