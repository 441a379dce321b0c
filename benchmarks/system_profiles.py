"""What the first epochs of PipeTune's workloads take of the machine, measured for ``system_recognise``."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, machine
from benchmarks.pipetune import profiles
from benchmarks.pipetune.workloads import DROPOUT, LR, NAMES, missing

SMALL: Final = ("bfs", "one thread")
EPOCHS: Final = 2


def cells(small: bool, repeats: int, into: str) -> Sequence[Cell]:
    names = [name for name in (SMALL if small else NAMES) if not missing(name)]
    told = {"workloads": names, "into": str(Path(into).resolve()) if into else ""}
    return [Cell(f"étude, run {nth}", {**told, "nth": nth}) for nth in range(1 if small else repeats)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    """Train each workload for two epochs, in a process of its own, one after the other."""
    from benchmarks.pipetune.workloads import load

    loaded = [load(name) for name in args["workloads"]]
    draw = random.Random(args["nth"])
    draw.shuffle(loaded)
    found = [_run(workload, args["nth"], draw) for workload in loaded]
    if args["into"]:
        profiles.add(found, machine(), Path(args["into"]))
    firsts = [run.profiles[0] for run in found]
    return {
        "workloads": len(found),
        "rates": max(len(profile.per_step()) for profile in firsts),
        "seconds": sum(profile.seconds for run in found for profile in run.profiles),
        "details": {run.workload: run.profiles[0].rung for run in found},
    }


def _run(workload: Any, nth: int, draw: random.Random) -> profiles.Run:
    from benchmarks.pipetune import measured

    drawn = {
        "lr": math.exp(draw.uniform(*map(math.log, LR))),
        "dropout": draw.uniform(*DROPOUT),
        "weight": draw.uniform(0.3, 1.0),
    }
    params = {name: drawn[name] for name in workload.space if name in drawn}
    default, *_ = measured.settings_of(workload)
    here = measured.seat(workload, profiled=lambda _: True, seed=nth, **params)
    epochs = [here.epoch(default) for _ in range(EPOCHS)]
    here.leave()
    return profiles.Run(workload.name, nth, params, tuple(one.profile for one in epochs if one.profile is not None))


BENCHMARK = Benchmark(
    name="system_profiles",
    cells=cells,
    work=work,
    quantities=(Quantity("workloads", "", 0), Quantity("rates", "", 0), Quantity("seconds", "s", 1)),
    targets=(),
    note=(
        "Each run trains each workload for two epochs with the default setting, in a process of its own, with its own\n"
        "seed, learning rate and dropout. seconds: of all epochs; rates: how many numbers a profile has, per step."
    ),
    numbers={"repeats": (10, "runs of each workload")},
    texts={"into": f"a file that profiles are added to; {profiles.FILE.relative_to(ROOT)} is what others read"},
)

if __name__ == "__main__":
    BENCHMARK.main()
