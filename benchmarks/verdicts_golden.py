"""Golden cases: what papers concluded from their runs, beside what the same runs allow, all by ``etude.verdicts``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import autoablation_mnist, autoablation_titanic, tablator
from benchmarks.agreement import SAME
from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.golden import live, papers
from benchmarks.golden.case import Case, counted, judged
from benchmarks.golden.lines import kept_details
from benchmarks.paper4 import compared as compared4
from benchmarks.paper4 import printed as printed4
from benchmarks.paper4 import runs as runs4
from benchmarks.paper5 import compared as compared5
from benchmarks.paper5 import printed as printed5
from benchmarks.paper5 import runs as runs5

TRAINED: Final[Mapping[str, tuple[Benchmark, Sequence[Callable[[Any], list[Case]]]]]] = {
    "Titanic": (autoablation_titanic.BENCHMARK, (live.titanic,)),
    "MNIST": (autoablation_mnist.BENCHMARK, (live.mnist,)),
    "Tablator": (tablator.BENCHMARK, (live.switches, live.optimizers, live.prepared)),
}
"""Cases that were trained here: the benchmark whose line holds their runs, and what makes cases of them."""

PRINTED: Final = {
    "partitions": 2 * len(printed4.WORKLOADS) * (len(printed4.SETTINGS) + 1),
    "weights": 3 * sum(len(workload.rows) for workload in printed5.WORKLOADS),
}
"""How many numbers stand in tables 1 to 5 of the papers."""

COUNTED: Final = (
    *("runs", "arms", "claimed_better", "claimed_worse", "better", "worse", "as_good", "undecided"),
    *("borne_out", "contradicted", "open", "uncorrected", "all_corrected", "could_decide_nothing"),
)


def cells(small: bool, train: str = "") -> Sequence[Cell]:
    if not small:
        runs4.read(runs4.FILE)
        runs5.read(runs5.FILE)
    names = [*PRINTED, *list(TRAINED)[: 1 if small else None]]
    again = train == "yes"
    return [
        Cell(f"étude, {name}", {"small": small, "what": name, "train": again}, limit_s=4 * 3600.0) for name in names
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    what = args["what"]
    tables: list[Result] = []
    if what == "partitions":
        settings = runs4.invented() if args["small"] else runs4.read(runs4.FILE)
        cases, tables = papers.partitions(settings), _in_tables(compared4.compared(settings))
    elif what == "weights":
        starts = runs5.invented() if args["small"] else runs5.read(runs5.FILE)
        cases, tables = papers.weights(starts), _in_tables(compared5.compared(starts))
    else:
        benchmark, makes = TRAINED[what]
        details = _trained(benchmark, args["small"], place) if args["train"] else kept_details(benchmark.name)
        cases = [case for made in makes for case in made(details)]
    found = [judged(case) for case in cases]
    studies = {
        study: counted([one for one in found if one["study"] == study])
        for study in dict.fromkeys(c.study for c in cases)
    }
    row: dict[str, Any] = {f"{study}: {name}": counts[name] for study, counts in studies.items() for name in COUNTED}
    if tables:
        row |= {"printed": len(tables), "same": sum(one["how"] in SAME for one in tables)}
    return {**row, "details": {"studies": studies, "cases": found}}


def _in_tables(numbers: Sequence[Result]) -> list[Result]:
    return [one for one in numbers if one["where"].startswith("table")]


def _trained(benchmark: Benchmark, small: bool, place: Path) -> dict[str, Result]:
    """Train a benchmark's cells anew, and return their details."""
    found = {}
    for cell in benchmark.cells(small):
        into = place / cell.name
        into.mkdir(parents=True)
        found[cell.name] = benchmark.work(cell.args, into)["details"]
    return found


STUDIES: Final = (
    f"partitions, {papers.PAIRED}", f"partitions, {papers.UNPAIRED}", "weights, accuracy", "weights, epochs",
    "AutoAblation, Titanic", "AutoAblation, MNIST", "Tablator, switches", "Tablator, optimizers",
    "Tablator, preparation",
)  # fmt: skip

BENCHMARK = Benchmark(
    name="verdicts_golden",
    cells=cells,
    work=work,
    quantities=(
        Quantity("printed", "", 0),
        Quantity("same", "", 0),
        *(Quantity(f"{study}: {name}", "", 0) for study in STUDIES for name in COUNTED),
    ),
    targets=tuple(
        Target(f"numbers of tables 1 to 5 that are the raw runs', {name}", f"étude, {name}: same", many, "")
        for name, many in PRINTED.items()
    ),
    texts={"train": "yes to train AutoAblation's and the Tablator's cases anew; else their kept lines are judged"},
    note=(
        "Each study judged by etude.verdicts. claimed: what is read off the published means. borne_out: verdicts that\n"
        "say the same; contradicted: the opposite; open: neither. all_corrected: of all arms of a study together, not\n"
        "of each table by itself. One run (--runs 1) is all there is to it."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
