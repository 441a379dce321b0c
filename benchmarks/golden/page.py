"""The page of the golden cases: what was concluded, beside the verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.common import Result
from benchmarks.golden import papers
from benchmarks.writing import commit, listed, paragraph, table

PARTITIONS: Final = (f"partitions, {papers.PAIRED}", f"partitions, {papers.UNPAIRED}")
WEIGHTS: Final = ("weights, accuracy", "weights, epochs")
ABLATIONS: Final = ("AutoAblation, Titanic", "AutoAblation, MNIST")
TABLATOR: Final = ("Tablator, switches", "Tablator, optimizers", "Tablator, preparation")

CONCLUDED: Final = {
    PARTITIONS[
        0
    ]: "partitions by importance can train better models than random ones, if their settings are chosen well",
    PARTITIONS[1]: "the same, with tests that pair nothing",
    WEIGHTS[0]: "weights from tuning trials keep the best accuracy or improve it",
    WEIGHTS[1]: "weights from tuning trials make training up to twice as fast",
    ABLATIONS[0]: "all features together are worst; it is best to leave out the fare",
    ABLATIONS[1]: "the second convolution contributes most; without either dropout the network is better",
    TABLATOR[0]: "not told switch by switch",
    TABLATOR[1]: "SGD with momentum has the best mean on 9 of 11 tables; no optimizer is best on all",
    TABLATOR[2]: "no way to prepare a table has a consistent, significant effect",
}
"""What the papers conclude, in our words. Tablator is ABLATOR's; the cases of the last three are our trainings, of a
network of its kind."""

SOURCES: Final = {
    "partitions": "Sheikholeslami et al. 2023 (Paper 4 of the thesis), their 1,830 runs",
    "weights": "Sheikholeslami et al. 2024 (Paper 5), their 232 runs",
    "AutoAblation": "Sheikholeslami et al. 2021 (Paper 3), trained here",
    "Tablator": "after Fostiropoulos and Itti 2023, trained here",
}


def files(line: Mapping[str, Any]) -> dict[str, str]:
    """Return the page."""
    return {"verdicts-golden.md": "\n".join(_page(line))}


def _page(line: Mapping[str, Any]) -> Iterator[str]:
    cells: Mapping[str, Result] = line["details"]
    studies = {study: counts for found in cells.values() for study, counts in found["studies"].items()}
    cases = [case for found in cells.values() for case in found["cases"]]
    yield f"# {_headline(studies)}\n"
    yield paragraph(
        "Made by `python -m benchmarks.page` from the [last line](lines/verdicts_golden.json) that `make bench",
        f"NAME=verdicts_golden ARGS='--runs 1'` printed, commit {commit(line)}. Every study on this page is",
        "judged by",
        "[the same call](../verdicts.md): `etude.verdicts(runs, base=..., paired=...)`, level 0.05, corrected",
        "by Holm",
        "within each table. *Read off the means* is how tables of means are read: who has the better mean is better.",
    )
    yield _overview(studies)
    yield paragraph(
        "*Borne out*: the verdict says what the means do. *Against*: it says the opposite. The rest is",
        "undecided, or as",
        "good. *All at once*: how many differences are sure if the arms of all tables of a study are",
        "corrected together.",
        "A difference is the base less the arm in the direction of the metric, so below zero the arm is better. Of the",
        "Tablator, of which nobody published such means, they are ours. Sources:",
        f"{'; '.join(f'{name}: {told}' for name, told in SOURCES.items())}.",
    )
    yield _printed(line)
    yield from _partitions(studies, cases)
    yield from _weights(studies, cases)
    yield from _autoablation(cases)
    yield from _tablator(studies, cases)


def _headline(studies: Mapping[str, Result]) -> str:
    both = [studies[name] for name in PARTITIONS]
    better = sum(one["better"] for one in both)
    starts = studies[WEIGHTS[1]]
    return (
        f"Of {both[0]['claimed_better']} settings with a better mean than random partitions {better or 'none'} "
        f"{'is' if better == 1 else 'are'} better; of {starts['claimed_better']} faster starts {starts['better']} are"
    )


def _overview(studies: Mapping[str, Result]) -> str:
    return table(
        (
            *("study", "concluded", "cases", "runs", "arms", "better + worse by the means"),
            *("by verdict", "as good", "undecided", "borne out", "against", "all at once"),
        ),
        [
            (
                study,
                CONCLUDED[study],
                str(one["cases"]),
                f"{one['runs']:,}",
                str(one["arms"]),
                f"{one['claimed_better']} + {one['claimed_worse']}",
                f"{one['better']} + {one['worse']}",
                str(one["as_good"]),
                str(one["undecided"]),
                str(one["borne_out"]),
                str(one["contradicted"]),
                str(one["all_corrected"]),
            )
            for study, one in studies.items()
        ],
    )


def _printed(line: Mapping[str, Any]) -> str:
    told = [
        f"{target['what'].rpartition(', ')[2]}: {target['measured']:.0f} of {target['target'].split()[-1]}"
        for target in line["targets"]
    ]
    return paragraph(
        "Of the numbers printed in tables 1 to 5 of both papers, so many are those of the raw runs, to the",
        "last digit:",
        f"{'; '.join(told)}. [One page](partitions-paper4.md) has them for partitions, and",
        "[one](weights-paper5.md) for",
        "weights, number by number, with tests of other kinds.",
    )


def _partitions(studies: Mapping[str, Result], cases: Sequence[Result]) -> Iterator[str]:
    paired, unpaired = (studies[name] for name in PARTITIONS)
    yield "## Partitions by importance\n"
    first = next(case["first"] for case in cases if case["study"] == PARTITIONS[0])
    chance = 0.05 * paired["arms"]
    yield paragraph(
        f"In pairs, {paired['could_decide_nothing']} of {paired['cases']} tables could have decided nothing before",
        f'anything was trained. The verdicts begin with it: "{" ".join(first)}" So the same runs are judged without',
        f"pairs as well: {unpaired['better']} of {unpaired['arms']} settings are better than random partitions, and",
        f"{unpaired['worse']} worse ({_named(cases, PARTITIONS[1], 'worse')}). Before any correction",
        f"{paired['uncorrected']} and {unpaired['uncorrected']} of {paired['arms']} have p <= 0.05; chance alone gives",
        f"{chance:.0f}. Shown to be as good, within 0.3 points (our margin): {unpaired['as_good']};",
        "that takes more runs, too.",
    )


def _weights(studies: Mapping[str, Result], cases: Sequence[Result]) -> Iterator[str]:
    accuracy, epochs = (studies[name] for name in WEIGHTS)
    yield "## Weights from tuning trials\n"
    yield paragraph(
        f"Faster by the verdict: {epochs['better']} of {epochs['claimed_better']} starts with a better mean, on",
        f"{_places(cases, WEIGHTS[1], 'better')}. More accurate: {accuracy['better']} of",
        f"{accuracy['claimed_better']}, on",
        f"{_places(cases, WEIGHTS[0], 'better')}. Less accurate: {accuracy['worse']} of",
        f"{accuracy['claimed_worse']}. On",
        f"{_nothing(cases, WEIGHTS[0])} four runs could decide nothing. Epochs are counted from the start of",
        "the final",
        "training; what the weights cost before is not in them ([three clocks](weights-paper5.md)).",
    )
    for study, unit in zip(WEIGHTS, ("accuracy, points", "epochs to the target"), strict=True):
        yield _arms([case for case in cases if case["study"] == study], unit)


def _autoablation(cases: Sequence[Result]) -> Iterator[str]:
    yield "## AutoAblation: features and layers\n"
    yield paragraph(
        "The paper repeated each experiment five times and ranked the means; of five pairs no p-value is",
        "below 0.0625,",
        "so whatever it found, it could not have been shown. Trained anew with more seeds",
        "([features](autoablation-titanic.md), [layers](autoablation-mnist.md)). An effect is the base's",
        "accuracy less",
        "that without the component, so a positive one says that it helps.",
    )
    yield _arms([case for case in cases if case["study"] in ABLATIONS], "accuracy, points")


def _tablator(studies: Mapping[str, Result], cases: Sequence[Result]) -> Iterator[str]:
    switches, optimizers, prepared = (studies[name] for name in TABLATOR)
    yield "## A transformer for tables\n"
    yield paragraph(
        "[Its own page](tablator.md) has the figures. Trials of a random search are groups that chance made,",
        "so their",
        "means may be compared by the same call, as unpaired. An arm of a switch is the network without it,",
        "beside the",
        "whole one; of an optimizer, random trials with it, beside those with SGD; of a preparation, those",
        "with the one",
        f"value beside those with the other. {switches['worse']} of {switches['arms']} arms of switches are worse,",
        f"{switches['better']} better; of optimizers {optimizers['worse']} and {optimizers['better']} of",
        f"{optimizers['arms']}; of preparations {prepared['worse']} and {prepared['better']} of {prepared['arms']}.",
    )
    yield _arms([case for case in cases if case["study"] in TABLATOR], "score, points", everything=False)


def _arms(cases: Sequence[Result], unit: str, *, everything: bool = True) -> str:
    """Return a table of arms: all of them, or those of which a verdict says something."""
    return table(
        (
            "table",
            "arm",
            f"means: {unit}",
            "runs: effect",
            "95 % interval",
            "runs of an arm",
            "p, corrected",
            "means say",
            "verdict",
        ),
        [
            (
                case["case"],
                arm["arm"],
                f"{arm['claim']:+.3g}",
                f"{arm['effect']:+.3g}",
                interval(arm),
                str(arm["n"]),
                probability(arm["p_corrected"]),
                arm["claimed"],
                f"**{arm['says']}**" if arm["says"] != "undecided" else arm["says"],
            )
            for case in cases
            for arm in case["arms"]
            if everything or arm["says"] != "undecided"
        ],
    )


def interval(arm: Result) -> str:
    """Return the interval of an arm in words; a minus sign of infinity where it has no end."""
    low, high = (arm[end] if arm[end] is not None else math.nan for end in ("low", "high"))
    return "none: too few runs" if math.isnan(low) or math.isnan(high) else f"{low:+.3g} to {high:+.3g}"


def probability(p: float) -> str:
    """Return a p-value as it is told."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _named(cases: Sequence[Result], study: str, says: str) -> str:
    return (
        "; ".join(
            f"{case['case']}, {arm['arm']}"
            for case in cases
            if case["study"] == study
            for arm in case["arms"]
            if arm["says"] == says
        )
        or "none"
    )


def _places(cases: Sequence[Result], study: str, says: str) -> str:
    """Return on which tables how many arms have a verdict."""
    found = [
        f"{case['case']} ({sum(arm['says'] == says for arm in case['arms'])} of {len(case['arms'])})"
        for case in cases
        if case["study"] == study and any(arm["says"] == says for arm in case["arms"])
    ]
    return listed(found)


def _nothing(cases: Sequence[Result], study: str) -> str:
    return listed(
        [
            case["case"]
            for case in cases
            if case["study"] == study and any(said.startswith("Nothing can be decided") for said in case["first"])
        ]
    )
