"""The page that tells what came of the paper's raw runs, with two figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.common import Result
from benchmarks.paper4.figures import boxes, epochs
from benchmarks.paper4.judged import LEVEL, MEASURES, OURS, TESTS, won
from benchmarks.paper4.page_printed import printed
from benchmarks.paper4.printed import MARGIN
from benchmarks.paper4.runs import SOURCE
from benchmarks.paper4.seeds import FIRST, SHUFFLES
from benchmarks.paper4.selected import DEALS
from benchmarks.paper5.writing import paragraph, points, table

NAME: Final = "partitions-paper4"

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


def files(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the page and its figures: name of the file -> content."""
    found = result["details"]["étude"]
    return {
        f"{NAME}.md": "\n".join(_page(result, found)),
        f"{NAME}-boxes.svg": boxes(found["tables"]),
        f"{NAME}-epochs.svg": epochs(found["tables"]),
    }


def _page(result: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    tables: Sequence[Result] = found["tables"]
    changed = ", with changes" if result["changed"] else ""
    yield f"# {_headline(tables)}\n"
    yield paragraph(
        "Made by `python -m benchmarks.page` from the [last line](lines/partitions_paper4.json) that `make bench",
        f"NAME=partitions_paper4 ARGS='--runs 1'` printed, commit {result['commit']}{changed}. It is about Paper 4 of",
        f"Sheikholeslami's thesis (2025), and computed from its [raw runs]({SOURCE}); nothing was trained.",
    )
    yield from _verdict(tables)
    yield from _seeds(found["seeds"])
    yield from _selected(tables)
    yield from _same(tables)
    yield from _by_epoch(tables)
    yield from printed(found, figure=f"{NAME}-boxes.svg")
    yield from _unknown()


def _headline(tables: Sequence[Result]) -> str:
    settings = _settings(tables)
    before, after = (won(tables, which) for which in ("p", "holm_all"))
    worse = len(won(tables, "p", sign=-1)), len(won(tables, "holm_all", sign=-1))
    if after:
        first = f"{len(after)} of {settings} importance-aware settings beat random partitions after correction"
    elif before:
        first = f"None of {settings} importance-aware settings beats random partitions after correction"
        first += f", {len(before)} before"
    else:
        first = f"None of {settings} importance-aware settings beats random partitions, even without correction"
    return f"{first}; {worse[0]} are worse without it, {worse[1]} with it"


def _settings(tables: Sequence[Result]) -> int:
    return sum(len(one["settings"]) for one in tables)


def _verdict(tables: Sequence[Result]) -> Iterator[str]:
    settings = _settings(tables)
    runs = tables[0]["runs"]
    yield paragraph(
        f"To beat random partitions is to have the higher mean of best test accuracies, with p <= {LEVEL} by any of",
        f"three tests. A setting has {runs} runs, and {settings} settings are compared with three sets of {runs} runs",
        "with random partitions (*vanilla*). Corrected is by Holm, for the settings of a table, or for all.",
    )
    rows = []
    for one in tables:
        best = max(one["settings"], key=lambda each: each["mean"])
        for_best = best["best"]
        rows.append(
            (
                f"({one['table']}) {one['name']}",
                f"{one['vanilla']['mean']:.3f}",
                f"{one['higher']} of {len(one['settings'])}",
                f"{best['setting']}: {_ends(for_best)}",
                " / ".join(f"{for_best['p'][test]:.2f}" for test in TESTS),
                f"{min(for_best['holm_here'][test] for test in TESTS):.2f}",
                _ends(one["every"]),
                f"{one['every']['p']['pairs']:.2f}",
            )
        )
    head = (
        "table",
        "vanilla, %",
        "higher mean",
        "best setting, points more",
        "p, three tests",
        "least, corrected",
        "all settings, points more",
        "p",
    )
    yield table(head, rows)
    yield paragraph(
        "In brackets: 95 % intervals by a bootstrap (BCa) over pairs. The tests are the product's own, in which pairs",
        "change sides in all ways; Student's on pairs; and Welch's, which pairs nothing. With",
        f"{runs} pairs there are {2**runs:,} ways to change sides, so no p of the first is below {2 / 2**runs:.4f},",
        f"nor below {36 * 2 / 2**runs:.3f} for 36 settings at once: these runs were too few for it from the start, and",
        "that is why the other two are here.",
    )
    yield _counts_table(tables, ["best"])
    worse = won(tables, "p", sign=-1)
    yield paragraph(
        f"Of the {len(worse)} that are worse by some test, before correction,",
        f"{sum('Blocks' in name for name in worse)} are with Blocks, mostly with long intervals. After correction",
        f"for a table: {'; '.join(won(tables, 'holm_here', sign=-1)) or 'none'}. For all {settings}:",
        f"{'; '.join(won(tables, 'holm_all', sign=-1)) or 'none'}.",
    )


def _counts_table(tables: Sequence[Result], measures: Sequence[str]) -> str:
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


def _ends(tested: Mapping[str, float]) -> str:
    return f"{tested['gain']:+.3f} ({tested['low']:+.3f} to {tested['high']:+.3f})"


def _seeds(kinds: Sequence[Result]) -> Iterator[str]:
    yield "## Which runs belong together\n"
    fitting, of = (sum(kind[key] for kind in kinds) for key in ("fitting", "settings"))
    yield paragraph(
        'The paper repeats each setting "using ten pre-determined global random seeds", and the released script goes',
        "through one list of ten for all settings. The files have no seeds, but their rows kept its order: in the",
        f"first {FIRST} epochs, which have random partitions everywhere, the n-th rows of all files are alike. In",
        f"{fitting} of {of} files the rows fit those of all other files better in their own order than in 95 % of",
        f"{SHUFFLES:,} shuffled ones. So the n-th rows are taken for a pair. That was decided by the first epochs",
        "alone; and were it wrong, the tests would be fair all the same.",
    )
    head = (
        "",
        "files",
        "in their own order",
        "largest p",
        f"variance that goes with the row, first {FIRST} epochs",
        "vanilla against the others, r",
        "variance of best accuracies that goes with the row",
        "vanilla against the others, r",
    )
    yield table(
        head,
        [
            (
                kind["name"],
                str(kind["settings"]),
                str(kind["fitting"]),
                f"{kind['most_p']:.4f}",
                f"{kind['share']:.0%}",
                f"{kind['vanilla_r']:.2f}",
                f"{kind['share_of_best']:.0%}",
                f"{kind['vanilla_r_of_best']:.2f}",
            )
            for kind in kinds
        ],
    )
    yield paragraph(
        "A seed sets the first weights; GPUs still gave each run numbers of its own. What it does to best accuracies",
        "is shared by the importance-aware settings, and with vanilla's runs on CIFAR-100 alone. So on CIFAR-10 pairs",
        "are worth little here. The order of the examples is no part of it: the released code leaves the seed of",
        "vanilla's sampler at 0, so that all ten seeds saw the same order.",
    )


def _selected(tables: Sequence[Result]) -> Iterator[str]:
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


def _same(tables: Sequence[Result]) -> Iterator[str]:
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


def _by_epoch(tables: Sequence[Result]) -> Iterator[str]:
    yield "## By epoch\n"
    yield paragraph(
        "The best of 100 epochs is itself chosen on the test data. Here is what else the curves say. The target of a",
        "table is the highest whole percent that all of vanilla's runs reach:",
        ", ".join(f"{one['target']:g} % ({one['table']})" for one in tables) + ". In the control nothing can be found",
        f"but chance: in the first {FIRST} epochs no setting has other partitions yet.",
    )
    yield _counts_table(tables, MEASURES)
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
    yield f"![points more than vanilla after each epoch]({NAME}-epochs.svg)\n"
    yield paragraph(
        f"The line is the mean of the 36 settings, the band goes from the lowest to the highest; up to epoch {FIRST}",
        "(dashed) partitions are random everywhere. There the settings are behind on CIFAR-10 already: vanilla's ten",
        "runs began luckily, or were made in other circumstances. It is a part of why few settings have a higher mean,",
        "and one more reason to run what is compared side by side.",
    )


def _unknown() -> Iterator[str]:
    yield "## What these runs cannot tell\n"
    yield points(
        "How good a model is on untouched data: the best epoch was chosen on the test data, for all settings alike.",
        "How good it is in use. In the released code the test images pass through the random crops and flips of the "
        "training data, and the model stays in training mode, so that BatchNorm takes the statistics of the test "
        "batch. Its running averages come from rank 0, which under Blocks has the hardest quarter of the examples "
        "alone: in evaluation mode Blocks may do worse than here.",
        "Whether a difference comes of partitions or of the order of examples: that of vanilla is by seed 0 in all "
        "runs, that of the others by the run's seed once the warm-up is over.",
        "Which classes gain and lose, and how partitions are balanced: accuracies are of all classes together.",
        "How it compares with a random subset for each epoch, or with anything else than vanilla.",
        "Seconds, and bytes that were moved.",
    )
