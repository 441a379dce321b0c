"""Survival bias: what failed is not in the results, and it may not have failed at random.

A model that needs too much memory fails whatever it would have come to, so that what is left favours small ones.
"""

from __future__ import annotations

from typing import Any, Final

from etude.analyse.association import Relation, relations
from etude.analyse.threats.evidence import Evidence, Run
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count, p_value

NAME: Final = "survival bias"
LEVEL: Final = 0.05
ENDED: Final = ("finished", "stopped", "failed")
SHOWN: Final = 3


def survival_bias(evidence: Evidence) -> Threat | None:
    """Say whether failed trials are those of some configurations; None if none failed."""
    runs = [run for run in evidence.runs if run.state in ENDED and not run.taken]
    failed = [run for run in runs if run.state == "failed"]
    if not failed:
        return None
    found = explained(runs)
    sure = [one for one in found if one.p_holm <= LEVEL]
    lost = f"{count(len(failed), 'trial')} of {len(runs):,} failed ({_by_end(failed)})"
    numbers = {
        "failed": len(failed),
        "of": len(runs),
        "relations": [
            {"parameter": one.parameter, "p": one.p, "p_corrected": one.p_holm, "strength": one.strength}
            for one in found
        ],
    }
    if len(failed) == len(runs):
        finding = f"all {len(runs)} trials failed ({_by_end(failed)})."
        return Threat(NAME, finding, Seriousness.SERIOUS, "Mend what fails, and run it again.", numbers)
    if sure:
        told = "; ".join(f"{one.finding} ({p_value(one.p_holm)} corrected)" for one in sure[:SHOWN])
        return Threat(
            NAME,
            f"{lost}, and not at random: {told}.",
            Seriousness.SERIOUS,
            "Results favour what survives: give those trials what they need (resources=, on_oom='retry_alone'), or "
            "search only where all can run.",
            numbers,
        )
    least = f"the least corrected p-value is {found[0].p_holm:.2g}" if found else "nothing varies that could be tested"
    return Threat(
        NAME,
        f"{lost}; that they are those of some configurations was not found ({least}).",
        Seriousness.MINOR if found else Seriousness.UNKNOWN,
        "Tell how many failed; with few of them a test sees little.",
        numbers,
    )


def explained(runs: list[Run]) -> list[Relation]:
    """Return how failing goes with each parameter, and with the arm of an ablation, the clearest first."""
    return relations(
        [run.state == "failed" for run in runs],
        [attributes(run) for run in runs],
        called="failed",
        led=not all(run.drawn or run.given for run in runs),
    )


def attributes(run: Run) -> dict[str, Any]:
    """Return what may explain a trial's fate: its configuration, and its arm."""
    return {**run.params, **({"arm": run.arm} if run.arm is not None else {})}


def _by_end(failed: list[Run]) -> str:
    """Return how many failed in which way."""
    ways: dict[str, int] = {}
    for run in failed:
        way = "out of memory" if run.out_of_memory else run.how or "unknown"
        ways[way] = ways.get(way, 0) + 1
    return ", ".join(f"{n} {way}" for way, n in sorted(ways.items(), key=lambda one: -one[1]))
