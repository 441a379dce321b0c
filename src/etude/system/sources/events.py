"""Events that the kernel counts for this process: those of the hardware, where there is any to count, and its own.

A counter counts for one thread, and for the threads and children that this one starts later. Those that run already
are not reached that way, so each thread of the process gets counters of its own. One that starts another while we are
on our way through the list is the only one that can be missed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from etude.system.sources.perf import ALONE, Counters, Event, Kernel
from etude.system.sources.source import Missing, Rung

Group = tuple[Event, ...]
"""Events that take turns together, so that one can be divided by another; few, since all need a place at once."""

OF_FILES: Final = 4
"""One in so many of the files that this process may open is for one kind of events at most: training needs others."""

NANO: Final = 1e-9

ROUND_NS: Final = 100_000_000
"""In so many nanoseconds every event has its turn; a stretch that is shorter may be without one."""


def _of_cache(name: str, cache: int, operation: int) -> Group:
    both = cache | operation << 8
    return Event(name, 3, both), Event(f"{name} misses", 3, both | 1 << 16)


HARDWARE: Final[tuple[Group, ...]] = (
    (Event("cycles", 0, 0), Event("instructions", 0, 1)),
    (Event("cache references", 0, 2), Event("cache misses", 0, 3)),
    (Event("branches", 0, 4), Event("branch misses", 0, 5)),
    _of_cache("last-level loads", 2, 0),
    _of_cache("first-level loads", 0, 0),
    _of_cache("address loads", 3, 0),
    (Event("stalled cycles, front end", 0, 7), Event("stalled cycles, back end", 0, 8)),
    _of_cache("last-level stores", 2, 1),
    _of_cache("first-level stores", 0, 1),
    _of_cache("address stores", 3, 1),
    _of_cache("node loads", 6, 0),
    _of_cache("instruction address loads", 4, 0),
    (Event("reference cycles", 0, 9), Event("bus cycles", 0, 6)),
)
"""From the most to the least telling: where files are short, the last ones are not opened."""

SOFTWARE: Final[tuple[Group, ...]] = (
    (Event("task clock s", 1, 1, unit=NANO),),
    (Event("page faults", 1, 2),),
    (Event("context switches", 1, 3, user_only=False),),
    (Event("migrations", 1, 4, user_only=False),),
    (Event("page faults from disk", 1, 6),),
)

WHY: Final = {
    errno.ENOENT: "this machine has none, as most virtual machines do",
    errno.EOPNOTSUPP: "this machine has none",
    errno.ENOSYS: "this system has no such call",
    errno.EACCES: "there is no permission. `sysctl kernel.perf_event_paranoid=2` or less gives it",
    errno.EPERM: "there is no permission. In a container, allow perf_event_open or give it CAP_PERFMON",
    errno.EMFILE: "this process may open too few files. A higher `ulimit -n` helps",
}


class Events:
    """Counts events of this process. ``hardware`` and ``software`` open one.

    Args:
        rung: Which rung of the ladder this is.
        counters: What reads them.
        opened: Descriptors of each event, one for each thread.
    """

    def __init__(self, rung: Rung, counters: Counters, opened: Mapping[Event, Sequence[int]]) -> None:
        self.name: str = rung.value
        self.rung = rung
        self._counters = counters
        self._opened = dict(opened)
        self._before = dict.fromkeys(self._opened, (0, 0, 0))
        self._totals = dict.fromkeys(self._opened, 0.0)

    def read(self) -> dict[str, float]:
        """Return how much was counted.

        Where events take turns, a count is scaled by the time enabled over the time running, for each stretch between
        two readings by itself. An event that had no turn in a stretch counts with the next one; where the stretch was
        long enough for a turn, the event is left out of the reading at its end.

        Source:
            Rocha et al. 2020, "PipeTune", section 5.3; there once for a whole run.
        """
        said = {}
        for event, descriptors in self._opened.items():
            counts = [self._counters.read(descriptor) for descriptor in descriptors]
            # Over all threads together, since a thread may be too short for a turn of its own.
            now = (sum(c.value for c in counts), sum(c.enabled for c in counts), sum(c.running for c in counts))
            value, enabled, running = (a - b for a, b in zip(now, self._before[event], strict=True))
            if running > 0:
                self._before[event] = now
                self._totals[event] += value * event.unit * enabled / running
            if running > 0 or enabled < ROUND_NS:
                said[event.name] = self._totals[event]
        return said

    def close(self) -> None:
        """Close all counters."""
        _close(self._counters, self._opened)
        self._opened.clear()


def hardware(root: str = "/proc", counters: Counters | None = None, files: int | None = None) -> Events | Missing:
    """Open what the processor counts, of all threads of this process.

    Args:
        root: Where /proc is.
        counters: The kernel's, if not given.
        files: How many files this process may open; read from its limits, if not given.
    """
    return _opened(Rung.HARDWARE, HARDWARE, root, counters or Kernel(), files)


def software(root: str = "/proc", counters: Counters | None = None, files: int | None = None) -> Events | Missing:
    """Open what the kernel counts of its own, likewise."""
    return _opened(Rung.SOFTWARE, SOFTWARE, root, counters or Kernel(), files)


def _opened(rung: Rung, groups: Sequence[Group], root: str, counters: Counters, files: int | None) -> Events | Missing:
    try:
        threads = sorted(int(entry.name) for entry in Path(root, "self", "task").iterdir())
    except OSError as error:
        return Missing(rung.value, f"{root}/self/task says {_code(error)}: this process cannot list its threads")
    most = (files or resource.getrlimit(resource.RLIMIT_NOFILE)[0]) // OF_FILES
    found: dict[Event, list[int]] = {}
    first: OSError | None = None
    for group in groups:
        if sum(map(len, found.values())) + len(group) * len(threads) > most:
            first = first or OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            break
        for event, opened in _group(group, threads, counters):
            if isinstance(opened, OSError):
                first = first or opened
            else:
                found[event] = opened
    if not found:
        assert first is not None
        why = WHY.get(first.errno or 0, os.strerror(first.errno or 0))
        return Missing(rung.value, f"perf_event_open says {_code(first)}: {why}")
    return Events(rung, counters, found)


def _group(group: Group, threads: Sequence[int], counters: Counters) -> Iterator[tuple[Event, list[int] | OSError]]:
    """Yield for each event its descriptors, one for each thread that still runs; or why it cannot be counted."""
    leaders = dict.fromkeys(threads, ALONE)
    for event in group:
        descriptors: dict[int, int] = {}
        try:
            for thread in threads:
                with contextlib.suppress(ProcessLookupError):  # it has ended since it was listed
                    descriptors[thread] = counters.open(event, thread, leaders[thread])
        except OSError as error:
            _close(counters, {event: list(descriptors.values())})
            yield event, error
            continue
        leaders = {
            thread: descriptors.get(thread, ALONE) if leader == ALONE else leader for thread, leader in leaders.items()
        }
        yield event, list(descriptors.values())


def _close(counters: Counters, opened: Mapping[Event, Sequence[int]]) -> None:
    for descriptors in opened.values():
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                counters.close(descriptor)


def _code(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))
