"""What trials took of their machines, what tuning saved of it, and what trying things cost: from facts alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from etude.core.events import Tuned
from etude.core.system import Phase, Setting, Taken
from etude.system.energy import Energy, as_energy, total

Facts = Mapping[int, Sequence[Tuned]]
"""Trial -> what its epochs took, in order."""

OF_THE_DEFAULT = "of the default"
"""In the evidence of an order, what its setting costs beside the default (``system.tuner``)."""


@dataclass(frozen=True)
class Use:
    """What a trial took.

    Attributes:
        trial: Its number.
        epochs: How many of its epochs were measured, those of earlier attempts among them.
        seconds: How long they took.
        energy: What they took of energy.
        setting: The setting of the last one.
        probes: How many of them tried something.
        probing_s: Seconds that these took beyond what the default would have taken; below 0 if they took less. None if
            nobody knows what the default takes.
        saved_s: Seconds that the others took less than the default would have; likewise.
        probing_j: Joules that probes took beyond what the default would have; None if nobody knows.
        saved_j: Joules that the others took less; likewise. Both are known as ``energy`` is.
    """

    trial: int
    epochs: int
    seconds: float
    energy: Energy
    setting: Setting
    probes: int
    probing_s: float | None
    saved_s: float | None
    probing_j: float | None = None
    saved_j: float | None = None


def uses_of(tuned: Facts) -> list[Use]:
    """Return what each trial took whose machine was tuned, by number."""
    return [_use(trial, facts) for trial, facts in sorted(tuned.items()) if facts]


def best_setting(tuned: Facts, trial: int) -> Setting:
    """Return the best setting that a study found for the kind of work of a trial; empty if there is none."""
    own = [fact for fact in tuned.get(trial, ()) if fact.order.work]
    if not own:
        return {}
    work, machine = own[-1].order.work, own[-1].machine
    same = (f for facts in tuned.values() for f in facts if (f.order.work, f.machine) == (work, machine))
    return dict(max(same, key=lambda fact: fact.at).order.best)


def front(points: Mapping[int, tuple[float, ...]]) -> list[int]:
    """Return the trials that no other is better than by one number and not worse by any, the Pareto front.

    Args:
        points: Trial -> its numbers, of each of which less is better.

    Example:
        >>> front({0: (0.1, 9.0), 1: (0.2, 5.0), 2: (0.2, 6.0)})
        [0, 1]
    """
    return [trial for trial, mine in points.items() if not any(_beats(other, mine) for other in points.values())]


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _use(trial: int, facts: Sequence[Tuned]) -> Use:
    taken = [fact.taken for fact in facts]
    energy = total(as_energy(epoch.joules) for epoch in taken)
    default_s, default_j = _default_s(facts), _default_j(facts) if energy.joules is not None else None
    whole = [epoch for epoch in taken if epoch.setting and epoch.whole]
    probes = [epoch for epoch in whole if epoch.phase is Phase.PROBE]
    others = [epoch for epoch in whole if epoch.phase is not Phase.PROBE]
    return Use(
        trial,
        len(taken),
        sum(epoch.seconds for epoch in taken),
        energy,
        dict(taken[-1].setting),
        sum(epoch.phase is Phase.PROBE and bool(epoch.setting) for epoch in taken),
        0.0 - _saved(probes, default_s, _seconds) if default_s is not None else None,
        _saved(others, default_s, _seconds) if default_s is not None else None,
        0.0 - _saved(probes, default_j, _joules) if default_j is not None else None,
        _saved(others, default_j, _joules) if default_j is not None else None,
    )


def _saved(epochs: Iterable[Taken], default: float, of: Callable[[Taken], float]) -> float:
    return sum((default * epoch.steps - of(epoch) for epoch in epochs), 0.0)


def _seconds(epoch: Taken) -> float:
    return epoch.seconds


def _joules(epoch: Taken) -> float:
    return epoch.joules.joules or 0.0


def _default_s(facts: Sequence[Tuned]) -> float | None:
    """Return what a step by default took: as measured in this trial, or else as what was found says it."""
    if measured := [t.seconds / t.steps for t in _by_default(facts)]:
        return median(measured)
    told = [(after.taken, before.order.evidence.get(OF_THE_DEFAULT)) for before, after in pairwise(facts)]
    guessed = [taken.seconds / taken.steps / share for taken, share in told if share and taken.whole]
    return median(guessed) if guessed else None


def _default_j(facts: Sequence[Tuned]) -> float | None:
    """Return the joules of a step by default, measured in this trial; None if they are not known."""
    found = [_joules(t) / t.steps for t in _by_default(facts)]
    return median(found) if found else None


def _by_default(facts: Sequence[Tuned]) -> list[Taken]:
    """Return the epochs that say what the default takes.

    An attempt's first epoch says nothing of it: it pays for much that comes only once, and beside it every setting
    would seem to save. Nor does one in which the trial was stopped.
    """
    later = [f.taken for before, f in pairwise(facts) if f.attempt == before.attempt]
    return [taken for taken in later if not taken.setting and taken.whole]
