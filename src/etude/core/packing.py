"""Which trials may run beside each other.

Most may: a worker takes what comes. A trial that ran out of memory may have to run alone on its machine, and where
the memory that trials need is predicted, a machine and each of its GPUs are given no more of them than fit. A trial
that waits for room keeps what it waits for from anything later in the queue, so its turn comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from typing import Final, NamedTuple

from etude.core.history import History, Trial, Worker
from etude.core.memories import Memory, Site


class Needed(NamedTuple):
    """The memory that a trial needs, in MB: of its machine, and of a GPU. None where nothing can be said yet."""

    main_mb: float | None
    gpu_mb: float | None = 0.0


Need = Callable[[Trial], Needed]
"""Predicts what a trial needs. Where that cannot be said, it runs alone."""

ROOM: Final = 0.9
"""Share of a memory that is for trials."""

CONTEXT_MB: Final = 500.0
"""What a process takes of a GPU's memory before its first tensor, in MB: CUDA's code and state, some hundreds on any
GPU, which torch does not count."""


class Packing:
    """What fits where, for one driver.

    Args:
        history: The study so far.
        need: Predicts what trials need; None if only those are told apart that have to run alone.
    """

    def __init__(self, history: History, need: Need | None = None) -> None:
        self._history = history
        self._need = need
        self._held: set[str] = set()
        self.waiting = 0
        """How many trials of the queue wait for room."""
        self._taken: dict[str, float | None] = {}  # memory -> what is needed of it; None if that is not known

    def begin(self) -> None:
        """Forget who waits for room, and what is taken: the queue is gone through again from its head."""
        self._held.clear()
        self.waiting = 0
        self._taken.clear()

    def sites_for(self, trial: Trial) -> Container[Site]:
        """Return where a trial may run now, beside what runs there."""
        sites = self._history.memories.sites
        if self._minds_nothing:
            return sites
        full = self._full_for(trial) | self._held
        return {site for site in sites if full.isdisjoint(site)}

    def given(self, worker: Worker) -> None:
        """Note that a worker has just been given a trial."""
        for name in worker.site:
            self._taken.pop(name, None)

    def wait(self, trial: Trial) -> None:
        """Keep memory for a trial that got no worker, if what it waits for is room."""
        if self._minds_nothing:
            return
        usable = [site for site in self._usable(trial) if self._held.isdisjoint(site)]
        full = self._full_for(trial)
        self.waiting += bool(full)
        if usable and not any(full.isdisjoint(site) for site in usable):
            memories = self._history.memories.by_name
            soonest = min(usable, key=lambda site: max(len(memories[name].running) for name in full.intersection(site)))
            self._held |= full.intersection(soonest)

    def awaits_nobody(self, worker: Worker) -> bool:
        """Say whether a worker may take what comes later in the queue."""
        return self._held.isdisjoint(worker.site)

    @property
    def _minds_nothing(self) -> bool:
        return self._need is None and not self._history.alone

    def _usable(self, trial: Trial) -> list[Site]:
        """Where there are workers on which the trial has not failed; all, if it has failed on every one."""
        workers, sites = self._history.workers, self._history.memories.sites
        tried = Counter(
            workers[name].site for name in set(trial.tried_on) if name in workers and not workers[name].quarantined
        )
        return [site for site, there in sites.items() if there > tried[site]] or list(sites)

    def _full_for(self, trial: Trial) -> set[str]:
        """Return the memories that have no room for a trial now."""
        needed = self._need(trial) if self._need is not None else None
        return {
            memory.name
            for memory in self._history.memories.by_name.values()
            if not self._has_room(trial, needed, memory)
        }

    def _has_room(self, trial: Trial, needed: Needed | None, memory: Memory) -> bool:
        if not memory.running:
            return True
        if trial.alone or not memory.running.isdisjoint(self._history.alone):
            return False
        if self._need is None or needed is None:
            return True
        more, taken = _of(memory, needed), self._taken_of(memory, self._need)
        if more is None or taken is None:
            return False
        return not memory.size_mb or taken + more <= ROOM * memory.size_mb

    def _taken_of(self, memory: Memory, need: Need) -> float | None:
        """Return what those need together that run there: found once for all that wait."""
        if memory.name not in self._taken:
            needs = [_of(memory, need(self._history.trials[number])) for number in memory.running]
            self._taken[memory.name] = None if None in needs else sum(filter(None, needs))
        return self._taken[memory.name]


def _of(memory: Memory, needed: Needed) -> float | None:
    """Return what is needed of a memory, in MB. Of several GPUs that a trial sees, any may be the one that it fills."""
    if not memory.of_gpu:
        return needed.main_mb
    return needed.gpu_mb + CONTEXT_MB if needed.gpu_mb else needed.gpu_mb
