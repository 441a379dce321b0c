"""Each number that the paper prints of its runs, computed anew from the raw ones, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations

from benchmarks.agreement import deviation, mean, number
from benchmarks.common import Result
from benchmarks.paper5.printed import DIGITS, RANDOM, SETTINGS, TESTED, TOLD, WORKLOADS, Workload
from benchmarks.paper5.runs import Run, arm


def first_epoch(run: Run, target: str) -> Fraction:
    """Return the first epoch with at least the target; one more than there are, if there is none."""
    wanted = Fraction(target)
    return Fraction(
        next((nth for nth, value in enumerate(run.values, 1) if Fraction(value) >= wanted), len(run.values) + 1)
    )


def compared(runs: Sequence[Run]) -> list[Result]:
    """Return each number that the paper prints of its runs, with what comes of the raw ones."""
    found = []
    for workload in WORKLOADS:
        for row in workload.rows:
            mine = arm(runs, workload.folder, row.start)
            tops = [run.top for run in mine]
            times = [first_epoch(run, workload.target) for run in mine]
            where = f"table {workload.table}"
            found.append(number(where, f"{row.start}: best accuracy", row.best, mean(tops), digits=DIGITS))
            found.append(number(where, f"{row.start}: deviation", row.deviation, deviation(tops), digits=DIGITS))
            found.append(number(where, f"{row.start}: epochs to the target", row.epochs, mean(times), digits=DIGITS))
    told = dict(_told(runs))
    for one in TOLD:
        found.append(number(one.where, one.what, one.printed, told[one.key], digits=one.digits))
    for workload in WORKLOADS:
        for key, what in SETTINGS:
            printed, exact = _setting(workload, key, runs)
            digits = 2 if key == "target" else 0
            found.append(number(workload.section, f"{workload.name}: {what}", printed, exact, digits=digits))
    return found


def _told(runs: Sequence[Run]) -> Iterator[tuple[str, Fraction]]:
    """Yield the numbers of the text, in the way that gives what is printed."""
    from scipy.stats import mannwhitneyu, ttest_rel

    folder, start = TESTED
    tuned, untuned = _tested(runs)
    paired = ttest_rel(tuned, untuned)
    yield "t", Fraction(float(paired.statistic))
    yield "t_p", Fraction(float(paired.pvalue))
    ranked = mannwhitneyu(untuned, tuned, method="exact")  # as if there were no ties, though there are
    yield "u", Fraction(float(ranked.statistic))
    yield "u_p", Fraction(float(ranked.pvalue))
    ups = {
        (workload.folder, row.start): _mean_epochs(runs, workload, RANDOM) / _mean_epochs(runs, workload, row.start)
        for workload in WORKLOADS
        for row in workload.rows
    }
    yield "speed_up", ups[folder, start]
    yield "most", max(ups.values())
    yield "runs", Fraction(len({run.name for run in runs}))
    yield "storage_gb", Fraction(10 * 80 * 224, 1000)


def _tested(runs: Sequence[Run]) -> tuple[list[float], list[float]]:
    """Return the best accuracies that section 4.2 tests, from weights and from random ones, in their order."""
    folder, start = TESTED
    tuned, untuned = ([float(run.top) for run in arm(runs, folder, which)] for which in (start, RANDOM))
    return tuned, untuned


def _mean_epochs(runs: Sequence[Run], workload: Workload, start: str) -> Fraction:
    return mean([first_epoch(run, workload.target) for run in arm(runs, workload.folder, start)])


def _setting(workload: Workload, key: str, runs: Sequence[Run]) -> tuple[str, Fraction]:
    """Return what the paper says of a workload's runs, and what they say themselves."""
    mine = [run for run in runs if run.folder == workload.folder]
    starts = {run.start for run in mine}
    if key == "starts":
        return str(len(workload.rows) - 1), Fraction(len(starts) - 1)
    if key == "repeats":
        counts = {sum(run.start == start for run in mine) for start in starts}
        return str(workload.repeats), Fraction(counts.pop() if len(counts) == 1 else 0)
    if key == "epochs":
        lengths = {len(run.values) for run in mine}
        return str(workload.epochs), Fraction(lengths.pop() if len(lengths) == 1 else 0)
    fits = all(run.epochs and first_epoch(run, workload.target) == int(run.epochs) for run in mine)
    return workload.target, Fraction(workload.target if fits else 0)


def absent() -> list[Result]:
    """Return what the paper prints and the raw runs do not hold: all that was tuning."""
    found = []
    for workload in WORKLOADS:
        tuning = workload.tuning
        for what, printed in (
            ("tuning trials", str(tuning.trials)),
            ("epochs of each trial", str(tuning.epochs)),
            ("batch size", str(tuning.batch)),
            ("validation accuracy of the winner, percent", tuning.accuracy),
            ("learning rate of the winner", tuning.rate),
            ("weight decay of the winner", tuning.decay),
        ):
            if printed:
                found.append({"where": workload.section, "what": f"{workload.name}: {what}", "printed": printed})
    return [*found, {"where": "4.7", "what": "MB of the weights of ResNet-152", "printed": "224"}]


def nearby(runs: Sequence[Run]) -> Result:
    """Return what helps to judge the tests of section 4.2, and the numbers that come out otherwise."""
    import numpy as np
    from scipy.stats import PermutationMethod, mannwhitneyu, t

    tuned, untuned = _tested(runs)
    orders = np.array(list(permutations(range(len(tuned)))))
    differences = np.asarray(tuned)[orders] - np.asarray(untuned)
    statistics = differences.mean(axis=1) / differences.std(axis=1, ddof=1) * len(tuned) ** 0.5
    ps = 2 * t.sf(abs(statistics), df=len(tuned) - 1)
    return {
        "pairings": len(orders),
        "pairing_least_p": float(ps.min()),
        "pairing_median_p": float(np.median(ps)),
        "pairing_most_p": float(ps.max()),
        "ties": len(tuned) + len(untuned) - len({*tuned, *untuned}),
        "u_p_with_ties": float(mannwhitneyu(untuned, tuned, method=PermutationMethod(n_resamples=100_000)).pvalue),
        "u_p_normal": float(mannwhitneyu(untuned, tuned, method="asymptotic").pvalue),
    }


def rows_of(runs: Sequence[Run], doubled: str, single: str) -> Result:
    """Return what the rows are: how many, how many twice, and whether their records fit their curves."""
    once = {(run.name, run.values) for run in runs if run.folder == single}
    targets = {workload.folder: workload.target for workload in WORKLOADS} | {doubled: "70"}
    return {
        "rows": len(runs),
        "doubled": sum((run.name, run.values) in once for run in runs if run.folder == doubled),
        "best_fits": sum(run.top == Fraction(run.best) for run in runs),
        "epochs_fit": sum(run.epochs == str(first_epoch(run, targets[run.folder])) for run in runs),
        "without_seed": sum(not run.seed for run in runs),
        "seeds": sorted({f"{run.folder}, {run.start}: {run.seed}" for run in runs if run.seed}),
    }
