"""The page that tells what predicts a good start, from the lines of ``weights_live`` and ``weights_paper5``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.live.predicts import (
    DISTANCE,
    INHERITED,
    JUDGES,
    LEVEL,
    MEMORISED,
    PREDICTORS,
    PROBE,
    RESAMPLES,
    TUNED,
    Link,
    Row,
    judged_by,
    links,
    live_rows,
    raw_rows,
)
from benchmarks.writing import commit, listed, paragraph, points, table

NAME: Final = "what-predicts-a-good-start"
NEEDED: Final = ("weights_live", "weights_paper5")
"""The benchmarks whose lines it takes, in the order in which ``files`` has them."""

NOTHING: Final = 0.05
"""A speed-up that is nearer to 1 is none to speak of."""

LEAST_P: Final = 0.001
"""Smaller ones are not told apart."""

MEANT: Final = {
    PROBE: "validation loss of the short probe that began with random weights, less that of the probe that began with "
    "these, in the mean over the seeds. Live runs only, and not of the early weights, which were not offered to "
    '`weights="auto"`.',
    TUNED: "epochs of a trial of the search over those of a final run. It is the same for all starts of a workload.",
    DISTANCE: "mean best accuracy of the random runs, less the accuracy with which the start began, in points. Live "
    "that is what the probes reported; in the raw runs the first that was recorded, after the first epoch. This "
    "number takes a random run to know.",
    MEMORISED: "what the winning trial had reported when these weights were kept; of the mean of several trials' "
    "weights, the mean. Of shrunk weights it is that of the weights that were shrunk. Low means that examples are "
    "known by heart. Live runs only.",
    INHERITED: "epochs that the weights had been trained, as the charged clock counts them, over those of a final run.",
}


def files(live: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, str]:
    """Return the page: name of the file -> content."""
    return {f"{NAME}.md": "\n".join(_page(live, raw))}


def _page(live: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    kinds = {"live": live_rows(live), "raw": raw_rows(raw)}
    found = {kind: links(rows) for kind, rows in kinds.items()}
    yield f"# {headline(found)}\n"
    for kind, rows in kinds.items():
        yield paragraph(*told(kind, rows, found[kind]))
    yield paragraph(
        "Numbers in brackets are rank correlations with the speed-up, and p-values that count all predictors."
    )
    yield paragraph(
        "Made by `python -m benchmarks.page` from the lines of",
        f"[`weights_live`](lines/weights_live.json) (commit {commit(live)}) and",
        f"[`weights_paper5`](lines/weights_paper5.json) (commit {commit(raw)}). Live: Étude's",
        "[own final trainings](weights.md). Raw: the [runs of the paper](weights-paper5.md).",
    )
    yield from _meaning()
    for kind, rows in kinds.items():
        yield from _section(kind, rows, found[kind])
    yield from _judges([cell["record"] for cell in live["details"].values()])
    yield from _doubts(kinds)


def headline(found: Mapping[str, Sequence[Link]]) -> str:
    """Return what is shown, in one line."""
    parts = [f"{_shown(of_it)} on the {kind} runs" for kind, of_it in found.items()]
    return f"What predicts a good start: {'; '.join(parts)}"


def _shown(found: Sequence[Link]) -> str:
    names = [
        f"{link.predictor}{'' if link.over_rows and link.in_workloads else f' ({_where(link)} only)'}"
        for link in found
        if link.over_rows or link.in_workloads
    ]
    return listed(names) if names else "nothing that is shown"


def _where(link: Link) -> str:
    return "over all rows" if link.over_rows else "within workloads"


def told(kind: str, rows: Sequence[Row], found: Sequence[Link]) -> Iterator[str]:
    """Return sentences about what the rows of one kind show, and what they do not."""
    yield f"The {kind} runs are {len(rows)} starts of {len({row.workload for row in rows})} workloads."
    tested = [link for link in found if not (math.isnan(link.rho) and math.isnan(link.within.rho))]
    for over, inside, words, then in (
        (True, True, "Over all of them, and within workloads, the speed-up goes along with", ""),
        (
            True,
            False,
            "Over all of them only, the speed-up goes along with",
            ": that may just tell the workloads apart",
        ),
        (False, True, "Within workloads only, the speed-up goes along with", ""),
        (False, False, "No link is shown with", ""),
    ):
        if such := [link for link in tested if (link.over_rows, link.in_workloads) == (over, inside)]:
            yield f"{words} {listed([_with_numbers(link) for link in such])}{then}."
    if untested := [link.predictor for link in found if link not in tested]:
        yield f"Not known there, or the same everywhere: {listed(untested)}."


def _with_numbers(link: Link) -> str:
    inside = (
        f"{link.within.rho:+.2f}, p {_p(link.within.p_holm)}" if link.within.workloads else "the same for all starts"
    )
    return f"{link.predictor} ({_number(link.rho, '+.2f')}, p {_p(link.p_holm)}; within: {inside})"


def _meaning() -> Iterator[str]:
    yield "## What is set against what\n"
    yield paragraph(
        "A row is one start on one workload, random weights aside. Its speed-up is the geometric mean, over the seeds,",
        "of the steps that random weights take to the target, over that of the steps from this start. It is on the",
        "marginal clock, where the search was to be run anyway. Runs that missed the target count up to the horizon",
        "that all starts of the workload share. The predictors:",
    )
    yield points(*(f"*{name}*: {meant}" for name, meant in MEANT.items()))
    yield paragraph(
        "Numbers are Spearman's rank correlations with the speed-up: +1 if more of the predictor always is the faster",
        f"start, -1 if less of it is. p is of a permutation test with {RESAMPLES:,} draws, corrected by Holm for the",
        "predictors that the runs know. *Within* is the mean of the correlations in each workload by itself; its test",
        "deals the speed-ups out anew within the workloads, and is corrected in the same way. Something is called",
        f"shown where the corrected p is at most {LEVEL}.",
    )


def _section(kind: str, rows: Sequence[Row], found: Sequence[Link]) -> Iterator[str]:
    yield f"## The {kind} runs\n"
    yield table(
        ("predictor", "rows", "over all rows", "p", "p, Holm", "workloads", "within", "p", "p, Holm"),
        [
            (
                link.predictor,
                str(link.rows),
                _number(link.rho, "+.2f"),
                _p(link.p),
                _p(link.p_holm),
                str(link.within.workloads),
                _number(link.within.rho, "+.2f"),
                _p(link.within.p),
                _p(link.within.p_holm),
            )
            for link in found
        ],
    )
    yield table(
        ("workload", "start", "speed-up", *PREDICTORS),
        [
            (row.workload, row.start, f"{row.speed_up:.2f}x", *(_number(row.known[name], ".3g") for name in PREDICTORS))
            for row in rows
        ],
    )


def _judges(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Compare the two metrics that probes may be judged by."""
    known = [record for record in records if record.get("auto")]
    if not known:
        return
    steps = [(record["workload"], *(judged_by(record, metric) for metric in JUDGES)) for record in known]
    fewer, more = (sum(sign * (loss - accuracy) > 0 for _, loss, accuracy in steps) for sign in (-1, 1))
    yield "## Loss or accuracy, as the judge of probes\n"
    yield paragraph(
        "Mean steps to the target from the start that did best in its probe, seed by seed, by validation loss and by",
        "validation accuracy; the steps of the probes are not counted, and nothing is said of memorised examples.",
        f"By loss it took fewer on {fewer} of {len(steps)} workloads, more on {more}, and as many on the others.",
    )
    yield table(
        ("workload", *(f"by {metric}" for metric in JUDGES)),
        [(name, *(f"{value:,.0f}" for value in values)) for name, *values in steps],
    )


