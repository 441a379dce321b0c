"""Arms that were not tuned again: the configuration was chosen for the whole, and may not be the best for a part."""

from __future__ import annotations

from typing import Final

from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count

NAME: Final = "arms not tuned again"


def not_retuned(evidence: Evidence) -> Threat | None:
    """Say that the base was tuned more than its arms; None where nobody is known to have tuned it by itself."""
    chosen = evidence.chosen
    if evidence.verb != "ablate" or chosen is None:
        return None
    if evidence.retuned is not None:
        return Threat(
            NAME,
            f"each arm had a search of {count(evidence.retuned, 'trial')} of its own, and all of them began with a "
            f"configuration that was chosen among {count(chosen.trials, 'trial')} for the whole, so the whole is tuned "
            "better still.",
            Seriousness.MINOR,
            "Give the arms as many trials (retune=), or say how many each had.",
            {"trials": chosen.trials, "retuned": evidence.retuned},
        )
    return Threat(
        NAME,
        f"the configuration was chosen among {count(chosen.trials, 'trial')} for the whole, and no arm had a search of "
        "its own, so a component may seem to matter because the rest was tuned to it.",
        Seriousness.MINOR,
        "Say so with the verdicts, or give every arm an equal search of its own (retune=).",
        {"trials": chosen.trials},
    )
