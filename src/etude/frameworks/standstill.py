"""Standstills: ranks that wait for each other at different places, told from ranks that are slow.

What ranks do together is counted on each, by its kind: backwards, reports. Who waits for backward 12 waits until every
rank has begun it; and who waits begins nothing. So if all of them wait, each for something that another one has not
begun, nobody will ever go on. Where one computes, it may yet begin what the others wait for, in an hour or a day.

Ranks say at different times where they wait, so what is read may be over by then. Each wait of a rank has a number, and
is said again and again. Who says it twice more after it was read was in it when it was read: the second was put
together only after the first had been taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

AFTERWARDS: Final = 2
"""How often a wait has to be said again after it was read."""

NAMED: Final = 8
"""So many ranks are named in a message."""

STANDSTILL: Final = (
    "The ranks wait for each other at different places, and none of them can go on: {places}. Something is done on "
    "some ranks only: a batch that is skipped, an epoch that is left early, a backward or a report under "
    "`if run.rank == 0`. All ranks go the same way through the training function; run.mean(value) makes one number of "
    "theirs to decide by."
)


class Awaited(NamedTuple):
    """Something that all ranks take part in.

    Attributes:
        kind: What; each kind is counted for itself.
        number: Which one of its kind, from 1.
        at: What users call it.
    """

    kind: str
    number: int
    at: str


@dataclass(frozen=True)
class Waiting:
    """Where a rank waits, as it says itself.

    Attributes:
        awaited: What it waits for.
        line: In which line of the user's code, such as ``"train.py:33"``; empty if in none.
        nth: Which of its waits it is.
        said: How often it has said where it waits.
        begun: How many of each kind it has begun.
    """

    awaited: Awaited
    line: str
    nth: int
    said: int
    begun: Mapping[str, int]

    @property
    def place(self) -> str:
        """Where it waits, in words."""
        return f"{self.awaited.at} ({self.line})" if self.line else self.awaited.at

    def packed(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def unpacked(cls, text: str) -> Waiting:
        """Return what was packed."""
        fields = json.loads(text)
        return cls(**{**fields, "awaited": Awaited(*fields["awaited"])})


def has_moved(before: Sequence[Waiting], now: Sequence[Waiting]) -> bool:
    """Say whether any rank has gone on since."""
    return any(one.nth != then.nth for then, one in zip(before, now, strict=True))


def is_standstill(before: Sequence[Waiting], now: Sequence[Waiting]) -> bool:
    """Say whether the ranks will wait for ever.

    Args:
        before: Where each rank waited, as it was read some time ago, by rank.
        now: The same, as it is read now.
    """
    if has_moved(before, now):
        return False
    if any(one.said < then.said + AFTERWARDS for then, one in zip(before, now, strict=True)):
        return False
    return all(_lacks_another(one.awaited, now) for one in now)


def _lacks_another(awaited: Awaited, ranks: Sequence[Waiting]) -> bool:
    """Say whether a rank has not begun something; what all have begun is on its way, however slowly."""
    return any(one.begun.get(awaited.kind, 0) < awaited.number for one in ranks)


def told(ranks: Sequence[Waiting]) -> str:
    """Return what is to be said of a standstill."""
    return STANDSTILL.format(places=_places(dict(enumerate(ranks))))


def last_heard(ranks: Mapping[int, Waiting | None]) -> str:
    """Return what is to be said of ranks when one of them has waited too long; empty if none has said anything.

    Args:
        ranks: Where each waits; None of one that does not.
    """
    waiting = {rank: one for rank, one in ranks.items() if one is not None}
    silent = [rank for rank in ranks if rank not in waiting]
    if not waiting:
        return ""
    said = f"Last heard: {_places(waiting)}"
    if silent:
        others = _wait(silent)
        return f"{said}; {others} for nobody: a rank computes then, hangs, or waits for something of its own."
    alike = len({one.awaited for one in waiting.values()}) == 1
    return f"{said}; so what is between them, such as the network, is in trouble." if alike else f"{said}."


def _places(ranks: Mapping[int, Waiting]) -> str:
    """Return in words where ranks wait, those at one place together."""
    at: dict[str, list[int]] = {}
    for rank, waiting in ranks.items():
        at.setdefault(waiting.place, []).append(rank)
    return "; ".join(f"{_wait(numbers)} at {place}" for place, numbers in at.items())


def _wait(numbers: Sequence[int]) -> str:
    """Return the numbers of ranks in words, with the verb."""
    named = ", ".join(map(str, numbers[:NAMED]))
    if len(numbers) == 1:
        return f"rank {named} waits"
    return f"ranks {named}{f' and {len(numbers) - NAMED} more' if len(numbers) > NAMED else ''} wait"
