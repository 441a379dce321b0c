"""Budget sensitivity: would the same have been found with fewer trials? If not, then maybe not with more either."""

from __future__ import annotations

from typing import Any, Final

from etude.analyse.budgets import lead
from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat

NAME: Final = "budget sensitivity"

HELD: Final = 0.8
"""A value that comes first in so large a share of halves of the trials is taken to be surely the first."""

SHOWN: Final = 3


def budget_sensitivity(evidence: Evidence) -> Threat | None:
    """Say which rankings of values half the trials would not have given; None if all hold."""
    if evidence.verb != "tune":
        return None
    open_: list[dict[str, Any]] = []
    known = [nth for nth, run in enumerate(evidence.runs) if run.known]
    for column in evidence.columns:
        if not column.is_choice:
            continue
        groups: dict[str, list[float]] = {}
        for nth in known:
            if column.values[nth] is not None:
                value = evidence.runs[nth].value
                assert value is not None, "known runs have values"
                groups.setdefault(column.labels[int(column.places[nth])], []).append(value)
        for by in ("mean", "best"):
            found = lead(groups, mode=evidence.mode, by=by)
            if found is not None and found.held < HELD:
                open_.append({"parameter": column.name, "by": by, "first": found.winner, "held": found.held})
    if not open_:
        return None
    told = "; ".join(
        f"{one['parameter']}={one['first']} is first by {one['by']}, and in {one['held']:.0%} of halves of the trials"
        for one in open_[:SHOWN]
    )
    return Threat(
        NAME,
        f"with fewer trials other values would come first: {told}.",
        Seriousness.MINOR,
        "Do not say that one of these is better than the others; run more trials, or an ablation with seeds.",
        {"open": open_},
    )
