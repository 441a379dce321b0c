"""The time of a training step on two ranks, over that with a hand-written DistributedDataParallel."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.ranks import together

if TYPE_CHECKING:
    from torch import nn

    from etude.frameworks.torch_ranks import Groups

WARM_UP = 5


def cells(small: bool) -> Sequence[Cell]:
    return [
        Cell("étude, small CNN", {"model": "cnn", "steps": 4 if small else 400}),
        Cell("étude, 25 M parameters", {"model": "cnn" if small else "transformer", "steps": 2 if small else 150}),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    found = together("benchmarks.parallel_step", args, 2, place)
    ours, theirs = (statistics.median(found[0][name]) for name in ("ours", "theirs"))
    ratios = [a / b for a, b in zip(found[0]["ours"], found[0]["theirs"], strict=True)]
    return {
        "ratio": ours / theirs,
        "pairs": statistics.median(ratios),
        "cpu": statistics.median(found[0]["cpu"]["ours"]) / statistics.median(found[0]["cpu"]["theirs"]),
        "ours_ms": 1000 * ours,
        "theirs_ms": 1000 * theirs,
        "details": {"parameters": found[0]["parameters"], "interval": _interval(ratios)},
    }


def _interval(ratios: Sequence[float], draws: int = 1000) -> list[float]:
    """Return a 95 % interval of the median of pairs, by drawing again."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(draws))
    return [medians[round(0.025 * draws)], medians[round(0.975 * draws) - 1]]


def rank_work(groups: Groups, model: str, steps: int) -> Result:
    """Train both ways, in turns, each step after a barrier."""
    import copy

    import torch
    import torch.distributed as dist
    from torch import nn

    from etude.frameworks.torch_average import Averager

    torch.manual_seed(0)
    ours, batch = (_cnn if model == "cnn" else _transformer)()
    wrapped = nn.parallel.DistributedDataParallel(copy.deepcopy(ours))
    averager = Averager({"": ours}, groups)
    averager.leave(wrapped.parameters())
    kinds: dict[str, tuple[nn.Module, Any]] = {
        name: (net, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))
        for name, net in (("ours", ours), ("theirs", wrapped))
    }
    took: dict[str, list[float]] = {name: [] for name in kinds}
    used: dict[str, list[float]] = {name: [] for name in kinds}
    for nth in range(steps + WARM_UP):
        x, y = batch()
        for name in kinds if nth % 2 else reversed(kinds):
            net, optimizer = kinds[name]
            dist.barrier()
            began, cpu = time.perf_counter(), time.process_time()
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            if nth >= WARM_UP:
                took[name].append(time.perf_counter() - began)
                used[name].append(time.process_time() - cpu)
    for p, q in zip(ours.parameters(), wrapped.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-3, atol=1e-4)
    return {**took, "cpu": used, "parameters": sum(p.numel() for p in ours.parameters())}


def _cnn() -> tuple[nn.Module, Callable[[], Any]]:
    import torch
    from torch import nn

    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1024, 80), nn.ReLU(), nn.Linear(80, 10)),
    )
    return net, lambda: (torch.randn(32, 3, 32, 32), torch.randint(10, (32,)))


def _transformer() -> tuple[nn.Module, Callable[[], Any]]:
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    net = nn.Sequential(nn.TransformerEncoder(layer, 8, enable_nested_tensor=False), nn.Flatten(), nn.Linear(8192, 10))
    return net, lambda: (torch.randn(8, 16, 512), torch.randint(10, (8,)))


BENCHMARK = Benchmark(
    name="parallel_step",
    cells=cells,
    work=work,
    quantities=(
        Quantity("ratio", ""),
        Quantity("pairs", ""),
        Quantity("cpu", ""),
        Quantity("ours_ms", "ms", 2),
        Quantity("theirs_ms", "ms", 2),
    ),
    targets=(
        Target("over a hand-written step, small CNN", "étude, small CNN: ratio", 1.02, "", at_least=False),
        Target("over a hand-written step, 25 M", "étude, 25 M parameters: ratio", 1.02, "", at_least=False),
    ),
    note=(
        "Two ranks with one thread each, gloo on loopback. Steps of both kinds take turns in the same two processes,\n"
        "each after a barrier: zero_grad, forward, backward, SGD with momentum. ratio: of the medians; pairs: the\n"
        "median over pairs of neighbouring steps, with a 95 % interval in details. cpu: the ratio of the CPU time of "
        "all\n threads, which says more than wall time where the cores are not alone."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
