"""What a report says against a study's conclusions: the threats that were found, and what any reader should know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from etude.analyse.report.facts import Facts, Threat
from etude.analyse.threats import threat
from etude.analyse.threats.threat import Seriousness

MANY: Final = 10

SHOWN: Final[dict[Seriousness, Literal["serious", "caution", "note"]]] = {
    Seriousness.SERIOUS: "serious",
    Seriousness.MINOR: "caution",
    Seriousness.UNKNOWN: "note",
}


def cautions(facts: Facts, threats: Iterable[threat.Threat]) -> list[Threat]:
    """Return what speaks against the conclusions of a study, the most serious first.

    Args:
        facts: What is known of it.
        threats: Those that were found.
    """
    found = [
        Threat(_capital(one.name), _capital(f"{one.finding} {one.mend}".strip()), SHOWN[one.seriousness])
        for one in threats
    ]
    order = list(SHOWN.values())
    return sorted([*_of_any(facts), *found], key=lambda one: order.index(one.seriousness))


def _of_any(facts: Facts) -> Iterator[Threat]:
    if facts.simulated:
        yield Threat("Simulated", "Nothing was trained: values come from curves, and times are virtual.", "serious")
    if facts.standing != "complete":
        yield Threat(
            "Not complete",
            "The plan was not carried out to its end. Whoever stops when a result pleases is wrong more often.",
        )
    finished = len(facts.numbers())
    if facts.verb == "tune" and finished >= MANY and facts.mode is not None:
        yield Threat(
            "The best of many",
            f"The best of {finished:,} values is partly luck. Train it anew with other seeds, or measure it on data "
            "that chose nothing, before it is told as the result.",
            "note",
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
