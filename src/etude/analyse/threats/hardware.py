"""Unequal hardware: trials that ran on machines of several kinds, or arms that went to some more than others."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from etude.analyse.association import of_labels
from etude.analyse.corrections import holm
from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.survival import LEVEL
from etude.analyse.threats.threat import Seriousness, Threat
from etude.core.text import count

NAME: Final = "unequal hardware"
TIMED: Final = re.compile(r"(^|_)(time|latency|duration|seconds|throughput|speed|s|ms|hours?)$", re.IGNORECASE)
"""Names of metrics that are times, or hang on them."""


def unequal_hardware(evidence: Evidence) -> Threat | None:
    """Say on what machines trials ran, and whether arms are spread over them unevenly; None if there was one kind."""
    kinds = list(dict.fromkeys(one.hardware for one in evidence.sessions if one.hardware))
    ran = Counter(run.machine for run in evidence.runs if run.machine)
    if len(kinds) < 2 and len(ran) < 2:  # noqa: PLR2004
        return None
    uneven = _uneven(evidence)
    timed = bool(TIMED.search(evidence.metric))
    where = (
        f"trials ran on {count(len(ran), 'machine')}"
        if len(ran) > 1
        else f"it was taken up on {count(len(kinds), 'kind')} of machines"
    )
    arms = f", and arms are spread over them unevenly: {', '.join(uneven)}" if uneven else ""
    metric = f"; {evidence.metric!r} is a time" if timed else ""
    return Threat(
        NAME,
        f"{where}{arms}{metric}.",
        Seriousness.SERIOUS if uneven or timed else Seriousness.MINOR,
        "Times do not compare between machines, and sums of floats are not the same to the bit on all of them.",
        {"kinds": kinds, "machines": dict(ran), "uneven": uneven},
    )


def _uneven(evidence: Evidence) -> list[str]:
    """Return the arms whose trials went to some machines more often than those of others."""
    runs = [run for run in evidence.runs if run.machine and run.arm is not None]
    arms = list(dict.fromkeys(run.arm for run in runs))
    machines = [run.machine for run in runs]
    if len(arms) < 2 or len(set(machines)) < 2:  # noqa: PLR2004
        return []
    ps = [of_labels([run.arm == arm for run in runs], machines)[0] for arm in arms]
    return [str(arm) for arm, p in zip(arms, holm(ps), strict=True) if p <= LEVEL]
