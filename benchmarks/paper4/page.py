"""The page that tells what came of the paper's raw runs, with two figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.common import Result
from benchmarks.paper4.figures import boxes, epochs
from benchmarks.paper4.judged import LEVEL, TESTS, won
from benchmarks.paper4.page_chance import best_of_many, by_epoch, counts_table, how_much
from benchmarks.paper4.page_printed import printed
from benchmarks.paper4.runs import SOURCE
from benchmarks.paper4.seeds import FIRST, SHUFFLES
from benchmarks.raw_page import head
from benchmarks.writing import paragraph, points, table

NAME: Final = "partitions-paper4"


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
    yield from head(result, _headline(tables), paper=4, source=SOURCE)
    yield from _verdict(tables)
    yield from _seeds(found["seeds"])
    yield from best_of_many(tables)
    yield from how_much(tables)
    yield from by_epoch(tables, figure=f"{NAME}-epochs.svg")
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
    yield counts_table(tables, ["best"])
    worse = won(tables, "p", sign=-1)
    yield paragraph(
        f"Of the {len(worse)} that are worse by some test, before correction,",
        f"{sum('Blocks' in name for name in worse)} are with Blocks, mostly with long intervals. After correction",
        f"for a table: {'; '.join(won(tables, 'holm_here', sign=-1)) or 'none'}. For all {settings}:",
        f"{'; '.join(won(tables, 'holm_all', sign=-1)) or 'none'}.",
    )


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
