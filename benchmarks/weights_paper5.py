"""Weights from tuning trials: the paper's numbers from its raw runs, three clocks, and corrected tests.

Nothing is trained here and no time is taken: everything is computed from the raw runs (``paper5.runs``), and comes out
the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import raw_runs
from benchmarks.agreement import QUANTITIES, all_same, counted
from benchmarks.common import Benchmark, Quantity, Result
from benchmarks.paper5.compared import absent, compared, nearby, rows_of
from benchmarks.paper5.judged import arm_of, judged, wins
from benchmarks.paper5.printed import DOUBLED, FINAL, SETTINGS, TOLD, WORKLOADS
from benchmarks.paper5.runs import FILE, invented, read
from benchmarks.paper5.sentences import sentences

MEASURED: Final = ("sunk", "charged")
PRINTED: Final = sum(3 * len(workload.rows) + len(SETTINGS) for workload in WORKLOADS) + len(TOLD)
"""How many numbers there are to compare."""


def work(args: Mapping[str, Any], place: Path) -> Result:
    runs = invented() if args["small"] else read(FILE)
    numbers, missing = compared(runs), absent()
    found = judged(runs)
    rows = counted(numbers, missing)
    for one in found:
        final = arm_of(one, FINAL)
        for measure in MEASURED:
            rows[f"{one['name']}, final, {measure}"] = final[measure]["ratio"]
            rows[f"{one['name']}, final, {measure}, p"] = final[measure]["holm_final"]
    for measure in (*MEASURED, "best"):
        rows[f"won: {measure}, final"] = sum(bool(FINAL in wins(one, measure, "holm_final")) for one in found)
        rows[f"won: {measure}, any"] = sum(bool(wins(one, measure, "holm_all")) for one in found)
    details = {
        "numbers": numbers,
        "absent": missing,
        "nearby": nearby(runs),
        "rows": rows_of(runs, DOUBLED, "res152-c100"),
        "workloads": found,
        "sentences": sentences(found),
    }
    return {**rows, "details": details}


BENCHMARK = Benchmark(
    name="weights_paper5",
    cells=raw_runs.cells(lambda: read(FILE)),
    work=work,
    quantities=(
        *QUANTITIES,
        *(
            Quantity(f"{workload.name}, final, {measure}{end}", unit, digits)
            for workload in WORKLOADS
            for measure in MEASURED
            for end, unit, digits in (("", "x", 3), (", p", "p", 4))
        ),
        *(
            Quantity(f"won: {measure}, {which}", "workloads", 0)
            for measure in (*MEASURED, "best")
            for which in ("final", "any")
        ),
    ),
    targets=(all_same(PRINTED),),
    note=(
        "Computed from the raw runs of the paper; nothing was trained. same: rounded, half-way or truncated.\n"
        "final: weights of the winner's last epoch; x: mean time to the target from random weights over that from\n"
        "these; p: for the five workloads at once (Holm). won: workloads on which the final weights, or any, are\n"
        "better; any is corrected for all starts. best: accuracy. One run (--runs 1) is all there is to it."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
