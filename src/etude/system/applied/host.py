"""Sets the knobs of the host for a training, whatever goes wrong: no training waits for that, or ends of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from etude.system.applied.clock import CPUS, Clock
from etude.system.applied.hold import LOCKS
from etude.system.applied.limits import Limits
from etude.system.applied.part import Part, Refused
from etude.system.applied.power import PowerLimit
from etude.system.groups import GROUPS, PROC
from etude.system.knobs import Setting, Value
from etude.system.machine import Machine

Open = Callable[[Sequence[str]], Part]
"""Given the knobs that are wanted of a part, opens it."""


@dataclass(frozen=True)
class Places:
    """Where a machine has its knobs.

    Attributes:
        cpus: The folder of the cores.
        proc: That of the processes.
        groups: That of the control groups.
        locks: Where what the whole machine shares is locked.
    """

    cpus: Path = CPUS
    proc: Path = PROC
    groups: Path = GROUPS
    locks: Path = LOCKS


def host_knobs(
    names: Iterable[str],
    *,
    machine: Machine,
    say: Callable[[str], None],
    places: Places | None = None,
    library: Any = None,
) -> HostKnobs:
    """Return what sets the knobs of this host for this process and its descendants. It never raises.

    Args:
        names: The knobs that are in use; those that are not the host's are passed over.
        machine: What there is, as ``read_machine`` returns it.
        say: Is told what could not be set, in sentences.
        places: Where the knobs are.
        library: What stands for NVIDIA's.
    """
    at = places or Places()
    parts: dict[tuple[str, ...], Open] = {
        ("cpu_governor", "cpu_frequency"): lambda _: Clock(at.cpus, at.locks),
        ("gpu_power_limit",): lambda _: PowerLimit(machine.gpus, at.locks, library=library),
        ("memory_limit", "cpu_share"): lambda wanted: Limits(
            wanted, cores=machine.cores, proc=at.proc, groups=at.groups
        ),
    }
    return HostKnobs(parts, names, say=say)


@final
class HostKnobs:
    """Knobs of the host that are in use. ``host_knobs`` opens those of this machine.

    Args:
        parts: Knobs -> what opens the part that sets them.
        names: The knobs that are wanted; what no part has is none of the host's, and passed over.
        say: Is told once of each knob that cannot be set any more, and of what was mended.
    """

    def __init__(
        self, parts: Mapping[tuple[str, ...], Open], names: Iterable[str], *, say: Callable[[str], None]
    ) -> None:
        self._say, self._process = say, os.getpid()
        self._parts: list[Part] = []
        self._part_of: dict[str, Part] = {}
        self._now: dict[str, Value] = {}
        self._set: dict[str, Value] = {}
        self._lacks: dict[str, str] = {}
        named = set(names)
        for known, open_part in parts.items():
            if wanted := [name for name in known if name in named]:
                self._open(open_part, wanted)

    @property
    def now(self) -> dict[str, Value]:
        """The knobs that can be set, and the values that were found."""
        return dict(self._now)

    @property
    def lacks(self) -> dict[str, str]:
        """Those that were wanted and cannot be set, and why."""
        return dict(self._lacks)

    def apply(self, setting: Setting) -> None:
        """Set the knobs of the host that a setting names, and bring the others back to what was found.

        What cannot be set goes back to what was found, and is left alone from then on.
        """
        for name in list(self._now):
            value = setting.get(name, self._now[name])
            before = self._set.get(name, self._now[name])
            if value == before and type(value) is type(before):
                continue
            try:
                self._part_of[name].put(name, value)
                self._set[name] = value
            except Exception as error:  # whatever it is, training goes on
                self._give_up(name, f"{name}={value} cannot be set: {_told(error)}")

    def close(self) -> None:
        """Bring all back to what was found. More than once does no harm, nor does it in a process that was forked."""
        if os.getpid() != self._process:
            return
        parts, self._parts = self._parts, []
        self._now.clear()
        for part in parts:
            try:
                part.close()
            except Exception as error:
                self._say(f"The host was not left as it was found: {_told(error)} `etude system restore` may help.")

    def _open(self, open_part: Open, wanted: Sequence[str]) -> None:
        try:
            part = open_part(wanted)
        except Exception as error:
            for name in wanted:
                self._lacks[name] = _told(error)
                self._say(f"{name} cannot be set: {_told(error)}")
            return
        self._parts.append(part)
        if part.mended:
            self._say(part.mended)
        found = part.now
        for name in wanted:
            if name in found:
                self._part_of[name], self._now[name] = part, found[name]
            else:
                self._lacks[name] = why = "the machine does not show it."
                self._say(f"{name} cannot be set: {why}")

    def _give_up(self, name: str, why: str) -> None:
        found = self._now.pop(name)
        self._lacks[name] = why
        try:
            self._part_of[name].put(name, found)
        except Exception as error:
            self._say(f"{why} It cannot be brought back either: {_told(error)} That is tried again at the end.")
        else:
            self._say(f"{why} It is left as it was found.")


def _told(error: Exception) -> str:
    said = str(error) if isinstance(error, Refused | OSError) else f"{type(error).__name__}: {error}"
    return said if said.endswith(".") else f"{said}."
