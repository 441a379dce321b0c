"""What it costs a training step that its losses are recorded by example."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target
from benchmarks.shares import interval

BLOCK: Final = 64
"""Steps of each kind in a block: in one block of them everything is computed once that is put off."""

QUIET: Final = 3
"""One block of so many counts: those in which the steps without recording took the least CPU time."""

EXAMPLES: Final = 50_000

SYNCS: Final = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal")
"""What would wait for a GPU, as a trace names it; where there is one, also calls with Synchronize in them."""


def cells(small: bool) -> Sequence[Cell]:
    cnn = {"net": "cnn", "batch": 8 if small else 64, "blocks": 2 if small else 24}
    tiny = {"net": "tiny", "batch": 8 if small else 32, "blocks": 2 if small else 200}
    return [
        Cell("étude 1 rank, small CNN", {**cnn, "ranks": 1}),
        Cell("étude 2 ranks, small CNN", {**cnn, "ranks": 2}),
        Cell("étude 1 rank, tiny network", {**tiny, "ranks": 1}),
        Cell("étude 1 rank, tiny network, all aspects", {**tiny, "ranks": 1, "all": True}),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    if args["ranks"] == 1:
        return measure(args)
    command = [sys.executable, "-m", "benchmarks.importance_overhead", "--cell", json.dumps({**args, "ranks": 1})]
    ranks = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(args["ranks"])]
    found = [json.loads(rank.communicate()[0].splitlines()[-1]) for rank in ranks]
    worst = max(found, key=lambda one: one["added_percent"])
    return {
        **worst,
        "syncs": max(one["syncs"] for one in found),
        "identical": min(one["identical"] for one in found),
        "details": {"each": found},
    }


def measure(args: Mapping[str, Any]) -> Result:
    import numpy as np
    import torch
    from torch import nn

    from etude.fit.importance.records import Book
    from etude.frameworks.aspects import ASPECTS, LOSS
    from etude.frameworks.torch_criterion import tracked
    from etude.frameworks.torch_watch import Watch

    torch.set_num_threads(1)
    aspects = frozenset(ASPECTS if args.get("all") else (LOSS,))
    watch, book = Watch(aspects), Book(EXAMPLES)
    plain, watched = nn.CrossEntropyLoss(), tracked(nn.CrossEntropyLoss(), watch)
    step = stepper(args["net"], args["batch"])
    ids = np.random.default_rng(0).integers(0, EXAMPLES, (BLOCK, args["batch"]))

    def with_it(nth: int) -> float:
        began = time.thread_time()
        watch.drawn(ids[nth])
        step(watched)
        if nth == BLOCK - 1:  # as at the end of an epoch, and far more often
            taken = watch.take()
            book.write(0, taken.ids, taken.values)
        return time.thread_time() - began

    def without(nth: int) -> float:
        began = time.thread_time()
        step(plain)
        return time.thread_time() - began

    added, base = [], []
    for block in range(args["blocks"] + 1):
        both = [0.0, 0.0]
        for nth in range(BLOCK):
            kinds: list[tuple[int, Callable[[int], float]]] = [(0, with_it), (1, without)]
            for which, run in kinds if (nth + block) % 2 else reversed(kinds):
                both[which] += run(nth)
        if block:  # the first warms up
            added.append((both[0] - both[1]) / BLOCK)
            base.append(both[1] / BLOCK)
        book.forget(before=1)
    # Which blocks were quiet is told by the steps without: they are chosen before anything is known of the others.
    quiet = sorted(range(len(base)), key=base.__getitem__)[: max(1, len(base) // QUIET)]
    base, added = [base[nth] for nth in quiet], [added[nth] for nth in quiet]
    step_s = statistics.fmean(base)
    low, high = interval(added)
    return {
        "step_ms": 1000 * step_s,
        "added_us": 1e6 * statistics.fmean(added),
        "added_low_us": 1e6 * low,
        "added_high_us": 1e6 * high,
        "added_percent": 100 * statistics.fmean(added) / step_s,
        "added_low_percent": 100 * low / step_s,
        "added_high_percent": 100 * high / step_s,
        "syncs": syncs(step, watched, watch, ids) - syncs(step, plain, watch, ids),
        "identical": identical(args, aspects),
    }


def stepper(net: str, batch: int, seed: int = 0) -> Callable[[Any], Any]:
    """Return what makes a training step with a criterion, and returns all gradients."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    if net == "cnn":
        model: Any = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * 64, 10)),
        )
    else:
        model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 16), nn.ReLU(), nn.Linear(16, 10))
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(criterion: Any) -> Any:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        return [parameter.grad for parameter in model.parameters()]

    return step


def identical(args: Mapping[str, Any], aspects: frozenset[str]) -> float:
    """Return 1 if gradients are the same to the bit in every step, with and without."""
    import torch
    from torch import nn

    from etude.frameworks.torch_criterion import tracked
    from etude.frameworks.torch_watch import Watch

    watch = Watch(aspects)
    one, other = (stepper(args["net"], args["batch"], seed=1) for _ in range(2))
    plain, watched = nn.CrossEntropyLoss(), tracked(nn.CrossEntropyLoss(), watch)
    same = True
    for _ in range(BLOCK + 6):
        watch.drawn(range(args["batch"]))
        same &= all(torch.equal(a, b) for a, b in zip(one(plain), other(watched), strict=True))
    return float(same)


def syncs(step: Callable[[Any], Any], criterion: Any, watch: Any, ids: Any) -> int:
    """Return how often steps would wait for a GPU, by a trace of the profiler."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as trace:
        for nth in range(BLOCK):
            watch.drawn(ids[nth])
            step(criterion)
        watch.flush()
    watch.drawn(None)
    found = sum(e.count for e in trace.key_averages() if e.key in SYNCS or "Synchronize" in e.key)
    watch.take()
    return int(found)


BENCHMARK = Benchmark(
    name="importance_overhead",
    cells=cells,
    work=work,
    quantities=(
        Quantity("step_ms", "ms", 3),
        Quantity("added_us", "us", 1),
        Quantity("added_low_us", "us", 1),
        Quantity("added_high_us", "us", 1),
        Quantity("added_percent", "%", 2),
        Quantity("added_low_percent", "%", 2),
        Quantity("added_high_percent", "%", 2),
        Quantity("syncs", "", 0),
        Quantity("identical", "", 0),
    ),
    targets=(
        Target("a step of 10 ms or more", "étude 1 rank, small CNN: added_percent", 1, "%", at_least=False),
        Target("the same, of 2 ranks the worse", "étude 2 ranks, small CNN: added_percent", 1, "%", at_least=False),
        Target("any step", "étude 1 rank, tiny network: added_us", 30, "us", at_least=False),
        Target("any step, all aspects", "étude 1 rank, tiny network, all aspects: added_us", 30, "us", at_least=False),
        Target("host syncs in a trace", "étude 1 rank, small CNN: syncs", 0, "", at_least=False, worst=True),
        Target("gradients to the bit", "étude 1 rank, small CNN: identical", 1, "", worst=True),
        Target("gradients to the bit, 2 ranks", "étude 2 ranks, small CNN: identical", 1, "", worst=True),
    ),
    note=(
        "CPU time of the training thread; steps with and without take turns. added: all that recording costs, also\n"
        "what is put off, and what comes at the end of an epoch; low and high are a 95 % interval of its mean over\n"
        "blocks of 64 steps of each kind. CPU time grows where other processes share the caches: a third of the\n"
        "blocks count, those in which the steps without recording took the least. syncs: what would wait for a GPU\n"
        "in 64 steps, beyond what the step itself does. Ranks are processes beside each other that do not talk."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
