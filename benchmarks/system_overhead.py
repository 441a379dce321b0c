"""What it costs a training that each of its epochs is profiled."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.importance_overhead import stepper
from benchmarks.shares import interval

QUIET: Final = 2
"""One pair of epochs of so many counts: those that took the least CPU time, both epochs together."""


def cells(small: bool) -> Sequence[Cell]:
    cnn = {"net": "cnn", "batch": 8 if small else 64, "steps": 4 if small else 12, "pairs": 2 if small else 30}
    tiny = {"net": "tiny", "batch": 8 if small else 32, "steps": 40 if small else 400, "pairs": 2 if small else 60}
    return [Cell("étude, small CNN", cnn), Cell("étude, tiny network", tiny)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import torch

    from etude.system.profile import profiler
    from etude.system.sources.counted import Counted

    torch.set_num_threads(1)
    step = stepper(args["net"], args["batch"])
    criterion = torch.nn.CrossEntropyLoss()

    def epoch(counted: Counted | None) -> None:
        for _ in range(args["steps"]):
            began_s = time.perf_counter()
            step(criterion)
            if counted is not None:
                counted.step(time.perf_counter() - began_s, waited_s=0.0)

    def without() -> float:
        began_s = time.thread_time()
        epoch(None)
        return time.thread_time() - began_s

    def with_it() -> float:
        counted = Counted()
        opening_s = time.thread_time()
        it = profiler(counted)
        began_s = time.thread_time()
        it.begin()
        epoch(counted)
        found = it.end()
        took_s = time.thread_time() - began_s
        assert found is not None
        seen.append((began_s - opening_s, found.seconds, len(found.rates), found.rung))
        it.close()
        return took_s

    seen: list[tuple[float, float, int, str]] = []
    with_it(), without()  # warms up
    seen.clear()
    pairs = []
    for nth in range(args["pairs"]):
        if nth % 2:
            profiled_s, plain_s = with_it(), without()
        else:
            plain_s, profiled_s = without(), with_it()
        pairs.append((plain_s, profiled_s - plain_s))
    # By their sum, which favours neither: where only the one without decided, the other one would seem to take more.
    quiet = sorted(pairs, key=lambda pair: 2 * pair[0] + pair[1])[: max(1, len(pairs) // QUIET)]
    plain_s, added = statistics.fmean(plain for plain, _ in quiet), [more for _, more in quiet]
    low, high = interval(added)
    return {
        "step_ms": 1000 * plain_s / args["steps"],
        "epoch_ms": 1000 * plain_s,
        "added_ms": 1000 * statistics.fmean(added),
        "added_percent": 100 * statistics.fmean(added) / plain_s,
        "added_low_percent": 100 * low / plain_s,
        "added_high_percent": 100 * high / plain_s,
        "read_ms": read_ms(),
        "open_ms": 1000 * statistics.median(opened for opened, *_ in seen),
        "rates": statistics.median(rates for _, _, rates, _ in seen),
        "details": {"rung": seen[-1][-1]},
    }


def read_ms() -> float:
    """Return the CPU time of reading all sources once, in ms."""
    from etude.system.profile import profiler

    it = profiler()
    times = []
    for _ in range(50):
        began_s = time.thread_time()
        it.begin()
        times.append(time.thread_time() - began_s)
    it.close()
    return 1000 * statistics.median(times)


BENCHMARK = Benchmark(
    name="system_overhead",
    cells=cells,
    work=work,
    quantities=(
        Quantity("step_ms", "ms", 3),
        Quantity("epoch_ms", "ms", 1),
        Quantity("added_ms", "ms", 3),
        Quantity("added_percent", "%", 2),
        Quantity("added_low_percent", "%", 2),
        Quantity("added_high_percent", "%", 2),
        Quantity("read_ms", "ms", 3),
        Quantity("open_ms", "ms", 1),
        Quantity("rates", "", 0),
    ),
    targets=(
        Target("epochs of a small CNN", "étude, small CNN: added_percent", 1, "%", at_least=False),
        Target("epochs of a tiny network", "étude, tiny network: added_percent", 1, "%", at_least=False),
        Target("reading all sources", "étude, small CNN: read_ms", 1, "ms", at_least=False),
    ),
    note=(
        "CPU time of the training thread; epochs with and without a profile take turns, and half of the pairs count:\n"
        "those that took the least, both epochs together. added: reading all sources at both ends of an epoch, what\n"
        "open counters cost in between, and counting steps. Opening, once in a training, stands by itself."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
