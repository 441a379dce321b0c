"""How far the losses of one training function on two and four ranks are from those on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

RANKS = (1, 2, 4)
NAMES = {2: "two", 4: "four"}
EPOCHS = {"float64": 20, "float32": 2}
"""Of ten steps each."""


def cells(small: bool) -> Sequence[Cell]:
    ranks = RANKS[:2] if small else RANKS
    return [
        Cell(f"étude, {kind}", {"kind": kind, "epochs": 1 if small else n, "ranks": ranks})
        for kind, n in EPOCHS.items()
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from benchmarks.equal_cnn import losses

    curves = {ranks: losses(args["kind"], args["epochs"], ranks) for ranks in args["ranks"]}
    alone = curves.pop(1)
    assert alone[-1] < alone[0] or args["epochs"] < EPOCHS["float64"]
    apart = {NAMES[ranks]: _apart(alone, curve) for ranks, curve in curves.items()}
    return {**apart, "steps": len(alone), "first_loss": alone[0], "last_loss": alone[-1]}


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


BENCHMARK = Benchmark(
    name="parallel_equal",
    cells=cells,
    work=work,
    quantities=(
        Quantity("two", "", 16),
        Quantity("four", "", 16),
        Quantity("steps", "", 0),
        Quantity("first_loss", "", 4),
        Quantity("last_loss", "", 4),
    ),
    targets=(
        Target("two ranks, float64, 200 steps", "étude, float64: two", 1e-10, "", at_least=False, worst=True),
        Target("four ranks, float64, 200 steps", "étude, float64: four", 1e-10, "", at_least=False, worst=True),
        Target("two ranks, float32, 20 steps", "étude, float32: two", 1e-6, "", at_least=False, worst=True),
        Target("four ranks, float32, 20 steps", "étude, float32: four", 1e-6, "", at_least=False, worst=True),
    ),
    note=(
        "two, four: the largest difference of a loss from that on one rank. A small CNN, SGD with momentum, no\n"
        "normalisation and no dropout, by `experiment.fit(ranks=)`: the loader is the function's own, shuffled in\n"
        "every epoch; Étude divides it, and averages gradients. Each step is reported: a rank's loss times its share\n"
        "of the examples, and what is reported is the sum of the ranks. 301 examples in batches of 32, so that the\n"
        "last batch of an epoch has 13: parts of 7 and 6, or of 4, 3, 3 and 3."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
