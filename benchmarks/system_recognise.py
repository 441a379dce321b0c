"""Which runs are known again by what their first epoch took, and how often what is reused was wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target
from benchmarks.pipetune import profiles, recognised, tables
from etude.system.comparable import comparable
from etude.system.similarity import Nearest

MADE_UP: Final = ("made up 0", "made up 1", "made up 2")
SIMILARITIES: Final = {
    "étude, nearest": "nearest",
    "k-means as in the paper": "k-means",
}


def cells(small: bool, profiled: str, measured: str) -> Sequence[Cell]:
    """Without measured profiles there are only made-up ones, which show that it runs."""
    told = {"profiles": _file(profiled, profiles.FILE), "tables": _file(measured, tables.FILE), "small": small}
    return [Cell(name, {**told, "similarity": how}) for name, how in SIMILARITIES.items()]


def _file(given: str, default: Path) -> str:
    return str(Path(given).resolve() if given else default)


def work(args: Mapping[str, Any], place: Path) -> Result:
    runs = () if args["small"] else profiles.read(Path(args["profiles"]))
    measured = {table.name: table for table in tables.read(Path(args["tables"]))}
    if not runs:
        runs = profiles.made_up(MADE_UP, runs=5)
        measured = {name: tables.made_up(nth) for nth, name in enumerate(MADE_UP)}
    found = recognised.look_up_all(runs, measured, _similarity(args["similarity"]), comparable)
    repeated = [one for one in found if not one.is_foreign]
    foreign = [one for one in found if one.is_foreign]
    shown = {
        "recognised_percent": recognised.share(repeated, lambda one: one.is_recognised),
        "skipped_percent": recognised.share(repeated, lambda one: one.setting is not None),
        "foreign_known_percent": recognised.share(foreign, lambda one: one.known),
        "foreign_reused_percent": recognised.share(foreign, lambda one: one.setting is not None),
    }
    if {one.workload for one in runs} <= set(measured):
        shown["wrong_percent"] = recognised.share(found, lambda one: one.is_wrong)
        shown["wrong_foreign_percent"] = recognised.share(foreign, lambda one: one.is_wrong)
    return {
        **shown,
        "workloads": len({one.workload for one in runs}),
        "runs": len(runs),
        "details": {
            "taken for": _pairs([one for one in repeated if not one.is_recognised]),
            "foreign taken for": _pairs([one for one in foreign if one.known]),
            "clusters": clusters(runs) if args["similarity"] == "k-means" else {},
        },
    }


def clusters(runs: Sequence[profiles.Run]) -> dict[str, list[int]]:
    """Return of each workload how many of its runs lie in each of two clusters by k-means: the paper's figure 8."""
    rates = [comparable(run.profiles[0]) for run in runs]
    parted = _similarity("k-means").fit(rates, [run.workload for run in runs])
    found: dict[str, list[int]] = {run.workload: [0, 0] for run in runs}
    for run, one in zip(runs, rates, strict=True):
        if (nth := parted.look_up(one).nth) is not None:
            found[run.workload][nth] += 1
    return found


def _similarity(name: str) -> Any:
    from etude.system.clusterings import KMeans

    return {"nearest": Nearest(), "k-means": KMeans(k=2)}[name]


def _pairs(found: Sequence[recognised.LookedUp]) -> dict[str, int]:
    return dict(Counter(f"{one.workload}: {one.named if one.known else 'unknown'}" for one in found))


BENCHMARK = Benchmark(
    name="system_recognise",
    cells=cells,
    work=work,
    quantities=(
        Quantity("workloads", "", 0),
        Quantity("runs", "", 0),
        Quantity("recognised_percent", "%", 1),
        Quantity("skipped_percent", "%", 1),
        Quantity("foreign_known_percent", "%", 1),
        Quantity("foreign_reused_percent", "%", 1),
        Quantity("wrong_percent", "%", 2),
        Quantity("wrong_foreign_percent", "%", 2),
    ),
    targets=(
        Target("workloads", "étude, nearest: workloads", 12, ""),
        Target("repeated work is recognised", "étude, nearest: recognised_percent", 95, "%"),
        Target("repeated work is not probed", "étude, nearest: skipped_percent", 90, "%"),
        Target("reuse that costs more than 5 %", "étude, nearest: wrong_percent", 1, "%", at_least=False),
    ),
    note=(
        "Each run is looked up among all others (repeated), and once more among those of other work (foreign).\n"
        "recognised: it is known, and the nearest run is of the same work; skipped: a setting is reused, and nothing\n"
        "probed. wrong: of all look-ups, repeated and foreign, those that reuse a setting with less than 95 % of the\n"
        "best one's throughput."
    ),
    texts={
        "profiled": f"a file of profiles; {profiles.FILE.relative_to(ROOT)} if there is one",
        "measured": f"a file of tables; {tables.FILE.relative_to(ROOT)} if there is one",
    },
)

if __name__ == "__main__":
    BENCHMARK.main()
