"""The part of the page about what the paper prints: each number, figure 5, and some sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common import Result
from benchmarks.paper4.compared import VANILLA_NAME
from benchmarks.paper4.judged import TESTS
from benchmarks.paper4.printed import DIGITS, MARGIN, TRACKING, TRAINING
from benchmarks.raw_page import absent, in_the_text, not_rounded
from benchmarks.writing import paragraph, table


def printed(found: Mapping[str, Any], *, figure: str) -> Iterator[str]:
    """Yield the part; ``figure`` is the file with the box plots."""
    yield "## The paper's own numbers\n"
    yield from _counts(found)
    yield "### Figure 5\n"
    yield paragraph(
        "The best five settings of each table beside vanilla. A box goes from the first to the third quartile,",
        "whiskers to the last run within 1.5 times its height; a white square is the mean. These are the rules of the",
        "notebook that the paper's authors released.",
    )
    yield f"![best accuracies of vanilla and of the best five settings]({figure})\n"
    yield "### Sentences\n"
    yield table(
        ("where", "sentence", "by its means", "by tests", "numbers"),
        [
            (s["where"], s["what"], *("so" if s[by] else "**not so**" for by in ("by_means", "by_tests")), s["numbers"])
            for s in found["sentences"]
        ],
    )
    yield "### Tables 1 to 5\n"
    yield paragraph(
        "p is by the three tests, in their order, and the least of them corrected for the table; *same* is the p-value",
        f"for the claim that the setting is within {MARGIN:g} points of vanilla.",
    )
    for one in found["tables"]:
        yield from _table(one, found["numbers"])


def _counts(found: Mapping[str, Any]) -> Iterator[str]:
    numbers, rows = found["numbers"], found["rows"]
    others = [number for number in numbers if number["how"] != "rounded"]
    differ = [number for number in numbers if number["how"] == "differs"]
    yield paragraph(
        f"{len(numbers) - len(differ)} of {len(numbers)} printed numbers are those of the raw runs, to the last",
        f"printed digit: {len(numbers) - len(others)} rounded, {len(others) - len(differ)} half-way or cut off. Not",
        f"so: {len(differ)}. They are the means and deviations (n - 1) of tables 1 to 5, vanilla's as often as they",
        f"are printed, and {sum(not n['where'].startswith('table') for n in numbers)} numbers of the text. A further",
        f"{len(found['absent'])} are not in the runs, since they are seconds.",
    )
    yield paragraph(
        f"The file has {rows['rows']:,} rows, {rows['curves_twice']} curves are there twice. The best accuracies that",
        f"it records are those of its curves in {rows['best_fits']:,}, their epochs in {rows['epochs_fit']:,}.",
    )
    if others:
        yield not_rounded(others)
    yield in_the_text(numbers, "in the text")
    yield "Not in the runs (table 6 and its section):\n"
    yield absent(found["absent"])
    seconds = {each["what"]: each["printed"] for each in found["absent"]}
    mean, total = (float(seconds[what]) for what in (TRACKING, TRAINING))
    yield paragraph(
        f"The share follows from the means: 100 epochs of {mean:g} s in {total:g} s are {100 * 100 * mean / total:.2f}",
        "%, which was cut off after the last digit, or made of more digits.",
    )


def _table(one: Result, numbers: Sequence[Result]) -> Iterator[str]:
    mine = {number["what"]: number for number in numbers if number["where"] == f"table {one['table']}"}
    tested = {each["setting"]: each["best"] for each in one["settings"]}
    yield f"#### Table {one['table']}: {one['name']}\n"
    rows = []
    for setting in (VANILLA_NAME, *tested):
        cells = [setting]
        for what in ("mean", "deviation"):
            number = mine[f"{setting}: {what}"]
            cells += [number["printed"], f"{number['found']:.{DIGITS + 2}f}"]
        if setting in tested:
            it = tested[setting]
            cells += [
                f"{it['gain']:+.3f} ({it['low']:+.3f} to {it['high']:+.3f})",
                *(f"{it['p'][test]:.3f}" for test in TESTS),
                f"{min(it['holm_here'][test] for test in TESTS):.3f}",
                f"{it['p']['same']:.3f}",
            ]
        rows.append(cells + [""] * (11 - len(cells)))
    means = ("mean, printed", "from the runs", "deviation, printed", "from the runs", "points more")
    yield table(("setting", *means, "p", "p", "p", "corrected", "same"), rows)
