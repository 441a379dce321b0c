"""What an epoch of each of PipeTune's workloads takes with each system setting that makes sense here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, machine
from benchmarks.pipetune import tables
from benchmarks.pipetune.workloads import KINDS, NAMES, missing

SMALL: Final = ("bfs", "one thread")


def cells(small: bool, rounds: int, into: str) -> Sequence[Cell]:
    found = []
    for name in SMALL if small else NAMES:
        if missing(name):
            if not small:
                print(f"{name} is left out. {missing(name)}")
            continue
        told = {"workload": name, "rounds": 1 if small else rounds, "into": str(Path(into).resolve()) if into else ""}
        found.append(Cell(f"étude, {name}", {**told, "few": small}))
    return found


def work(args: Mapping[str, Any], place: Path) -> Result:
    from benchmarks.pipetune import measured
    from benchmarks.pipetune.workloads import load

    workload = load(args["workload"])
    of = measured.settings_of(workload)
    if args["few"]:
        of = of[:2]
    found = measured.table(workload, rounds=args["rounds"], of=of)
    if args["into"]:
        tables.write([found], machine(), Path(args["into"]))
    default = found.row({})
    return {
        "default_s": default.seconds,
        "best_s": found.best.seconds,
        "gain": found.gain,
        "first_over_later": default.first_epoch_s / default.seconds,
        "spread_percent": 100 * spread(default),
        "details": {
            "type": KINDS[workload.name],
            "best": tables.spelled(found.best.setting),
            "seconds": {name: round(row.seconds, 4) for name, row in found.rows.items()},
        },
    }


def spread(row: tables.Row) -> float:
    """Return how far the middle half of a setting's epochs lie apart, as a share of their median."""
    ordered = sorted(row.epoch_s)
    return (ordered[(3 * len(ordered)) // 4 if len(ordered) > 1 else 0] - ordered[len(ordered) // 4]) / row.seconds


def shown(results: Mapping[str, Sequence[Result]]) -> Sequence[Sequence[Sequence[str]]]:
    """Return a table of all settings, in milliseconds."""
    head = ("ms an epoch", "type", *(names := sorted({name for found in results.values() for name in _ms(found)})))
    lines = [
        (
            name,
            found[-1]["details"]["type"],
            *(f"{1000 * _ms(found)[one]:.0f}" if one in _ms(found) else "" for one in names),
        )
        for name, found in results.items()
    ]
    return [[head, *lines]]


def _ms(found: Sequence[Result]) -> Mapping[str, float]:
    told: Mapping[str, float] = found[-1]["details"]["seconds"]
    return told


BENCHMARK = Benchmark(
    name="system_tables",
    cells=cells,
    work=work,
    quantities=(
        Quantity("default_s", "s", 3),
        Quantity("best_s", "s", 3),
        Quantity("gain", "x", 3),
        Quantity("first_over_later", "x", 2),
        Quantity("spread_percent", "%", 1),
    ),
    targets=(),
    note=(
        "Medians of epochs after the first. Each setting has a process of its own, and their epochs take turns. gain:\n"
        "the throughput of the best setting over the default's; spread: of the default's epochs, how far the middle\n"
        "half lie apart."
    ),
    numbers={"rounds": (6, "epochs of each setting after its first one")},
    texts={"into": f"a file for the tables; {tables.FILE.relative_to(ROOT)} is what others read"},
    tables=shown,
)

if __name__ == "__main__":
    BENCHMARK.main()
