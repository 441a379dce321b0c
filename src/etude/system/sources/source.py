"""What all sources of a profile have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Rung(StrEnum):
    """How closely the kernel lets us look at this process, from the closest to not at all."""

    HARDWARE = "hardware counters"
    SOFTWARE = "software events"
    PROC = "/proc"
    NONE = "nothing of the kernel's"


LADDER = tuple(Rung)


class Source(Protocol):
    """Counts what a training takes of its machine.

    Attributes:
        name: What it is called in messages; the name of no model and of no data.
        rung: The rung that a profile stands on with it. What does not come from the kernel has ``Rung.NONE``.
    """

    name: str
    rung: Rung

    def read(self) -> Mapping[str, float]:
        """Return totals since any moment, by name; they grow. One that cannot be told this time is left out.

        What is a level, such as memory, is given as its integral over seconds: its rate is then its mean.

        May raise anything: the source is then left out, and the training goes on.
        """
        ...

    def close(self) -> None:
        """Give back what was opened. More than once does no harm."""
        ...


@dataclass(frozen=True)
class Missing:
    """A source that cannot be had here.

    Attributes:
        name: What it would be called.
        why: Why it cannot be had; and what would enable it, where anything would.
    """

    name: str
    why: str

    def __str__(self) -> str:
        return f"no {self.name}: {self.why}"
