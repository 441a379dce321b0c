"""The same study live and simulated: how far the simulated makespan is from the real one."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.stragglers import durations

WORKERS = (2, 4)
PROBES = 24
"""Trials of the little study that measures what a hand-out and a report take on this machine."""


def cells(small: bool) -> Sequence[Cell]:
    many = {"trials": 6, "mean": 0.05} if small else {"trials": 48, "mean": 0.8}
    stopped = {"trials": 6, "step_s": 0.01} if small else {"trials": 48, "step_s": 0.06}
    return [
        *(Cell(f"étude stragglers, {n} workers", {**many, "workers": n, "kind": "stragglers"}) for n in WORKERS),
        *(Cell(f"étude stopping, {n} workers", {**stopped, "workers": n, "kind": "stopping"}) for n in WORKERS),
    ]


def stragglers(trials: int, mean: float) -> list[list[tuple[float, float]]]:
    """Return the course of each trial: one step that takes as long as the trial does, and what it reports."""
    return [[(length, 0.5)] for length in durations(trials, mean=mean)]


def stopping(trials: int, step_s: float) -> list[list[tuple[float, float]]]:
    """Return courses that rise to different heights in twenty steps."""
    draws = random.Random(45)
    heights = [draws.random() for _ in range(trials)]
    return [[(step_s, height - 0.5 / step) for step in range(1, 21)] for height in heights]


def make_train(courses: Sequence[Sequence[tuple[float, float]]]) -> Callable[..., None]:
    """Return a training function that sleeps through the course of trial ``k``."""

    def train(run: Any, k: int) -> None:
        for seconds, value in courses[k]:
            time.sleep(seconds)
            run.report(y=value)

    return train


def make_curve(courses: Sequence[Sequence[tuple[float, float]]]) -> Callable[..., Any]:
    """Return the same as a curve."""

    def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        for seconds, value in courses[params["k"]]:
            yield seconds, {"y": value}

    return curve


def work(args: Mapping[str, Any], place: Path) -> Result:
    if args["kind"] == "stragglers":
        courses, stopper = stragglers(args["trials"], args["mean"]), "none"
    else:
        courses, stopper = stopping(args["trials"], args["step_s"]), "median"
    handout_s = measured(args["workers"])
    live = tune(courses, stopper, name="live", workers=args["workers"])
    simulated = tune(courses, stopper, name="simulated", workers=args["workers"], handout_s=handout_s)
    ideal = tune(courses, stopper, name="ideal", workers=args["workers"], handout_s=0.0)
    real_s, virtual_s = makespan(live), makespan(simulated)
    return {
        "off_percent": 100.0 * abs(virtual_s / real_s - 1.0),
        "ideal_off_percent": 100.0 * abs(makespan(ideal) / real_s - 1.0),
        "live_s": real_s,
        "simulated_s": virtual_s,
        "handout_ms": handout_s * 1e3,
        "live_stopped": live.counts().get("stopped", 0),
        "simulated_stopped": simulated.counts().get("stopped", 0),
    }


def tune(courses: Sequence[Any], stopper: str, *, name: str, workers: int, handout_s: float | None = None) -> Any:
    """Run a study over all courses, in their order; simulate it if a latency is given."""
    import etude

    experiment = etude.Experiment(make_train(courses), metric="y", mode="max")
    how: dict[str, Any] = {"workers": workers}
    if handout_s is not None:
        engine = etude.Simulated(curves=make_curve(courses), workers=workers, handout_s=handout_s)
        how = {"engine": engine}
    start = [{"k": k} for k in range(len(courses))]
    return experiment.tune(
        {"k": list(range(len(courses)))}, trials=len(courses), start=start, sampler="random", stopper=stopper,
        name=name, **how,
    )  # fmt: skip


def makespan(study: Any) -> float:
    """Return the seconds from the first hand-out to the last end."""
    found = study.makespan_s
    assert found is not None
    return float(found)


def measured(workers: int) -> float:
    """Return how many seconds of a trial's hold on its worker are not its own, in a little study of sleeping trials."""
    courses = [[(0.05, 0.5)] for _ in range(PROBES)]
    found = tune(courses, "none", name="probe", workers=workers)
    held = sorted((t.started_at, t.ended_at) for t in found.trials)
    return float(statistics.median(ended - started - 0.05 for started, ended in held))


BENCHMARK = Benchmark(
    name="fidelity",
    cells=cells,
    work=work,
    quantities=(
        Quantity("off_percent", "%", 2),
        Quantity("ideal_off_percent", "%", 2),
        Quantity("live_s", "s", 3),
        Quantity("simulated_s", "s", 3),
        Quantity("handout_ms", "ms", 2),
        Quantity("live_stopped", "", 0),
        Quantity("simulated_stopped", "", 0),
    ),
    targets=tuple(
        Target(f"{kind}, {n} workers", f"étude {kind}, {n} workers: off_percent", 3.0, "%", at_least=False)
        for kind in ("stragglers", "stopping")
        for n in WORKERS
    ),
    note=(
        "off: how far the simulated makespan is from the live one. handout: what a hand-out, a report and an outcome\n"
        "cost together, by a little study before, on this machine; the simulation is given that and nothing else.\n"
        "ideal: with no latency at all. The target speaks of five runs: --runs 5."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
