"""What it costs a training that each of its epochs is profiled."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.importance_overhead import stepper

QUIET: Final = 0.25
"""Steps are compared by this quantile of their CPU time: half of them were disturbed, more or less."""

RESAMPLES: Final = 300

Pair = tuple[Sequence[float], Sequence[float]]
"""The steps of an epoch without a profile, and of one with it."""


def cells(small: bool) -> Sequence[Cell]:
    cnn = {"net": "cnn", "batch": 8 if small else 64, "steps": 4 if small else 12, "pairs": 2 if small else 24}
    tiny = {"net": "tiny", "batch": 8 if small else 32, "steps": 40 if small else 400, "pairs": 2 if small else 40}
    return [Cell("étude, small CNN", cnn), Cell("étude, tiny network", tiny)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import torch

    from etude.system.profile import profiler
    from etude.system.sources.counted import Counted

    torch.set_num_threads(1)
    step = stepper(args["net"], args["batch"])
    criterion = torch.nn.CrossEntropyLoss()

    def epoch(counted: Counted | None) -> list[float]:
        """Return the CPU time of each step."""
        taken_s, before_s = [], time.thread_time()
        for _ in range(args["steps"]):
            began_s = time.perf_counter()
            step(criterion)
            if counted is not None:
                counted.step(time.perf_counter() - began_s, waited_s=0.0)
            after_s = time.thread_time()
            taken_s.append(after_s - before_s)
            before_s = after_s
        return taken_s

    def without() -> list[float]:
        return epoch(None)

    def with_it() -> list[float]:
        counted = Counted()
        opening_s = time.thread_time()
        it = profiler(counted)
        began_s = time.thread_time()
        it.begin()
        begun_s = time.thread_time()
        taken_s = epoch(counted)
        ending_s = time.thread_time()
        found = it.end()
        ended_s = time.thread_time()
        it.close()
        assert found is not None
        seen.append((began_s - opening_s, begun_s - began_s + ended_s - ending_s, len(found.rates)))
        return taken_s

    seen: list[tuple[float, float, int]] = []
    with_it(), without()  # warms up
    seen.clear()
    pairs: list[Pair] = []
    for nth in range(args["pairs"]):
        if nth % 2:
            profiled, plain = with_it(), without()
        else:
            plain, profiled = without(), with_it()
        pairs.append((plain, profiled))
    opened, ends, rates = zip(*seen, strict=True)
    steps: int = args["steps"]
    step_s = quiet([one for plain, _ in pairs for one in plain])
    plain_s, ends_s = steps * step_s, quiet(ends)
    draws = random.Random(0)
    resampled = sorted(added(draws.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))

    def percent(more_s: float) -> float:
        return 100 * (steps * more_s + ends_s) / plain_s

    return {
        "step_ms": 1000 * step_s,
        "epoch_ms": 1000 * plain_s,
        "added_percent": percent(added(pairs)),
        "added_low_percent": percent(resampled[round(0.025 * RESAMPLES)]),
        "added_high_percent": percent(resampled[round(0.975 * RESAMPLES) - 1]),
        "ends_ms": 1000 * quiet(ends),
        "ends_percent": 100 * quiet(ends) / plain_s,
        "read_ms": read_ms(),
        "open_ms": 1000 * quiet(opened),
        "rates": statistics.median(rates),
    }


def quiet(times_s: Sequence[float]) -> float:
    return sorted(times_s)[int(QUIET * len(times_s))]


def added(pairs: Sequence[Pair]) -> float:
    """Return the seconds that a profile adds to a step."""
    plain_s, profiled_s = (quiet([one for pair in pairs for one in pair[which]]) for which in (0, 1))
    return profiled_s - plain_s


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
        Quantity("added_percent", "%", 2),
        Quantity("added_low_percent", "%", 2),
        Quantity("added_high_percent", "%", 2),
        Quantity("ends_ms", "ms", 3),
        Quantity("ends_percent", "%", 2),
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
        "CPU time of the training thread; epochs with and without a profile take turns. added: what reading all\n"
        "sources takes at both ends of an epoch (ends), and what its steps take more, as open counters cost something\n"
        "in between and steps are counted: the lower quartiles of all steps are compared, with a 95 % interval by\n"
        "resampling pairs of epochs. read: one reading after another. Opening, once in a training, stands by itself."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
