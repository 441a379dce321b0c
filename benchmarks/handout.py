"""Trials that return at once: how many a second get through, and what the processes weigh."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.common import Benchmark, Cell, Quantity, Result, Target, has_torch, space

WORKERS = 2


def make_train(log: str, with_torch: bool = False) -> Callable[..., float]:
    """Return a training function that notes when it started and returns."""

    def train(lr: float, drop: float, units: int, opt: str) -> float:
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, b"%.6f\n" % time.time())
        os.close(fd)
        return lr + drop

    def train_with_torch(lr: float, drop: float, units: int, opt: str) -> float:
        import torch

        assert torch.__version__
        return train(lr, drop, units, opt)

    return train_with_torch if with_torch else train


def cells(small: bool) -> Sequence[Cell]:
    few, many = (12, 24) if small else (300, 3000)
    found = [
        Cell("étude", {"trials": few}),
        Cell("étude, reuse_child", {"trials": many, "reuse_child": True}),
        *(Cell(f"optuna {kind}", {"trials": few, "peer": kind}) for kind in peers.KINDS),
        Cell("étude, sampled", {"trials": 24 if small else 1000}, sampled=True),
    ]
    if has_torch() and not small:
        found[2:2] = [
            Cell("étude, torch", {"trials": few, "torch": True}),
            Cell("étude, torch, reuse_child", {"trials": many, "torch": True, "reuse_child": True}),
        ]
        found.append(Cell("étude, torch, sampled", {"trials": few, "torch": True}, sampled=True))
    return found


def work(args: Mapping[str, Any], place: Path) -> Result:
    log = str(place / "starts")
    trials, peer = args["trials"], args.get("peer")
    make_arguments = (log, args.get("torch", False))
    began = time.time()
    if peer is not None:
        peers.run(peer, make_train, make_arguments, trials=trials, workers=WORKERS, work=place)
    else:
        tune(make_train(*make_arguments), trials, reuse_child=args.get("reuse_child", False))
    ended = time.time()
    starts = sorted(float(line) for line in Path(log).read_text().splitlines())
    assert len(starts) >= trials
    rate = (len(starts) - 1) / (starts[-1] - starts[0])
    return {"trials_per_s": rate, "startup_s": starts[0] - began, "wall_s": ended - began}


def tune(train: Callable[..., float], trials: int, *, reuse_child: bool) -> None:
    import etude

    experiment = etude.Experiment(train, metric="y", mode="min")
    search = experiment.tune(
        space(), trials=trials, workers=WORKERS, sampler="random", stopper="none", reuse_child=reuse_child
    )
    assert search.counts() == {"finished": trials}, search.counts()


BENCHMARK = Benchmark(
    name="handout",
    cells=cells,
    work=work,
    quantities=(Quantity("trials_per_s", "1/s", 1), Quantity("startup_s", "s"), Quantity("pss_mb", "MB", 1)),
    targets=(
        Target("a fresh process per attempt", "étude: trials_per_s", 500, "trials/s"),
        Target("the same with torch preloaded", "étude, torch: trials_per_s", 100, "trials/s"),
        Target("reuse_child=True", "étude, reuse_child: trials_per_s", 2500, "trials/s"),
        Target("memory of all processes", "étude, sampled: pss_mb", 150, "MB", at_least=False),
    ),
    note=(
        "trials_per_s: after start-up, by the trials' own clocks. pss_mb: proportional memory of all processes at its\n"
        "peak, sampled in runs of their own. optuna threads: one process, in memory, no isolation."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
