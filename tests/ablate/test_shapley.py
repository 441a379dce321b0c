"""Shapley values by sampling: they sum to the whole effect, and are exact where theory says so."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.ablate.shapley import orders, shapley_values


def table(n: int, loss: Callable[[frozenset[int]], Any]) -> dict[frozenset[int], Any]:
    return {frozenset(few): loss(frozenset(few)) for k in range(n + 1) for few in itertools.combinations(range(n), k)}


def exact(n: int, losses: dict[frozenset[int], float]) -> list[float]:
    """Return Shapley values by their definition as weighted sums over sets, not over orders."""
    found = []
    for i in range(n):
        rest = [j for j in range(n) if j != i]
        value = 0.0
        for k in range(n):
            weight = math.factorial(k) * math.factorial(n - 1 - k) / math.factorial(n)
            for few in map(frozenset, itertools.combinations(rest, k)):
                value += weight * (losses[few | {i}] - losses[few])
        found.append(value)
    return found


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 99), st.randoms(use_true_random=False))
def test_estimates_sum_to_the_whole_effect_exactly(n: int, samples: int, seed: int, rng: Any) -> None:
    losses = table(n, lambda _: Fraction(rng.randint(-1000, 1000), rng.randint(1, 1000)))
    worth = shapley_values(orders(n, samples, seed), losses)
    assert sum(one.value for one in worth) == losses[frozenset(range(n))] - losses[frozenset()]


@given(st.integers(1, 5), st.randoms(use_true_random=False))
def test_all_orders_give_the_values_of_the_definition(n: int, rng: Any) -> None:
    losses = table(n, lambda _: rng.random())
    worth = shapley_values(orders(n, math.factorial(n), 0), losses)
    assert [one.value for one in worth] == pytest.approx(exact(n, losses))
    assert [one.error for one in worth] == [0.0] * n


def test_an_order_and_its_reverse_are_exact_where_no_three_act_together() -> None:
    alone = [3.0, -1.0, 0.5, 2.0]
    both = {(i, j): 0.1 * (i + 1) * (j - 2) for i, j in itertools.combinations(range(4), 2)}

    def loss(few: frozenset[int]) -> float:
        return sum(alone[i] for i in few) + sum(v for pair, v in both.items() if few >= set(pair))

    losses = table(4, loss)
    worth = shapley_values(orders(4, 2, seed=3), losses)
    assert [one.value for one in worth] == pytest.approx(exact(4, losses))


def test_orders_are_all_or_drawn_with_their_reverses() -> None:
    assert sorted(orders(3, 6, 0)) == sorted(itertools.permutations(range(3)))
    drawn = orders(5, 8, seed=1)
    assert len(drawn) == 8
    assert [order[::-1] for order in drawn[::2]] == drawn[1::2]
    assert all(sorted(order) == list(range(5)) for order in drawn)
    assert drawn == orders(5, 8, seed=1) != orders(5, 8, seed=2)
    assert len(orders(30, 3, seed=0)) == 3


def test_the_standard_error_is_that_of_draws() -> None:
    losses = table(4, lambda few: float(len(few) ** 3 if 0 in few else 0))
    worth = shapley_values(orders(4, 1, 0), losses)
    assert math.isnan(worth[0].error)
    errors, values = [], []
    for seed in range(200):
        first = shapley_values(orders(4, 12, seed), losses)[1]
        errors.append(first.error)
        values.append(first.value)
    assert statistics.fmean(errors) == pytest.approx(statistics.stdev(values), rel=0.2)
