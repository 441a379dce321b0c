"""How long it takes to simulate a study of thousands of trials on hundreds of workers, journal included."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target, space

REPORTS = 30
FOUR = ("random", "median", "asha", "hyperband")


def cells(small: bool) -> Sequence[Cell]:
    many, more = (60, 100) if small else (10_000, 100_000)
    workers, crowd = (20, 50) if small else (500, 10_000)
    size = {"trials": many, "workers": workers}
    large = {"trials": more, "workers": crowd}
    return [
        Cell("étude, four", {**size, "rules": FOUR}),
        Cell("étude, BOHB", {**size, "rules": ("bohb",)}, limit_s=3600.0),
        Cell("étude, large", {**large, "rules": ("random", "median")}, limit_s=3600.0),
    ]


def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
    """Rise to a height that hangs on the configuration, at a pace that hangs on it too."""
    height = 1.0 - 0.1 * abs(params["drop"] - 0.2) - params["units"] / 1e4
    pace = 20.0 + 400.0 * params["lr"]
    for step in range(1, params.get("epochs", REPORTS) + 1):
        yield pace, {"y": height - 0.5 / step}


def work(args: Mapping[str, Any], place: Path) -> Result:
    found: Result = {}
    for rule in args["rules"]:
        began, cpu = time.perf_counter(), time.process_time()
        study = simulate(rule, args["trials"], args["workers"])
        found[f"{rule}_s"] = time.perf_counter() - began
        found[f"{rule}_cpu_s"] = time.process_time() - cpu
        found[f"{rule}_reports"] = sum(trial.reports for trial in study._history.trials)
        found[f"{rule}_virtual"] = (study.makespan_s or 0.0) / found[f"{rule}_s"]
    found["together_s"] = sum(found[f"{rule}_s"] for rule in args["rules"])
    found["together_cpu_s"] = sum(found[f"{rule}_cpu_s"] for rule in args["rules"])
    found["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def simulate(rule: str, trials: int, workers: int) -> Any:
    """Simulate a study, and return it."""
    import etude

    def train(lr: float, drop: float, units: int, opt: str) -> float:
        raise AssertionError("nothing is trained")

    def budgeted(lr: float, drop: float, units: int, opt: str, epochs: int) -> float:
        raise AssertionError("nothing is trained")

    bohb = rule == "bohb"
    experiment = etude.Experiment(budgeted if bohb else train, metric="y", mode="max")
    given: dict[str, Any] = {"fidelity": "epochs", "budget": (1, 27)} if bohb else {}
    study = experiment.tune(
        space(),
        trials=trials,
        sampler="tpe" if bohb else "random",
        stopper="hyperband" if bohb else "none" if rule == "random" else rule,
        name=rule,
        engine=etude.Simulated(curves=curve, workers=workers, stragglers=0.1, failures=0.01),
        **given,
    )
    assert study.complete
    return study


EACH = (*FOUR, "bohb")
BENCHMARK = Benchmark(
    name="simulate",
    cells=cells,
    work=work,
    quantities=(
        Quantity("together_s", "s", 1),
        Quantity("together_cpu_s", "s", 1),
        *(Quantity(f"{rule}_s", "s", 1) for rule in EACH),
        *(Quantity(f"{rule}_cpu_s", "s", 1) for rule in EACH),
        *(Quantity(f"{rule}_reports", "", 0) for rule in EACH),
        *(Quantity(f"{rule}_virtual", "s a second", 0) for rule in EACH),
        Quantity("memory_mb", "MB", 0),
    ),
    targets=(
        Target("random, median, ASHA and Hyperband", "étude, four: together_s", 60.0, "s", at_least=False),
        Target("BOHB", "étude, BOHB: together_s", 300.0, "s", at_least=False),
        Target("random and median, large", "étude, large: together_s", 300.0, "s", at_least=False),
    ),
    note=(
        f"four, BOHB: 500 workers and 10,000 trials; large: 10,000 workers and 100,000 trials. {REPORTS} reports\n"
        "for each trial that is not stopped; with BOHB (sampler='tpe', stopper='hyperband', budgets 1, 3, 9, 27) as\n"
        "many as its budget. 10 % stragglers, 1 % of the attempts lost. virtual: seconds of the study for each second."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
