"""How far the losses of a training on two and four ranks are from those on one, with the same global batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.ranks import together

if TYPE_CHECKING:
    from etude.frameworks.torch_ranks import Groups

RANKS = (1, 2, 4)
NAMES = {2: "two", 4: "four"}
EXAMPLES = 30
"""Of a global batch: it does not divide by four."""


def cells(small: bool) -> Sequence[Cell]:
    steps = {"float64": 3 if small else 200, "float32": 3 if small else 20}
    ranks = RANKS[:2] if small else RANKS
    return [Cell(f"étude, {kind}", {"kind": kind, "steps": n, "ranks": ranks}) for kind, n in steps.items()]


def work(args: Mapping[str, Any], place: Path) -> Result:
    curves = {}
    for ranks in args["ranks"]:
        inside = place / f"ranks-{ranks}"
        inside.mkdir()
        told = {"kind": args["kind"], "steps": args["steps"]}
        curves[ranks] = together("benchmarks.parallel_equal", told, ranks, inside)[0]["losses"]
    alone = curves.pop(1)
    assert alone[-1] < alone[0] or len(alone) < 10
    apart = {NAMES[ranks]: _apart(alone, curve) for ranks, curve in curves.items()}
    return {**apart, "first_loss": alone[0], "last_loss": alone[-1]}


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def rank_work(groups: Groups, kind: str, steps: int) -> Result:
    """Train a small CNN, and return the loss of each global batch."""
    import numpy as np
    import torch
    from torch import nn

    from etude.frameworks.torch_average import Averager

    torch.manual_seed(0)
    dtype = getattr(torch, kind)
    net = nn.Sequential(
        *(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(144, 32), nn.Tanh(), nn.Linear(32, 10)),
    ).to(dtype)
    averager = Averager({"": net}, groups) if groups.ranks > 1 else None
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(10 * EXAMPLES, 1, 12, 12, generator=generator, dtype=torch.float64).to(dtype)
    y = x.view(len(x), 12, 12)[:, 1:11, 1:11].mean(dim=2).argmax(dim=1)
    part = np.array_split(np.arange(EXAMPLES), groups.ranks)[groups.rank]
    losses = []
    for step in range(steps):
        rows = torch.from_numpy(part + EXAMPLES * (step % 10))
        if averager is not None:
            averager.weight = len(part) * groups.ranks / EXAMPLES
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(groups.mean({"loss": loss.item()}, weight=len(part)).wait().values["loss"])
    return {"losses": losses}


BENCHMARK = Benchmark(
    name="parallel_equal",
    cells=cells,
    work=work,
    quantities=(
        Quantity("two", "", 16),
        Quantity("four", "", 16),
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
        "normalisation and no dropout; batches of 30, so that the parts of four ranks are not equal."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
