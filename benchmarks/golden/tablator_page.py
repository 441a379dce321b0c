"""The page of the study of a transformer for tables: ABLATOR's figures and sentences, beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import etude
from benchmarks.common import Result
from benchmarks.golden import live
from benchmarks.golden.budget import BY, first_by, groups_of, held
from benchmarks.golden.case import judged
from benchmarks.golden.figures import figures
from benchmarks.golden.page import interval, probability
from benchmarks.writing import commit, listed, paragraph, table

SURVIVAL: Final = "survival bias"
SAMPLER: Final = "sampler bias"
REFERENCE: Final = "reference not reproduced"


def files(line: Mapping[str, Any]) -> dict[str, str]:
    """Return the page and its figures."""
    details = line["details"]["étude"]
    return {"tablator.md": "\n".join(_page(line, details)), **figures(details)}


def _page(line: Mapping[str, Any], details: Result) -> Iterator[str]:
    tables = list(details["live"])
    switches = [judged(case) for case in live.switches({"étude": details})]
    decided = sum(arm["says"] not in ("undecided",) for case in switches for arm in case["arms"])
    arms = sum(len(case["arms"]) for case in switches)
    yield f"# A transformer for tables: {decided} of {arms} effects of its switches are decided\n"
    rows = {row["name"].partition(": ")[2]: row["median"] for row in line["rows"]}
    machine = line["machine"]
    yield paragraph(
        "A study of the kind of ABLATOR's (Fostiropoulos and Itti 2023), as [an",
        "example](../../examples/tablator.py). Made by",
        "`python -m",
        "benchmarks.page` from the [last line](lines/tablator.json) that `make bench NAME=tablator ARGS='--runs 1'`",
        f"printed, commit {commit(line)}, {machine['cores']} cores ({machine['cpu']}), Python {machine['python']}.",
    )
    trained, ablated, simulated = (f"{rows[f'{kind}_trials']:,.0f}" for kind in ("live", "ablation", "simulated"))
    yield paragraph(
        f"{trained} random trials of 21 parameters were trained, and {ablated} of an ablation of six switches, on",
        f"{listed(tables)}; {simulated} more were simulated (the paper has 2,337, on 11 tables). The simulated ones",
        "go by what a forest learned of the trained ones, with noise as large as that of seeds, and a memory that",
        "the largest networks do not fit into; of these the truth is known. A score is an accuracy, or of prices the",
        "share of their variance that is explained.",
    )
    yield from _switches(switches, details)
    yield from _optimizers(details)
    yield from _size(tables)
    yield from _budget(details)
    yield from _survival(details)
    yield from _sampler(details)
    yield from _reference(details)


def _switches(found: Sequence[Result], details: Result) -> Iterator[str]:
    yield "## Switches\n"
    yield paragraph(
        "The whole network beside it without each switch, in pairs by seed, corrected for six in each table.",
        "Points of",
        "score that are lost without it, with a 95 % interval and the verdict on the arm.",
    )
    names = [arm["arm"] for arm in found[0]["arms"]]
    cell = {
        (case["case"], arm["arm"]): f"{arm['effect']:+.2f} ({interval(arm)}): {arm['says']}"
        for case in found
        for arm in case["arms"]
    }
    yield table(
        ("without", *(case["case"] for case in found)),
        [(name, *(cell[case["case"], name] for case in found)) for name in names],
    )
    runs = {
        where: {arm["name"]: list(arm["values"].values()) for arm in arms}
        for where, arms in details["ablation"].items()
    }
    ranked = {by: etude.rankings(runs, by=by) for by in BY}
    yield table(
        ("arm", *(f"mean rank by the {by}" for by in BY)),
        [(name, *(f"{ranked[by].ranks[name]:.2f}" for by in BY)) for name in ranked["mean"].ranks],
    )
    yield paragraph(
        *ranked["mean"].says,
        f"Friedman's test: p = {ranked['mean'].p:.2g} by the mean, {ranked['best'].p:.2g} by the best.",
    )


def _optimizers(details: Result) -> Iterator[str]:
    yield "## Optimizers (the paper's figure 5)\n"
    groups = {table_: groups_of(found, "optimizer") for table_, found in details["live"].items()}
    names = sorted(next(iter(groups.values())))
    yield table(
        ("", *names, "first by mean", "first by best"),
        [
            (
                where,
                *(f"{100 * fmean(of[name]):.1f} / {100 * max(of[name]):.1f}" for name in names),
                *(first_by(of, by=by) for by in BY),
            )
            for where, of in groups.items()
        ],
    )
    cases = [judged(case) for case in live.optimizers({"étude": details})]
    sure = [
        f"{arm['arm']} is {arm['says']} than SGD on {case['case']} (p = {probability(arm['p_corrected'])})"
        for case in cases
        for arm in case["arms"]
        if arm["says"] != "undecided"
    ]
    ranked = {by: etude.rankings(groups, by=by) for by in BY}
    yield paragraph(
        "Mean and best of the trained random trials, percent. The paper: SGD has the best mean on 9 of 11",
        "tables, and RAdam",
        "ranks differently by mean and by best. Here the ranks over tables are, by the mean,",
        f"{_ranks(ranked['mean'])}; by the best, {_ranks(ranked['best'])}. By verdict:",
        f"{listed(sure) if sure else 'no two are told apart'}.",
    )
    yield _pictures({f"{where}": f"tablator-optimizer-{where}" for where in groups})


def _ranks(ranked: Any) -> str:
    return ", ".join(f"{name} {rank:.2f}" for name, rank in ranked.ranks.items())


def _size(tables: Sequence[str]) -> Iterator[str]:
    yield "## Size (the paper's figure 4)\n"
    yield paragraph(
        "Score over the number of parameters, trained random trials: mean and standard deviation of",
        "neighbours in blue, the",
        "best of them in orange. The paper: larger models are somewhat better, and vary more.",
    )
    yield _pictures({where: f"tablator-size-{where}" for where in tables})


def _budget(details: Result) -> Iterator[str]:
    yield "## Budget (the paper's figure 3)\n"
    simulated = {where: found["random"] for where, found in details["simulated"].items()}
    yield _pictures({"mean of so many trials": "tablator-budget-mean", "best of so many": "tablator-budget-best"})
    yield paragraph(
        "Simulated random trials; bands hold nine ways in ten to take so many of them (counted, not drawn;",
        "the paper draws",
        "ten times). And how often so many put the same optimizer first as all do:",
    )
    shares = {
        (where, by): held(groups_of(found, "optimizer"), by=by) for where, found in simulated.items() for by in BY
    }
    sizes = sorted({size for found in shares.values() for size in found})
    yield table(
        ("", "first with all", *(f"{size} trials" for size in sizes)),
        [
            (
                f"{where}, by {by}",
                first_by(groups_of(simulated[where], "optimizer"), by=by),
                *(f"{100 * found[size]:.0f} %" if size in found else "" for size in sizes),
            )
            for (where, by), found in shares.items()
        ],
    )
    yield "![how often the same is first, by mean (whole lines) and by best (dashed)](tablator-first.svg)\n"
    some = sizes[len(sizes) // 2]
    means, bests = (fmean(shares[where, by][some] for where in simulated) for by in BY)
    yield paragraph(
        f"With {some} trials the mean names the winner in {100 * means:.0f} % of draws, on average over tables,",
        f"and the best in {100 * bests:.0f} %. The paper says that fewer trials are needed for the best than",
        "for the mean.",
        "That is about the value that trials come to: how sure one is *which* value of a choice is first is another",
        "question.",
    )


def _survival(details: Result) -> Iterator[str]:
    yield "## Survival bias\n"
    yield paragraph(
        "What `search.threats()` says of the simulated trials, whose largest networks do not fit into memory:"
    )
    yield (
        "\n".join(
            f"- {where}: *{found['random']['threats'][SURVIVAL][0]}*: {found['random']['threats'][SURVIVAL][1]}"
            for where, found in details["simulated"].items()
            if SURVIVAL in found["random"]["threats"]
        )
        + "\n"
    )
    yield table(
        ("width", "trials that ran", "their mean, 95 % interval", "true mean of all", "of those that fit"),
        [
            (
                f"{where}, {value}",
                str(one["n"]),
                f"{100 * one['mean']:.2f} ({100 * one['low']:.2f} to {100 * one['high']:.2f})",
                *(f"{100 * one[key]:.2f}" for key in ("true", "true_of_fitting")),
            )
            for where, found in details["simulated"].items()
            for value, one in found["random"]["widths"].items()
        ],
    )


def _sampler(details: Result) -> Iterator[str]:
    where, found = next((where, found) for where, found in details["simulated"].items() if "tpe" in found)
    random, tpe = found["random"], found["tpe"]
    yield "## Sampler bias\n"
    yield paragraph(
        f"The same search of {where}, random and by TPE, beside the truth: means of each optimizer's trials,",
        "percent.",
        f"Étude marks it: {tpe['threats'][SAMPLER][1]}",
    )
    names = list(random["optimizers"])
    yield table(
        ("optimizer", "true", "random: trials", "mean", "corrected", "TPE: trials", "mean", "corrected"),
        [
            (
                name,
                f"{100 * random['optimizers'][name]['true_of_fitting']:.2f}",
                *(
                    told
                    for one in (random["optimizers"][name], tpe["optimizers"][name])
                    for told in (str(one["n"]), _percent(one["mean"]), _percent(one["corrected"]))
                ),
            )
            for name in names
        ],
    )
    off = {
        (which, key): fmean(
            abs(one[key] - one["true_of_fitting"]) for one in search["optimizers"].values() if not math.isnan(one[key])
        )
        for which, search in (("random", random), ("tpe", tpe))
        for key in ("mean", "corrected")
    }
    yield paragraph(
        f"Off from the truth, points on average: random means {100 * off['random', 'mean']:.2f}, corrected",
        f"{100 * off['random', 'corrected']:.2f}; TPE's means {100 * off['tpe', 'mean']:.2f}, corrected",
        f"{100 * off['tpe', 'corrected']:.2f}. The [live experiment](threats.md) has the paper's five optimizers.",
        f"In truth {_top(random, 'true_of_fitting')} is first; by TPE's means {_top(tpe, 'mean')}, corrected",
        f"{_top(tpe, 'corrected')}; by random means {_top(random, 'mean')}, corrected {_top(random, 'corrected')}.",
    )


def _top(search: Result, key: str) -> str:
    """Return the optimizer that comes first by one of its means."""
    known: dict[str, float] = {name: one[key] for name, one in search["optimizers"].items() if not math.isnan(one[key])}
    return max(known, key=lambda name: known[name])


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.2f}"


def _reference(details: Result) -> Iterator[str]:
    adult = details["live"]["adult"]
    yield "## Reference (the paper's table 1)\n"
    _, told = adult["threats"].get(REFERENCE, ("", "nothing found: a single best value may be 5 % off."))
    yield paragraph(
        "FT-Transformer has an accuracy of 0.859 on Adult, and ABLATOR's own network 0.856. The best of",
        f"{len(adult['score'])} trials here, with 1,000 rows to learn from, has {max(adult['score']):.3f}.",
        f"`search.threats(reference=0.859)`: {told}",
    )


def _pictures(of: Mapping[str, str]) -> str:
    """Return figures side by side, with what they show above them."""
    return table(tuple(of), [tuple(f"![{told}]({name}.svg)" for told, name in of.items())])
