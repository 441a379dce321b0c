"""Partitions of thousands of random cases: disjoint, complete, of equal sizes, and the equations of the paper."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

CASES: Final = 10_000
MOST: Final = 300
"""The most examples of a case."""


def cells(small: bool) -> Sequence[Cell]:
    return [Cell("étude", {"cases": 100 if small else CASES})]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from etude.partitions import Blocks, Random, SnakeStripes, StickyStripes, Stripes

    draws, wrong = random.Random(0), Counter[str]()
    with_nan = with_ties = uneven = 0
    for _ in range(args["cases"]):
        importance, ranks = case(draws)
        n = len(importance)
        order = by_hand(importance)
        index = {example: k for k, example in enumerate(order)}
        previous = Random(seed=draws.randrange(2**32)).assign(importance, ranks)
        found = {
            type(partition).__name__: [part.tolist() for part in partition.assign(importance, ranks, previous)]
            for partition in (Random(seed=1), Stripes(), Blocks(), SnakeStripes(), StickyStripes())
        }
        for name, parts in found.items():
            ids = [example for part in parts for example in part]
            sizes = [len(part) for part in parts]
            wrong[f"{name}: not disjoint"] += len(set(ids)) != len(ids)
            wrong[f"{name}: not complete"] += set(ids) != set(range(n))
            wrong[f"{name}: sizes"] += len(parts) != ranks or max(sizes) - min(sizes) > 1
        for rank in range(ranks):
            equation_2 = {e for e in range(n) if index[e] % ranks == rank}
            equation_3 = {e for e in range(n) if rank * n <= index[e] * ranks < (rank + 1) * n}
            wrong["Stripes: equation 2"] += set(found["Stripes"][rank]) != equation_2
            wrong["Blocks: equation 3"] += set(found["Blocks"][rank]) != equation_3
        wrong["StickyStripes: not as many as possible"] += stayed(found["StickyStripes"], previous) != sum(
            len({rank for rank, part in enumerate(previous) for e in order[at : at + ranks] if e in part})
            for at in range(0, n, ranks)
        )
        with_nan += any(math.isnan(value) for value in importance)
        with_ties += len(set(importance)) < n
        uneven += n % ranks != 0
    cases = args["cases"]
    return {
        "cases": cases,
        "met_percent": 100 * (1 - min(1, sum(wrong.values()) / cases)),
        "details": {
            "wrong": {name: number for name, number in wrong.items() if number},
            "with_nan": with_nan,
            "with_ties": with_ties,
            "not_divisible": uneven,
        },
    }


def case(draws: random.Random) -> tuple[list[float], int]:
    """Return the importance of some examples, and a number of ranks."""
    n = draws.randint(1, MOST)
    digits, nan = draws.choice([0, 1, 6]), draws.choice([0.0, 0.0, 0.1, 1.0])
    values = [round(draws.lognormvariate(0, 1), digits) for _ in range(n)]
    values = [math.nan if draws.random() < nan else math.inf if draws.random() < 0.02 else v for v in values]
    return values, draws.randint(1, min(n, 16))


def by_hand(importance: Sequence[float]) -> list[int]:
    """Return the ids, the hardest first, as a plain sort gives them."""
    ids = range(len(importance))
    nan = [e for e in ids if math.isnan(importance[e])]
    return nan + sorted((e for e in ids if not math.isnan(importance[e])), key=lambda e: (-importance[e], e))


def stayed(new: Sequence[Sequence[int]], previous: Sequence[Any]) -> int:
    """Return how many examples have the rank that they had."""
    return sum(len(set(one) & set(other.tolist())) for one, other in zip(new, previous, strict=True))


BENCHMARK = Benchmark(
    name="importance_exact",
    cells=cells,
    work=work,
    quantities=(Quantity("cases", "", 0), Quantity("met_percent", "%", 3)),
    targets=(
        Target("disjoint, complete, sizes within 1, equations 2 and 3", "étude: met_percent", 100, "%"),
        Target("random cases", "étude: cases", CASES, ""),
    ),
    note=(
        "A case: up to 300 examples, up to 16 ranks; importance with ties, NaN and infinities. All five partitions.\n"
        "The equations are computed from a sort in plain Python. details: how many cases had what."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
