"""Which numbers of a profile tell what kind of work it was, whatever else the machine did meanwhile.

A profile says all that can be read. To recognise a run, what the process did itself is taken per step: its seconds on
cores, its faults, what it read and wrote, what the hardware counted. Levels stay as they are: a step has no memory of
its own. What others have a hand in is left out, since it differs from run to run of the same work.
"""

from __future__ import annotations

from typing import Final

from etude.system.profile import Profile
from etude.system.sources.counted import STEPS
from etude.system.sources.proc import MACHINE, PRESSURES, SCHEDULED

OF_THE_MACHINE: Final = frozenset({*MACHINE, *(f"{kind} pressure s" for kind in PRESSURES), "GPU clock GHz"})
"""What the machine did, whoever it did it for."""

ON_CORE: Final = SCHEDULED[0][0]

OF_WAITING: Final = frozenset(
    {
        *(name for name, _ in SCHEDULED if name != ON_CORE),
        *("disk wait s", "context switches", "migrations"),
        *("step s", "step s squared", "loader wait s"),
    }
)
"""Seconds by the clock, and how often the process gave way: both grow when another job wants the cores."""

LEVELS: Final = frozenset(
    {
        *("threads", "resident GB", "own memory GB", "anonymous memory GB", "huge pages GB"),
        *("GPUs busy", "GPU memories busy", "GPU memory GB"),
    }
)
"""Means over time, not totals that grow with steps."""


def comparable(profile: Profile) -> dict[str, float]:
    """Return the numbers by which a run is recognised. Where no steps were counted, its epoch is taken for one.

    Args:
        profile: Of an epoch with the default setting.

    Example:
        >>> rates = {"steps": 4.0, "user s": 2.0, "resident GB": 1.5, "machine user s": 3.0, "step s": 0.9}
        >>> comparable(Profile(rates, "/proc", 10.0))
        {'user s': 0.5, 'resident GB': 1.5}
    """
    left_out = OF_THE_MACHINE | OF_WAITING
    totals = {name: rate * profile.seconds for name, rate in profile.rates.items() if name != STEPS}
    return {
        name: profile.rates[name] if name in LEVELS else rate
        for name, rate in (profile.per_step() or totals).items()
        if name not in left_out
    }
