"""The second experiment of the paper on AutoAblation: four layers of a small CNN on MNIST, each taken out in turn."""

from __future__ import annotations

import gzip
import importlib
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.autoablation import printed, studied
from benchmarks.common import Benchmark, Cell, Result
from benchmarks.live.workload import FOLDER

IMAGES: Final = FOLDER / "mnist"
WORKERS: Final = 2
USUAL: Final = {"images": 2000, "batch_size": 32, "epochs": 10}
SMALL: Final = {"images": 24, "batch_size": 8, "epochs": 1}
SEEDS: Final = 8

NAMES: Final = {arm: arm.removeprefix("layer:").partition(" ")[0] for arm in printed.MNIST}


def cells(small: bool) -> Sequence[Cell]:
    if not small and not IMAGES.is_dir():
        raise SystemExit(f"There is no {IMAGES}. ETUDE_DATA_SETS names the folder with the data sets.")
    sizes = SMALL if small else USUAL
    return [Cell("étude", {"small": small, "seeds": 2 if small else SEEDS, **sizes}, limit_s=3 * 3600.0)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    example = importlib.import_module("examples.mnist_layers")
    if args["small"]:
        made_up(place, args["images"])
    at = {"folder": str(place if args["small"] else IMAGES), **{name: args[name] for name in USUAL}}
    ablation = example.experiment.ablate(
        example.LAYERS, at=at, seeds=args["seeds"], workers=WORKERS, force=args["small"]
    )
    found = studied.told(ablation)
    return {**studied.rows(found, NAMES), "details": {**found, "at": at | {"folder": ""}}}


def made_up(place: Path, images: int) -> None:
    """Write files as MNIST has them, with a few images of noise."""
    import numpy as np

    draws = np.random.default_rng(0)
    pixels, labels = draws.integers(0, 256, (images, 28, 28), np.uint8), draws.integers(0, 10, images, np.uint8)
    for part in ("train", "t10k"):
        for kind, values in (("images-idx3", pixels), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}i", *values.shape)
            (place / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + values.tobytes()))


BENCHMARK = Benchmark(
    name="autoablation_mnist",
    cells=cells,
    work=work,
    quantities=studied.quantities(list(NAMES.values())),
    targets=(),
    note=(
        "Test accuracy without each layer, and the effect: how much higher that of the base is, over pairs with the\n"
        "same seed. low and high: 95 % interval (BCa)."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
