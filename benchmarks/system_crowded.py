"""Searches with system parameters as hyperparameters, while other jobs use the same cores: PipeTune's figure 5."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result
from benchmarks.pipetune.workloads import load, missing

LENET: Final = "lenet5 mnist"
SMALL: Final = "bfs"
V1: Final = "étude, v1, alone"
JOBS: Final = (1, 2, 3)
"""On the same cores, the search among them."""
FINAL_EPOCHS: Final = 9


def cells(small: bool, seeds: int, most: int) -> Sequence[Cell]:
    if not small and missing(LENET):
        raise SystemExit(missing(LENET))
    told = {"workload": LENET, "seeds": seeds, "most": most, "final": FINAL_EPOCHS}
    if small:
        told = {"workload": SMALL, "seeds": 1, "most": 3, "final": 2}
    every = cores()
    found = [Cell(V1, {**told, "approach": "v1", "cores": every, "jobs": 1}, limit_s=3600.0)]
    for few in (every[:1],) if small else ([every[:1], every] if len(every) > 1 else [every]):
        for jobs in JOBS[1:2] if small else JOBS:
            name = f"étude, v2, {len(few)} core{'s' * (len(few) > 1)}, {jobs} job{'s' * (jobs > 1)}"
            found.append(Cell(name, {**told, "approach": "v2", "cores": few, "jobs": jobs}, limit_s=3600.0))
    return found


def cores() -> list[int]:
    """Return the cores that may be used; where nobody can be kept to some of them, all of them as one."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from benchmarks.pipetune.compared import compare

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, args["cores"])  # and with it whatever is begun from here on
    workload = load(args["workload"])
    others = functools.partial(trainings, args["workload"], args["jobs"] - 1, threads=len(args["cores"]))
    came = [
        compare(workload, args["approach"], most=args["most"], seed=seed, final_epochs=args["final"], meanwhile=others)
        for seed in range(1, args["seeds"] + 1)
    ]
    each = {
        "error_percent": [100 * (1 - one.final_accuracy) for one in came],
        "epoch_s": [one.epoch_s for one in came],
        "tuning_s": [one.tuning_s for one in came],
    }
    details = {**each, "settings": [dict(one.setting) for one in came]}
    return {**{name: fmean(values) for name, values in each.items()}, "details": details}


@contextlib.contextmanager
def trainings(workload: str, many: int, *, threads: int) -> Iterator[None]:
    """Let so many trainings go on and on beside what is done, from when all of them have trained for an epoch."""
    context = multiprocessing.get_context("spawn")  # studies have left threads here, which a fork does not take along
    begun = [context.Event() for _ in range(many)]
    others = [context.Process(target=train_on, args=(workload, threads, event), daemon=True) for event in begun]
    try:
        for other in others:
            other.start()
        for other, event in zip(others, begun, strict=True):
            while not event.wait(1.0):
                if not other.is_alive():
                    raise SystemExit("a training beside the search has ended; its error stands above.")
        yield
    finally:
        for other in others:
            other.terminate()
            other.join()


def train_on(workload: str, threads: int, begun: Any) -> None:
    """Train without an end, and tell after the first epoch."""
    import torch

    from benchmarks.pipetune.by_hand import ByHand

    torch.set_num_threads(threads)
    ByHand(dict, lambda _: begun.set()).train(load(workload))


def beside_v1(found: Mapping[str, Result]) -> Mapping[str, Result]:
    """Return what each search of system parameters gains on the search without, which had the machine to itself."""
    alone = found.get(V1)
    if alone is None:
        return {}

    def less(one: Result, name: str) -> float:
        return 100 * (1 - one[name] / alone[name]) if alone[name] else 0.0

    return {
        f"{name}, beside v1": {"less_error": less(one, "error_percent"), "less_time": less(one, "epoch_s")}
        for name, one in found.items()
        if name != V1
    }


BENCHMARK = Benchmark(
    name="system_crowded",
    cells=cells,
    work=work,
    quantities=(
        Quantity("error_percent", "%", 1),
        Quantity("epoch_s", "s", 3),
        Quantity("tuning_s", "s", 1),
        Quantity("less_error", "%", 1),
        Quantity("less_time", "%", 1),
    ),
    targets=(),
    totals=beside_v1,
    note=(
        "LeNet-5 on MNIST, live. v2: threads and loader workers are hyperparameters, and the metric is accuracy over\n"
        "the seconds of an epoch; v1: hyperparameters alone, with all cores. jobs: the search, and trainings of the\n"
        "same network that go on beside it on the same cores. The final training has these cores to itself:\n"
        "error and epoch are its. beside v1: by how much they are less; negative is more. Means over seeds, which are\n"
        "few: a search of this size finds now this and now that (details)."
    ),
    numbers={
        "seeds": (3, "searches of each condition"),
        "most": (3, "epochs of the longest trials"),
    },
)

if __name__ == "__main__":
    BENCHMARK.main()
