"""Shapley values by sampling: how much of the whole effect is due to each of several components.

Take n components away one after the other, in some order; each changes the loss by something, and the changes add up to
the whole effect, in whatever order. The Shapley value of a component is its change, averaged over all orders; an
estimate averages over some of them, and so adds up to the whole effect as well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from etude.core.streams import stream

Order = tuple[int, ...]

_MANY = 20
"""Of so many components nobody takes all orders; the number of these alone would take its time."""


@dataclass(frozen=True)
class Worth:
    """What a component is worth.

    Attributes:
        value: By how much the loss is higher without it, on average over orders.
        error: Standard error of that average over orders; NaN with fewer than two. It is 0 if all orders were taken.
    """

    value: float
    error: float


def orders(n: int, samples: int, seed: int) -> list[Order]:
    """Return orders of the numbers below ``n``: all if there are no more than ``samples``, and else random ones.

    Every second of the random ones is the one before it, backwards: what two components do to each other falls once on
    the one and once on the other.
    """
    if n < _MANY and math.factorial(n) <= samples:
        return list(itertools.permutations(range(n)))
    draws = stream(seed, "shapley", n)
    found: list[Order] = []
    while len(found) < samples:
        order = tuple(draws.sample(range(n), n))
        found += [order, order[::-1]]
    return found[:samples]


def shapley_values(ways: Sequence[Order], losses: Mapping[frozenset[int], float]) -> list[Worth]:
    """Return what each component is worth.

    Args:
        ways: Orders in which the components are taken away, each with every component once.
        losses: The loss without certain components, for everything that the orders lead through.

    Returns:
        One for each component. Their values sum to the loss without all, minus that with all, up to rounding.

    Example:
        >>> additive = {frozenset(): 0.0, frozenset({0}): 2.0, frozenset({1}): 1.0, frozenset({0, 1}): 3.0}
        >>> [one.value for one in shapley_values([(0, 1), (1, 0)], additive)]
        [2.0, 1.0]
    """
    n = len(ways[0])
    changes: list[list[float]] = [[] for _ in range(n)]
    for order in ways:
        for k, component in enumerate(order):
            after, before = losses[frozenset(order[: k + 1])], losses[frozenset(order[:k])]
            changes[component].append(after - before)
    is_all = n < _MANY and len(ways) == len(set(ways)) == math.factorial(n)
    return [Worth(sum(found) / len(found), 0.0 if is_all else _error(ways, found)) for found in changes]


def _error(ways: Sequence[Order], changes: Sequence[float]) -> float:
    """Return the standard error of the mean: an order and its reverse are one draw."""
    draws = [_mean(changes[i] for i in group) for group in _drawn_together(ways)]
    if len(draws) < 2:  # noqa: PLR2004
        return math.nan
    mean = _mean(draws)
    return math.sqrt(sum((draw - mean) ** 2 for draw in draws) / (len(draws) - 1) / len(draws))


def _drawn_together(ways: Sequence[Order]) -> list[list[int]]:
    groups: list[list[int]] = []
    for i, order in enumerate(ways):
        if i and len(groups[-1]) == 1 and order == ways[i - 1][::-1]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _mean(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return sum(listed) / len(listed)
