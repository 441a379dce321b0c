"""Seconds that recording takes in an epoch, and a new assignment of the examples, beside those of the paper."""

from __future__ import annotations

import resource
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.paper4.overheads import TABLE_6

BATCH: Final = 128
CLASSES: Final = 10


def cells(small: bool) -> Sequence[Cell]:
    usual = {"examples": 500 if small else 50_000, "ranks": 4, "epochs": 15}
    large = {"examples": 2_000 if small else 1_200_000, "ranks": 8, "epochs": 15}
    return [
        Cell("étude stripes", {**usual, "partition": "Stripes"}),
        Cell("étude sticky", {**usual, "partition": "StickyStripes"}),
        Cell("étude sticky, 1.2 million", {**large, "partition": "StickyStripes"}),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import numpy as np

    from etude import partitions
    from etude.fit.importance.records import Book
    from etude.fit.importance.tracker import Tracker
    from etude.frameworks.aspects import LOSS

    n, ranks, epochs = args["examples"], args["ranks"], args["epochs"]
    partition = getattr(partitions, args["partition"])(warmup=epochs, interval=epochs, ignore=0)
    draws = np.random.default_rng(0)
    others = []
    for rank in range(1, ranks):
        book = Book(n)
        for epoch in range(2 * epochs):
            ids = np.random.default_rng(epoch).permutation(n)[rank::ranks]
            book.write(epoch, ids, {LOSS: draws.random(len(ids))})
        others.append((book.packed(range(epochs)), book.packed(range(epochs, 2 * epochs))))
    assignments = [0]

    def exchange(own: bytes) -> list[bytes]:
        if len(own) == 32:  # what came out
            return [own] * ranks
        assignments[0] += 1
        return [own, *(packs[assignments[0] - 1] for packs in others)]

    tracker = Tracker(partition, n=n, ranks=ranks, exchange=exchange, seed=0)
    for epoch in range(2 * epochs):
        ids = np.random.default_rng(epoch).permutation(n)[::ranks]
        tracker.saw(epoch, ids, {LOSS: draws.random(len(ids))})
    took = []
    for epoch in (epochs, 2 * epochs):
        began = time.perf_counter()
        found = tracker.begin(epoch)
        took.append(time.perf_counter() - began)
    assert found is not None
    return {
        "repartition_s": took[-1],
        "moved_percent": 100 * found.moved / n,
        "packed_mb": sum(len(packs[1]) for packs in others) * ranks / (ranks - 1) / 2**20,
        "tracking_s": tracking(n // ranks),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "details": {"first_s": took[0], "threads": threading.active_count()},
    }


def tracking(examples: int) -> float:
    """Return the CPU seconds that recording costs a rank in an epoch of so many examples."""
    import numpy as np
    import torch
    from torch import nn

    from etude.fit.importance.records import Book
    from etude.frameworks.aspects import LOSS
    from etude.frameworks.torch_criterion import tracked
    from etude.frameworks.torch_watch import Watch

    torch.set_num_threads(1)
    watch, book = Watch(frozenset({LOSS})), Book(examples)
    plain, watched = nn.CrossEntropyLoss(), tracked(nn.CrossEntropyLoss(), watch)
    scores, targets = torch.randn(BATCH, CLASSES, requires_grad=True), torch.randint(0, CLASSES, (BATCH,))
    batches = np.random.default_rng(0).permutation(examples)[: examples // BATCH * BATCH].reshape(-1, BATCH)

    def with_it() -> None:
        for ids in batches:
            watch.drawn(ids)
            watched(scores, targets)
        taken = watch.take()
        book.write(0, taken.ids, taken.values)

    def without() -> None:
        for _ in batches:
            plain(scores, targets)

    def cpu_s(run: Callable[[], None]) -> float:
        began = time.process_time()
        run()
        return time.process_time() - began

    with_it()
    differences = []
    for _ in range(5):
        took = cpu_s(with_it)
        differences.append(took - cpu_s(without))
        book.forget(before=1)
    return statistics.median(differences)


BENCHMARK = Benchmark(
    name="importance_repartition",
    cells=cells,
    work=work,
    quantities=(
        Quantity("repartition_s", "s", 4),
        Quantity("tracking_s", "s", 4),
        Quantity("moved_percent", "%", 2),
        Quantity("packed_mb", "MB", 2),
        Quantity("peak_mb", "MB", 0),
    ),
    targets=(
        Target(
            "an assignment, as in the paper's table 6",
            "étude sticky: repartition_s",
            TABLE_6["repartition_s"][1],
            "s",
            at_least=False,
        ),
        Target(
            "recording in an epoch, as in the paper's table 6",
            "étude sticky: tracking_s",
            TABLE_6["tracking_s"][1],
            "s",
            at_least=False,
        ),
        Target("examples that sticky stripes move", "étude sticky: moved_percent", 32.6, "%", at_least=False),
    ),
    note=(
        "A new assignment on one of 4 ranks, 50,000 examples, after an interval of 15 epochs: what all ranks saw is\n"
        "put together, the variance of each example's loss is computed, and examples are assigned, compared with what\n"
        "was before, and checked. The packs of the other ranks are there already: no network. Losses are random, so\n"
        "nothing stays where it is but by the partition. tracking_s: CPU of a rank in an epoch, beside what the loss\n"
        "itself costs. packed_mb: what all ranks exchange. peak_mb: of the whole process, torch included."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
