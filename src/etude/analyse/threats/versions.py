"""Different code in one study: what its definition cannot see may have changed between two times it was taken up.

A study refuses to go on with other functions, or other versions of the packages that they name. What is left are
packages that these use in turn, Python itself, files that are read at run time, and code that could not be looked into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from etude.analyse.threats.evidence import Evidence, Session
from etude.analyse.threats.threat import Seriousness, Threat

NAME: Final = "different code"
SHOWN: Final = 4


def different_code(evidence: Evidence) -> Threat | None:
    """Say what changed between the times that a study was taken up; None if nothing did."""
    changed = changes(evidence.sessions)
    code = [one for one in ("commit", "uncommitted changes") if one in changed]
    numbers = {"changed": changed, "unseen": list(evidence.unseen)}
    hidden = ", ".join(evidence.unseen[:SHOWN]) + (", ..." if len(evidence.unseen) > SHOWN else "")
    if not changed:
        if not evidence.unseen:
            return None
        return Threat(
            NAME,
            f"some code cannot be looked into, so whether it changed while the study ran is not known: {hidden}.",
            Seriousness.UNKNOWN,
            "Keep it as it is until the study has ended.",
            numbers,
        )
    told = "; ".join(f"{what}: {' and '.join(map(str, values))}" for what, values in list(changed.items())[:SHOWN])
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    seen = f" Some code cannot be looked into: {hidden}." if code and evidence.unseen else ""
    return Threat(
        NAME,
        f"between the times that it was taken up this changed: {told}{more}; the experiment's own functions did not."
        f"{seen}",
        Seriousness.SERIOUS if code and evidence.unseen else Seriousness.MINOR,
        "Trials of before and after may not compare: run it again in one environment if an effect is small.",
        numbers,
    )


def changes(sessions: Sequence[Session]) -> dict[str, list[str]]:
    """Return what is not the same each time: what it is -> how it was, in order."""
    asked: list[tuple[str, Any]] = [
        ("Python", lambda one: one.python),
        ("threads", lambda one: one.threads),
        ("commit", lambda one: one.commit[:12]),
        ("uncommitted changes", lambda one: one.changed),
    ]
    names = list(dict.fromkeys(name for one in sessions for name in one.packages))
    asked += [(name, lambda one, name=name: one.packages.get(name)) for name in names]
    found: dict[str, list[str]] = {}
    for what, read in asked:
        values = list(dict.fromkeys(str(value) for one in sessions if (value := read(one)) not in (None, "")))
        if len(values) > 1:
            found[what] = values
    return found
