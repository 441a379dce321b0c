"""The page that tells what came of the paper's raw runs, with two figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.common import Result
from benchmarks.paper5.figures import panels, ratios
from benchmarks.paper5.judged import LEVEL, PRICES, arm_of, wins
from benchmarks.paper5.printed import DIGITS, FINAL, RANDOM, TESTED, WORKLOADS
from benchmarks.paper5.runs import SOURCE

NAME: Final = "weights-paper5"
LEAD: Final = 1.1
"""Random weights over final ones: from here on the lead is called one."""

STEP: Final = 5
"""Percent between two targets in the table; the figure has all of them."""


def files(result: Result) -> dict[str, str]:
    """Return the page and its figures: name of the file -> content."""
    found = result["details"]["étude"]
    return {
        f"{NAME}.md": "\n".join(_page(result, found)),
        f"{NAME}-figures.svg": panels(found["workloads"]),
        f"{NAME}-targets.svg": ratios(found["workloads"]),
    }


def _page(result: Result, found: Mapping[str, Any]) -> Iterator[str]:
    workloads: Sequence[Result] = found["workloads"]
    yield f"# {_headline(workloads)}"
    yield ""
    changed = ", with changes" if result["changed"] else ""
    yield (
        f"Made by `python -m benchmarks.page` from the [last line](lines/weights_paper5.json) that\n"
        f"`make bench NAME=weights_paper5 ARGS='--runs 1'` printed, commit {result['commit']}{changed}. It is about Paper 5\n"
        f"of Sheikholeslami's thesis (2025), and computed from its [raw runs]({SOURCE}); nothing was trained.\n"
    )
    yield from _verdict(workloads)
    yield from _reproduction(found)
    yield from _tables(found["numbers"])
    yield from _tests(found)
    yield from _figures()
    yield from _clocks(workloads)
    yield from _over_targets(workloads)
    yield from _sentences(found["sentences"])
    yield from _unknown(found)


def _headline(workloads: Sequence[Result]) -> str:
    won, paid = (
        [one["name"] for one in workloads if FINAL in wins(one, on, "holm_final")] for on in ("sunk", "charged")
    )
    first = f"Weights from tuning trials win on {len(won)} of {len(workloads)} workloads"
    return f"{first}{': ' if won else ''}{' and '.join(won)}; when they are paid for, on {_several(paid)}"


def _several(names: Sequence[str]) -> str:
    return " and ".join(names) if names else "none"


def _verdict(workloads: Sequence[Result]) -> Iterator[str]:
    starts = sum(len(one["arms"]) - 1 for one in workloads)
    yield (
        f"To win is to have the better mean, with p <= {LEVEL} after Holm's correction. The headline is about the final\n"
        "weights of the winning trial, the only start that all workloads have, and corrected for the five; below, all\n"
        f"{starts} starts are judged, and corrected for {starts}.\n"
    )
    yield "| | final weights win on | any start wins on |\n|---|---|---|"
    for measure, told in (
        ("sunk", "epochs to the target, tuning is free (as in the paper)"),
        ("charged", "epochs to the target, inherited epochs are paid for"),
        ("best", "best test accuracy"),
    ):
        final = [one["name"] for one in workloads if FINAL in wins(one, measure, "holm_final")]
        each = [f"{one['name']} ({', '.join(won)})" for one in workloads if (won := wins(one, measure, "holm_all"))]
        yield f"| {told} | {_several(final)} | {'; '.join(each) or 'none'} |"
    yield ""
    least = {one["name"]: one["least_p"] for one in workloads if one["least_p"] * len(workloads) > LEVEL}
    for name, p in least.items():
        yield (
            f"{name} could not win: with so few runs of each start the least p that can be is {p:.4f}, which five tests\n"
            "at once make larger than that level.\n"
        )


def _reproduction(found: Mapping[str, Any]) -> Iterator[str]:
    numbers, rows = found["numbers"], found["rows"]
    of = {how: [n for n in numbers if n["how"] == how] for how in ("rounded", "half-way", "truncated", "differs")}
    same = len(numbers) - len(of["differs"])
    yield "## The paper's own numbers\n"
    yield (
        f"{same} of {len(numbers)} printed numbers are those of the raw runs, to the last printed digit: "
        f"{len(of['rounded'])} rounded, {len(of['half-way'])}\nexactly half-way between two neighbours and printed as one "
        f"of these, {len(of['truncated'])} cut off after the last digit. {len(of['differs'])} differ"
        f"{'s' if len(of['differs']) == 1 else ''}.\n{len(found['absent'])} more are not in the runs.\n"
    )
    yield (
        f"The file has {rows['rows']} rows, {rows['doubled']} of them twice, with another target. Recorded best accuracies "
        f"fit the curves in {rows['best_fits']} rows,\nrecorded times to the target in {rows['epochs_fit']}. Times are "
        "those to *at least* the target, as the tables say, and not\nthose to surpass it, as section 4 says.\n"
    )
    yield "| not as printed | where | printed | from the runs | |\n|---|---|---|---|---|"
    for number in (*of["differs"], *of["truncated"], *of["half-way"]):
        yield (
            f"| {number['what']} | {number['where']} | {number['printed']} | {number['found']:.7g} | {number['how']} |"
        )
    yield (
        "\nThe speed-up that differs is the ratio of two means of table 1, 29.125 and 14.375, which is 2.026. The printed\n"
        "2.027 comes out if 14.375 is cut to 14.37 before (2.0268), or if the ratio is rounded up. Of the half-way means\n"
        "rounding to even gives all but two (44.223 and 76.947), and no way of summing and rounding that we tried gives\n"
        "all: in binary such a mean lies a hair above or below, by the order of the sum.\n"
    )
    yield "Not in the runs, since they tell of the tuning or of files:\n"
    yield "| where | what | printed |\n|---|---|---|"
    for number in found["absent"]:
        yield f"| {number['where']} | {number['what']} | {number['printed']} |"
    yield ""


def _tables(numbers: Sequence[Result]) -> Iterator[str]:
    for workload in WORKLOADS:
        yield f"### Table {workload.table}: {workload.name}\n"
        yield (
            "| start | best accuracy, printed | from the runs | deviation, printed | from the runs "
            f"| epochs to {workload.target} %, printed | from the runs |\n|---|---|---|---|---|---|---|"
        )
        mine = [number for number in numbers if number["where"] == f"table {workload.table}"]
        for nth, row in enumerate(workload.rows):
            pairs = mine[3 * nth : 3 * nth + 3]
            shown = " | ".join(f"{pair['printed']} | {pair['found']:.{DIGITS + 2}f}" for pair in pairs)
            yield f"| {row.start} | {shown} |"
        yield ""
    yield "### In the text\n"
    yield "| where | what | printed | from the runs | |\n|---|---|---|---|---|"
    for number in numbers:
        if not number["where"].startswith("table"):
            yield (
                f"| {number['where']} | {number['what']} | {number['printed']} | {number['found']:.7g} "
                f"| {number['how']} |"
            )
    yield ""


def _tests(found: Mapping[str, Any]) -> Iterator[str]:
    near = found["nearby"]
    yield "### The tests of section 4.2\n"
    yield (
        "Best accuracies on CIFAR-10, Epoch 25 against Random, 8 runs each. The printed numbers are those of scipy with\n"
        "`ttest_rel`, rows paired in their order, and `mannwhitneyu(random, epoch_25, method='exact')`, cut off after the\n"
        "last digit. What has to be added:\n"
    )
    yield (
        f"- Nothing pairs the rows: no seeds were recorded. Over all {near['pairings']:,} pairings the p-value of the paired "
        f"test lies between {near['pairing_least_p']:.2g}\n  and {near['pairing_most_p']:.2g}, with median "
        f"{near['pairing_median_p']:.2g}."
    )
    yield (
        f"- `exact` takes it that there are no ties, and there are ({near['ties']} values that come again). Over all ways to "
        f"deal the\n  runs out, ties as they are, p is {near['u_p_with_ties']:.5f}; scipy's own choice for such data, a "
        f"normal\n  approximation, gives {near['u_p_normal']:.5f}."
    )
    tested = arm_of(found["workloads"][0], TESTED[1])["best"]
    yield (
        f"- Epoch 25 is the start with the best mean of seven. Corrected for the seven, p is {tested['holm_here']:.4f}; for "
        f"all starts of all\n  workloads {tested['holm_all']:.4f}. The difference is {tested['gain']:.2f} points "
        f"({tested['low']:.2f} to {tested['high']:.2f}).\n"
    )


def _figures() -> Iterator[str]:
    yield "## Figures 2 to 8\n"
    yield (
        "Each dot is a run, each bar a mean of the runs, each diamond the mean that the paper's table prints. Of the paper's\n"
        "figures we have the captions alone, so their form may be another one. Figure 1 shows no numbers.\n"
    )
    yield f"![best accuracies and times to the target of all runs]({NAME}-figures.svg)\n"


def _clocks(workloads: Sequence[Result]) -> Iterator[str]:
    yield "## Three clocks\n"
    yield (
        "Mean epochs to the paper's target. *Sunk*: tuning was to be done anyway, as in the paper. *Charged*: an inherited\n"
        "epoch costs its share of the training data (.8; 1 on Tiny ImageNet, which has validation images of its own), and\n"
        "its validation: each example the forward pass alone, a third of what training with it costs. In brackets:\n"
        f"validation for nothing, and as dear as training ({PRICES[0]:g}, {PRICES[2]:g}). What the final runs looked at test "
        "data for\nis charged to nobody. *Marginal*: keeping weights costs no epochs, so in epochs it is the sunk clock; "
        "seconds were not\nrecorded. `save` tells how many epochs' time each saved epoch of each trial may take until the "
        "gain of one final run is\nused up. No run missed the paper's target, unless `missed` says so.\n"
    )
    yield (
        "x is the mean of random weights over that of the start, with a 95 % interval (bootstrap, rather too narrow for\n"
        "eight runs); p is of an exact rank test on unpaired runs, corrected for all starts of all workloads.\n"
    )
    for one in workloads:
        random = arm_of(one, RANDOM)
        yield (
            f"### {one['name']}, {one['target']:g} %, {one['runs']} runs of each start\n\nRandom weights: "
            f"{random['sunk']['mean']:.3f} epochs of {one['steps_of_an_epoch']} steps each, by the batch size of the "
            f"tuning, so {random['sunk']['steps']:,.1f} steps; {random['missed']} missed.\n"
        )
        yield (
            "| start | missed | sunk | steps | x | p | save | charged | steps | x | p | best accuracy, points more | p |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
        )
        for each in one["arms"]:
            if each["start"] != RANDOM:
                yield _clocks_row(each)
        yield ""


def _clocks_row(each: Mapping[str, Any]) -> str:
    sunk, charged, best = each["sunk"], each["charged"], each["best"]
    free, _, dear = each["charged_at"]
    save = f"{each['a_save_may_cost_epochs']:.3f}" if each["a_save_may_cost_epochs"] > 0 else "-"
    return (
        f"| {each['start']} | {each['missed']} | {sunk['mean']:.3f} | {sunk['steps']:,.1f} | {_with_ends(sunk)} "
        f"| {sunk['holm_all']:.4f} | {save} | {charged['mean']:.2f} ({free:.2f}, {dear:.2f}) "
        f"| {charged['steps']:,.0f} | {_with_ends(charged)} | {charged['holm_all']:.4f} "
        f"| {best['gain']:+.3f} ({best['low']:+.3f} to {best['high']:+.3f}) | {best['holm_all']:.4f} |"
    )


def _with_ends(compared: Mapping[str, float]) -> str:
    return f"{compared['ratio']:.2f} ({compared['low']:.2f} to {compared['high']:.2f})"


def _over_targets(workloads: Sequence[Result]) -> Iterator[str]:
    yield "## At other targets\n"
    yield (
        'The paper chose its targets "based on our observations from the training curves". Here are all of them, for the\n'
        "final weights: the mean of random weights over theirs. Runs that miss count up to the end of their curves.\n"
    )
    yield f"![times of random weights over those of the final ones, at each target]({NAME}-targets.svg)\n"
    yield (
        f"| | the paper's target | highest target with x >= {LEAD:g}, sunk | highest with x > 1, charged |\n|---|---|---|---|"
    )
    for one in workloads:
        lead = max((at["target"] for at in one["targets"] if at["sunk"] >= LEAD), default=None)
        paid = max((at["target"] for at in one["targets"] if at["charged"] > 1), default=None)
        yield f"| {one['name']} | {one['target']:g} % | {_percent(lead)} | {_percent(paid)} |"
    yield (
        "\n| | target | random: epochs | missed | final: epochs | missed | x, sunk | x, charged |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for one in workloads:
        for at in one["targets"]:
            if at["target"] % STEP == 0 or at["random_missed"] or at["final_missed"]:
                yield (
                    f"| {one['name']} | {at['target']:g} % | {at['random']:.3f} | {at['random_missed']} "
                    f"| {at['final']:.3f} | {at['final_missed']} | {at['sunk']:.2f} | {at['charged']:.2f} |"
                )
    yield ""


def _percent(target: float | None) -> str:
    return "none" if target is None else f"{target:g} %"


def _sentences(told: Sequence[Result]) -> Iterator[str]:
    yield "## What the paper says of it in words\n"
    yield "| where | sentence | | by its own runs |\n|---|---|---|---|"
    for each in told:
        yield f"| {each['where']} | {each['what']} | {'so' if each['so'] else '**not so**'} | {each['numbers']} |"
    yield ""


def _unknown(found: Mapping[str, Any]) -> Iterator[str]:
    rows = found["rows"]
    yield "## What these runs cannot tell\n"
    yield (
        f"- Seeds: {rows['without_seed']} of {rows['rows']} rows have none, and the others have the same one for many runs. "
        "So runs are not paired, in any\n  test here."
    )
    yield "- Seconds, and with them what saving weights cost."
    yield (
        "- Whether another winner of the same search would do as well: each workload has one trial whose weights were used."
    )
    yield (
        "- Accuracies are those of the best epoch on the test data, of each run: that is a choice made on test data, for\n"
        "  all starts alike.\n"
    )
