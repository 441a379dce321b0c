"""The raw runs of the paper: 248 rows of one file, a row for each run, 16 of them twice.

The file is no part of this repository. A row holds the test accuracy after each epoch, and what was recorded about the
run.
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
from benchmarks.paper5.printed import FINAL, RANDOM, WORKLOADS

FILE: Final = Path(
    os.environ.get("ETUDE_WEIGHT_RUNS") or ROOT / "../shared/data/weight-init-from-hp-tuning-runs/runs.csv.gz"
)
"""Where it is looked for; ``ETUDE_WEIGHT_RUNS`` names another place."""

SOURCE: Final = "https://github.com/ssheikholeslami/dnn-weight-initialization-from-hp-tuning"


@dataclass(frozen=True)
class Run:
    """A row of the raw runs.

    Attributes:
        name: Which run; the runs of the doubled folder have the names of others.
        folder: Of its workload.
        start: Which weights, as ``Row.start`` has it.
        values: Test accuracy after each epoch, percent, as text.
        best: The best of them, as it was recorded.
        epochs: Time to the target, as it was recorded.
        seed: As it was recorded.
    """

    name: str
    folder: str
    start: str
    values: tuple[str, ...]
    best: str
    epochs: str
    seed: str

    @property
    def top(self) -> Fraction:
        """The best accuracy, exactly."""
        return max(map(Fraction, self.values))


def read(file: Path) -> list[Run]:
    """Return the raw runs, in their order.

    Raises:
        SystemExit: The file is not there, or holds something else.
    """
    return raw_runs.read(file, _run, source=SOURCE, variable="ETUDE_WEIGHT_RUNS")


def _run(row: Mapping[str, str]) -> Run:
    kind = row["weight_initialization"].lower()
    names = {"random": RANDOM, "hp final": FINAL, "hp-epoch": f"Epoch {row['hp_epoch']}"}
    values = tuple(row[f"epoch_{nth}"] for nth in range(1, int(row["num_epochs"]) + 1))
    return Run(
        name=row["id"],
        folder=row["source_file"].partition("/")[0],
        start=names[kind],
        values=values,
        best=row["best_accuracy"],
        epochs=row["target_accuracy_epoch"],
        seed=row["seed"],
    )


def invented() -> list[Run]:
    """Return a few runs of the same shape that nobody ran, for ``--small``."""
    draws = random.Random(0)
    found = []
    for workload in WORKLOADS:
        for row in workload.rows:
            for nth in range(3):
                lead = 2 + workload.inherits(row.start) / 10
                best = float(workload.target) + draws.uniform(-1, 5)
                values = tuple(f"{best * (1 - math.exp(-(epoch + lead) / 4)):.2f}" for epoch in range(20))
                top = max(values, key=float)
                name = f"{workload.folder} {row.start} {nth}"
                found.append(Run(name, workload.folder, row.start, values, top, "", ""))
    return found


def arm(runs: Sequence[Run], folder: str, start: str) -> list[Run]:
    """Return the runs of one start, in the order of their rows."""
    return [run for run in runs if run.folder == folder and run.start == start]
