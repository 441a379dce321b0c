"""Which trials may run beside each other on a machine.

Most may: a worker takes what comes. A trial that ran out of memory may have to run alone, and where the memory that
trials need is predicted, a machine is given no more of them than fit. A trial that waits for room keeps a machine
from being given anything later in the queue, so its turn comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from typing import Final

from etude.core.history import History, Machine, Trial, Worker

Need = Callable[[Trial], float | None]
"""Predicts the memory that a trial needs, in MB; None if nothing can be said yet, so that it has to run alone."""

ROOM: Final = 0.9
"""Share of a machine's memory that is for trials."""


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
        self._taken: dict[str, float | None] = {}  # machine -> what is needed there; None if that is not known

    def begin(self) -> None:
        """Forget who waits for room, and what is taken: the queue is gone through again from its head."""
        self._held.clear()
        self._taken.clear()

    def machines_for(self, trial: Trial) -> Container[str]:
        """Return the machines where a trial may run now, beside what runs there."""
        if self._minds_nothing:
            return self._history.machines
        return {
            machine.name
            for machine in self._history.machines.values()
            if machine.name not in self._held and self._has_room(trial, machine)
        }

    def given(self, worker: Worker) -> None:
        """Note that a worker has just been given a trial."""
        self._taken.pop(worker.machine, None)

    def wait(self, trial: Trial) -> None:
        """Keep a machine for a trial that got no worker, if what it waits for is room."""
        if self._minds_nothing:
            return
        usable = [m for m in self._usable(trial) if m.name not in self._held]
        if usable and not any(self._has_room(trial, machine) for machine in usable):
            self._held.add(min(usable, key=lambda machine: len(machine.running)).name)

    def awaits_nobody(self, worker: Worker) -> bool:
        """Say whether a worker may take what comes later in the queue."""
        return worker.machine not in self._held

    @property
    def _minds_nothing(self) -> bool:
        return self._need is None and not self._history.alone

    def _usable(self, trial: Trial) -> list[Machine]:
        """Machines with workers on which the trial has not failed; all, if it has failed on every one."""
        workers, machines = self._history.workers, self._history.machines
        tried = Counter(
            workers[name].machine for name in set(trial.tried_on) if name in workers and not workers[name].quarantined
        )
        fresh = [machine for machine in machines.values() if machine.workers > tried[machine.name]]
        return fresh or list(machines.values())

    def _has_room(self, trial: Trial, machine: Machine) -> bool:
        if not machine.running:
            return True
        if trial.alone or not machine.running.isdisjoint(self._history.alone):
            return False
        if self._need is None:
            return True
        more, taken = self._need(trial), self._taken_on(machine, self._need)
        if more is None or taken is None:
            return False
        return not machine.memory_mb or taken + more <= ROOM * machine.memory_mb

    def _taken_on(self, machine: Machine, need: Need) -> float | None:
        """Return what the trials of a machine need together: found once for all that wait."""
        if machine.name not in self._taken:
            needs = [need(self._history.trials[number]) for number in machine.running]
            self._taken[machine.name] = None if None in needs else sum(filter(None, needs))
        return self._taken[machine.name]
