"""What the tuning of machines came to in a study: settings, times and energies of its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from etude.core.events import Tuned
from etude.core.system import Setting

Facts = Mapping[int, Sequence[Tuned]]
"""Trial -> what its epochs took."""


def best_setting(tuned: Facts, trial: int) -> Setting:
    """Return the best setting that the study found for the kind of work of a trial; empty if there is none."""
    own = [fact for fact in tuned.get(trial, ()) if fact.order.work]
    if not own:
        return {}
    work, machine = own[-1].order.work, own[-1].machine
    same = (f for facts in tuned.values() for f in facts if (f.order.work, f.machine) == (work, machine))
    return dict(max(same, key=lambda fact: fact.at).order.best)
