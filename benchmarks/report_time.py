"""The report of a study: how long it takes to write one, from opening the study to the last file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.report_studies import study


def cells(small: bool) -> Sequence[Cell]:
    return [Cell(f"étude {n:,} trials", {"trials": n}) for n in ((30, 60) if small else (1_000, 10_000))]


def work(args: Mapping[str, Any], place: Path) -> Result:
    folder = study(place / "study", args["trials"])
    began = time.perf_counter()
    import etude

    page = etude.open(folder).report(place / "out")
    seconds = time.perf_counter() - began
    assert page.exists()
    return {"seconds": seconds}


BENCHMARK = Benchmark(
    name="report_time",
    cells=cells,
    work=work,
    quantities=(Quantity("seconds", "s", 2),),
    targets=(
        Target("a report of 1,000 trials", "étude 1,000 trials: seconds", 3.0, "s", at_least=False),
        Target("a report of 10,000 trials", "étude 10,000 trials: seconds", 15.0, "s", at_least=False),
    ),
    note="Eight parameters, 20 reports a trial, 16 workers. Reading the journal is part of it.",
)

if __name__ == "__main__":
    BENCHMARK.main()
