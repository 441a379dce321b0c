"""Early stopping: what was stopped has no value, and it is not a random part of the trials."""

from __future__ import annotations

from typing import Final

from etude.analyse.association import relations
from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.survival import LEVEL, SHOWN, attributes
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count, p_value

NAME: Final = "early stopping"


def early_stopping(evidence: Evidence) -> Threat | None:
    """Say which configurations were stopped early; None if none was."""
    runs = [run for run in evidence.runs if run.state in ("finished", "stopped")]
    stopped = [run for run in runs if run.state == "stopped"]
    if not stopped:
        return None
    found = relations(
        [run.state == "stopped" for run in runs],
        [attributes(run) for run in runs],
        called="stopped",
        led=not all(run.drawn or run.given for run in runs),
    )
    sure = [one for one in found if one.p_holm <= LEVEL]
    by = f" by {evidence.stopper}" if evidence.stopper else ""
    which = "; ".join(f"{one.finding} ({p_value(one.p_holm)} corrected)" for one in sure[:SHOWN])
    were = "were" if len(stopped) > 1 else "was"
    finding = f"{count(len(stopped), 'trial')} of {len(runs):,} {were} stopped{by}, on what was seen early"
    numbers = {
        "stopped": len(stopped),
        "of": len(runs),
        "relations": [{"parameter": one.parameter, "p": one.p, "p_corrected": one.p_holm} for one in found],
    }
    of_arms = evidence.verb == "ablate"
    uneven = of_arms and any(one.parameter == "arm" for one in sure)
    mend = (
        "Run it with stopper='none': an arm that begins slowly is stopped more often, and has no value then."
        if of_arms
        else "The best that was found is not touched by it; means and importances are those of trials that begin fast."
    )
    return Threat(
        NAME,
        f"{finding}{f', and not evenly: {which}' if sure else ''}.",
        Seriousness.SERIOUS if uneven else Seriousness.MINOR,
        mend,
        numbers,
    )
