"""Final trainings from a search's weights against random ones: steps to a target on three clocks, and accuracy.

Five small workloads, each searched and trained here from each start with each seed. Targets were fixed beforehand, by
``benchmarks.live.pilot``. All curves are written to ``benchmarks/out/weights_live.json`` as well.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target, commit
from benchmarks.live.workload import NAMES, load, missing

OUT: Final = ROOT / "benchmarks" / "out" / "weights_live.json"
SEEDS: Final = 8
LIMIT_S: Final = 3600.0
STARTS: Final = ("random", "best", "early", "shrunk", "soup", "auto")
RECORDS: Final = "ETUDE_LIVE_RECORDS"
"""Names a file that the benchmark wrote (``OUT``): then that is judged again, and nothing is trained."""
CLOCKS: Final = ("sunk", "marginal", "charged")
ENDS: Final = {"": "value", ", low": "low", ", high": "high"}
"""How the ends of an interval are called in rows, and in an ``Estimate``."""


def cells(small: bool, seeds: int) -> Sequence[Cell]:
    found = []
    for name in ("digits",) if small else NAMES:
        if lacks := missing(name):
            print(f"{name}: left out. {lacks}", file=sys.stderr)
        else:
            args = {"workload": name, "seeds": 2 if small else seeds, "small": small}
            found.append(Cell(f"étude {name}", args, limit_s=LIMIT_S))
    return found


def work(args: Mapping[str, Any], place: Path) -> Result:
    from benchmarks.live.judged import AUTO, chosen_in, over_best_fixed, rows
    from benchmarks.live.measured import TRIALS, measure
    from benchmarks.live.pilot import keep

    workload, seeds = load(args["workload"]), range(args["seeds"])
    if known := os.environ.get(RECORDS):
        record = json.loads(Path(known).read_text())[args["workload"]]
        if record["seeds"] != list(seeds):
            raise SystemExit(f"{known} has the seeds {record['seeds']} of {args['workload']}, and not {list(seeds)}.")
    elif args["small"]:
        record = measure(replace(workload, epochs=3, search_epochs=3), seeds=seeds, trials=3)
    else:
        record = measure(workload, seeds=seeds, trials=TRIALS)
        keep({**record, "commit": commit()}, OUT)
    found = rows(record, chosen_in(record))
    print("\n".join(table(record["workload"], record["target"], len(seeds), found)), file=sys.stderr)
    numbers: Result = {}
    for row in found:
        numbers |= {
            f"{row.name}: steps": row.steps["marginal"],
            f"{row.name}: missed": row.missed,
            **_ends(f"{row.name}: over random", row.over_random),
            **_ends(f"{row.name}: test", row.test),
            **{f"{row.name}: speed-up, {clock}": row.speed_up[clock].value for clock in CLOCKS},
        }
    numbers |= _ends(f"{AUTO}: over best fixed", over_best_fixed(found, record))
    return {**numbers, "details": {"rows": [asdict(row) for row in found], "record": record}}


def _ends(name: str, estimate: Any) -> dict[str, float]:
    return {f"{name}{end}": getattr(estimate, attribute) for end, attribute in ENDS.items()}


def table(name: str, target: float, seeds: int, found: Sequence[Any]) -> list[str]:
    """Return a workload's rows, a line for each start."""
    lines = [
        f"{name}: accuracy {target:g}, {seeds} seeds",
        f"  {'':8}{'steps':>8}{'missed':>8}{'over random':>24}"
        + "".join(f"{clock:>10}" for clock in CLOCKS)
        + f"{'test, points':>26}{'last, points':>14}",
    ]
    for row in found:
        speeds = "".join(f"{row.speed_up[clock].value:>9.2f}x" for clock in CLOCKS)
        lines.append(
            f"  {row.name:8}{row.steps['marginal']:8.0f}{row.missed:8}{_told(row.over_random, '.2f'):>24}{speeds}"
            f"{_told(row.test, '+.2f'):>26}{row.last.value:>+14.2f}"
        )
    return lines


def _told(estimate: Any, digits: str) -> str:
    return f"{estimate.value:{digits}} ({estimate.low:{digits}} to {estimate.high:{digits}})"


BENCHMARK = Benchmark(
    name="weights_live",
    cells=cells,
    work=work,
    quantities=tuple(
        quantity
        for start in STARTS
        for quantity in (
            Quantity(f"{start}: steps", "steps", 1),
            Quantity(f"{start}: missed", "runs", 0),
            *(
                Quantity(f"{start}: {what}{end}", unit, digits)
                for what, unit, digits in (("over random", "", 3), ("test", "points", 2))
                for end in ENDS
            ),
            *(Quantity(f"{start}: speed-up, {clock}", "x", 2) for clock in CLOCKS),
        )
    )
    + tuple(Quantity(f"auto: over best fixed{end}", "", 3) for end in ENDS),
    targets=tuple(
        target
        for name in NAMES
        for target in (
            Target(f"{name}: steps of auto over random", f"étude {name}: auto: over random", 1.10, "", at_least=False),
            Target(
                f"{name}: upper 90 % limit of that", f"étude {name}: auto: over random, high", 1.10, "", at_least=False
            ),
            Target(
                f"{name}: steps of auto over the best of what it chose from (four of five suffice)",
                f"étude {name}: auto: over best fixed",
                1.15,
                "",
                at_least=False,
            ),
            Target(f"{name}: accuracy of auto, less that of random", f"étude {name}: auto: test", -0.3, "points"),
        )
    ),
    numbers={"seeds": (SEEDS, "final runs from each start")},
    note=(
        "steps: mean steps of the optimizer to the target, by validation once an epoch; runs that missed it count up\n"
        "to a horizon that all starts of the workload share. over random: these over those of random weights; low,\n"
        "high: 90 % interval, by a bootstrap over the seeds. speed-up: steps of random weights over these, by who\n"
        "pays for the weights. test: test accuracy after the epoch that is best by validation, less that of random\n"
        "weights. auto: probes (etude.Auto) chose among the others but for early, for each seed by itself. Their\n"
        "steps are counted; it trained from there as the run with that start had, which is checked.\n"
        "One run (--runs 1) is all there is to it: equal seeds give equal numbers."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
