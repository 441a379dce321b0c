"""Which numbers of a profile tell what kind of work it was, whatever else the machine did meanwhile.

A profile says all that can be read. To recognise a run, what the process did itself is taken per step: its seconds on
cores, its faults, what it read and wrote, what the hardware counted. Levels stay as they are: a step has no memory of
its own. How many steps an epoch has is told besides, since what comes once an epoch is shared by so many.

What others have a hand in is left out, since it differs from run to run of the same work: the clock, the waiting, and
what comes from a disk once and from memory ever after. What two sources count counts once, or else it would have two
votes.
"""

from __future__ import annotations

from typing import Final

from etude.system.profile import Profile
from etude.system.sources.counted import STEPS
from etude.system.sources.proc import MACHINE, PRESSURES, SCHEDULED

OF_THE_MACHINE: Final = frozenset({*MACHINE, *(f"{kind} pressure s" for kind in PRESSURES), "GPU clock GHz"})
"""What the machine did, whoever it did it for."""

ON_CORE: Final = SCHEDULED[0][0]

OF_THE_CACHE: Final = frozenset({"page faults from disk", "major faults", "bytes from disk", "bytes to disk"})
"""What the system had not in memory, or did not keep there."""

TWICE: Final = {"minor faults": "page faults", ON_CORE: "task clock s"}
"""What is counted under another name as well, by a closer source: that one is taken where it is there."""

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
        {'user s': 0.5, 'resident GB': 1.5, 'steps': 40.0}
    """
    rates = profile.rates
    totals = {name: rate * profile.seconds for name, rate in rates.items()}
    each = profile.per_step() or {name: total for name, total in totals.items() if name != STEPS}
    left_out = OF_THE_MACHINE | OF_WAITING | OF_THE_CACHE | {name for name, closer in TWICE.items() if closer in rates}
    own = {name: rates[name] if name in LEVELS else amount for name, amount in each.items() if name not in left_out}
    return {**own, STEPS: totals.get(STEPS) or 1.0}
