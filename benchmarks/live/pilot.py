"""Finds the targets of ``benchmarks.weights_live``, and looks at how runs begin: ``python -m benchmarks.live.pilot``.

    python -m benchmarks.live.pilot                      # some minutes; writes benchmarks/out/weights_live_pilot.json
    python -m benchmarks.live.pilot --only digits,news   # those alone
    python -m benchmarks.live.pilot --seeds 8            # more runs of each start

A target is a validation accuracy, and the rule for it is about the mean curve of runs from random weights: its best
within the first half of the epochs, or .995 of its best of all, whichever is less, cut off after three digits. So
random weights take at most about half of a run, a start may take twice as long before it is censored, and where curves
come to their top early the target is none that only lucky runs reach. Search and runs have other seeds than those of
the benchmark.

Runs are looked at within their first epoch as well, so that rules that choose a start early can be tried on the file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks.common import ROOT, commit, scratch
from benchmarks.live.workload import NAMES, load, missing

OUT: Final = ROOT / "benchmarks" / "out" / "weights_live_pilot.json"
SEARCH_SEED: Final = 2000
FIRST_SEED: Final = 100
"""The benchmark's own seeds begin with 0."""
NEARLY: Final = 0.995


def target_of(curves: Sequence[Sequence[float]]) -> float:
    """Return the target that the rule gives for the validation accuracies of runs from random weights.

    Example:
        >>> target_of([[0.5, 0.7, 0.9, 0.9], [0.5, 0.4, 0.9, 0.9]])  # the mean after half of the epochs
        0.55
    """
    means = [fmean(values) for values in zip(*curves, strict=True)]
    found = min(max(means[: len(means) // 2]), NEARLY * max(means))
    return math.floor(round(1000 * found, 6)) / 1000


def keep(record: Mapping[str, Any], file: Path) -> None:
    """Write a workload's record into a file of several, in place of an older one."""
    there = json.loads(file.read_text()) if file.is_file() else {}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**there, record["workload"]: record}))


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live.pilot")
    parser.add_argument("--only", default="", help="only workloads whose name contains this, or one of several")
    parser.add_argument("--seeds", type=int, default=4, help="runs of each start (default: 4)")
    parser.add_argument("--search-seed", type=int, default=SEARCH_SEED, help=f"of the search (default: {SEARCH_SEED})")
    parser.add_argument("--work-dir", type=Path, default=None, help="where to put studies: a folder on a disk")
    parser.add_argument("--out", type=Path, default=OUT, help="the file with what was reported")
    options = parser.parse_args()
    os.environ["ETUDE_PROGRESS"] = "0"
    for name in NAMES:
        if not any(part in name for part in options.only.split(",")):
            continue
        if lacks := missing(name):
            print(f"{name}: left out. {lacks}", file=sys.stderr)
            continue
        from benchmarks.live.measured import measure

        with scratch(options.work_dir) as place:
            os.environ["ETUDE_STUDIES"] = str(place)
            seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
            record = measure(load(name), seeds=seeds, search_seed=options.search_seed, looks=True)
        target = target_of([run["accuracy"] for run in record["starts"]["random"]["runs"]])
        keep({**record, "target": target, "commit": commit()}, options.out)
        print(f"{name}: target={target}", flush=True)


if __name__ == "__main__":
    main()
