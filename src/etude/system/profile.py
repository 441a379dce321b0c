"""What an epoch takes of its machine, in rates, so that epochs of other lengths and other trainings compare.

A profile knows no names of models and no data: it is kept, and it may be given to others.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from etude.core.clock import Clock, WallClock
from etude.system.sources.counted import STEPS
from etude.system.sources.events import hardware, software
from etude.system.sources.gpu import gpus
from etude.system.sources.proc import proc
from etude.system.sources.source import LADDER, Missing, Rung, Source

SHARE: Final = 0.01
"""Of an epoch's seconds, what reading all sources at both of its ends may take."""


@dataclass(frozen=True)
class Profile:
    """What one epoch took.

    Attributes:
        rates: Per second, by the name of what was counted: ``user s`` is then the number of busy cores, and
            ``resident GB`` the mean memory. What could not be told is left out.
        rung: How closely the kernel let us look: the value of a ``Rung``. On another rung other things can be told.
        seconds: How long the epoch took.
    """

    rates: Mapping[str, float]
    rung: str
    seconds: float

    def per_step(self) -> dict[str, float]:
        """Return the rates per training step; none, if no steps were counted.

        Example:
            >>> Profile({"steps": 4.0, "user s": 2.0}, "/proc", 10.0).per_step()
            {'user s': 0.5}
        """
        steps = self.rates.get(STEPS, 0.0)
        return {name: rate / steps for name, rate in self.rates.items() if name != STEPS} if steps > 0 else {}


@dataclass
class _Reader:
    """A source, and what reading it costs at the least."""

    source: Source
    takes_s: float = math.inf
    begun: Mapping[str, float] = field(default_factory=dict)


class Profiler:
    """Makes profiles of epochs. It never raises, and what it cannot read is left out.

    Args:
        sources: What to read; closed by the profiler.
        missing: Sources that could not be had.
        clock: Gives the time.

    Example:
        >>> from etude.core.clock import VirtualClock
        >>> from etude.system.sources.counted import Counted
        >>> clock, counted = VirtualClock(), Counted("copied GB")
        >>> profiler = Profiler([counted], clock=clock)
        >>> profiler.begin()
        >>> counted.add("copied GB", 6)
        >>> clock.advance(2)
        >>> profiler.end()
        Profile(rates={'copied GB': 3.0}, rung="nothing of the kernel's", seconds=2.0)
    """

    def __init__(
        self, sources: Sequence[Source], *, missing: Sequence[Missing] = (), clock: Clock | None = None
    ) -> None:
        self._clock = clock or WallClock()
        self._readers = [_Reader(source) for source in sources]
        self._missing = list(missing)
        self._began_s: float | None = None

    @property
    def rung(self) -> Rung:
        """The highest rung of the ladder on which something is read."""
        return min((reader.source.rung for reader in self._readers), key=LADDER.index, default=Rung.NONE)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """What is not read, and why; what was given up on the way comes last."""
        return tuple(self._missing)

    def told(self) -> str:
        """Return on which rung of the ladder we stand, and why not on a higher one."""
        return "; ".join([f"profiles from {self.rung}", *map(str, self._missing)])

    def begin(self) -> None:
        """Note that an epoch begins; one that has begun and not ended is forgotten."""
        for reader in list(self._readers):
            reader.begun = self._read(reader)
        self._began_s = self._clock.now_s()

    def end(self) -> Profile | None:
        """Return what the epoch took that began last; None if none has begun, or no time went by."""
        if self._began_s is None:
            return None
        seconds, self._began_s = self._clock.now_s() - self._began_s, None
        if seconds <= 0:
            return None
        rates: dict[str, float] = {}
        for reader in list(self._readers):
            ended = self._read(reader)
            rates |= _rates(reader.begun, ended, seconds)
        profile = Profile(rates, self.rung.value, seconds)
        self._save(seconds)
        return profile

    def close(self) -> None:
        """Close all sources. More than once does no harm."""
        for reader in self._readers:
            _close(reader.source)
        self._readers.clear()

    def _read(self, reader: _Reader) -> Mapping[str, float]:
        """Return the totals of a source; of one that fails none, and it is asked no more."""
        began_s = self._clock.now_s()
        try:
            totals = dict(reader.source.read())
        except Exception as error:  # whatever it is, training goes on
            self._give_up(reader, f"it failed with {type(error).__name__}: {error}")
            return {}
        # The least of all readings: another one may have been interrupted.
        reader.takes_s = min(reader.takes_s, self._clock.now_s() - began_s)
        return totals

    def _save(self, seconds: float) -> None:
        """Give up the dearest sources, until the others take no more of such an epoch than they may."""
        while 2 * sum(reader.takes_s for reader in self._readers) > SHARE * seconds:
            dearest = max(self._readers, key=lambda reader: reader.takes_s)
            why = f"reading it takes {1000 * dearest.takes_s:.3g} ms, too much for epochs of {seconds:.3g} s"
            self._give_up(dearest, why)

    def _give_up(self, reader: _Reader, why: str) -> None:
        self._readers.remove(reader)
        self._missing.append(Missing(reader.source.name, why))
        _close(reader.source)


def profiler(
    *own: Source | Missing, root: str = "/proc", gpu_ids: Sequence[str] | None = None, clock: Clock | None = None
) -> Profiler:
    """Return a profiler of this process with all sources that can be had here for less than a millisecond a reading.

    Args:
        own: Sources besides, such as a ``Counted``, or ``memory()``, which takes longer.
        root: Where /proc is.
        gpu_ids: Indices or UUIDs of the GPUs that this process uses; all of the machine, if not given.
        clock: Gives the time.
    """
    clock = clock or WallClock()
    found = [hardware(root), software(root), proc(root, clock), gpus(gpu_ids, clock=clock), *own]
    return Profiler(
        [one for one in found if not isinstance(one, Missing)],
        missing=[one for one in found if isinstance(one, Missing)],
        clock=clock,
    )


def _rates(begun: Mapping[str, float], ended: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return growth per second of what both readings have; a total that fell, or was never a number, says nothing."""
    grown = {name: ended[name] - begun.get(name, math.nan) for name in ended}
    return {name: more / seconds for name, more in grown.items() if more >= 0 and math.isfinite(more)}


def _close(source: Source) -> None:
    with contextlib.suppress(Exception):
        source.close()
