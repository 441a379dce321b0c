"""How many workers a machine has room for, and what is said when they are too many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from etude.core.resources import NEARLY, Machine, Resources, said, sharers
from etude.core.text import count

SHOWN: Final = 8
"""So many ids of GPUs are shown in a message."""


def how_many_fit(each: Resources, machine: Machine) -> int | None:
    """Return how many workers fit on a machine at a time; None if nothing that is counted limits them.

    Example:
        >>> how_many_fit(Resources(gpus=0.5), Machine(cores=8, gpus=("0", "1")))
        4
    """
    return min((part.fit(part.each) for part in _parts(each, machine)), default=None)


def why_not(n: int, each: Resources, machine: Machine, *, asked: str = "") -> str:
    """Say what ``n`` workers lack, as a sentence about the scarcest of it; empty if they fit.

    Args:
        n: How many.
        each: What each needs.
        machine: What there is.
        asked: How the call asked for so many; ``workers=n`` if not given.

    Example:
        >>> why_not(4, Resources(gpus=1), Machine(cores=8, gpus=("0", "1")))
        'workers=4 with gpus=1 need 4 GPUs, and this machine has 2 (0, 1).'
    """
    short = _shortage(n, each, machine)
    if short is None:
        return ""
    each_needs = said(short.name, short.each)
    if not short.fit(short.each):
        return f"One trial with {each_needs} needs {short.needed(1)}, and this machine has {short.there}."
    return f"{asked or f'workers={n}'} with {each_needs} need {short.needed(n)}, and this machine has {short.there}."


def mend(n: int, each: Resources, machine: Machine, *, fewer: str = "") -> str:
    """Say how ``n`` workers that do not fit could, as a sentence.

    Args:
        n: How many.
        each: What each needs.
        machine: What there is.
        fewer: How the call would ask for as many as fit.

    Example:
        >>> mend(4, Resources(gpus=1), Machine(cores=8, gpus=("0", "1")), fewer="workers=2")
        'Pass workers=2, or gpus=0.5.'
    """
    short = _shortage(n, each, machine)
    assert short is not None, "they fit"
    if not short.fit(short.each):
        n, fewer = 1, ""
    ways = [fewer] if fewer else []
    alone = all(part.fit(part.each) >= n for part in _parts(each, machine) if part.name != short.name)
    if alone and (smaller := short.smaller(n)) is not None:
        ways.append(said(short.name, smaller))
    if ways:
        return f"Pass {', or '.join(ways)}."
    if short.name == "gpus" and not machine.gpus:
        return "Leave gpus= out, or run it on a machine that has some."
    return "Ask for less, or run it on a larger machine."


@dataclass(frozen=True)
class _Part:
    """One kind of resource: what a worker needs of it, and what there is."""

    name: str
    each: float
    has: float
    ids: tuple[str, ...] = ()

    def fit(self, each: float) -> int:
        """Return how many workers it suffices for."""
        if self.name == "gpus" and each < 1:
            return int(self.has) * sharers(each)
        return int(self.has / each + NEARLY)

    def needed(self, n: int) -> str:
        """Say how much ``n`` workers need."""
        if self.name == "memory_gb":
            return f"{n * self.each:g} GB of memory"
        if self.name == "cpus":
            cores = n * self.each
            return count(int(cores), "core") if cores.is_integer() else f"{cores:g} cores"
        return count(math.ceil(n / sharers(self.each)) if self.each < 1 else round(n * self.each), "GPU")

    @property
    def there(self) -> str:
        """What there is, in words."""
        if self.name == "memory_gb":
            return f"{_floor(self.has, 1):g} GB"
        if not self.has:
            return "none"
        more = ", ..." if len(self.ids) > SHOWN else ""
        return f"{self.has:g}" + (f" ({', '.join(self.ids[:SHOWN])}{more})" if self.ids else "")

    def smaller(self, n: int) -> float | None:
        """Return how much each of ``n`` workers may need for them to fit, as a handy number; None if there is none."""
        if self.name == "gpus" and self.has < n:
            found = _floor(1 / math.ceil(n / self.has), 3) if self.has else 0.0
        else:
            found = _floor(self.has / n, {"cpus": 2, "gpus": 0, "memory_gb": 1}[self.name])
        return found if found > 0 and self.fit(found) >= n else None


def _parts(each: Resources, machine: Machine) -> list[_Part]:
    """Return what is counted."""
    parts = []
    if each.gpus and machine.gpus is not None:
        parts.append(_Part("gpus", each.gpus, len(machine.gpus), machine.gpus))
    if each.cpus is not None and machine.cores is not None:
        parts.append(_Part("cpus", each.cpus, machine.cores))
    if isinstance(each.memory_gb, float) and machine.memory_gb is not None:
        parts.append(_Part("memory_gb", each.memory_gb, machine.memory_gb))
    return parts


def _shortage(n: int, each: Resources, machine: Machine) -> _Part | None:
    """Return what fewest workers have enough of, if that is fewer than ``n``."""
    scarcest = min(_parts(each, machine), key=lambda part: part.fit(part.each), default=None)
    return scarcest if scarcest is not None and scarcest.fit(scarcest.each) < n else None


def _floor(value: float, digits: int) -> float:
    scale = 10.0**digits
    return math.floor(value * scale + NEARLY) / scale
