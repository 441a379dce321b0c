"""The comparison of the PipeTune paper: tuning time, training time, energy and accuracy beside V1 and V2."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.pipetune import tables
from benchmarks.pipetune.compared import APPROACHES, compare
from benchmarks.pipetune.workloads import load, missing
from benchmarks.tenants import jobs
from benchmarks.tenants.jobs import Job
from benchmarks.tenants.made_up import made_up

LIVE: Final = ("lenet5 mnist", "lenet5 fashion", "cnn news", "lstm news", "jacobi", "bfs", "k-means", "one thread")
SMALL_LIVE: Final = ("bfs",)
SOMETHING: Final = 1.05
"""Tables whose best setting has so many times the default's throughput have something to save."""
NOTHING: Final = 1.02
"""Those whose best setting has no more than this have nothing."""


def cells(small: bool, seeds: int, most: int, first: int, file: str, live: str) -> Sequence[Cell]:
    there = Path(file) if file else tables.FILE
    if not small and not there.is_file():
        raise SystemExit(f"There is no {there}. Measure it: python -m benchmarks.system_tables --into {tables.FILE}")
    told = {"file": "" if small else str(there.resolve()), "seeds": 3 if small else seeds, "most": 9 if small else most}
    replays = [
        Cell(
            f"étude, replayed, {'known' if known else 'unseen'}{', made up' if small else ''}", {"known": known, **told}
        )
        for known in (True, False)
    ]
    wanted = [
        name for name in (SMALL_LIVE if small else live.split(",") if live else LIVE) if name and not missing(name)
    ]
    lived = [
        Cell(f"{approach}, {name}", {"live": name, "approach": approach, "small": small, "seed": first}, limit_s=3600.0)
        for name in wanted
        for approach in (("v1", "pipetune") if small else APPROACHES)
    ]
    return [*replays, *lived]


def work(args: Mapping[str, Any], place: Path) -> Result:
    return _live(args) if "live" in args else _replayed(args)


def _live(args: Mapping[str, Any]) -> Result:
    most, final = (3, 3) if args["small"] else (9, 9)
    came = compare(load(args["live"]), args["approach"], most=most, seed=args["seed"], final_epochs=final)
    return {
        "tuning_s": came.tuning_s,
        "accuracy_percent": 100 * came.accuracy,
        "epochs": came.epochs,
        "probes": came.probes,
        "epoch_s": came.epoch_s,
        "final_percent": 100 * came.final_accuracy,
        "joules_modelled": came.joules,
        "details": {"setting": dict(came.setting), "path": [[round(one, 4) for one in step] for step in came.path]},
    }


def _replayed(args: Mapping[str, Any]) -> Result:
    found = tables.read(Path(args["file"])) if args["file"] else made_up()
    each = {table.name: [one_job(found, table, args, seed) for seed in range(args["seeds"])] for table in found}
    rich = [name for name, table in zip(each, found, strict=True) if table.gain >= SOMETHING]
    poor = [name for name, table in zip(each, found, strict=True) if table.gain <= NOTHING]

    def saved(names: Sequence[str], one: str) -> float:
        times = [(job["v1"], job[one]) for name in names for job in each[name]]
        return 100 * (1 - sum(mine for _, mine in times) / sum(v1 for v1, _ in times)) if times else 0.0

    return {
        "rich": len(rich),
        "poor": len(poor),
        "saved_percent": saved(rich, "pipetune"),
        "possible_percent": saved(rich, "best"),
        "of_possible_percent": 100 * saved(rich, "pipetune") / saved(rich, "best") if rich else 0.0,
        "poor_off_percent": max((abs(saved([name], "pipetune")) for name in poor), default=0.0),
        "v2_saved_percent": saved(rich, "v2"),
        "details": {
            table.name: {
                "gain": round(table.gain, 3),
                **{
                    one: round(statistics.fmean(job[one] for job in each[table.name]), 2) for one in each[table.name][0]
                },
            }
            for table in found
        },
    }


def one_job(found: Sequence[tables.Table], table: tables.Table, args: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Return how long one tuning job takes with each approach; all train the same trials, but for V2's."""
    draw = random.Random(f"{seed} {table.name}")
    known = [Job(-1, one, jobs.workload_rates(draw), f"{draw.getrandbits(128):032x}", "") for one in found]
    mine = next(job for job in known if job.table is table)
    if not args["known"]:
        mine = Job(0, table, jobs.workload_rates(draw), f"{draw.getrandbits(128):032x}", "")
    job = Job(0, table, mine.rates, mine.digest, f"{seed} {table.name}")
    approaches = {
        "v1": jobs.V1(),
        "v2": jobs.V2(),
        "pipetune": jobs.PipeTune(jobs.campaign(known, draw), most=12),
        "best": jobs.Best(),
    }
    return {name: approach.run(job, args["most"]).seconds for name, approach in approaches.items()}


BENCHMARK = Benchmark(
    name="system_pipetune",
    cells=cells,
    work=work,
    quantities=(
        Quantity("tuning_s", "s", 1),
        Quantity("accuracy_percent", "%", 1),
        Quantity("epochs", "", 0),
        Quantity("probes", "", 0),
        Quantity("epoch_s", "s", 3),
        Quantity("final_percent", "%", 1),
        Quantity("joules_modelled", "J", 0),
        Quantity("rich", "", 0),
        Quantity("poor", "", 0),
        Quantity("saved_percent", "%", 1),
        Quantity("possible_percent", "%", 1),
        Quantity("of_possible_percent", "%", 1),
        Quantity("poor_off_percent", "%", 2),
        Quantity("v2_saved_percent", "%", 1),
    ),
    targets=tuple(
        target
        for kind in ("known", "unseen")
        for target in (
            Target(f"{kind}: of what could be saved", f"étude, replayed, {kind}: of_possible_percent", 85, "%"),
            Target(
                f"{kind}: where nothing can be", f"étude, replayed, {kind}: poor_off_percent", 1, "%", at_least=False
            ),
        )
    ),
    note=(
        "replayed: tuning jobs under Hyperband, one trial after the other, whose epochs take what was measured;\n"
        "saved: of V1's time, over all tables where the best setting has 1.05 times the default's throughput and more\n"
        "(rich); possible: the same with the best setting from the first epoch on; poor: tables where it has no more\n"
        "than 1.02 times. known: a campaign has measured the workload; unseen: others alone. The rest is live: a\n"
        "search by Hyperband with 1 to 9 epochs, and the final training with what it found; epoch_s: of that.\n"
        "v2 goes by accuracy over the seconds of an epoch; fair v2 by accuracy, and then takes the quickest of those\n"
        "as good. Joules are CPU seconds x 15 W: a model, which may be off by 40 % and more."
    ),
    numbers={
        "seeds": (20, "tuning jobs of each table, replayed"),
        "most": (27, "epochs of the longest trials, replayed"),
        "first": (1, "the seed of searches that are live"),
    },
    texts={
        "file": f"the measured tables, if they are not in {tables.FILE.name}",
        "live": "the workloads that are trained, with commas between; eight if left out",
    },
)

if __name__ == "__main__":
    BENCHMARK.main()
