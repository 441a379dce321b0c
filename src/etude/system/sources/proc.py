"""What /proc says of this process, of its living children, and of the machine around them.

What children took that have ended and were waited for is in the parent's own numbers, so that nothing is lost when the
workers of a data loader come and go with an epoch.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, TypeVar

from etude.core.clock import Clock, WallClock
from etude.system.sources.levels import Levels
from etude.system.sources.source import Missing, Rung

TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
ENOUGH: Final = 2**14
"""Bytes; more than any file has of what we look for."""

PAGE_GB: Final = os.sysconf("SC_PAGE_SIZE") / 2**30
KB_IN_GB: Final = 1 / 2**20

FIELDS: Final = {
    "minor faults": ((7, 8), 1.0),
    "major faults": ((9, 10), 1.0),
    "user s": ((11, 13), TICK_S),
    "system s": ((12, 14), TICK_S),
    "disk wait s": ((39,), TICK_S),
}
"""Total -> its fields of ``stat`` after the name, those of ended children among them; and their unit."""

THREADS: Final = 17
RESIDENT: Final = 21

IO: Final = {
    "rchar": "read bytes",
    "wchar": "written bytes",
    "syscr": "read calls",
    "syscw": "write calls",
    "read_bytes": "bytes from disk",
    "write_bytes": "bytes to disk",
}

MACHINE: Final = {
    "machine user s": (0, 1),
    "machine system s": (2, 5, 6),
    "machine idle s": (3, 4),
    "machine stolen s": (7,),
}
"""Total -> its fields in the first line of ``/proc/stat``."""

SCHEDULED: Final = (("on core s", 1e-9), ("wait for core s", 1e-9), ("times on core", 1.0))
"""The fields of ``schedstat``, and their units."""

PRESSURES: Final = ("cpu", "io", "memory")

MEMORY: Final = {"Pss": "own memory GB", "Anonymous": "anonymous memory GB", "AnonHugePages": "huge pages GB"}


class Proc:
    """Counts what the processes of a training take. ``proc`` opens one.

    Args:
        root: Where /proc is.
        clock: Gives the time.
    """

    name = "/proc"
    rung = Rung.PROC

    def __init__(self, root: str, clock: Clock) -> None:
        self._root = root
        self._levels = Levels(clock)
        self._threads: dict[str, tuple[float, ...]] = {}
        self._ended = [0.0] * len(SCHEDULED)

    def read(self) -> dict[str, float]:
        """Return what has been taken; what this kernel does not tell is left out."""
        threads = os.listdir(f"{self._root}/self/task")
        totals: dict[str, float] = defaultdict(float)
        levels: dict[str, float] = defaultdict(float)
        for process in ("self", *self._children(threads)):
            with contextlib.suppress(OSError):  # a child may end while we look at it
                _add_stat(_text(f"{self._root}/{process}/stat"), totals, levels)
            with contextlib.suppress(OSError):
                _add_io(_text(f"{self._root}/{process}/io"), totals)
        return {**totals, **self._levels.seen(levels), **self._scheduled(threads), **self._around()}

    def _children(self, threads: list[str]) -> list[str]:
        found = []
        for thread in threads:
            with contextlib.suppress(OSError):  # a kernel without this file, or a thread that has ended
                found += _text(f"{self._root}/self/task/{thread}/children").split()
        return found

    def _scheduled(self, threads: list[str]) -> dict[str, float]:
        """Return what the scheduler says of all threads of this process, those that have ended among them."""
        now = {}
        for thread in threads:
            with contextlib.suppress(OSError):
                said = _text(f"{self._root}/self/task/{thread}/schedstat").split()
                now[thread] = tuple(map(float, said))
        for thread, before in self._threads.items():
            if now.get(thread, (-1.0,)) < before:  # it has ended, also where another one has its number now
                self._ended = [a + b for a, b in zip(self._ended, before, strict=True)]
        self._threads = now
        if not now:
            return {}
        sums = map(sum, zip(self._ended, *now.values(), strict=True))
        return {name: total * unit for (name, unit), total in zip(SCHEDULED, sums, strict=True)}

    def _around(self) -> dict[str, float]:
        """Return what the machine does, whoever it does it for."""
        said = {}
        with contextlib.suppress(OSError):
            fields = _text(f"{self._root}/stat").partition("\n")[0].split()[1:]
            said = {name: sum(int(fields[place]) for place in places) * TICK_S for name, places in MACHINE.items()}
        for kind in PRESSURES:
            with contextlib.suppress(OSError):  # a kernel that does not keep it
                some = _text(f"{self._root}/pressure/{kind}").partition("\n")[0]
                said[f"{kind} pressure s"] = int(some.rpartition("=")[2]) * 1e-6
        return said

    def close(self) -> None:
        """Do nothing: nothing stays open."""


class Memory:
    """Tells what kinds of memory this process has. ``memory`` opens one.

    The kernel walks through all of it, which takes milliseconds where there is much: so it is a source by itself.

    Args:
        root: Where /proc is.
        clock: Gives the time.
    """

    name = "kinds of memory"
    rung = Rung.PROC

    def __init__(self, root: str, clock: Clock) -> None:
        self._root = root
        self._levels = Levels(clock)

    def read(self) -> dict[str, float]:
        """Return GB times seconds; what is shared with others counts in part."""
        said = _pairs(_text(f"{self._root}/self/smaps_rollup"))
        return self._levels.seen(
            {name: int(said[key].split()[0]) * KB_IN_GB for key, name in MEMORY.items() if key in said}
        )

    def close(self) -> None:
        """Do nothing: nothing stays open."""


def proc(root: str = "/proc", clock: Clock | None = None) -> Proc | Missing:
    """Open /proc, or say why it cannot be."""
    return _tried(Proc(root, clock or WallClock()), f"{root}/self/task")


def memory(root: str = "/proc", clock: Clock | None = None) -> Memory | Missing:
    """Open what tells kinds of memory apart, or say why it cannot be."""
    return _tried(Memory(root, clock or WallClock()), f"{root}/self/smaps_rollup")


S = TypeVar("S", Proc, Memory)


def _tried(source: S, file: str) -> S | Missing:
    try:
        source.read()
    except OSError as error:
        return Missing(source.name, f"{file} says {error.strerror}")
    except (ValueError, LookupError) as error:  # another kernel's
        return Missing(
            source.name, f"{os.path.dirname(file)} says something else than Linux: {type(error).__name__}: {error}"
        )
    return source


def _add_stat(text: str, totals: dict[str, float], levels: dict[str, float]) -> None:
    fields = text.rpartition(")")[2].split()  # the name may have spaces and brackets
    for name, (places, unit) in FIELDS.items():
        totals[name] += sum(int(fields[place]) for place in places) * unit
    levels["threads"] += int(fields[THREADS])
    levels["resident GB"] += int(fields[RESIDENT]) * PAGE_GB


def _add_io(text: str, totals: dict[str, float]) -> None:
    said = _pairs(text)
    for key, name in IO.items():
        totals[name] += int(said[key])


def _text(file: str) -> str:
    """Return what a file of /proc says now, as far as it is of use, without all that ``open`` does besides."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, ENOUGH).decode(errors="replace")
    finally:
        os.close(descriptor)


def _pairs(text: str) -> Mapping[str, str]:
    """Return the lines ``key: value`` of a text."""
    return {key: value.strip() for key, mark, value in (line.partition(":") for line in text.splitlines()) if mark}
