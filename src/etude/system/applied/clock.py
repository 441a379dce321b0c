"""The clock of the cores, through the folders of cpufreq. It is that of the whole machine, whoever uses it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, final

from etude.system.applied.hold import Found, Hold
from etude.system.applied.part import Refused
from etude.system.groups import text
from etude.system.knobs import Value

CPUS: Final = Path("/sys/devices/system/cpu")
LOCK: Final = "etude-clock"
FILES: Final = {"cpu_governor": "scaling_governor", "cpu_frequency": "scaling_max_freq"}
"""Knob -> its file of a core. The frequency is the highest that a core may take, in kHz."""
KHZ_IN_MHZ: Final = 1000
PLAIN: Final = re.compile(r"cpu\d+/(scaling_governor|scaling_max_freq)=[\w.-]+")

Write = Callable[[Path, str], object]


@final
class Clock:
    """Governor and highest frequency of all cores.

    Args:
        cpus: The folder of the cores.
        locks: Where it is locked, so that one study at a time sets it.
        write: Writes a text into a file.

    Attributes:
        mended: See ``Hold``.

    Raises:
        Refused: Another study holds it, or there is no such clock.
    """

    def __init__(self, cpus: Path, locks: Path, *, write: Write = Path.write_text) -> None:
        self._cpus, self._write = cpus, write
        if not _found(cpus):
            raise Refused("the kernel does not show the clock of the cores (cpufreq).")
        self._hold = Hold.take(locks / LOCK, put_back=lambda found: put_back(found, cpus, write=write))
        self.mended = self._hold.mended
        self._found = _found(cpus)
        self._hold.remember(self._found)
        self._is_changed = False

    @property
    def now(self) -> Mapping[str, Value]:
        """The values of the first core, as they were found."""
        said: dict[str, Value] = {}
        for name, file in FILES.items():
            first = next((told for place, told in self._found.items() if place.endswith(file)), None)
            if first is not None:
                said[name] = int(first) // KHZ_IN_MHZ if name == "cpu_frequency" else first
        return said

    def put(self, name: str, value: Value) -> None:
        """Set it for all cores; if one refuses, for none."""
        if value == self.now[name]:  # cores may differ, and get back what each of them had
            wanted = {place: told for place, told in self._found.items() if place.endswith(FILES[name])}
        else:
            told = str(round(float(value or 0) * KHZ_IN_MHZ)) if name == "cpu_frequency" else str(value)
            wanted = {place: told for place in self._found if place.endswith(FILES[name])}
        done: dict[str, str] = {}
        self._is_changed = True
        try:
            for place, told in wanted.items():
                done[place] = text(_file(self._cpus, place))
                self._write(_file(self._cpus, place), told)
        except OSError:
            for place, before in done.items():
                with contextlib.suppress(OSError):
                    self._write(_file(self._cpus, place), before)
            raise

    def close(self) -> None:
        """Bring back what was found, and let others set it."""
        try:
            if self._is_changed:
                put_back(self._found, self._cpus, write=self._write)
        except OSError:
            self._hold.abandon()
            raise
        self._hold.release()


def put_back(found: Found, cpus: Path = CPUS, *, write: Write = Path.write_text) -> None:
    """Give each core what it had, all of them even if one refuses.

    Raises:
        OSError: One refused.
    """
    wrong = None
    for place, told in found.items():
        if not PLAIN.fullmatch(f"{place}={told}"):  # who wrote that has no say on files elsewhere
            continue
        try:
            write(_file(cpus, place), told)
        except OSError as error:
            wrong = error
    if wrong is not None:
        raise wrong


def _found(cpus: Path) -> dict[str, str]:
    cores = sorted(int(folder.name[3:]) for folder in cpus.glob("cpu*") if folder.name[3:].isdigit())
    places = [f"cpu{core}/{file}" for core in cores for file in FILES.values()]
    return {place: told for place in places if (told := text(_file(cpus, place)))}


def _file(cpus: Path, place: str) -> Path:
    core, _, file = place.partition("/")
    return cpus / core / "cpufreq" / file
