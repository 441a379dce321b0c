"""What the raw runs show when each of the 180 settings is tested against random partitions, and for all at once.

The n-th runs of two settings are a pair (``seeds``). The first test is the product's own, which lets pairs change
sides: ten pairs give 1,024 ways, so no p is below 1/512, and corrected for a table of 36 none is below .07. So no
setting could pass it. Two tests that can get below stand beside it, and both assume bell-shaped noise: Student's, on
pairs, and Welch's, which pairs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import fmean, median, stdev
from typing import Final

from benchmarks.common import Result
from benchmarks.paper4.compared import named
from benchmarks.paper4.printed import MARGIN, WORKLOADS, Setting, Workload
from benchmarks.paper4.runs import Run, arms
from benchmarks.paper4.seeds import FIRST
from benchmarks.paper4.selected import selected
from etude.analyse.corrections import holm
from etude.analyse.paired import deviation, same, smallest_seen
from etude.fit.clocks import Curve, Target, shared_horizon, time_to
from etude.fit.compared import Arm, compare
from etude.fit.costs import RANDOM

LEVEL: Final = 0.05
ALIKE: Final = 1e-9
TESTS: Final = ("pairs", "student", "welch")
LAST: Final = 10
OURS: Final = (20, 3)
"""Seeds, and partitions beside the random one, of a comparison that is planned with fewer settings and more seeds."""

Values = Mapping[Setting | None, Sequence[float]]
"""Setting -> a number for each run, seed by seed; None is for random partitions, and comes first."""

OF_CURVES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "best": max,
    "last": lambda values: values[-1],
    "last_ten": lambda values: fmean(values[-LAST:]),
    "area": fmean,
    "first_ten": lambda values: fmean(values[:FIRST]),
}
"""What is tested of a curve of accuracies. In the first ten epochs no setting differs from another: what is found
there is chance, or something else than partitions."""

MEASURES: Final = (*OF_CURVES, "sooner")


def judged(runs: Sequence[Run]) -> list[Result]:
    """Return for each table what its settings give, against random partitions."""
    of_tables = [_table(workload, arms(runs, workload)) for workload in WORKLOADS]
    tests: dict[str, list[list[Result]]] = {
        measure: [[each[measure] for each in one["settings"]] for one in of_tables] for measure in MEASURES
    }
    for tables in tests.values():
        for test in TESTS:
            for table in tables:
                _correct(table, test, "holm_here")
            _correct(list(chain(*tables)), test, "holm_all")
    for table in tests["best"]:
        _correct(table, "same", "holm_here")
    _correct(list(chain(*tests["best"])), "same", "holm_all")
    for nth, one in enumerate(of_tables):
        one["higher"] = sum(each["gain"] > 0 for each in tests["best"][nth])
        one["counts"] = {measure: counts(tests[measure][nth]) for measure in MEASURES}
        one["gains"] = {measure: fmean(each["gain"] for each in tests[measure][nth]) for measure in MEASURES}
        for each in one["settings"]:
            for measure in MEASURES[1:]:
                del each[measure]  # the page shows their counts alone
    return of_tables


def counts(tested: Sequence[Result]) -> Result:
    """Return how many settings are better and worse, by each test, before and after each correction."""
    return {
        test: {
            which: [sum(one[which][test] <= LEVEL and sign * one["gain"] > 0 for one in tested) for sign in (1, -1)]
            for which in ("p", "holm_here", "holm_all")
        }
        for test in TESTS
    }


def won(tables: Sequence[Result], which: str, *, sign: int = 1) -> list[str]:
    """Return the settings whose best accuracy is better (or worse, with sign -1) by any of the tests."""
    return [
        f"{one['name']}, {each['setting']}"
        for one in tables
        for each in one["settings"]
        if sign * each["best"]["gain"] > 0 and any(each["best"][which][test] <= LEVEL for test in TESTS)
    ]


def _table(workload: Workload, runs: Mapping[Setting | None, Sequence[Run]]) -> Result:
    curves = {setting: [run.curve for run in mine] for setting, mine in runs.items()}
    values: dict[str, Values] = {
        measure: {setting: [take(curve) for curve in mine] for setting, mine in curves.items()}
        for measure, take in OF_CURVES.items()
    }
    target = float(math.floor(min(values["best"][None])))
    values["sooner"] = _sooner(curves, target)
    tested = {measure: against(each) for measure, each in values.items()}
    best = values["best"]
    for setting, one in tested["best"].items():
        one["p"]["same"] = same(best[setting], best[None], margin=MARGIN)
    every: Values = {None: best[None], Setting(0, 0): _over_settings(best)}
    deviations = [deviation(best[setting], best[None]) for setting in tested["best"]]
    usual = median(deviations)
    return {
        "table": workload.table,
        "name": workload.name,
        "runs": len(best[None]),
        "target": target,
        "vanilla": {"values": list(best[None]), "mean": fmean(best[None]), "deviation": stdev(best[None])},
        "settings": [
            {
                "setting": named(setting),
                "values": list(best[setting]),
                "mean": fmean(best[setting]),
                **{measure: tested[measure][setting] for measure in MEASURES},
            }
            for setting in tested["best"]
        ],
        "every": against(every)[Setting(0, 0)] | {"values": list(every[Setting(0, 0)])},
        "selected": selected([best[setting] for setting in best]),
        "seen": smallest_seen(usual, pairs=len(best[None]), level=LEVEL / len(deviations)),
        "seen_by_ours": smallest_seen(usual, pairs=OURS[0], level=LEVEL / OURS[1]),
        "epochs": _by_epoch(curves),
    }


def _over_settings(values: Values) -> list[float]:
    """Return the mean over all settings, seed by seed."""
    return [
        fmean(each) for each in zip(*(mine for setting, mine in values.items() if setting is not None), strict=True)
    ]


def _sooner(curves: Mapping[Setting | None, Sequence[Sequence[float]]], target: float) -> Values:
    """Return the epochs to a target, with a minus: more is better. Runs that miss count up to a shared horizon."""
    aim = Target(target, "max")
    reached = {setting: [time_to(aim, Curve.by_epoch(curve)) for curve in mine] for setting, mine in curves.items()}
    horizon = shared_horizon(reached.values())
    return {setting: [-min(run.spent.epochs, horizon) for run in mine] for setting, mine in reached.items()}


def against(values: Values) -> dict[Setting, Result]:
    """Return how each setting compares with random partitions: what it gains, and three tests."""
    from scipy.stats import ttest_ind_from_stats, ttest_rel

    sides = [Arm(named(setting), tuple(Curve.by_epoch([v]) for v in mine), RANDOM) for setting, mine in values.items()]
    found = {}
    for setting, start in zip(values, compare(sides, mode="max", target=None), strict=True):
        if setting is None or start.better is None:
            continue
        paired, mine, vanilla = start.better, values[setting], values[None]
        # No t-test can be made of numbers that are all the same
        varies = deviation(mine, vanilla) > ALIKE, stdev(mine) + stdev(vanilla) > ALIKE
        found[setting] = {
            "gain": paired.difference,
            "low": paired.low,
            "high": paired.high,
            "p": {
                "pairs": paired.p,
                "student": float(ttest_rel(mine, vanilla).pvalue) if varies[0] else paired.p,
                "welch": float(ttest_ind_from_stats(*_moments(mine), *_moments(vanilla), equal_var=False).pvalue)
                if varies[1]
                else paired.p,
            },
        }
    return found


def _moments(values: Sequence[float]) -> tuple[float, float, int]:
    return fmean(values), stdev(values), len(values)


def _by_epoch(curves: Mapping[Setting | None, Sequence[Sequence[float]]]) -> Result:
    """Return the difference from random partitions after each epoch: the mean of all settings, the least, the most."""
    means = {setting: [fmean(each) for each in zip(*mine, strict=True)] for setting, mine in curves.items()}
    off = [
        [
            value - means[None][epoch]
            for setting, mine in means.items()
            if setting is not None
            for value in [mine[epoch]]
        ]
        for epoch in range(len(means[None]))
    ]
    return {
        "mean": [round(fmean(each), 4) for each in off],
        "least": [round(min(each), 4) for each in off],
        "most": [round(max(each), 4) for each in off],
    }


def _correct(tested: Sequence[Result], test: str, name: str) -> None:
    """Add to each test its p-value for all of them at once."""
    for one, p in zip(tested, holm([one["p"][test] for one in tested]), strict=True):
        one.setdefault(name, {})[test] = p
