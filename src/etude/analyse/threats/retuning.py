"""Arms that were not tuned again: the configuration was chosen for the whole, and may not be the best for a part."""

from __future__ import annotations

from typing import Final

from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count

NAME: Final = "arms not tuned again"


def not_retuned(evidence: Evidence) -> Threat | None:
    """Say that the base was tuned and its arms were not; None where nobody is known to have tuned the base."""
    chosen = evidence.chosen
    if evidence.verb != "ablate" or chosen is None:
        return None
    return Threat(
        NAME,
        f"the configuration was chosen among {count(chosen.trials, 'trial')} for the whole, and no arm had a search of "
        "its own, so a component may seem to matter because the rest was tuned to it.",
        Seriousness.MINOR,
        "Say so with the verdicts, or search for arms that matter as well, with the component away and as many trials.",
        {"trials": chosen.trials},
    )
