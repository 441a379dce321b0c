"""The papers' own raw runs as golden cases: partitions by importance, and weights from tuning trials."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.golden.case import Case
from benchmarks.paper4 import printed as printed4
from benchmarks.paper4 import runs as runs4
from benchmarks.paper4.compared import named
from benchmarks.paper5 import printed as printed5
from benchmarks.paper5 import runs as runs5
from etude.fit.clocks import Curve, Target, shared_horizon, time_to

PAIRED = "in pairs"
UNPAIRED = "no pairs"


def partitions(runs: Sequence[runs4.Run]) -> list[Case]:
    """Return a case for each of the five tables: 36 settings beside random partitions, as pairs and as none.

    The rows of a file are in the order of its seeds (``paper4.seeds``), so the n-th ones are a pair. Ten pairs are too
    few for 36 claims; without pairs the same runs could decide something, which is why both are here.
    """
    found = []
    for workload in printed4.WORKLOADS:
        arms = {
            named(setting): [float(run.top) for run in mine] for setting, mine in runs4.arms(runs, workload).items()
        }
        means = {named(setting): float(cell[0]) for setting, cell in workload.printed.items()}
        vanilla = means[named(None)]
        claims = {arm: vanilla - means[arm] for arm in arms if arm != named(None)}
        found += [
            Case(f"partitions, {how}", workload.name, arms, claims, paired=how == PAIRED, margin=printed4.MARGIN)
            for how in (PAIRED, UNPAIRED)
        ]
    return found


def weights(runs: Sequence[runs5.Run]) -> list[Case]:
    """Return two cases for each of the five tables: best accuracies, and epochs to the target, beside random weights.

    No seeds were recorded, so nothing is a pair. A run that never got to its target counts as long as the longest did.
    """
    found = []
    for workload in printed5.WORKLOADS:
        rows = {row.start: row for row in workload.rows}
        starts = [printed5.RANDOM, *(start for start in rows if start != printed5.RANDOM)]
        curves = {
            start: [Curve.by_epoch(map(float, run.values)) for run in runs5.arm(runs, workload.folder, start)]
            for start in starts
        }
        target = Target(float(workload.target), "max")
        reached = {start: [time_to(target, curve) for curve in mine] for start, mine in curves.items()}
        horizon = shared_horizon(reached.values())
        best = {start: [max(curve.values) for curve in mine] for start, mine in curves.items()}
        epochs = {start: [min(run.spent.epochs, horizon) for run in mine] for start, mine in reached.items()}
        random = rows[printed5.RANDOM]
        more = {start: float(random.best) - float(rows[start].best) for start in starts[1:]}
        fewer = {start: float(rows[start].epochs) - float(random.epochs) for start in starts[1:]}
        found.append(Case("weights, accuracy", workload.name, best, more, paired=False))
        found.append(Case("weights, epochs", workload.name, epochs, fewer, mode="min", paired=False, unit="epochs"))
    return found
