"""Whether policies give back effects that are known: additive ones, and such with interactions of two."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

CASES: Final = 300
MOST: Final = 6
"""The most components of a case."""

DESIGNS: Final = ("pairs", "full_factorial", "path", "shapley")
ORACLES: Final = ("additive", "two-way")


def cells(small: bool) -> Sequence[Cell]:
    cases = 5 if small else CASES
    return [Cell(f"étude {d}, {o}", {"design": d, "oracle": o, "cases": cases}) for d in DESIGNS for o in ORACLES]


def work(args: Mapping[str, Any], place: Path) -> Result:
    draws, worst = random.Random(0), 0.0
    for _ in range(args["cases"]):
        worst = max(worst, off(args["design"], Oracle.drawn(draws, two_way=args["oracle"] == "two-way")))
    return {"cases": args["cases"], "error": worst}


class Oracle:
    """A loss whose parts are known: one for each component that is gone, and one for each two that are."""

    def __init__(self, single: Sequence[float], both: Mapping[frozenset[int], float]) -> None:
        self.single, self.both = single, both

    @classmethod
    def drawn(cls, draws: random.Random, *, two_way: bool) -> Oracle:
        """Return one of random parts."""
        n = draws.randint(2, MOST)
        pairs = map(frozenset, itertools.combinations(range(n), 2))
        return cls([draws.gauss(0, 1) for _ in range(n)], {p: draws.gauss(0, 1) if two_way else 0.0 for p in pairs})

    def loss(self, gone: frozenset[int]) -> float:
        """Return the loss without some components."""
        return 0.5 + sum(self.single[i] for i in gone) + sum(v for pair, v in self.both.items() if pair <= gone)


def off(design: str, oracle: Oracle) -> float:
    """Return how far a design is from what is known, at worst."""
    from etude.ablate.arms import Results, removal
    from etude.ablate.asking import arms_of, more_of
    from etude.ablate.policies import Path as Steps
    from etude.ablate.policies import Shapley, policy_of
    from etude.core.removal import Arm

    n = len(oracle.single)
    components = [Arm(f"c{i}", settings={f"c{i}": 0}) for i in range(n)]
    policy = Shapley(samples=10_000) if design == "shapley" else policy_of(design)

    def loss(arm: Arm) -> float:
        return oracle.loss(frozenset(i for i in range(n) if f"c{i}" in arm.settings))

    arms, known = arms_of(policy, components)[0], []
    while arms:
        known += [(arm, loss(arm)) for arm in arms]
        arms = more_of(policy, components, Results(known))
    of = {removal(arm): value for arm, value in known}

    def at(*gone: int) -> float:
        return of[removal(Arm("", settings={f"c{i}": 0 for i in sorted(gone)}))]

    base = at()
    if design == "shapley":
        assert isinstance(policy, Shapley)
        values = policy.values(components, Results(known))
        true = [oracle.single[i] + sum(v for pair, v in oracle.both.items() if i in pair) / 2 for i in range(n)]
        whole = oracle.loss(frozenset(range(n))) - base
        wrong = [abs(values[f"c{i}"].value - true[i]) for i in range(n)]
        return max(*wrong, abs(sum(one.value for one in values.values()) - whole))
    if design == "path":
        assert isinstance(policy, Steps)
        return path_off(policy.steps(components, Results(known)), oracle)
    wrong = [abs(at(i) - base - oracle.single[i]) for i in range(n)]
    for pair, true_both in oracle.both.items():
        i, j = sorted(pair)
        wrong.append(abs(at(i, j) - at(i) - at(j) + base - true_both))
    if design == "full_factorial":
        for size in range(3, n + 1):
            wrong += [abs(at(*few) - oracle.loss(frozenset(few))) for few in itertools.combinations(range(n), size)]
    return max(wrong)


def path_off(steps: Sequence[Any], oracle: Oracle) -> float:
    """Return how far a path is from the greedy one, by losses."""
    gone: frozenset[int] = frozenset()
    wrong = [0.0 if len(steps) == len(oracle.single) else 1.0]
    for step in steps:
        left = [i for i in range(len(oracle.single)) if i not in gone]
        best = min(left, key=lambda i: (oracle.loss(gone | {i}), i))
        wrong.append(0.0 if step.component == f"c{best}" else 1.0)
        wrong.append(abs(step.loss - oracle.loss(gone | {best})))
        gone |= {best}
    return max(wrong)


BENCHMARK = Benchmark(
    name="verdicts_designs",
    cells=cells,
    work=work,
    quantities=(Quantity("cases", "", 0), Quantity("error", "", 12)),
    targets=tuple(
        Target(f"{d} gives back what is known, {o}", f"étude {d}, {o}: error", 1e-9, "", at_least=False)
        for d in DESIGNS
        for o in ORACLES
    ),
    note=(
        "Losses made of a part for each of two to six components and, two-way, one for each two. error: how far any\n"
        "effect, interaction, step, value or sum of values is from the known one, at worst. One run is enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
