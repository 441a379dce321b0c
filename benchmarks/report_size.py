"""The report of a study: how large its page is, and its folder, with all figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.report_studies import study

MB = 1e6


def cells(small: bool) -> Sequence[Cell]:
    return [Cell(f"étude {n:,} trials", {"trials": n}) for n in ((30, 60) if small else (100, 1_000, 10_000))]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import etude

    page = etude.open(study(place / "study", args["trials"])).report(place / "out")
    whole = sum(path.stat().st_size for path in page.parent.rglob("*") if path.is_file())
    return {"page_mb": page.stat().st_size / MB, "folder_mb": whole / MB}


BENCHMARK = Benchmark(
    name="report_size",
    cells=cells,
    work=work,
    quantities=(Quantity("page_mb", "MB", 2), Quantity("folder_mb", "MB", 2)),
    targets=(
        Target("the page of 1,000 trials", "étude 1,000 trials: page_mb", 3.0, "MB", at_least=False),
        Target("all its files", "étude 1,000 trials: folder_mb", 3.0, "MB", at_least=False),
    ),
    note="The script of plotly alone, which a page of its figures needs to work offline, is 4.8 MB. One run is enough.",
)

if __name__ == "__main__":
    BENCHMARK.main()
