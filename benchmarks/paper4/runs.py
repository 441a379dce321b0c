"""The raw runs of the paper: 1,830 rows of one file, a row for each run, ten for each setting.

The file is no part of this repository. A row holds the test accuracy after each epoch, and what was recorded about the
run. Seeds were not recorded; ``seeds`` tells how we know which rows belong together.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from benchmarks import raw_runs
from benchmarks.common import ROOT
from benchmarks.paper4.printed import WORKLOADS, Setting, Workload

FILE: Final = Path(
    os.environ.get("ETUDE_PARTITION_RUNS") or ROOT / "../shared/data/importance-aware-dpt-runs/runs.csv.gz"
)
"""Where it is looked for; ``ETUDE_PARTITION_RUNS`` names another place."""

SOURCE: Final = "https://github.com/ssheikholeslami/importance-aware-data-parallel-training"

VANILLA: Final = "Baselines"
"""The folder of the runs with random partitions."""


@dataclass(frozen=True)
class Run:
    """A row of the raw runs.

    Attributes:
        name: Which run.
        folder: Of its table, or ``VANILLA``.
        data: The data set, as ``Workload.data`` has it.
        model: The model, as ``Workload.model`` has it.
        setting: None with random partitions.
        values: Test accuracy after each epoch, percent, as text.
        best: The best of them, as it was recorded.
        best_epoch: Its epoch, as it was recorded.
    """

    name: str
    folder: str
    data: str
    model: str
    setting: Setting | None
    values: tuple[str, ...]
    best: str
    best_epoch: str

    @property
    def top(self) -> Fraction:
        """The best accuracy, exactly."""
        return max(map(Fraction, self.values))

    @property
    def curve(self) -> list[float]:
        """The accuracies as numbers."""
        return [float(value) for value in self.values]


def read(file: Path) -> list[Run]:
    """Return the raw runs, in their order.

    Raises:
        SystemExit: The file is not there, or holds something else.
    """
    return raw_runs.read(file, _run, source=SOURCE, variable="ETUDE_PARTITION_RUNS")


def _run(row: Mapping[str, str]) -> Run:
    folder = row["source_file"].partition("/")[0]
    setting = Setting(int(row["warmup_epochs"]), int(row["interval_epochs"]))
    epochs = [name for name in row if name.startswith("epoch_")]
    return Run(
        name=row["id"],
        folder=folder,
        data=row["dataset"].replace("cifar", "CIFAR-"),
        model=row["model"].replace("resnet", "ResNet-"),
        setting=None if folder == VANILLA else setting,
        values=tuple(row[name] for name in epochs if row[name]),
        best=row["best_accuracy"],
        best_epoch=row["best_epoch"],
    )


def arm(runs: Sequence[Run], workload: Workload, setting: Setting | None) -> list[Run]:
    """Return the runs of one setting, or those with random partitions, in the order of their rows."""
    folder = VANILLA if setting is None else workload.folder
    return [
        run
        for run in runs
        if (run.folder, run.setting, run.data, run.model) == (folder, setting, workload.data, workload.model)
    ]


def arms(runs: Sequence[Run], workload: Workload) -> dict[Setting | None, list[Run]]:
    """Return the runs of a table by their setting, those with random partitions first."""
    there = sorted({run.setting for run in runs if run.folder == workload.folder and run.setting is not None})
    return {setting: arm(runs, workload, setting) for setting in (None, *there)}


def invented() -> list[Run]:
    """Return a few runs of the same shape that nobody ran, for ``--small``."""
    draws = random.Random(0)
    found = []
    vanilla = set()
    for workload in WORKLOADS:
        known = (workload.data, workload.model) in vanilla
        vanilla.add((workload.data, workload.model))
        for setting in (*([] if known else [None]), Setting(10, 1), Setting(10, 5), Setting(15, 1), Setting(15, 5)):
            for seed in range(5):
                best = float(workload.vanilla.split()[0]) + seed / 10 + draws.uniform(-0.3, 0.3)
                values = tuple(f"{best * (1 - math.exp(-epoch / 4)):.2f}" for epoch in range(1, 21))
                top = max(values, key=float)
                folder = VANILLA if setting is None else workload.folder
                name = f"{folder} {workload.model} {setting} {seed}"
                at = str(values.index(top) + 1)
                found.append(Run(name, folder, workload.data, workload.model, setting, values, top, at))
    return found
