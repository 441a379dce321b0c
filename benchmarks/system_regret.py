"""How close a study whose machine is tuned comes to the best setting, and that it does no harm."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target
from benchmarks.pipetune import replayed, tables
from benchmarks.pipetune.workloads import missing

MADE_UP: Final = 24
SEEDS: Final = 20
TRIALS: Final = (1, 12)
"""One long trial, and a dozen of 20 epochs."""

LIVE: Final = ("lenet5 mnist", "lstm news", "jacobi", "k-means", "decoding", "augmented", "one thread")
SMALL_LIVE: Final = ("bfs",)
KIND_OF: Final = {"étude, measured tables": False, "étude, made-up tables": True}


def cells(small: bool, epochs: int, measured: str) -> Sequence[Cell]:
    file = str(Path(measured).resolve() if measured else tables.FILE)
    there = {table.name for table in tables.read(Path(file))}
    replays = [
        Cell(name, {"tables": file, "made_up": is_made_up, "small": small})
        for name, is_made_up in KIND_OF.items()
        if is_made_up or there
    ]
    live = [
        Cell(f"étude, live {name}", {"tables": file, "live": name, "epochs": 8 if small else epochs, "small": small})
        for name in (SMALL_LIVE if small else LIVE)
        if not missing(name) and (small or name in there)
    ]
    return [*replays, *live]


def work(args: Mapping[str, Any], place: Path) -> Result:
    if "live" in args:
        return _live(args)
    found = [tables.made_up(seed) for seed in range(MADE_UP)] if args["made_up"] else tables.read(Path(args["tables"]))
    outcomes = {
        table.name: [
            replayed.study(table, seed=seed, trials=trials)
            for trials in TRIALS
            for seed in range(2 if args["small"] else SEEDS)
        ]
        for table in found
    }
    every = [outcome for of in outcomes.values() for outcome in of]
    return {
        "tables": len(found),
        "gain": statistics.median(table.gain for table in found),
        "of_best_percent": 100 * statistics.median(one.of_best for one in every),
        "of_best_worst_table_percent": 100
        * min(statistics.fmean(one.of_best for one in of) for of in outcomes.values()),
        "of_best_reached_percent": 100 * statistics.fmean(one.of_best >= 0.95 for one in every),
        "of_default_worst_percent": 100 * min(one.of_default for one in every),
        "probing_worst_percent": 100 * max(one.probing for one in every),
        "details": {
            table.name: {
                "gain": round(table.gain, 3),
                "of_best": round(statistics.fmean(one.of_best for one in outcomes[table.name]), 4),
                "of_default": round(statistics.fmean(one.of_default for one in outcomes[table.name]), 4),
                "worst_of_best": round(min(one.of_best for one in outcomes[table.name]), 4),
                "worst_of_default": round(min(one.of_default for one in outcomes[table.name]), 4),
            }
            for table in found
        },
    }


def _live(args: Mapping[str, Any]) -> Result:
    from benchmarks.pipetune import alive, measured
    from benchmarks.pipetune.workloads import load

    workload = load(args["live"])
    there = {table.name: table for table in tables.read(Path(args["tables"]))}
    table = there.get(args["live"]) if not args["small"] else None
    if table is None:
        table = alive.quick(workload, measured.settings_of(workload)[:2])
    lived = alive.study(workload, table, epochs=args["epochs"], trials=2 if args["small"] else 5, every=4)
    return {
        "gain": table.gain,
        "of_best_percent": 100 * lived.of_best,
        "of_default_percent": 100 * lived.of_default,
        "probing_percent": 100 * lived.probing,
        "details": {"kept": lived.kept, "best by the table": lived.best},
    }


def targets() -> Sequence[Target]:
    found = []
    for name in KIND_OF:
        found += [
            Target(f"{name}: throughput of the best", f"{name}: of_best_worst_table_percent", 95, "%"),
            Target(f"{name}: never below the default", f"{name}: of_default_worst_percent", 98, "%"),
            Target(f"{name}: probing", f"{name}: probing_worst_percent", 5, "%", at_least=False),
        ]
    return found


BENCHMARK = Benchmark(
    name="system_regret",
    cells=cells,
    work=work,
    quantities=(
        Quantity("tables", "", 0),
        Quantity("gain", "x", 3),
        Quantity("of_best_percent", "%", 1),
        Quantity("of_best_worst_table_percent", "%", 1),
        Quantity("of_best_reached_percent", "%", 1),
        Quantity("of_default_percent", "%", 1),
        Quantity("of_default_worst_percent", "%", 1),
        Quantity("probing_percent", "%", 1),
        Quantity("probing_worst_percent", "%", 1),
    ),
    targets=targets(),
    note=(
        f"Studies of {replayed.EPOCHS} epochs, {SEEDS} seeds, as one long trial and as a dozen. of_best, of_default:\n"
        "throughput over that of the best setting, and of the default, from the first epoch to the last; the worst\n"
        "table by the mean of its studies, the worst default of all studies; reached: share of studies with 95 % of\n"
        "the best or more. gain: what the best setting has over the default. Made-up tables were not measured. Live:\n"
        "trained, beside epochs by default and with the best setting of the table."
    ),
    numbers={"epochs": (200, "epochs of a live study")},
    texts={"measured": f"a file of tables; {tables.FILE.relative_to(ROOT)} if there is one"},
)

if __name__ == "__main__":
    BENCHMARK.main()
