"""The verdicts of a study as they stand, as a report has them."""

from __future__ import annotations

from typing import Final

import msgspec

from etude.analyse.report.forest import forest
from etude.analyse.report.judged import verdict_table
from etude.analyse.report.page import figures, first
from etude.core.errors import EtudeError
from etude.reported.gathering import facts_of
from etude.view.following import Follower

JUDGED: Final = ("ablate", "fit")
"""What studies begin with that end with verdicts."""


def judged(follower: Follower) -> bytes:
    """Return as JSON the HTML of what a study's verdicts are so far; empty where there are none."""
    if follower.verb not in JUDGED or not follower.edition:
        return b""
    try:
        facts = facts_of(follower.search)
    except (EtudeError, OSError):  # it is being deleted, or written anew; the next look tells
        return b""
    of = "component" if facts.verb == "ablate" else "start"
    table, drawn = verdict_table(facts.verdicts, of=of, key="verdicts"), forest(facts)
    html = first(facts) + table + figures([drawn] if drawn is not None else []) if table else ""
    return msgspec.json.encode({"html": html}) if html else b""
