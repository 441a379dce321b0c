"""The part of the page about chance: the best of many settings, what so few runs can tell, and the other epochs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.common import Result
from benchmarks.paper4.judged import LEVEL, MEASURES, OURS, TESTS
from benchmarks.paper4.printed import MARGIN
from benchmarks.paper4.seeds import FIRST
from benchmarks.writing import paragraph, table
from etude.analyse.chance import DEALS

TOLD: Final = {
    "best": "best accuracy, as in the paper",
    "last": "accuracy after the last epoch",
    "last_ten": "mean accuracy of the last ten epochs",
    "area": "mean accuracy of all epochs (area under the curve)",
    "sooner": "epochs to the target",
    "first_ten": f"control: mean accuracy of the first {FIRST} epochs",
}
"""Measure -> what it is called."""

NAMES: Final = {"pairs": "pairs change sides", "student": "Student, pairs", "welch": "Welch, no pairs"}


def counts_table(tables: Sequence[Result], measures: Sequence[str]) -> str:
    """Return how many settings are better and worse, by measure, test and correction."""
    head = ("settings better + worse", "test", *(f"({one['table']})" for one in tables), "all", "corrected: 36", "180")
    rows = []
    for measure in measures:
        for test in TESTS:
            of = [one["counts"][measure][test] for one in tables]
            sums = [
                [sum(each[which][side] for each in of) for side in (0, 1)] for which in ("p", "holm_here", "holm_all")
            ]
            rows.append((TOLD[measure], NAMES[test], *(_both(each["p"]) for each in of), *map(_both, sums)))
    return table(head, rows)


def _both(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} + {numbers[1]}"


def best_of_many(tables: Sequence[Result]) -> Iterator[str]:
    """Yield what the best of a table is beside the best that chance makes."""
    yield "## The best of 36\n"
    yield paragraph(
        "Of 36 equal settings one is the best. To see what it would look like, within each seed the values of vanilla",
        f"and of all settings were dealt out anew, {DEALS:,} times: if partitions do nothing, each deal was as likely.",
        "That keeps what the settings share: the seeds, and one set of vanilla's runs.",
    )
    head = (
        "table",
        "best of 36",
        "by chance, median",
        "95 % below",
        "p",
        "settings beyond",
        "worst",
        "95 % above",
        "p",
    )
    yield table(
        (*head, "settings beyond"),
        [
            (
                f"({one['table']}) {one['name']}",
                f"{got['gain']:+.3f}",
                f"{got['by_chance']:+.3f}",
                f"{got['bar']:+.3f}",
                f"{got['p']:.3f}",
                str(got["beyond"]),
                f"{got['loss']:+.3f}",
                f"{got['floor']:+.3f}",
                _p(got["loss_p"]),
                str(got["below"]),
            )
            for one in tables
            for got in [one["selected"]]
        ],
    )
    less = sum(one["selected"]["gain"] < one["selected"]["by_chance"] for one in tables)
    if not any(one["selected"]["beyond"] for one in tables):
        yield paragraph(
            f"No table's best setting is beyond what chance makes; in {less} of {len(tables)} it is below the median",
            "of that.",
        )
    yield paragraph(
        "Without vanilla, so that its luck is left out: how far the best setting is above the mean of the 36; how far",
        "the 36 means are spread, beside what the spread of seeds alone would give; and how much of the lead is to be",
        "expected again with new seeds (1 - 1/F of the analysis of variance, settings and seeds).",
    )
    yield table(
        ("table", "best above the mean", "by chance, median", "p", "spread of means", "by seeds alone", "p", "left"),
        [
            (
                f"({one['table']}) {one['name']}",
                f"{got['lead']:+.3f}",
                f"{got['lead_by_chance']:+.3f}",
                f"{got['lead_p']:.3f}",
                f"{got['spread']:.3f}",
                f"{got['spread_by_chance']:.3f}",
                _p(got["spread_p"]),
                f"{got['left']:.0%}",
            )
            for one in tables
            for got in [one["selected"]]
        ],
    )
    yield paragraph(
        "So warm-up and interval make a difference with Blocks, where some settings are bad, and elsewhere none that",
        "can be told from that of seeds.",
    )


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def how_much(tables: Sequence[Result]) -> Iterator[str]:
    """Yield what differences these runs could have found, and which they exclude."""
    yield "## No worse, no better: how much these runs can tell\n"
    yield paragraph(
        f"Two settings are called the same if their difference is shown to be below {MARGIN:g} points: two one-sided",
        f"t-tests of pairs, p <= {LEVEL}. *Found*: the smallest true difference that a test of pairs finds in 80 % of",
        f"such tables, where 36 settings are corrected for; and how small it is with {OURS[0]} seeds and {OURS[1]}",
        "partitions beside the random one.",
    )
    head = ("table", "same", "corrected: 36", "180", "found, points", f"with {OURS[0]} seeds, {OURS[1]} partitions")
    yield table(
        head,
        [
            (
                f"({one['table']}) {one['name']}",
                *(
                    f"{sum(each['best'][which]['same'] <= LEVEL for each in one['settings'])} of {len(one['settings'])}"
                    for which in ("p", "holm_here", "holm_all")
                ),
                f"{one['seen']:.2f}",
                f"{one['seen_by_ours']:.2f}",
            )
            for one in tables
        ],
    )
    yield paragraph(
        f"So a gain of less than {min(one['seen'] for one in tables):.1f} points in a single setting would mostly have",
        "been missed: that nothing was found is no proof that there is nothing. The mean of all settings of a table is",
        "known better: its intervals, in the first table of this page, all end at",
        f"{max(one['every']['high'] for one in tables):+.3f} points or before.",
    )


def by_epoch(tables: Sequence[Result], *, figure: str) -> Iterator[str]:
    """Yield what the rest of the curves says; ``figure`` is the file with the leads by epoch."""
    yield "## By epoch\n"
    yield paragraph(
        "The best of 100 epochs is itself chosen on the test data. Here is what else the curves say. The target of a",
        "table is the highest whole percent that all of vanilla's runs reach:",
        ", ".join(f"{one['target']:g} % ({one['table']})" for one in tables) + ". In the control nothing can be found",
        f"but chance: in the first {FIRST} epochs no setting has other partitions yet.",
    )
    yield counts_table(tables, MEASURES)
    yield table(
        ("mean of all settings, against vanilla", *(f"({one['table']})" for one in tables)),
        [
            (
                TOLD[measure] + (", sooner" if measure == "sooner" else ", points more"),
                *(f"{one['gains'][measure]:+.3f}" for one in tables),
            )
            for measure in MEASURES
        ],
    )
    yield f"![points more than vanilla after each epoch]({figure})\n"
    yield paragraph(
        f"The line is the mean of the 36 settings, the band goes from the lowest to the highest; up to epoch {FIRST}",
        "(dashed) partitions are random everywhere. There the settings are behind on CIFAR-10 already: vanilla's ten",
        "runs began luckily, or were made in other circumstances. It is a part of why few settings have a higher mean,",
        "and one more reason to run what is compared side by side.",
    )
