"""The third experiment of the paper on AutoAblation: InceptionV3 without each of seven modules; 1, 2 and 4 workers."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.autoablation import printed, studied
from benchmarks.common import Benchmark, Cell, Quantity, Result
from benchmarks.live.workload import FOLDER
from benchmarks.stragglers import list_schedule

IMAGES: Final = FOLDER / "cifar10"
USUAL: Final = {"images": 48, "epochs": 1, "batch_size": 16}
SMALL: Final = {"images": 4, "epochs": 1, "batch_size": 2}


def cells(small: bool) -> Sequence[Cell]:
    if not small and not IMAGES.is_dir():
        raise SystemExit(f"There is no {IMAGES}. ETUDE_DATA_SETS names the folder with the data sets.")
    many = (2,) if small else printed.WORKERS
    sizes = SMALL if small else USUAL
    return [Cell(name_of(workers), {"small": small, "workers": workers, **sizes}, limit_s=3600.0) for workers in many]


def name_of(workers: int) -> str:
    """Return what the cell with so many workers is called."""
    return f"étude, {workers} worker{'' if workers == 1 else 's'}"


def work(args: Mapping[str, Any], place: Path) -> Result:
    example = importlib.import_module("examples.inception_modules")
    if args["small"]:
        made_up(place, args["images"])
    modules = example.MODULES[:1] if args["small"] else example.MODULES
    at = {"folder": str(place if args["small"] else IMAGES), **{name: args[name] for name in USUAL}}
    warm_up(example, at, args["workers"])
    began_s = time.perf_counter()
    ablation = example.experiment.ablate(modules, at=at, seeds=1, workers=args["workers"], force=True)
    call_s = time.perf_counter() - began_s
    found = studied.told(ablation)
    bound_s = list_schedule(found["trial_s"], args["workers"])
    rows = {
        "plan_s": call_s - found["wall_s"],
        "study_s": found["wall_s"],
        "trials_s": sum(found["trial_s"]),
        "slowest": max(found["trial_s"]) / statistics.median(found["trial_s"]),
        "over_bound": found["wall_s"] / bound_s,
    }
    return {**rows, "details": {**found, "at": at | {"folder": ""}}}


def warm_up(example: Any, at: Mapping[str, Any], workers: int) -> None:
    """Run a small ablation first: what the first trials of a machine load and compile is not what is measured."""
    example.experiment.ablate(example.MODULES[:1], at=at, seeds=1, workers=workers, force=True, name="warm-up")


def made_up(place: Path, images: int) -> None:
    """Write files as the example wants them, with a few images of noise."""
    import numpy as np

    draws = np.random.default_rng(0)
    for name in ("train-0", "test"):
        pixels = draws.integers(0, 256, (images, 32, 32, 3), np.uint8)
        np.savez(place / f"{name}.npz", x=pixels, y=draws.integers(0, 10, images, np.uint8))


BENCHMARK = Benchmark(
    name="autoablation_inception",
    cells=cells,
    work=work,
    quantities=(
        Quantity("plan_s", "s", 1),
        Quantity("study_s", "s", 1),
        Quantity("trials_s", "s", 1),
        Quantity("slowest", "x", 2),
        Quantity("over_bound", "x", 3),
    ),
    targets=(),
    note=(
        "study: from the start of the first trial to the end of the last. plan: the rest of the call, nearly all\n"
        "of it before that: the model is built, and all arms are planned and tried. trials: all of them together.\n"
        "slowest: the slowest over the median one; a serial run with a slow trial makes workers look quicker than\n"
        "they are. over_bound: study over the bound of list scheduling for trials that take as long as these took:\n"
        "what of it is ours, and not the cores'. Each cell begins with a small ablation that is not measured, and\n"
        "three runs of all cells take turns."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
