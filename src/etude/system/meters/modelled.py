"""Energy where nothing measures it: a model, and said to be one."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from etude.core.numbers import amount
from etude.system.energy import Energy, Label
from etude.system.meters.meter import NOT_BEGUN

WATTS: Final = 15.0
"""What a busy core is taken to take, with its share of the rest, where nobody says better."""
TIMES: Final = slice(11, 15)
"""Where a process has its times behind its name: its own in user and system mode, and those of children that ended."""


@final
class Modelled:
    """CPU seconds of this process, and of those that it started, times the watts of a core.

    Nothing else is in it: no GPU, no disk, no idle machine. It may be off by 40 % and more.

    Args:
        watts: What a busy core takes. What the processor's data sheet says, over its cores, is a better guess.
        cpu_s: What tells the CPU seconds; None to ask the kernel.

    Raises:
        ConfigError: ``watts`` is no number above 0.
    """

    label: Final = Label.MODELLED

    def __init__(self, watts: float = WATTS, *, cpu_s: Callable[[], float] | None = None) -> None:
        self._watts = amount("watts", watts, above=True)
        self._cpu_s = cpu_seconds if cpu_s is None else cpu_s
        self._before_s: float | None = None

    @property
    def source(self) -> str:
        """What it reads, and by what it multiplies."""
        return f"CPU seconds x {self._watts:g} W"

    def lacks(self) -> str:
        """Return nothing: there are always CPU seconds."""
        return ""

    def begin(self) -> None:
        """Begin a stretch."""
        self._before_s = self._cpu_s()

    def end(self) -> Energy:
        """End the stretch, and return what it took."""
        before_s, self._before_s = self._before_s, None
        if before_s is None:
            return Energy.unavailable(NOT_BEGUN)
        took_s = self._cpu_s() - before_s
        if took_s <= 0:
            return Energy.unavailable(f"{self.source}, where no CPU seconds were counted")
        return Energy.modelled(took_s * self._watts, self.source)


def cpu_seconds(proc: str | Path = "/proc") -> float:
    """Return the CPU seconds of this process and of all below it, those included that ended and were waited for."""
    seconds = 0.0
    asked = [os.getpid()]
    while asked:
        folder = Path(proc, str(asked.pop()))
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks = list(map(int, after_name[TIMES]))
            seconds += sum(ticks) / os.sysconf("SC_CLK_TCK")
            if folder == Path("/proc", str(os.getpid())):  # of itself a process is told more than whole ticks of 10 ms
                used = resource.getrusage(resource.RUSAGE_SELF)
                seconds += used.ru_utime + used.ru_stime - sum(ticks[:2]) / os.sysconf("SC_CLK_TCK")
            for children in folder.glob("task/*/children"):
                asked.extend(map(int, children.read_text().split()))
        except (OSError, ValueError):  # it has ended, or there is no such folder on this system
            continue
    return seconds or sum(os.times()[:4])
