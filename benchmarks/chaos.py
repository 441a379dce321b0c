"""Studies under kills and stops: what faults cost, and whether anything is lost, run again, or trained otherwise."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

WORKERS = 4
NETS = "étude, networks"


def study(trials: str) -> None:
    """Run the study; it is started again by this same call whenever its driver was killed."""
    import etude

    def train(lr: float, width: int, *, run: Any) -> float:
        for epoch in run.epochs(20):
            time.sleep(0.06)
            run.report(score=-((lr - 0.3) ** 2) * (epoch + 1))
        with open(os.environ["ETUDE_CHAOS_LOG"], "a") as log:
            log.write(f"done {run.trial}\n")
        return -((lr - 0.3) ** 2) + width / 1000

    etude.Experiment(train, metric="score", mode="max").tune(
        {"lr": etude.loguniform(1e-3, 1.0), "width": etude.integers(1, 512, log=True)},
        trials=int(trials),
        workers=WORKERS,
        sampler="random",
        stopper="none",
    )


def table(folder: Path) -> list[Any]:
    """Return what has to be the same as in an undisturbed run."""
    import etude

    trials = etude.open(folder).trials
    return [(t.number, t.params, t.state, t.value, sorted(t.metrics.items()), list(t.curve)) for t in trials]


def cells(small: bool) -> Sequence[Cell]:
    return [
        Cell(
            "étude",
            {
                "study": "benchmarks.chaos:study",
                **({"trials": 4, "faults": 4} if small else {"trials": 100, "faults": 200}),
            },
        ),
        Cell(
            NETS,
            {
                "study": "benchmarks.chaos_networks:study",
                **({"trials": 2, "faults": 1} if small else {"trials": 40, "faults": 60}),
            },
        ),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    from etude.testing import chaos

    module, _, name = args["study"].partition(":")
    target = getattr(importlib.import_module(module), name)  # by name, since this module is __main__ here
    trials = str(args["trials"])
    disturbed = chaos(target, trials, studies=place / "disturbed", faults=args["faults"], seed=1)
    plain = chaos(target, trials, studies=place / "plain", faults=0)
    assert disturbed.returncode == plain.returncode == 0, disturbed.errors + plain.errors
    return {
        "faults": sum(disturbed.faults.values()),
        "not_finished": disturbed.unfinished,
        "run_again_or_doubled": len(disturbed.broken),
        "left_behind": len(disturbed.left),
        "rows_that_differ": sum(a != b for a, b in zip(table(disturbed.folder), table(plain.folder), strict=True)),
        "died_unwritten": disturbed.died,
        "attempts": disturbed.attempts,
        "driver_starts": disturbed.starts,
        "wall_s": disturbed.seconds,
        "undisturbed_s": plain.seconds,
        "details": {
            "faults": dict(disturbed.faults),
            "torn": dict(disturbed.tails),
            "torn_spools": disturbed.spools,
            "delayed": disturbed.delayed,
            "doubled": disturbed.doubled,
            "put_off": disturbed.spared,
        },
    }


COUNTS = ("not_finished", "run_again_or_doubled", "left_behind", "rows_that_differ")

BENCHMARK = Benchmark(
    name="chaos",
    cells=cells,
    work=work,
    quantities=(
        *(Quantity(key, "", 0) for key in ("faults", *COUNTS, "died_unwritten", "attempts", "driver_starts")),
        Quantity("wall_s", "s", 1),
        Quantity("undisturbed_s", "s", 1),
    ),
    targets=(
        Target("faults that fell", "étude: faults", 200, ""),
        Target("faults that fell on networks", f"{NETS}: faults", 60, ""),
        *(
            Target(f"{key.replace('_', ' ')}, {row}", f"{row}: {key}", 0, "", at_least=False)
            for row in ("étude", NETS)
            for key in COUNTS
        ),
    ),
    note=(
        "Default settings, resumed by the same call. died_unwritten: trainings that were completed and whose outcome\n"
        "was not written by then. No fault that costs an attempt falls on a trial that has no retry left (put_off)."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
