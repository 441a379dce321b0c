"""What it is worth that arms of a seed share weights and batches: named streams against one global generator."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import correlation, fmean, variance
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target, has_torch

SEEDS: Final = 100
LIMIT_S: Final = 3600.0
DATA: Final = ("table", "images", "digits")
ARMS: Final = ("layer", "other")
METRICS: Final = ("short loss", "short accuracy", "long loss", "long accuracy")
RESAMPLED: Final = 1000


def cells(small: bool, seeds: int) -> Sequence[Cell]:
    if not has_torch():
        return []
    return [
        Cell(f"étude, {name}", {"data": name, "seeds": 3 if small else seeds, "small": small}, limit_s=LIMIT_S)
        for name in (DATA[-1:] if small else DATA)
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import torch

    from benchmarks.pairing_workloads import WORKLOADS, by_one_generator, experiment

    torch.set_num_threads(1)
    of, small = WORKLOADS[args["data"]](), args["small"]
    began = time.monotonic()
    named, alike, seeds = in_streams(experiment(of, small=small), of.taken, args["seeds"])
    ours_s, began = time.monotonic() - began, time.monotonic()
    single = {arm: [by_one_generator(of, arm, seed, small=small) for seed in seeds] for arm in ("base", *of.taken)}
    result: Result = {"alike_percent": 100 * alike, "minutes": (ours_s + time.monotonic() - began) / 60}
    details: dict[str, Any] = {"data": of.name, "arms": of.taken, "seeds": len(seeds), "metrics": {}}
    for key, arm in zip(ARMS, of.taken, strict=True):
        for metric in METRICS:
            base, other = ([run[metric] for run in named[name]] for name in ("base", arm))
            alone, apart = ([run[metric] for run in single[name]] for name in ("base", arm))
            told = compared(base, other, alone, apart)
            details["metrics"][f"{arm}: {metric}"] = told
            result |= {f"{key}, {metric}: {what}": told[what] for what in SHOWN if what in told}
    return {**result, "details": details}


SHOWN: Final = ("correlation", "one generator", "variance", "low", "high")


def in_streams(experiment: Any, taken: Sequence[str], n: int) -> tuple[dict[str, list[Any]], float, Sequence[int]]:
    """Train all arms as workers do, and return what came of them, and the share of pairs that began alike."""
    from etude.ablate.pairing import compare
    from etude.worker.bind import Bound
    from etude.worker.run import Run
    from etude.worker.seeds import kept_generators

    draft = experiment.ablate(list(taken), seeds=n, dry_run=True)
    assert not draft.refused, draft
    found: dict[str, list[Any]] = {one.arm.name: [] for one in draft.arms}
    pairs = []
    for seed in draft.seeds:
        base: Mapping[str, Any] = {}
        for one in draft.arms:
            params = {**experiment.signature.defaults(), **one.arm.settings}
            run = Run(metrics=experiment.metrics.names, params=params, seed=seed)
            bound = Bound(experiment.functions, experiment.signature, params, run, arm=one.arm)
            with kept_generators():
                found[one.arm.name].append(bound.train())
            prints = bound.fingerprints["fingerprints"]
            base = base or prints
            pair = compare(base, prints, data_differ=one.arm.features is not None)
            pairs.append(pair.is_pair and pair.batches is True and pair.shared > 0)
    names = dict(zip(found, ("base", *taken), strict=True))
    return {names[name]: runs for name, runs in found.items()}, fmean(pairs), draft.seeds


def compared(
    base: Sequence[float], arm: Sequence[float], alone: Sequence[float], apart: Sequence[float]
) -> dict[str, float]:
    """Return what pairing is worth: correlations, and the variance of the difference as a share of the other one.

    Args:
        base: Values of the base by seed, with named streams.
        arm: Those of the arm.
        alone: Values of the base with one generator.
        apart: Those of the arm.
    """
    ours, theirs = _differences(base, arm), _differences(alone, apart)
    told = {"difference": fmean(ours), "their difference": fmean(theirs)}
    told |= {"variance of differences": variance(ours), "their variance": variance(theirs)}
    told |= _correlation("correlation", base, arm) | _correlation("one generator", alone, apart)
    if not variance(theirs):
        return told
    draws = random.Random(0)
    n, ratios = len(ours), []
    for _ in range(RESAMPLED):
        one, two = draws.choices(ours, k=n), draws.choices(theirs, k=n)
        if len(set(two)) > 1:
            ratios.append(100 * variance(one) / variance(two))
    ratios.sort()
    told["variance"] = 100 * variance(ours) / variance(theirs)
    return told | {"low": ratios[len(ratios) // 40], "high": ratios[-1 - len(ratios) // 40]}


def _differences(one: Sequence[float], two: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(one, two, strict=True)]


def _correlation(name: str, one: Sequence[float], two: Sequence[float]) -> dict[str, float]:
    """Return the correlation under a name; nothing if either never changes."""
    return {name: correlation(one, two)} if len(set(one)) > 1 and len(set(two)) > 1 else {}


BENCHMARK = Benchmark(
    name="ablate_pairing",
    cells=cells,
    work=work,
    quantities=(
        Quantity("alike_percent", "%", 1),
        *(
            Quantity(f"{arm}, {metric}: {what}", unit, digits)
            for arm in ARMS
            for metric in METRICS
            for what, unit, digits in (
                ("correlation", "", 2),
                ("one generator", "", 2),
                ("variance", "%", 0),
                ("low", "%", 0),
                ("high", "%", 0),
            )
        ),
        Quantity("minutes", "min", 1),
    ),
    targets=tuple(
        Target(f"pairs that begin alike, {name}", f"étude, {name}: alike_percent", 100.0, "%") for name in DATA
    ),
    note=(
        "Each arm is compared with the base seed by seed, on test loss and accuracy, after a short and a long\n"
        "training of the same run. layer: without the second hidden layer; other: without a feature (table) or\n"
        "dropout. table: Adult, images: Fashion-MNIST, 800 examples each; where their files are not, sklearn's\n"
        "tumours, and digits with wrong labels. correlation: of the values of both over seeds, with named streams\n"
        "and (one generator) with all draws from one seed, the model built without the component by hand.\n"
        "variance: of the paired difference with named streams, as a share of that with one generator, and its 95\n"
        "% interval by resampling seeds. alike: pairs that share all weights that both have, and their batches,\n"
        "bit for bit, by fingerprints. One run (--runs 1) is all there is to it."
    ),
    numbers={"seeds": (SEEDS, "seeds of each arm")},
)

if __name__ == "__main__":
    BENCHMARK.main()
