"""A study of a transformer for tables, as ABLATOR's: random trials, thousands of simulated ones, and an ablation."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result
from benchmarks.golden.tables import made_up
from benchmarks.golden.taught import Taught, simulated
from benchmarks.live.workload import FOLDER

WORKERS: Final = 2
USUAL: Final = {"rows": 1000, "trials": 40, "seeds": 8, "simulated": 780}
SMALL: Final = {"rows": 24, "trials": 10, "seeds": 2, "simulated": 30}
REFERENCE: Final = {"adult": 0.859}
"""Accuracy of the FT-Transformer that ABLATOR's table 1 has beside its own; the other tables are other subsets here."""

LED: Final = "covertype"
"""The table that TPE searches as well, as in ABLATOR's second question."""


def cells(small: bool) -> Sequence[Cell]:
    example = importlib.import_module("examples.tablator")
    missing = [file for file in example.FILES.values() if not (FOLDER / file).is_file()]
    if missing and not small:
        raise SystemExit(f"{FOLDER} has no {', '.join(missing)}. ETUDE_DATA_SETS names the folder with the data sets.")
    return [Cell("étude", {"small": small, **(SMALL if small else USUAL)}, limit_s=2 * 3600.0)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    example = importlib.import_module("examples.tablator")
    folder = str(made_up(place, args["rows"] * 3, example.FILES) if args["small"] else FOLDER.resolve())
    live = {
        table: told(
            example.search(
                folder,
                table,
                rows=args["rows"],
                trials=args["trials"],
                workers=WORKERS,
                reuse_child=True,
                name=f"{table}-live",
            ),
            REFERENCE.get(table),
        )
        for table in example.FILES
    }
    across = example.experiment.ablate(
        example.SWITCHES,
        at={"folder": folder, "rows": args["rows"]},
        across={"table": list(example.FILES)},
        seeds=args["seeds"],
        workers=WORKERS,
        reuse_child=True,
        force=args["small"],
        name="switches",
    )
    ablation = {name.partition("=")[2]: arms_of(several[0]) for name, several in across.items()}
    large = {}
    for table, found in live.items():
        base, *_ = ablation[table]
        taught = Taught.by(found, example.SPACE, noise=stdev(base["values"].values()))
        samplers = ("random", "tpe") if table == LED else ("random",)
        large[table] = {one: simulated(example, taught, one, trials=args["simulated"], table=table) for one in samplers}
    trials = sum(len(one["random"]["score"]) + one["random"]["failed"] for one in large.values())
    row = {
        "live_trials": sum(len(one["score"]) for one in live.values()),
        "ablation_trials": sum(len(arm["values"]) for arms in ablation.values() for arm in arms),
        "simulated_trials": trials,
        **{f"{table}, best": 100 * max(found["score"]) for table, found in live.items()},
        **{f"{table}, mean": 100 * sum(found["score"]) / len(found["score"]) for table, found in live.items()},
    }
    return {**row, "details": {"live": live, "simulated": large, "ablation": ablation}}


def told(search: Any, reference: float | None) -> Result:
    """Return all that a line keeps of a search of real trainings: each trial, and what threatens conclusions."""
    done = [trial for trial in search.trials if trial.value is not None]
    names = sorted(name for name in done[0].params if name not in ("folder", "table", "rows"))
    return {
        "score": [round(trial.value, 4) for trial in done],
        "size": [int(trial.metrics["size"]) for trial in done],
        "params": {name: [short(trial.params[name]) for trial in done] for name in names},
        "lost": len(search.trials) - len(done),
        "trial_s": [round(trial.duration_s or 0.0, 2) for trial in done],
        "threats": {one.name: [one.seriousness.value, one.finding] for one in search.threats(reference=reference)},
        "clear": list(search.threats(reference=reference).clear),
    }


def short(value: Any) -> Any:
    """Return a value with as many digits as anybody reads."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def arms_of(ablation: Any) -> list[Result]:
    """Return what a line keeps of an ablation: each arm's runs by seed, and whether they are pairs."""
    base = ablation.arms[0]
    return [
        {
            "name": arm.name,
            "values": {str(seed): value for seed, value in arm.values.items()},
            "paired": arm is base or all(one.is_pair for one in ablation.pairing(arm.name).values()),
        }
        for arm in ablation.arms
    ]


BENCHMARK = Benchmark(
    name="tablator",
    cells=cells,
    work=work,
    quantities=(
        Quantity("live_trials", "", 0),
        Quantity("ablation_trials", "", 0),
        Quantity("simulated_trials", "", 0),
        *(
            Quantity(f"{table}, {what}", "%", 2)
            for table in ("adult", "california-housing", "covertype")
            for what in ("best", "mean")
        ),
    ),
    targets=(),
    note=(
        "A small transformer on 1,000 rows of each of three tables: random trials of 21 parameters, an ablation of\n"
        "six switches, and thousands of simulated trials that go by what a forest learned of the real ones. best,\n"
        "mean: of the real random trials; accuracy, or of prices the share of the variance that is explained."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
