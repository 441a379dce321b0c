"""What may be wrong with what a study says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from etude.core.text import count


class Seriousness(StrEnum):
    """How bad it is."""

    SERIOUS = "serious"
    """What the study says may be wrong because of it."""
    MINOR = "minor"
    """To be kept in mind, and told with the results."""
    UNKNOWN = "unknown"
    """Whether there is anything cannot be told."""


@dataclass(frozen=True)
class Threat:
    """Something that may make a study say what is not so.

    Attributes:
        name: Which threat it is.
        finding: What was found, in a sentence or two.
        seriousness: How bad it is.
        mend: What can be done, in a sentence.
        numbers: What was measured, as plain data.
    """

    name: str
    finding: str
    seriousness: Seriousness
    mend: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name} ({self.seriousness.value}): {self.finding} {self.mend}"


class Threats(Sequence[Threat]):
    """What may be wrong with a study, the most serious first: print it.

    Args:
        found: What was found.
        clear: What was looked at with nothing found.
    """

    def __init__(self, found: Sequence[Threat], *, clear: Sequence[str] = ()) -> None:
        order = list(Seriousness)
        self._found = sorted(found, key=lambda one: order.index(one.seriousness))
        self.clear = tuple(clear)
        """What was looked at with nothing found."""

    @property
    def serious(self) -> list[Threat]:
        """Those that may make the study say what is not so."""
        return [one for one in self if one.seriousness is Seriousness.SERIOUS]

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, str):
            return next((one for one in self._found if one.name == which), None)
        return self._found[which]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Threat]:
        return iter(self._found)

    def lines(self) -> list[str]:
        """Return one line for each that is serious: what a summary says."""
        return [f"Threat: {one.name}: {one.finding} {one.mend}" for one in self.serious]

    def __str__(self) -> str:
        head = f"{count(len(self), 'threat')} to what this study says." if len(self) else "No threats were found."
        clear = [f"Nothing found of: {', '.join(self.clear)}."] if self.clear else []
        return "\n".join([head, *(f"  {one}" for one in self), *clear])

    def __repr__(self) -> str:
        return f"<{count(len(self), 'threat')}, {len(self.serious)} serious>"
