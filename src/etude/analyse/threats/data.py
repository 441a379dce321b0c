"""Different data: a configuration that was chosen on a data set which has changed since, or on another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat

NAME: Final = "different data"
MODULO: Final = 1 << 64

Prints = Mapping[str, Sequence[Any]]
"""Part -> how many rows it has, the sum of the hashes of those that were looked at, and whether these are all."""


class Alike(StrEnum):
    """How two data sets compare, as far as their fingerprints tell."""

    SAME = "the same"
    SPLIT = "the same rows, split otherwise"
    OTHER = "other rows"
    UNKNOWN = "unknown"


def compared(one: Prints, other: Prints) -> Alike:
    """Return how two data sets compare."""
    if not one or one.keys() != other.keys():
        return Alike.UNKNOWN
    if all(list(one[part]) == list(other[part]) for part in one):
        return Alike.SAME
    if sum(rows for rows, *_ in one.values()) != sum(rows for rows, *_ in other.values()):
        return Alike.OTHER
    if not all(whole for prints in (one, other) for *_, whole in prints.values()):
        return Alike.UNKNOWN
    return Alike.SPLIT if _sum(one) == _sum(other) else Alike.OTHER


def now(evidence: Evidence) -> tuple[Prints, bool]:
    """Return the data of a study's first run, and whether other seeds have other rows; an ablation goes by its base."""
    found = [run.data for run in evidence.runs if run.data and run.arm in (None, evidence.base)]
    return (found[0] if found else {}), any(compared(found[0], one) is Alike.OTHER for one in found[1:])


def different_data(evidence: Evidence) -> Threat | None:
    """Say whether a configuration was chosen on other data; None where it was not, or where nobody chose it."""
    chosen = evidence.chosen
    if chosen is None or evidence.on == "train+valid" or not evidence.runs:
        return None
    here, drawn = now(evidence)
    alike = compared(chosen.data, here)
    if drawn or alike in (Alike.SAME, Alike.SPLIT):
        return None
    if alike is Alike.UNKNOWN:
        return Threat(
            NAME,
            f"whether this is the data on which {chosen.study!r} chose the configuration is not known.",
            Seriousness.UNKNOWN,
            "Return arrays, tensors, tables or data sets made of these from data(): their rows have fingerprints.",
        )
    before = ", ".join(f"{part} {rows:,}" for part, (rows, *_) in chosen.data.items())
    after = ", ".join(f"{part} {rows:,}" for part, (rows, *_) in here.items())
    return Threat(
        NAME,
        f"{chosen.study!r} chose the configuration on other data than this: rows were {before}, and are {after}"
        f"{', with other values' if before == after else ''}.",
        Seriousness.MINOR,
        "Search again on this data, or say on which data the configuration was tuned.",
        {"before": dict(chosen.data), "now": dict(here)},
    )


def _sum(prints: Prints) -> int:
    return sum(int(digest, 16) for _, digest, _ in prints.values()) % MODULO
