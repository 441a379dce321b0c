"""Evaluation on data that the configuration was chosen by: what was chosen for its value there looks too good there."""

from __future__ import annotations

from typing import Final

from etude.analyse.threats.data import Alike, Prints, compared, now
from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count

NAME: Final = "evaluation on tuning data"
MEND: Final = (
    "Judge on data that no search saw, such as a test part, under a metric of its own; etude.Data(train, valid, test) "
    "keeps them apart."
)
ON: Final = {
    Alike.SAME: ", on the same rows",
    Alike.SPLIT: ", on rows of the same data",
    Alike.OTHER: ", though on other rows, some of which may be the same",
    Alike.UNKNOWN: "",
}
JUDGES: Final = "valid"
"""The part of the data whose rows judge, where parts have names."""


def tuning_data(evidence: Evidence) -> Threat | None:
    """Say whether a study is judged by the metric that chose its configuration; None if it is not known to be."""
    chosen = evidence.chosen
    if evidence.retuned is not None:
        return Threat(
            NAME,
            f"the configuration of each arm was chosen among {count(evidence.retuned, 'trial')} by "
            f"{evidence.metric!r}, by which it is judged here as well, with other training seeds: all values are "
            "likely somewhat too good.",
            Seriousness.MINOR,
            MEND,
            {"retuned": evidence.retuned},
        )
    if chosen is None or chosen.metric != evidence.metric or evidence.on == "train+valid":
        return None
    here, drawn = now(evidence)
    if drawn:  # each seed has rows of its own, and none of these chose
        return None
    told = ON[_judging(chosen.data, here)]
    what = "its value" if evidence.verb == "fit" else "the value of the base"
    return Threat(
        NAME,
        f"the configuration is trial {chosen.trial} of {chosen.study!r}, chosen among {count(chosen.trials, 'trial')} "
        f"by {chosen.metric!r}, by which it is judged here as well{told}, so {what} is likely too good.",
        Seriousness.MINOR,
        MEND,
        {"study": chosen.study, "trial": chosen.trial, "trials": chosen.trials},
    )


def _judging(before: Prints, here: Prints) -> Alike:
    """Return how the rows compare that judged and that judge."""
    if JUDGES in before and JUDGES in here and list(before[JUDGES]) == list(here[JUDGES]):
        return Alike.SAME
    return compared(before, here)
