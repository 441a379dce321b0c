"""How an ablation's time falls with workers: arms of unequal length, live with sleeping trials, and simulated."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.stragglers import list_schedule

LIVE: Final = (1, 2, 4)
ARMS, SEEDS = 8, 10
SIMULATED: Final = (1, 2, 4, 8, 16, 32, 64)
MANY_ARMS, MANY_SEEDS = 64, 8
SHORTEST, LONGEST = 0.5, 2.0
"""Of live arms, in seconds; simulated ones take as many hours."""


def lengths(arms: int, *, scale: float = 1.0) -> list[float]:
    """Return how long each arm takes, the base first, always the same ones: between a quarter of the longest and it."""
    draws = random.Random(21)
    return [scale * draws.uniform(SHORTEST, LONGEST) for _ in range(arms)]


def cells(small: bool) -> Sequence[Cell]:
    arms, seeds = (3, 2) if small else (ARMS, SEEDS)
    scale = 0.2 if small else 1.0
    live = [
        Cell(f"étude, {n} workers", {"workers": n, "arms": arms, "seeds": seeds, "scale": scale})
        for n in (LIVE[:2] if small else LIVE)
    ]
    simulated = [
        Cell(
            f"étude, simulated, {n} workers",
            {"workers": n, "arms": 8 if small else MANY_ARMS, "seeds": 2 if small else MANY_SEEDS, "simulated": True},
        )
        for n in (SIMULATED[:2] if small else SIMULATED)
    ]
    return [*live, *simulated]


def work(args: Mapping[str, Any], place: Path) -> Result:
    return simulated(args) if args.get("simulated") else live(args, place)


def value(part: int, seed: int) -> float:
    """Return what an arm comes to: another value for each seed, without which an ablation ends."""
    return part + random.Random(seed).random()


def ablation(train: Any, args: Mapping[str, Any], **given: Any) -> Any:
    """Run an ablation whose n-th arm has ``part=n``, and ``part=0`` in the base."""
    import etude

    parts = [etude.setting("part", off=n) for n in range(1, args["arms"])]
    experiment = etude.Experiment(train, metric="y", mode="min")
    return experiment.ablate(parts, seeds=args["seeds"], workers=args["workers"], force=True, **given)


def live(args: Mapping[str, Any], place: Path) -> Result:
    took, log = lengths(args["arms"], scale=args["scale"]), place / "log"

    def train(run: Any, part: int = 0) -> float:
        begun = time.time()
        time.sleep(took[part])
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, b"%.6f %.6f\n" % (begun, time.time()))
        os.close(fd)
        return value(part, run.seed)

    began = time.time()
    ablation(train, args)
    wall = time.time() - began
    lines = [tuple(map(float, line.split())) for line in log.read_text().splitlines()]
    assert len(lines) == args["arms"] * args["seeds"]
    span = max(end for _, end in lines) - min(begun for begun, _ in lines)
    return {**_over(span, took, args), "wall_s": wall}


def simulated(args: Mapping[str, Any]) -> Result:
    import etude

    took = lengths(args["arms"], scale=3600.0)

    def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        yield took[params.get("part", 0)], {"y": value(params.get("part", 0), seed)}

    def train(part: int = 0) -> float:
        raise AssertionError("nothing is trained")

    engine = etude.Simulated(curves=curve, workers=args["workers"])
    study = ablation(train, {**args, "workers": None}, engine=engine)
    assert len(study.trials) == args["arms"] * args["seeds"]
    return _over(study.makespan_s or 0.0, took, args)


def _over(span: float, took: Sequence[float], args: Mapping[str, Any]) -> Result:
    every = sorted([length for length in took for _ in range(args["seeds"])], reverse=True)
    bound = list_schedule(every, args["workers"])
    return {
        "span_s": span,
        "bound_s": bound,
        "span_over_bound": span / bound,
        "efficiency_percent": 100 * sum(every) / (args["workers"] * span),
    }


BENCHMARK = Benchmark(
    name="ablate_scaling",
    cells=cells,
    work=work,
    quantities=(
        Quantity("span_over_bound", "", 4),
        Quantity("efficiency_percent", "%", 1),
        Quantity("span_s", "s", 2),
        Quantity("wall_s", "s", 2),
    ),
    targets=(
        *(
            Target(
                f"makespan over its bound, {n} workers",
                f"étude, {n} workers: span_over_bound",
                1.02,
                "",
                at_least=False,
            )
            for n in LIVE[1:]
        ),
        Target("efficiency, 64 workers", "étude, simulated, 64 workers: efficiency_percent", 90.0, "%"),
    ),
    note=(
        f"Live: {ARMS} arms of {SHORTEST:g} to {LONGEST:g} s, {SEEDS} seeds. Simulated: {MANY_ARMS} arms of as many "
        f"hours, {MANY_SEEDS} seeds. span: from the first\ntrial's start to the last one's end. bound: list scheduling "
        "of all trials, longest first, at no cost, by who knows all lengths.\nÉtude knows how long an arm takes from "
        "its earlier seeds, and of the first seed nothing here: its arms go in their order.\nefficiency: the sum of "
        "all lengths over the time of all workers."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