def _doubts(kinds: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    yield "## How far to trust it\n"
    flat = [name for rows in kinds.values() for name in _flat(rows)]
    many = listed([f"{len(rows)} {kind} ones" for kind, rows in kinds.items()])
    yield points(
        f"There are few rows: {many}. What is not shown may still be so.",
        "Starts of one workload share the random runs and the winning trial, so rows are not independent, and p over "
        "all rows is too small. What differs between workloads only, such as "
        f"{TUNED}, has as many values as there are workloads, whatever its p. Within workloads is the fairer test.",
        'The rule of `weights="auto"`, which goes by the probes\' loss and by memorised examples, was made on other '
        "seeds of the same five live workloads (those of the pilot). It has not been tried on other workloads.",
        f"Ranks make as much of a small difference as of a large one. On {listed(flat)} all speed-ups are within "
        f"{NOTHING:.0%} of 1.",
        "Live times are whole epochs, so a start cannot be faster than one.",
        "Each workload has one search, and so one winning trial that its starts come from.",
        "The raw and the live distance are taken at different moments, so they are not set side by side.",
    )


def _flat(rows: Sequence[Row]) -> list[str]:
    """Return the workloads on which no start makes a difference to speak of."""
    names = dict.fromkeys(row.workload for row in rows)
    return [name for name in names if all(abs(row.gain) < math.log1p(NOTHING) for row in rows if row.workload == name)]


def _number(value: float, digits: str) -> str:
    return "-" if math.isnan(value) else f"{value:{digits}}"


def _p(value: float) -> str:
    return "< .001" if value < LEAST_P else _number(value, ".3f")
