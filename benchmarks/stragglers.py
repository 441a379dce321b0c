"""Trials of very different lengths: how close the makespan comes to that of an ideal list schedule."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.common import Benchmark, Cell, Quantity, Result, Target, space
from benchmarks.tickets import tickets

WORKERS = 4


def durations(trials: int, *, mean: float = 0.4, sigma: float = 0.8, cap: float = 3.0) -> list[float]:
    """Return log-normal durations in seconds, always the same ones."""
    draws = random.Random(44)
    mu = math.log(mean) - sigma * sigma / 2
    return [min(cap, draws.lognormvariate(mu, sigma)) for _ in range(trials)]


def list_schedule(lengths: Sequence[float], workers: int) -> float:
    """Return the makespan if each piece goes, in order and at no cost, to the worker that is free first."""
    free_at = [0.0] * workers
    for length in lengths:
        first = free_at.index(min(free_at))
        free_at[first] += length
    return max(free_at)


def make_train(folder: str, lengths: Sequence[float]) -> Callable[..., float]:
    """Return a training function whose k-th call, in whichever process, sleeps for the k-th length."""
    take_ticket = tickets(folder)

    def train(lr: float, drop: float, units: int, opt: str) -> float:
        begun = time.time()
        k = take_ticket()
        if k < len(lengths):
            time.sleep(lengths[k])
        fd = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, b"%d %.6f %.6f\n" % (k, begun, time.time()))
        os.close(fd)
        return float(k)

    return train


def cells(small: bool) -> Sequence[Cell]:
    size = {"trials": 8, "mean": 0.05} if small else {"trials": 64, "mean": 0.4}
    kinds = ("threads", "journal")
    return [Cell("étude", size), *(Cell(f"optuna {kind}", {**size, "peer": kind}) for kind in kinds)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    folder = place / "trials-log"
    folder.mkdir()
    trials, peer = args["trials"], args.get("peer")
    lengths = durations(trials, mean=args["mean"])
    began = time.time()
    if peer is not None:
        peers.run(peer, make_train, (str(folder), lengths), trials=trials, workers=WORKERS, work=place)
    else:
        import etude

        experiment = etude.Experiment(make_train(str(folder), lengths), metric="y", mode="min")
        experiment.tune(space(), trials=trials, workers=WORKERS, sampler="random", stopper="none")
    wall = time.time() - began
    lines = [line.split() for line in (folder / "log").read_text().splitlines()]
    asked_for = [line for line in lines if int(line[0]) < trials]  # two peers' processes may both take a last one
    assert len(asked_for) == trials
    span = max(float(end) for _, _, end in asked_for) - min(float(begun) for _, begun, _ in asked_for)
    bound = list_schedule(lengths, WORKERS)
    return {"span_over_bound": span / bound, "span_s": span, "bound_s": bound, "wall_over_bound": wall / bound}


BENCHMARK = Benchmark(
    name="stragglers",
    cells=cells,
    work=work,
    quantities=(Quantity("span_over_bound", "", 4), Quantity("wall_over_bound", "", 4), Quantity("span_s", "s")),
    targets=(Target("makespan over its bound", "étude: span_over_bound", 1.02, "", at_least=False),),
    note=(
        "span: from the first trial's start to the last one's end. wall: of the whole call, start-up included.\n"
        "bound: list scheduling in the order in which trials start, at no cost."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
