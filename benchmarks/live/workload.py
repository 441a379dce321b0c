"""A workload of ``benchmarks.weights_live``: an ordinary experiment, its space and its target; and the table of all."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT

FOLDER: Final = Path(os.environ.get("ETUDE_DATA_SETS") or ROOT / "../shared/data")
"""Where the data sets are looked for, each in a folder of its own; ``ETUDE_DATA_SETS`` names another place."""

PART: Final = 0.8
"""Of the training examples, how many the search trains with. It validates with the rest, as in the paper, and so never
sees what the final runs are validated with."""

NAMES: Final = {
    "digits": "benchmarks.live.digits:CLEAN",
    "noise": "benchmarks.live.digits:NOISY",
    "fashion": "benchmarks.live.fashion:WORKLOAD",
    "adult": "benchmarks.live.adult:WORKLOAD",
    "news": "benchmarks.live.news:WORKLOAD",
}
"""Name of a workload -> where it is. The modules load torch, so they are loaded only where something is trained."""

FILES: Final = {
    "fashion": "fashion-mnist/train-images-idx3-ubyte.gz",
    "adult": "adult/adult.data.gz",
    "news": "ag-news/test.csv.gz",
}
"""Name of a workload -> a file that it cannot do without; the digits come with scikit-learn."""


@dataclass(frozen=True)
class Workload:
    """A workload.

    Attributes:
        name: Its name in the tables.
        model: Its model function.
        data: Its data function; ``part`` says of the training examples how many are trained with.
        space: What the search looks through.
        fixed: What else its functions are called with, in the search and in the final runs.
        examples: Training examples of a final run.
        batch_size: Of the training loader.
        epochs: Of a final run.
        search_epochs: Of a trial of the search.
        early: After which epoch of the search's winner the weights of the start "early" are taken.
        target: Validation accuracy that the final runs are to reach: what ``python -m benchmarks.live.pilot`` found.
    """

    name: str
    model: Callable[..., Any]
    data: Callable[..., Any]
    space: Mapping[str, object]
    examples: int
    batch_size: int
    epochs: int
    search_epochs: int
    early: int
    target: float
    fixed: Mapping[str, object] = field(default_factory=dict)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of the optimizer in an epoch of a final run."""
        return math.ceil(self.examples / self.batch_size)


def missing(name: str) -> str:
    """Return what a workload lacks here, in words; empty if nothing."""
    return lacking(FILES.get(name))


def lacking(file: str | None) -> str:
    """Return that a file of data is not here, in words; empty if it is, or if there is none to look for."""
    if file is None or (FOLDER / file).is_file():
        return ""
    return f"There is no {FOLDER / file}. ETUDE_DATA_SETS names the folder with the data sets."


def load(name: str) -> Workload:
    """Return a workload by its name."""
    module, _, attribute = NAMES[name].partition(":")
    found: Workload = getattr(importlib.import_module(module), attribute)
    return found
