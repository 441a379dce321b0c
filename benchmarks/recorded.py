"""The learning curves of 265 convolutional networks on CIFAR-10, as records that a simulation can go along.

The file is no part of this repository. It holds a JSON object on each line, with ``config``, ``learning_curve`` (the
validation error after each of 40 epochs) and ``time_steps`` (seconds since the start at the end of each).
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT

FILE: Final = Path(
    os.environ.get("ETUDE_CURVES") or ROOT / "../shared/data/cnn-cifar10-learning-curves/curves.jsonl.gz"
)
"""Where it is looked for; ``ETUDE_CURVES`` names another place."""

METRIC: Final = "error"


def records(file: Path = FILE) -> list[dict[str, Any]]:
    """Return the runs, as ``etude.RecordedCurves`` takes them."""
    with gzip.open(file, "rt") as lines:
        runs = [json.loads(line) for line in lines]
    return [
        {
            "params": run["config"],
            "seconds": [end - start for start, end in zip([0.0, *run["time_steps"]], run["time_steps"], strict=False)],
            "metrics": {METRIC: run["learning_curve"]},
        }
        for run in runs
    ]


def space() -> dict[str, Any]:
    """Return the space that they were drawn from."""
    import etude

    return {
        "log10_learning_rate": etude.uniform(-6.0, 0.0),
        "batch_size": etude.uniform(32.0, 512.0),
        **{f"log2_n_units_{layer}": etude.uniform(4.0, 10.0) for layer in (1, 2, 3)},
    }
