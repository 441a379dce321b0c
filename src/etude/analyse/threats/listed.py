"""All threats that there are, and a study looked at for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from etude.analyse.threats import (
    budget,
    data,
    hardware,
    reference,
    retuning,
    sampler,
    stopping,
    survival,
    tuned_data,
    unpaired,
    versions,
)
from etude.analyse.threats.evidence import Evidence
from etude.analyse.threats.threat import Seriousness, Threat, Threats

ALL: Final[dict[str, Callable[[Evidence], Threat | None]]] = {
    survival.NAME: survival.survival_bias,
    sampler.NAME: sampler.sampler_bias,
    stopping.NAME: stopping.early_stopping,
    budget.NAME: budget.budget_sensitivity,
    tuned_data.NAME: tuned_data.tuning_data,
    data.NAME: data.different_data,
    retuning.NAME: retuning.not_retuned,
    unpaired.NAME: unpaired.unpaired_arms,
    versions.NAME: versions.different_code,
    hardware.NAME: hardware.unequal_hardware,
    reference.NAME: reference.reference_missed,
}
"""What a threat is called -> what looks for it."""

MAY_BE_SERIOUS: Final = (survival.NAME, stopping.NAME, versions.NAME, hardware.NAME, reference.NAME)


def threats_of(evidence: Evidence) -> Threats:
    """Return what may be wrong with what a study says."""
    found = {name: look(evidence) for name, look in ALL.items()}
    clear = [name for name, threat in found.items() if threat is None]
    return Threats([threat for threat in found.values() if threat is not None], clear=clear)


def serious(evidence: Evidence) -> Threats:
    """Return the serious threats alone: only those are looked for that may be serious."""
    looked = [ALL[name](evidence) for name in MAY_BE_SERIOUS]
    return Threats([one for one in looked if one is not None and one.seriousness is Seriousness.SERIOUS])
