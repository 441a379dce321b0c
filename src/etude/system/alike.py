"""Which trials of a study do the same work, by what the first epoch of each took of its process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from etude.core.system import Taken

CPU: Final = ("user s", "system s")
ALIKE: Final = 0.25
"""Two trials do the same work if steps take them CPU seconds that differ by no more than this share."""
BUSY: Final = 1.0
"""Beside other jobs the same work takes up to so much more: threads that wait for each other spin meanwhile."""
FAULTS: Final = "page faults"
"""What others on the machine do not change: trials that have as many a step may do the same work on a busier one."""
FEW: Final = 1.0
"""Less than so many page faults a step say nothing."""


def same_work(seen: Mapping[str, Taken], taken: Taken) -> str | None:
    """Return the kind of work that an epoch shows; None if it is a new one.

    It is that of the first trial whose steps took as much CPU time. If there is none, it is that of one that may have
    done the same while the machine was more or less busy: on two cores that others used as well, CPU seconds of the
    same training differed by a factor of 1.8, its page faults by less than a quarter.

    Args:
        seen: Name -> the first epoch by which each kind was first seen.
        taken: The first epoch of another trial.
    """
    for alike in (_takes_as_much, _may_be_the_same):
        for name, first in seen.items():
            if alike(first, taken):
                return name
    return None


def _takes_as_much(one: Taken, other: Taken) -> bool:
    return _beyond(*_cpu_s(one, other)) <= ALIKE


def _may_be_the_same(one: Taken, other: Taken) -> bool:
    faults = (one.rates.get(FAULTS, 0.0), other.rates.get(FAULTS, 0.0))
    return (
        one.steps == other.steps
        and min(faults) >= FEW
        and _beyond(*faults) <= ALIKE
        and _beyond(*_cpu_s(one, other)) <= BUSY
    )


def _cpu_s(*both: Taken) -> list[float]:
    """Return the CPU seconds a step of each; seconds, where those are not known."""
    found = [sum(taken.rates.get(name, 0.0) for name in CPU) for taken in both]
    return found if min(found) > 0 else [taken.seconds / taken.steps for taken in both]


def _beyond(one: float, other: float) -> float:
    """Return by which share the larger of two numbers is more than the smaller."""
    return max(one, other) / min(one, other) - 1 if min(one, other) > 0 else math.inf
