"""The page that tells what came of the paper's raw runs, with two figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.common import Result
from benchmarks.paper5.figures import panels, ratios
from benchmarks.paper5.judged import LEVEL, PRICES, arm_of, wins
from benchmarks.paper5.page_printed import printed
from benchmarks.paper5.printed import FINAL, RANDOM
from benchmarks.paper5.runs import SOURCE
from benchmarks.raw_page import head
from benchmarks.writing import listed, paragraph, points, table

NAME: Final = "weights-paper5"
LEAD: Final = 1.1
"""Random weights over final ones: from here on the lead is called one."""

STEP: Final = 5
"""Percent between two targets in the table; the figure has all of them."""


def files(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the page and its figures: name of the file -> content."""
    found = result["details"]["étude"]
    return {
        f"{NAME}.md": "\n".join(_page(result, found)),
        f"{NAME}-figures.svg": panels(found["workloads"]),
        f"{NAME}-targets.svg": ratios(found["workloads"]),
    }


def _page(result: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    workloads: Sequence[Result] = found["workloads"]
    yield from head(result, _headline(workloads), paper=5, source=SOURCE)
    yield from _verdict(workloads)
    yield from _clocks(workloads)
    yield from _over_targets(workloads)
    yield from printed(found, figure=f"{NAME}-figures.svg")
    yield from _unknown(found)


def _headline(workloads: Sequence[Result]) -> str:
    won, paid = (
        [one["name"] for one in workloads if FINAL in wins(one, on, "holm_final")] for on in ("sunk", "charged")
    )
    first = f"Weights from tuning trials win on {len(won)} of {len(workloads)} workloads"
    return f"{first}{': ' + listed(won) if won else ''}; when they are paid for, on {listed(paid)}"


def _verdict(workloads: Sequence[Result]) -> Iterator[str]:
    starts = sum(len(one["arms"]) - 1 for one in workloads)
    yield paragraph(
        f"To win is to have the better mean, with p <= {LEVEL} after Holm's correction. The headline is about the",
        "epochs to the paper's target from the final weights of the winning trial, the only start that all workloads",
        f"have, and corrected for the five. In the last column all {starts} starts are",
        f"judged, and corrected for {starts}.",
    )
    rows = []
    for measure, told in (
        ("sunk", "epochs to the target, tuning is free (as in the paper)"),
        ("charged", "epochs to the target, inherited epochs are paid for"),
        ("best", "best test accuracy"),
    ):
        final = [one["name"] for one in workloads if FINAL in wins(one, measure, "holm_final")]
        each = [f"{one['name']} ({', '.join(won)})" for one in workloads if (won := wins(one, measure, "holm_all"))]
        rows.append((told, listed(final), "; ".join(each) or "none"))
    yield table(("", "final weights win on", "any start wins on"), rows)
    lower = [listed(_lower(workloads, nth)) for nth in range(len(PRICES))]
    beyond = [one["name"] for one in workloads if wins(one, "charged", "holm_all")]
    yield paragraph(
        f"When inherited epochs are paid for, the mean is lower than that of random weights on {lower[1]}; beyond what",
        f"chance explains, on {listed(beyond)}. Were validation free, it would be lower on {lower[0]}; were it as",
        f"dear as training, on {lower[2]}.",
    )
    for one in workloads:
        if (others := len(workloads) - int(LEVEL / one["least_p"])) > 0:
            yield paragraph(
                f"With {one['runs']} runs of each start the least p that can be is {one['least_p']:.4f}. So",
                f"{one['name']} can win only if {others} other workloads have a smaller p.",
            )


def _lower(workloads: Sequence[Result], nth: int) -> list[str]:
    """Return the workloads, and their starts, with a lower mean on the charged clock, at the n-th of the prices."""
    found = []
    for one in workloads:
        bar = arm_of(one, RANDOM)["charged"]["mean"]
        starts = [each["start"] for each in one["arms"] if each["start"] != RANDOM and each["charged_at"][nth] < bar]
        found += [f"{one['name']} ({', '.join(starts)})"] if starts else []
    return found


def _clocks(workloads: Sequence[Result]) -> Iterator[str]:
    yield "## Three clocks\n"
    yield paragraph(
        "Mean epochs to the paper's target. *Sunk*: tuning was to be done anyway, as in the paper. *Charged*: an",
        "inherited epoch costs its share of the training data (.8; 1 on Tiny ImageNet, which has validation images",
        "of its own), and its validation: each example the forward pass alone, a",
        "third of what training with it costs. In",
        "brackets: validation for nothing, and as dear as training. That the final runs looked at the test data is",
        "charged to nobody. *Marginal*: keeping weights costs no epochs, so in epochs and steps it is the sunk clock;",
        "seconds were not recorded. `save` tells how much of an epoch's time each saved epoch of each trial may",
        "take until the gain of one final run is used up.",
    )
    yield paragraph(
        "x is the mean of random weights over that of the start, with a 95 % interval (bootstrap, rather too",
        "narrow for eight runs); p is of an exact rank test on unpaired runs, corrected",
        "for all starts of all workloads.",
        "Steps are by the batch size of the tuning: the paper gives no other.",
    )
    for one in workloads:
        random = arm_of(one, RANDOM)
        yield f"### {one['name']}, {one['target']:g} %, {one['runs']} runs of each start\n"
        yield paragraph(
            f"Random weights: {random['sunk']['mean']:.3f} epochs, of {one['steps_of_an_epoch']} steps each: "
            f"{random['sunk']['steps']:,.1f} steps; {random['missed']} runs missed."
        )
        head = ("start", "missed", "sunk", "steps", "x", "p", "save", "charged", "steps", "x", "p")
        yield table(
            (*head, "best accuracy, points more", "p"),
            [_clocks_row(each) for each in one["arms"] if each["start"] != RANDOM],
        )


def _clocks_row(each: Mapping[str, Any]) -> Sequence[str]:
    sunk, charged, best = each["sunk"], each["charged"], each["best"]
    free, _, dear = each["charged_at"]
    return (
        each["start"],
        str(each["missed"]),
        f"{sunk['mean']:.3f}",
        f"{sunk['steps']:,.1f}",
        _with_ends(sunk),
        f"{sunk['holm_all']:.4f}",
        f"{each['a_save_may_cost_epochs']:.3f}" if each["a_save_may_cost_epochs"] > 0 else "-",
        f"{charged['mean']:.2f} ({free:.2f}, {dear:.2f})",
        f"{charged['steps']:,.0f}",
        _with_ends(charged),
        f"{charged['holm_all']:.4f}",
        f"{best['gain']:+.3f} ({best['low']:+.3f} to {best['high']:+.3f})",
        f"{best['holm_all']:.4f}",
    )


def _with_ends(compared: Mapping[str, float]) -> str:
    return f"{compared['ratio']:.2f} ({compared['low']:.2f} to {compared['high']:.2f})"


def _over_targets(workloads: Sequence[Result]) -> Iterator[str]:
    yield "## At other targets\n"
    yield paragraph(
        'The paper chose its targets "based on our observations from the training curves". Here is the whole curve,',
        "for the final weights: the mean of random weights over theirs, at each whole percent. Runs that miss count up",
        "to the end of the first such run, so x tends to 1 where many miss.",
    )
    yield f"![times of random weights over those of the final ones, at each target]({NAME}-targets.svg)\n"
    yield table(
        ("", "the paper's target", f"highest target with x >= {LEAD:g}, sunk", "highest with x > 1, charged"),
        [
            (
                one["name"],
                f"{one['target']:g} %",
                _highest([at["target"] for at in one["targets"] if at["sunk"] >= LEAD]),
                _highest([at["target"] for at in one["targets"] if at["charged"] > 1]),
            )
            for one in workloads
        ],
    )
    yield table(
        ("", "target", "random: epochs", "missed", "final: epochs", "missed", "x, sunk", "x, charged"),
        [
            (
                one["name"],
                f"{at['target']:g} %",
                f"{at['random']:.3f}",
                str(at["random_missed"]),
                f"{at['final']:.3f}",
                str(at["final_missed"]),
                f"{at['sunk']:.2f}",
                f"{at['charged']:.2f}",
            )
            for one in workloads
            for at in one["targets"]
            if at["target"] % STEP == 0 or at["random_missed"] or at["final_missed"]
        ],
    )


def _highest(targets: Sequence[float]) -> str:
    return f"{max(targets):g} %" if targets else "none"


def _unknown(found: Mapping[str, Any]) -> Iterator[str]:
    rows = found["rows"]
    yield "## What these runs cannot tell\n"
    yield points(
        f"Which runs belong together: {rows['without_seed']} of {rows['rows']} rows have no seed, and the others one "
        "for all runs of a start. So no test here pairs runs.",
        "Seconds, and with them what saving weights cost.",
        "Whether other weights would do as well: each workload has one winning trial, and every start comes from it.",
        "How good a model is on data that chose nothing: the best epoch was chosen on the test data, for all "
        "starts alike.",
    )
