"""What came of a trial: loose while it may still change, packed into some bytes once it is in a final state.

A study may hold a hundred thousand trials that have ended. There each number that is an object of its own takes 24
bytes and not 8, and each object around them 16 to 80 more. What a training function returned beside the metrics, an
error, its traceback are the user's data: an outcome that has any of it is kept as it is.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, Final

import msgspec

from etude.core.events import How, Outcome, Usage

NOTHING: Final[dict[str, Any]] = {}
"""Shared by all that have nothing to say; never changed."""

_LAYOUT: Final = struct.Struct("<BB8d")
"""Which numbers are None, how it ended, queued_at, started_at, ended_at, value, and the four of its usage. What comes
behind are its reports."""
_NUMBER: Final = struct.Struct("<d")
_HOWS: Final = (None, *How)
_QUEUED, _STARTED, _ENDED, _VALUE, _GPU = 0, 1, 2, 3, 7
"""Where the numbers stand that are asked for alone, or may be None."""


class Packed(bytes):
    """What ``Loose`` says, where nothing will change any more."""

    __slots__ = ()

    @property
    def curve(self) -> array[float]:
        """The watched metric at steps 1, 2, ..., made anew."""
        curve = array("d")
        curve.frombytes(self[_LAYOUT.size :])
        return curve

    @property
    def reports(self) -> int:
        """How long the curve is."""
        return (len(self) - _LAYOUT.size) // _NUMBER.size

    def _number(self, index: int) -> float | None:
        if self[0] >> index & 1:
            return None
        found: float = _NUMBER.unpack_from(self, 2 + _NUMBER.size * index)[0]
        return found

    @property
    def queued_at(self) -> float:
        """Seconds of the driver's clock."""
        return self._number(_QUEUED) or 0.0

    @property
    def started_at(self) -> float | None:
        """Seconds of the driver's clock."""
        return self._number(_STARTED)

    @property
    def ended_at(self) -> float | None:
        """Seconds of the driver's clock."""
        return self._number(_ENDED)

    @property
    def value(self) -> float | None:
        """The outcome's value, without the rest of it."""
        return self._number(_VALUE)

    @property
    def outcome(self) -> Outcome | None:
        """What the last ended attempt left behind, made anew."""
        how = _HOWS[self[1]]
        if how is None:
            return None
        wall, cpu, memory, _ = _LAYOUT.unpack_from(self)[2 + 4 :]
        usage = Usage(wall, cpu, memory, self._number(_GPU))
        return Outcome(how, self.value, extra=NOTHING, derived=NOTHING, data=NOTHING, usage=usage)


class Loose:
    """What has come of a trial so far.

    Attributes:
        curve: The watched metric at steps 1, 2, ... of the newest attempt.
        queued_at, started_at, ended_at: Seconds of the driver's clock; None until it happened.
        outcome: What its last ended attempt left behind.
    """

    __slots__ = ("curve", "ended_at", "outcome", "queued_at", "started_at")

    def __init__(self, queued_at: float) -> None:
        self.curve = array("d")
        self.queued_at = queued_at
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.outcome: Outcome | None = None

    @property
    def reports(self) -> int:
        """How long the curve is."""
        return len(self.curve)

    @property
    def value(self) -> float | None:
        """The outcome's value."""
        return self.outcome.value if self.outcome is not None else None

    def packed(self) -> Packed | Loose:
        """Return the same in little room, if there is nothing in it but numbers."""
        outcome = self.outcome
        usage, how = Usage(), None
        if outcome is not None:
            usage, how = outcome.usage, outcome.how
            told = outcome.reason or outcome.traceback or outcome.raised_in
            if told or outcome.extra or outcome.derived or outcome.data:
                self.curve = self.curve[:]  # without room for more
                return self
        numbers: list[float | None] = [self.queued_at, self.started_at, self.ended_at, self.value]
        numbers += [usage.wall_s, usage.cpu_s, usage.memory_mb, usage.gpu_memory_mb]
        missing = sum(1 << index for index, number in enumerate(numbers) if number is None)
        filled = [0.0 if number is None else number for number in numbers]
        return Packed(_LAYOUT.pack(missing, _HOWS.index(how), *filled) + self.curve.tobytes())


def slim(outcome: Outcome) -> Outcome:
    """Return an outcome that shares what is empty with all others."""
    if outcome.extra or outcome.derived or outcome.data:
        return outcome
    return msgspec.structs.replace(outcome, extra=NOTHING, derived=NOTHING, data=NOTHING)
