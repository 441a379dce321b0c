"""Each number that the paper prints of its runs, computed anew from the raw ones, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from benchmarks.agreement import deviation, mean, number
from benchmarks.common import Result
from benchmarks.paper4.printed import ABSENT, DIGITS, TOLD, WORKLOADS, Setting
from benchmarks.paper4.runs import VANILLA, Run, arms

VANILLA_NAME: Final = "vanilla"


def named(setting: Setting | None) -> str:
    """Return what a setting, or random partitions, are called."""
    return VANILLA_NAME if setting is None else str(setting)


def compared(runs: Sequence[Run]) -> list[Result]:
    """Return each number that the paper prints of its runs, with what comes of the raw ones."""
    found = []
    for workload in WORKLOADS:
        printed = workload.printed
        for setting, mine in arms(runs, workload).items():
            tops = [run.top for run in mine]
            where = f"table {workload.table}"
            found.append(number(where, f"{named(setting)}: mean", printed[setting][0], mean(tops), digits=DIGITS))
            found.append(
                number(where, f"{named(setting)}: deviation", printed[setting][1], deviation(tops), digits=DIGITS)
            )
    told = _told(runs)
    for one in TOLD:
        found.append(number(one.where, one.what, one.printed, told[one.key], digits=0))
    return found


def _told(runs: Sequence[Run]) -> dict[str, Fraction]:
    """Return what the text says of the runs; 0 where it is not the same for all that it is said of."""
    groups: dict[object, list[Run]] = {}
    for run in runs:
        groups.setdefault((run.folder, run.data, run.model, run.setting), []).append(run)
    settings = [len(arms(runs, workload)) - 1 for workload in WORKLOADS]
    return {
        "runs": Fraction(len({run.name for run in runs})),
        "workloads": Fraction(len(groups)),
        "vanilla": Fraction(len({(run.data, run.model) for run in runs if run.folder == VANILLA})),
        "repeats": _one([len(mine) for mine in groups.values()]),
        "epochs": _one([len(run.values) for run in runs]),
        "settings": _one(settings),
    }


def _one(numbers: Sequence[int]) -> Fraction:
    return Fraction(numbers[0] if len(set(numbers)) == 1 else 0)


def absent() -> list[Result]:
    """Return what the paper prints and the raw runs do not hold."""
    return [{"where": "5.6", "what": what, "printed": printed} for what, printed in ABSENT]


def rows_of(runs: Sequence[Run]) -> Result:
    """Return whether the records of the rows fit their curves."""
    return {
        "rows": len(runs),
        "best_fits": sum(run.top == Fraction(run.best) for run in runs),
        "epochs_fit": sum(
            run.best_epoch == str([Fraction(value) for value in run.values].index(run.top) + 1) for run in runs
        ),
        "curves_twice": len(runs) - len({run.values for run in runs}),
    }
