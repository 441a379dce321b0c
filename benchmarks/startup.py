"""How long after the call of ``tune`` the first trial runs: in a new process, and again in the same one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.common import Benchmark, Cell, Quantity, Result, Target, has_torch

WORKERS = 2
TRIALS = 4


def make_train(log: str, with_torch: bool) -> Callable[..., float]:
    """Return a training function that notes when it started and returns."""

    def train(lr: float) -> float:
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, b"%.6f\n" % time.time())
        os.close(fd)
        return lr

    def train_with_torch(lr: float) -> float:
        import torch

        assert torch.__version__
        return train(lr)

    return train_with_torch if with_torch else train


def make_peer(log: str) -> Callable[..., float]:
    train = make_train(log, False)
    return lambda lr, drop, units, opt: train(lr)


def cells(small: bool) -> Sequence[Cell]:
    ours = [Cell("étude"), *([Cell("étude, torch", {"torch": True})] if has_torch() else [])]
    return [*ours, *(Cell(f"optuna {kind}", {"peer": kind}) for kind in ("threads", "journal"))]


def work(args: Mapping[str, Any], place: Path) -> Result:
    log = place / "starts"
    peer = args.get("peer")
    if peer is not None:
        began = time.time()
        peers.run(peer, make_peer, (str(log),), trials=TRIALS, workers=WORKERS, work=place)
        return {"first_s": first(log) - began}

    before = time.perf_counter()
    import etude

    make = etude.Experiment  # what `import etude` puts off is loaded here
    import_s = time.perf_counter() - before
    experiment = make(make_train(str(log), args.get("torch", False)), metric="y", mode="min")
    began = time.time()
    experiment.tune({"lr": etude.uniform(0, 1)}, trials=TRIALS, workers=WORKERS)
    found: Result = {"first_s": first(log) - began, "import_s": import_s}
    log.unlink()
    began = time.time()
    experiment.tune({"lr": etude.uniform(0, 2)}, trials=TRIALS, workers=WORKERS)
    return {**found, "second_s": first(log) - began}


def first(log: Path) -> float:
    return min(float(line) for line in log.read_text().splitlines())


BENCHMARK = Benchmark(
    name="startup",
    cells=cells,
    work=work,
    quantities=(Quantity("first_s", "s"), Quantity("second_s", "s"), Quantity("import_s", "s")),
    targets=(
        Target("first study, no framework", "étude: first_s", 0.5, "s", at_least=False),
        Target("first study, torch preloaded", "étude, torch: first_s", 2.5, "s", at_least=False),
        Target("second study, no framework", "étude: second_s", 0.3, "s", at_least=False),
        Target("second study, torch preloaded", "étude, torch: second_s", 0.3, "s", at_least=False),
    ),
    note=(
        "first_s: from the call of tune to the first line of the first trial. second_s: another study, in the same\n"
        "process. import_s: import etude and its Experiment. For the peer, first_s has importing Optuna in it."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
