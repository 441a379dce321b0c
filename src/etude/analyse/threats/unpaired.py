"""Unpaired arms: runs that were to begin alike and did not."""

from __future__ import annotations

from typing import Final

from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count

NAME: Final = "unpaired arms"
SHOWN: Final = 5


def unpaired_arms(evidence: Evidence) -> Threat | None:
    """Say which arms are no pairs with the base; None if all are."""
    apart = [arm for arm, is_pair in evidence.pairs.items() if is_pair is False]
    unknown = [arm for arm, is_pair in evidence.pairs.items() if is_pair is None]
    if not apart and not unknown:
        return None
    which = apart or unknown
    shown = ", ".join(which[:SHOWN]) + (", ..." if len(which) > SHOWN else "")
    numbers = {"unpaired": apart, "unknown": unknown}
    if apart:
        return Threat(
            NAME,
            f"{count(len(apart), 'arm')} did not begin as the base did, or so it was said: {shown}.",
            Seriousness.MINOR,
            "They are tested as unpaired, which takes more seeds; ablation.pairing(arm), or what the plan says of an "
            "arm, tells what differs.",
            numbers,
        )
    return Threat(
        NAME,
        f"whether {count(len(unknown), 'arm')} began as the base did is not known: {shown}.",
        Seriousness.UNKNOWN,
        "They are tested as pairs. Return loaders or etude.Data from data(), and build the model in model(); where "
        "nothing can be seen, as of a command, say it: etude.custom(..., paired=False).",
        numbers,
    )
