"""How long a training thread waits for checkpoints that are written in the background."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

TIMES: Final = 50
"""An epoch is so many times as long as writing a state takes."""

LAYERS: Final = 20


def cells(small: bool) -> Sequence[Cell]:
    args = {"parameters": 2_000, "epochs": 4} if small else {"parameters": 20_000_000, "epochs": 5}
    return [Cell("étude", args, limit_s=3600.0)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import etude

    write_s = _writing(args["parameters"], place)
    epoch_s = TIMES * write_s
    epochs, parameters = args["epochs"], args["parameters"]

    def train(keeps: bool, run: etude.Run) -> dict[str, Any]:
        net = _net(parameters)
        if keeps:
            run.keep(net=net)
        waits, copies, cpu_s, wall_s = [], [], 0.0, 0.0
        ended, cpu = None, 0.0
        for _ in run.epochs(epochs):
            began = time.perf_counter()
            if ended is not None:
                waits.append(began - ended)
                copies.append(time.thread_time() - cpu)
            cpu = time.thread_time()
            while time.perf_counter() - began < epoch_s:
                net[0].add_(0.001)
            cpu_s += time.thread_time() - cpu
            ended, cpu = time.perf_counter(), time.thread_time()
            wall_s += ended - began
        return {"y": 0.0, "waits": waits, "copies": copies, "cpu_s": cpu_s, "wall_s": wall_s}

    search = etude.Experiment(train, metric="y", mode="min").tune(
        {"keeps": [True, False]}, trials=2, workers=1, sampler="grid", stopper="none"
    )
    assert search.counts() == {"finished": 2}, search.summary()
    with_it, without = ({t.params["keeps"]: t.metrics for t in search.trials}[keeps] for keeps in (True, False))
    blocked = [100 * wait / (epoch_s + wait) for wait in with_it["waits"]]
    lost, lost_anyway = (100 * (1 - found["cpu_s"] / found["wall_s"]) for found in (with_it, without))
    return {
        "blocked_percent": statistics.fmean(blocked),
        "worst_percent": max(blocked),
        "wait_ms": 1000 * statistics.median(with_it["waits"]),
        "copy_ms": 1000 * statistics.median(with_it["copies"]),
        "write_ms": 1000 * write_s,
        "without_ms": 1000 * statistics.median(without["waits"]),
        "lost_percent": lost,
        "lost_anyway_percent": lost_anyway,
        "details": {"waits_s": with_it["waits"], "copies_s": with_it["copies"]},
    }


def _net(parameters: int) -> Any:
    import torch

    net = torch.nn.ParameterList([torch.randn(parameters // LAYERS) for _ in range(LAYERS)])
    return net.requires_grad_(False)


def _writing(parameters: int, place: Path) -> float:
    """Return the seconds that writing a state takes, with nothing else to do."""
    from etude.frameworks import state_file
    from etude.frameworks.trees import take_apart

    plain, arrays = take_apart(_net(parameters).state_dict(), path="net")
    times = []
    for _ in range(3):
        began = time.perf_counter()
        state_file.write(place / "state.safetensors", plain, arrays)
        times.append(time.perf_counter() - began)
    (place / "state.safetensors").unlink()
    return statistics.median(times)


BENCHMARK = Benchmark(
    name="weights_stall",
    cells=cells,
    work=work,
    quantities=(
        Quantity("blocked_percent", "%", 3),
        Quantity("worst_percent", "%", 3),
        Quantity("wait_ms", "ms", 2),
        Quantity("copy_ms", "ms", 2),
        Quantity("write_ms", "ms", 1),
        Quantity("without_ms", "ms", 3),
        Quantity("lost_percent", "%", 2),
        Quantity("lost_anyway_percent", "%", 2),
    ),
    targets=(Target("training waits for checkpoints", "étude: blocked_percent", 1, "%", at_least=False),),
    note=(
        "An epoch takes 50 times as long as writing a state does, alone. blocked: the time between two turns of\n"
        "run.epochs (wait_ms): that of the copy (copy_ms is its CPU). without_ms is the same with nothing kept.\n"
        "lost: the part of an epoch in which the training thread, which only computes, had no core, be it for the\n"
        "thread that writes or for other processes; lost_anyway is that with nothing kept."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
