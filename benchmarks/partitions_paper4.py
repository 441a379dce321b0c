"""Partitions by importance: the paper's numbers from its raw runs, and corrected tests against random partitions.

Nothing is trained here and no time is taken: everything is computed from the raw runs (``paper4.runs``), and comes out
the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import raw_runs
from benchmarks.agreement import QUANTITIES, all_same, counted
from benchmarks.common import Benchmark, Quantity, Result
from benchmarks.paper4.compared import absent, compared, rows_of
from benchmarks.paper4.judged import judged, won
from benchmarks.paper4.printed import SETTINGS, TOLD, WORKLOADS
from benchmarks.paper4.runs import FILE, invented, read
from benchmarks.paper4.seeds import seeds
from benchmarks.paper4.sentences import sentences

PRINTED: Final = len(WORKLOADS) * 2 * (len(SETTINGS) + 1) + len(TOLD)
"""How many numbers there are to compare."""

CORRECTIONS: Final = {"p": "uncorrected", "holm_here": "corrected for 36", "holm_all": "corrected for 180"}


def work(args: Mapping[str, Any], place: Path) -> Result:
    runs = invented() if args["small"] else read(FILE)
    numbers, missing = compared(runs), absent()
    tables = judged(runs)
    rows = counted(numbers, missing)
    for which, told in CORRECTIONS.items():
        for side, sign in (("better", 1), ("worse", -1)):
            rows[f"{side}, {told}"] = len(won(tables, which, sign=sign))
    for one in tables:
        for key, what in (("gain", "best of 36"), ("by_chance", "best of 36, by chance"), ("p", "best of 36, p")):
            rows[f"table {one['table']}, {what}"] = one["selected"][key]
    details = {
        "numbers": numbers,
        "absent": missing,
        "rows": rows_of(runs),
        "seeds": seeds(runs),
        "tables": tables,
        "sentences": sentences(tables),
    }
    return {**rows, "details": details}


BENCHMARK = Benchmark(
    name="partitions_paper4",
    cells=raw_runs.cells(lambda: read(FILE)),
    work=work,
    quantities=(
        *QUANTITIES,
        *(Quantity(f"{side}, {told}", "settings", 0) for told in CORRECTIONS.values() for side in ("better", "worse")),
        *(
            Quantity(f"table {workload.table}, {what}", unit, digits)
            for workload in WORKLOADS
            for what, unit, digits in (
                ("best of 36", "points", 3),
                ("best of 36, by chance", "points", 3),
                ("best of 36, p", "p", 4),
            )
        ),
    ),
    targets=(all_same(PRINTED),),
    note=(
        "Computed from the raw runs of the paper; nothing was trained. better, worse: settings whose best accuracy\n"
        "differs from that with random partitions with p <= .05, by any of three tests. best of 36: the lead of a\n"
        "table's best setting; by chance: the median of it if partitions did nothing; p: how often chance makes as\n"
        "much. One run (--runs 1) is all there is to it."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
