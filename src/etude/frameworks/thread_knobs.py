"""Threads and cores of the process that trains, changed while it does; for any framework, and for none.

Two threads on one core wait for each other by spinning, and are four times slower than one thread. So cores are never
taken away alone: all threads of the process are moved together, and no more of them compute than there are cores.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

Value = bool | int | float | str | None

NAMES: Final = ("threads", "cores")
TASKS: Final = "/proc/self/task"
THEIR_OWN: Final = "the training function sets how many threads compute. Leave that out of it, or out of the knobs."
NO_POOLS: Final = (
    "nothing is loaded whose threads could be set. Compute with torch, or with numpy where threadpoolctl is installed."
)
POOLS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ThreadKnobs:
    """Sets how many threads compute, and on how many cores.

    No setting gives the process more than its share, or than it had when this was made. Where the training function
    asks for fewer threads before the first setting, that is what it has by default. Where it sets threads itself after
    that, it has its way, and they are left alone from then on.

    Args:
        say: Called with a line where something goes wrong.
        share: How many threads it may compute with; 0 for as many as it has now.

    Attributes:
        lacks: Knob -> why it cannot be set, and the mend.
    """

    def __init__(self, *, say: Callable[[str], None], share: int = 0) -> None:
        self._say = say
        self._cpus = allowed_cpus()
        self._masks: dict[int, set[int]] = {}  # of threads that were moved
        self._limits: Any = None
        self._set: tuple[int, int] | None = None
        self._share = (threads_now(len(self._cpus)), len(self._cpus))
        self._most = (max(share, self._share[0]), self._share[1])
        self.lacks: dict[str, str] = {}
        if not self._cpus:
            self.lacks["cores"] = "this system does not say on which cores a process may run; Linux does."

    @property
    def now(self) -> dict[str, Value]:
        """Knob -> its value as the process had it."""
        self._look()
        return {name: own for name, own in zip(NAMES, self._share, strict=True) if name not in self.lacks}

    def apply(self, setting: Mapping[str, Value]) -> None:
        """Set them; what the setting does not name is as it was when this was made.

        Args:
            setting: Knob -> value; other knobs are left alone.
        """
        self._look()
        threads, cores = (
            min(int(setting.get(name) or own), max(own, most)) if name not in self.lacks else own
            for name, own, most in zip(NAMES, self._share, self._most, strict=True)
        )
        wanted = (min(threads, cores) if cores else threads, cores)
        if wanted == (self._set or self._share):
            return
        try:
            self._move(*wanted)
        except Exception as error:  # the training goes on with what it had
            with contextlib.suppress(Exception):
                self._move(*self._share)
            named = [name for name in NAMES if name in setting]
            for name in named:
                self.lacks.setdefault(name, f"it could not be set: {error}. Leave it out of the knobs.")
            self._say(f"{' and '.join(named) or 'threads'} could not be set, and stay as they were: {error}")

    def close(self) -> None:
        """Put everything back."""
        with contextlib.suppress(Exception):
            if self._set is not None:
                self._move(*self._share)

    def _look(self) -> None:
        """Take in how many threads compute, if somebody else has changed that."""
        if not can_set_threads():
            self.lacks.setdefault("threads", NO_POOLS)
            return
        if self.lacks.get("threads") == NO_POOLS:  # what was not loaded before is now
            del self.lacks["threads"]
        threads, cores = threads_now(len(self._cpus)), self._share[1]
        if self._set is None:
            self._share = threads, cores
        elif threads != self._set[0]:
            with contextlib.suppress(Exception):
                self._pin(cores)
            self._share, self._set = (threads, cores), None
            self.lacks |= dict.fromkeys(NAMES, THEIR_OWN)
            self._say(f"threads and cores are left alone from now on: {THEIR_OWN}")

    def _move(self, threads: int, cores: int) -> None:
        before = (self._set or self._share)[1]
        if cores >= before:
            self._pin(cores)
        self._compute_with(threads)
        if cores < before:
            self._pin(cores)
        self._set = (threads, cores)

    def _compute_with(self, threads: int) -> None:
        if self._limits is not None:
            self._limits.restore_original_limits()
            self._limits = None
        if threads != self._share[0] and (pools := sys.modules.get("threadpoolctl")) is not None:
            self._limits = pools.threadpool_limits(threads)
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(threads)

    def _pin(self, cores: int) -> None:
        if not self._cpus or cores == (self._set or self._share)[1]:
            return
        chosen = self._cpus if cores == len(self._cpus) else set(least_taken(self._cpus)[:cores])
        for task in map(int, os.listdir(TASKS)):
            with contextlib.suppress(ProcessLookupError):
                self._masks.setdefault(task, self._cpus)
                os.sched_setaffinity(task, self._masks[task] if chosen == self._cpus else chosen)


def allowed_cpus() -> set[int]:
    """Return the numbers of the cores on which this process may run; none where the system does not tell."""
    if not hasattr(os, "sched_setaffinity") or not os.path.isdir(TASKS):
        return set()
    return os.sched_getaffinity(0)


def threads_now(cores: int) -> int:
    """Return how many threads compute: torch's, or else those of the pools that are loaded.

    Args:
        cores: How many the process may use, for the case that nobody knows.
    """
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    if pools := sys.modules.get("threadpoolctl"):
        found = [int(pool["num_threads"]) for pool in pools.threadpool_info()]
        if found:
            return max(found)
    named = [os.environ.get(name, "") for name in POOLS]
    return next((int(n) for n in named if n.isdecimal() and int(n)), 0) or cores or os.cpu_count() or 1


def can_set_threads() -> bool:
    """Say whether something is loaded that computes in threads, and can be told in how many."""
    if "torch" in sys.modules:
        return True
    if "numpy" in sys.modules:
        with contextlib.suppress(ImportError):
            import threadpoolctl

            return bool(threadpoolctl.threadpool_info())
    return False


def least_taken(cpus: set[int]) -> list[int]:
    """Return cores, those first to which the fewest other processes are bound: several trials take different ones."""
    taken: Counter[int] = Counter()
    own = os.getpid()
    for place in Path("/proc").iterdir():
        if place.name.isdecimal() and int(place.name) != own:
            with contextlib.suppress(OSError):
                mask = os.sched_getaffinity(int(place.name))
                if len(mask) < len(cpus):
                    taken.update(mask)
    order = sorted(cpus)
    order = order[own % len(order) :] + order[: own % len(order)]
    return sorted(order, key=lambda cpu: taken[cpu])
