"""Reports of several ranks that become one, while training goes on.

What a rank has goes to all of them, and each reckons the same from it: a mean of equal values is that value, to the
bit. Messages have one length, so that they never go wrong when ranks say different things; that is noticed from numbers
in front, and told with the names.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import torch
import torch.distributed as dist

from etude.core.errors import RanksError
from etude.frameworks.standstill import Awaited
from etude.frameworks.torch_waits import Work

How = Literal["mean", "sum", "rank 0"]
"""How a metric of several ranks becomes one: the mean weighted by examples, the sum, or what rank 0 has."""

FRAME: Final = 64
"""Numbers in one message of metrics."""

HEAD: Final = 4
"""Of these, at the front of each: whether to stop, the weight, and two numbers that stand for the names."""


PLACE: Final = "\0"
"""With this begins the name of a place in the training that all ranks come to, and which is no metric."""


class Line(Protocol):
    """What a report needs of the ranks."""

    rank: int
    ranks: int
    control: Any

    def waiting(self, what: str) -> AbstractContextManager[None]:
        """Tell by our own error if a rank is lost meanwhile."""
        ...

    def wait(self, work: Work, awaited: Awaited, what: str = "") -> None:
        """Wait for something that is under way between the ranks."""
        ...

    def post(self, key: str, value: str) -> None:
        """Put a text where the others can read it."""
        ...

    def read(self, key: str) -> str:
        """Return a text, as soon as it is there."""
        ...


@dataclass(frozen=True)
class Agreed:
    """What all ranks know after a report.

    Attributes:
        values: The metrics, the same on all ranks.
        stop: Whether any rank is to stop.
    """

    values: Mapping[str, float]
    stop: bool


class Pending:
    """A report that is under way between the ranks."""

    def __init__(
        self, groups: Line, awaited: Awaited, values: dict[str, float], weight: float, stop: bool, how: dict[str, How]
    ) -> None:
        self._groups = groups
        self._awaited = awaited
        self._nth = awaited.number
        self._given = list(values)
        self._names = sorted(values)
        self._how = how
        room = FRAME - HEAD
        said = json.dumps([[name, how.get(name, "mean")] for name in self._names]).encode()
        head = [float(stop), float(weight), float(zlib.crc32(said)), float(zlib.adler32(said))]
        given = [float(values[name]) for name in self._names]
        self._frames: list[tuple[torch.Tensor, Any]] = []
        with groups.waiting("a report"):
            for start in range(0, max(len(given), 1), room):
                part = given[start : start + room]
                sent = torch.tensor([*head, *part, *[0.0] * (room - len(part))], dtype=torch.float64)
                found = torch.empty(groups.ranks, FRAME, dtype=torch.float64)
                work = dist.all_gather(list(found), sent, group=groups.control, async_op=True)
                self._frames.append((found, (work, sent)))

    def done(self) -> bool:
        """Say whether all ranks have come to this report, so that ``wait`` returns at once."""
        return all(work.is_completed() for _, (work, _) in self._frames)

    def wait(self) -> Agreed:
        """Return what all ranks agreed on; wait for those that are not so far.

        Raises:
            RanksError: A rank reports other names than rank 0, or will never come to this report.
            RankLostError: A rank is lost.
        """
        for _, (work, _) in self._frames:
            self._groups.wait(work, self._awaited, f"report {self._nth}")
        heads = self._frames[0][0][:, :HEAD].tolist()
        odd = [rank for rank, head in enumerate(heads) if head[2:] != heads[0][2:]]
        if odd:
            self._tell_apart(odd)
        rows = torch.cat([found[:, HEAD:] for found, _ in self._frames], dim=1).tolist()
        weights = [head[1] for head in heads]
        values = {
            name: one_of([row[nth] for row in rows], weights, self._how.get(name, "mean"))
            for nth, name in enumerate(self._names)
        }
        return Agreed({name: values[name] for name in self._given}, any(head[0] for head in heads))

    def _tell_apart(self, odd: Sequence[int]) -> None:
        said = {name: self._how.get(name, "mean") for name in self._names}
        self._groups.post(f"report {self._nth}, rank {self._groups.rank}", json.dumps(said))
        first, other = (json.loads(self._groups.read(f"report {self._nth}, rank {rank}")) for rank in (0, odd[0]))
        if any(name.startswith(PLACE) for name in (*first, *other)):
            raise RanksError(
                f"Rank {odd[0]} came to {_place(other)}, and rank 0 to {_place(first)}. All ranks go the same way "
                "through the training function: report, and leave a loop of epochs, on all of them or on none. "
                "run.mean(value) makes one number of theirs to decide by."
            )
        plain = [
            ", ".join(name if how == "mean" else f"{name} ({how})" for name, how in x.items()) for x in (first, other)
        ]
        raise RanksError(
            f"Report {self._nth} of rank {odd[0]} has the metrics [{plain[1]}], and that of rank 0 has [{plain[0]}]. "
            "A report is one of all ranks, so each has to name the same metrics. Report on all ranks "
            "alike; only rank 0's prints and files show anyway."
        )


def place_of(said: Mapping[str, object]) -> str:
    """Return the place in the training that all ranks come to, if one is named."""
    return next((name.removeprefix(PLACE) for name in said if name.startswith(PLACE)), "")


def _place(said: Mapping[str, str]) -> str:
    """Say where a rank is, given what it says there."""
    return place_of(said) or f"a report of [{', '.join(said)}]"


def one_of(values: Sequence[float], weights: Sequence[float], how: How) -> float:
    """Return one value for those of all ranks; equal ones stay what they are, to the bit.

    Args:
        values: By rank.
        weights: How many examples each is of; without weight a value counts for nothing.
        how: What is asked for.
    """
    if how == "rank 0":
        return values[0]
    if how == "sum":
        return _sum(values)
    counted = [(value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0]
    if not counted:
        return math.nan
    if all(value == counted[0][0] for value, _ in counted):
        return counted[0][0]
    return _sum([value * weight for value, weight in counted]) / _sum([weight for _, weight in counted])


def _sum(values: Sequence[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
