"""The part of the page about what the paper prints: each number, each test, each figure, and some sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common import Result
from benchmarks.paper5.judged import arm_of
from benchmarks.paper5.printed import DIGITS, TESTED, WORKLOADS
from benchmarks.raw_page import absent, in_the_text, not_rounded
from benchmarks.writing import listed, paragraph, points, table


def printed(found: Mapping[str, Any], *, figure: str) -> Iterator[str]:
    """Yield the part; ``figure`` is the file with the figures 2 to 8."""
    yield "## The paper's own numbers\n"
    yield from _counts(found)
    for workload in WORKLOADS:
        yield from _table(workload.table, found["numbers"])
    yield from _text(found["numbers"])
    yield from _tests(found)
    yield "### Figures 2 to 8\n"
    yield paragraph(
        "Each dot is a run, each bar a mean of the runs, each diamond the mean that the paper's table prints. Of the",
        "paper's figures we have the captions alone, so their form may be another one. Figure 1 shows no numbers.",
    )
    yield f"![best accuracies and times to the target of all runs]({figure})\n"
    yield "### Sentences\n"
    yield table(
        ("where", "sentence", "", "by its own runs"),
        [(s["where"], s["what"], "so" if s["so"] else "**not so**", s["numbers"]) for s in found["sentences"]],
    )


def _counts(found: Mapping[str, Any]) -> Iterator[str]:
    numbers, rows = found["numbers"], found["rows"]
    differ, cut, half = ([n for n in numbers if n["how"] == how] for how in ("differs", "truncated", "half-way"))
    yield paragraph(
        f"{len(numbers) - len(differ)} of {len(numbers)} printed numbers are those of the raw runs, to the last",
        f"printed digit: {len(numbers) - len(differ) - len(cut) - len(half)} rounded,",
        f"{len(half)} exactly half-way between two",
        f"neighbours and printed as one of them, {len(cut)} cut off after the last digit. Not so: {len(differ)}. A",
        f"further {len(found['absent'])} are not in the runs.",
    )
    yield paragraph(
        f"The file has {rows['rows']} rows; {rows['doubled']} are there twice, once with times to 70 %. The",
        f"best accuracies that it records are those of its curves in {rows['best_fits']} rows, the times to the",
        f"target in {rows['epochs_fit']}: times to *at least* the target, as the tables",
        "say, and not those to surpass it, as the",
        "beginning of section 4 does.",
    )
    yield not_rounded([*differ, *cut, *half])
    odd = [number["printed"] for number in half if int(number["printed"][-1]) % 2]
    yield paragraph(
        "The speed-up is the ratio of two means of table 1, 29.125 and 14.375, which is 2.026. The printed 2.027",
        "comes out if 14.375 is cut to 14.37 before (2.0268), or if the ratio is rounded",
        "up. Of the half-way means, rounding",
        f"to even gives all but {listed(odd)}. In binary such a mean lies a hair above",
        "or below, by the order of the sum:",
        "numpy's mean and pandas' give other ones than Python's `fmean`, and none of them gives all as printed.",
    )
    yield "Not in the runs, since they tell of the tuning, or of files:\n"
    yield absent(found["absent"])


def _table(nth: int, numbers: Sequence[Result]) -> Iterator[str]:
    workload = next(workload for workload in WORKLOADS if workload.table == nth)
    mine = iter([number for number in numbers if number["where"] == f"table {nth}"])
    yield f"### Table {nth}: {workload.name}\n"
    head = [
        title
        for what in ("best accuracy", "deviation", f"epochs to {workload.target} %")
        for title in (f"{what}, printed", "from the runs")
    ]
    rows = []
    for row in workload.rows:
        pairs = [next(mine) for _ in range(3)]
        cells = [cell for pair in pairs for cell in (pair["printed"], f"{pair['found']:.{DIGITS + 2}f}")]
        rows.append([row.start, *cells])
    yield table(["start", *head], rows)


def _text(numbers: Sequence[Result]) -> Iterator[str]:
    yield "### In the text\n"
    yield in_the_text(numbers, "what")


def _tests(found: Mapping[str, Any]) -> Iterator[str]:
    near, tested = found["nearby"], arm_of(found["workloads"][0], TESTED[1])["best"]
    yield "### The tests of section 4.2\n"
    yield paragraph(
        f"Best accuracies on CIFAR-10, {TESTED[1]} against Random. The printed numbers are those of scipy's",
        "`ttest_rel`, rows paired in their order, and `mannwhitneyu(random, epoch_25,",
        "method='exact')`, cut off after the last",
        "digit. What has to be added:",
    )
    yield points(
        f"Nothing pairs the rows: no seeds were recorded. Over all {near['pairings']:,} pairings the p-value of the "
        "paired "
        f"test lies between {near['pairing_least_p']:.2g} and {near['pairing_most_p']:.2g}, with median "
        f"{near['pairing_median_p']:.2g}.",
        f"`exact` takes it that there are no ties, and there are: {near['ties']} values come again. Here that does "
        "no harm: "
        f"over all ways to deal the runs out, ties as they are, p is {near['u_p_with_ties']:.5f}. Scipy's own "
        "choice for "
        f"such data, a normal approximation, gives {near['u_p_normal']:.5f}.",
        f"{TESTED[1]} is the start with the best mean of seven. Corrected for the seven, p is "
        f"{tested['holm_here']:.4f}; for "
        f"all starts of all workloads {tested['holm_all']:.4f}. The difference is {tested['gain']:.2f} points "
        f"({tested['low']:.2f} to {tested['high']:.2f}).",
    )
