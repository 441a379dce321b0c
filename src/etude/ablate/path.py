"""The way from the base to the arm without all components, on which each step costs least."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from etude.ablate.arms import BASE, Results, removal, together
from etude.core.removal import Arm


@dataclass(frozen=True)
class Step:
    """One step of a path.

    Attributes:
        component: The name of the component that this step takes away.
        arm: Everything that is gone after it.
        loss: What came of that.
        change: By how much the loss rose with this step; it fell if that is below 0.
    """

    component: str
    arm: Arm
    loss: float
    change: float


def steps_of_path(components: Sequence[Arm], results: Results) -> list[Step]:
    """Return the steps that are settled by the results, in order."""
    return list(_settled(components, results))


def more_of_path(components: Sequence[Arm], results: Results) -> list[Arm]:
    """Return the arms of the first step that is not settled; none if the path is at its end, or all ways failed."""
    taken = [step.component for step in _settled(components, results)]
    gone = [one for one in components if one.name in taken]
    return [arm for _, arm in _ways(components, gone) if arm not in results]


def _settled(components: Sequence[Arm], results: Results) -> Iterator[Step]:
    gone: list[Arm] = []
    before = results.loss(BASE) if BASE in results else math.nan
    while ways := _ways(components, gone):
        if any(arm not in results for _, arm in ways):
            return
        losses = [(results.loss(arm), i) for i, (_, arm) in enumerate(ways)]
        usable = [pair for pair in losses if not math.isnan(pair[0])]
        if not usable:
            return
        loss, best = min(usable)
        component, arm = ways[best]
        yield Step(component.name, arm, loss, loss - before)
        before = loss
        gone = [one for one in components if one in gone or one is component]


def _ways(components: Sequence[Arm], gone: Sequence[Arm]) -> list[tuple[Arm, Arm]]:
    """Return what can be taken away next, each with everything that is gone then; equal ones once."""
    left = [one for one in components if one not in gone]
    found: dict[object, tuple[Arm, Arm]] = {}
    for one in left:
        arm = together([other for other in components if other in gone or other is one])
        found.setdefault(removal(arm), (one, arm))
    return list(found.values())
