"""Trainings of our own as golden cases: AutoAblation's first two experiments, and a transformer for tables.

Their runs are in the lines of the benchmarks that trained them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from benchmarks.autoablation import printed
from benchmarks.common import Result
from benchmarks.golden.case import Case

PREPARED: Final = ("scaling", "missing", "clip", "rare")
"""What is chosen of how a table is prepared."""

SGD: Final = "sgd"


def titanic(details: Mapping[str, Result]) -> list[Case]:
    """Return a case for the usual network, and one for that of the released notebook."""
    return [
        ablation("AutoAblation, Titanic", which, details[cell]["arms"], printed.TITANIC)
        for cell, which in (("étude", "as in the text"), ("étude, the released network", "the released network"))
        if cell in details
    ]


def mnist(details: Mapping[str, Result]) -> list[Case]:
    """Return the case of the small CNN."""
    return [ablation("AutoAblation, MNIST", "four layers", details["étude"]["arms"], printed.MNIST)]


def ablation(study: str, name: str, arms: Sequence[Result], paper: Mapping[str, str]) -> Case:
    """Return an ablation: accuracies in percent, by seed; what the paper's table claims of each arm."""
    runs = {arm["name"]: {seed: 100 * value for seed, value in arm["values"].items()} for arm in arms}
    base = float(paper[printed.BASE])
    claims = {arm: 100 * (base - float(paper[arm])) for arm in runs if arm != printed.BASE}
    # Of old lines only the tensors that began otherwise are known
    paired = {arm["name"]: bool(arm.get("paired", not arm["unlike"])) for arm in arms[1:]}
    return Case(study, name, {printed.BASE: runs.pop(printed.BASE), **runs}, claims, paired=paired)


def switches(details: Mapping[str, Result]) -> list[Case]:
    """Return a case for each table: the whole network beside it without each of its six switches."""
    found = []
    for table, arms in details["étude"]["ablation"].items():
        runs = {arm["name"]: {seed: 100 * value for seed, value in arm["values"].items()} for arm in arms}
        paired = {arm["name"]: arm["paired"] for arm in arms[1:]}
        found.append(Case("Tablator, switches", table, runs, _by_means(runs), paired=paired))
    return found


def optimizers(details: Mapping[str, Result]) -> list[Case]:
    """Return a case for each table: trials drawn at random with SGD, beside those with each other optimizer."""
    return [
        _groups("Tablator, optimizers", table, found, "optimizer", SGD)
        for table, found in details["étude"]["live"].items()
    ]


def prepared(details: Mapping[str, Result]) -> list[Case]:
    """Return a case for each table and each choice of its preparation, over random trials."""
    return [
        _groups("Tablator, preparation", f"{table}, {name}", found, name)
        for table, found in details["étude"]["live"].items()
        for name in PREPARED
    ]


def _groups(study: str, name: str, found: Result, parameter: str, base: str | None = None) -> Case:
    """Return trials of a random search by their value of a parameter: groups that chance made, so nothing is paired."""
    groups: dict[str, list[float]] = {}
    for value, score in sorted(zip(map(str, found["params"][parameter]), found["score"], strict=True)):
        groups.setdefault(value, []).append(100 * score)
    first = base if base is not None else next(iter(groups))
    runs = {first: groups.pop(first), **groups}
    return Case(study, name, runs, _by_means(runs), paired=False)


def _by_means(runs: Mapping[str, Any]) -> dict[str, float]:
    """Return what whoever reads the table of means would claim."""
    means = {arm: fmean(mine.values() if isinstance(mine, Mapping) else mine) for arm, mine in runs.items()}
    base, *others = means
    return {arm: means[base] - means[arm] for arm in others}
