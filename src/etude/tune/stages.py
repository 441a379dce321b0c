"""Domains of what changes while a trial trains: values that hold from some epoch on, and how many epochs there are.

Both say what trials have in common: they may share their beginnings (``core.prefixes``). Samplers see neither. To them
a parameter that changes is one plain parameter for each of its stages, and a number of epochs is an ordered choice
(``tune.flat``).
"""

# ruff: noqa: D102 - what the methods of domains do is said once, in Domain
from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, final

from etude.core.prefixes import is_steps
from etude.core.streams import stream
from etude.tune.domains import Domain, Listed
from etude.tune.values import Value


@final
@dataclass(frozen=True, repr=False)
class Piecewise(Domain):
    """Values that change at fixed epochs, as (epoch, value) pairs; see ``piecewise``."""

    domain: Domain
    starts: tuple[int, ...]

    @property
    def size(self) -> int | None:
        each = self.domain.size
        return None if each is None else each ** len(self.starts)

    def from_unit(self, u: float) -> Value:
        later = (stream(0, "stage", u.hex(), start).random() for start in self.starts[1:])
        return self.at([self.domain.from_unit(at) for at in (u, *later)])

    def grid(self, n: int) -> tuple[Value, ...]:
        return tuple(map(self.at, itertools.product(self.domain.grid(n), repeat=len(self.starts))))

    def at(self, values: Any) -> Value:
        """Return the value that is these, stage by stage."""
        return tuple(zip(self.starts, values, strict=True))

    def why_not(self, value: object) -> str | None:
        if not is_steps(value):
            return "is no tuple of (epoch, value) pairs that begins with epoch 0, such as ((0, 0.1), (10, 0.01))"
        starts = tuple(start for start, _ in value)
        if starts != self.starts:
            return f"changes at the epochs {starts}, and not at {self.starts}"
        for start, held in value:
            if fault := self.domain.why_not(held):
                return f"has {held!r} from epoch {start} on, which {fault}"
        return None

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "piecewise", "domain": self.domain.to_dict(), "starts": list(self.starts)}

    def __repr__(self) -> str:
        return f"piecewise({self.domain!r}, starts={self.starts})"


@final
@dataclass(frozen=True, repr=False)
class Upto(Listed):
    """A number of epochs, where a trial with more goes on from one with fewer; see ``upto``."""
