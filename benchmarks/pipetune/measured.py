"""What epochs take, measured: each training in a process of its own, and their epochs take turns.

All processes are copies of one that has loaded torch and computed nothing with it, so that none has to load it anew and
none inherits a pool of threads. They live at the same time and only one of them trains at a time: what else the machine
does meets all settings alike, and caches are as cold for one as for the other.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch

from benchmarks.pipetune.by_hand import ByHand, Epoch
from benchmarks.pipetune.tables import Row, Table, settings, spelled
from benchmarks.pipetune.workloads import KINDS, Workload
from etude.system.knobs import Setting


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def settings_of(workload: Workload) -> tuple[Setting, ...]:
    """Return the settings that make sense for a workload here, the default first."""
    threads = workload.own_threads or cores()
    return settings(cores(), threads=threads, has_loader=workload.data is not None)


@dataclass
class Seat:
    """A training in a process of its own that waits to be told to train one more epoch."""

    process: Any
    pipe: Connection

    def epoch(self, setting: Setting) -> Epoch:
        """Let it train an epoch, and return what that took."""
        self.pipe.send(dict(setting))
        told: Epoch = self._answer()
        return told

    def leave(self) -> None:
        """Let it end."""
        self.pipe.send(None)
        self.process.join()

    def ready(self) -> None:
        """Wait until it has its data and its model."""
        self._answer()

    def _answer(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            raise SystemExit("a training has ended by itself; its error stands above.") from None


def seat(workload: Workload, *, profiled: Callable[[int], bool] = lambda _: False, **params: Any) -> Seat:
    """Start a training, and return when its data and its model are there.

    Args:
        workload: What is trained.
        profiled: Says of an epoch, by its number from 0, whether it is profiled.
        params: Hyperparameters that are not as by default; ``seed`` is torch's.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_trained, args=(workload, profiled, params, there, here))
    process.start()
    there.close()
    found = Seat(process, here)
    found.ready()
    return found


def _trained(
    workload: Workload, profiled: Callable[[int], bool], params: dict[str, Any], pipe: Connection, other: Connection
) -> None:
    other.close()
    torch.manual_seed(params.pop("seed", 0))
    is_ready = False

    def asked() -> Setting | None:
        nonlocal is_ready
        if not is_ready:
            is_ready = True
            pipe.send(None)
        told: Setting | None = pipe.recv()
        return told

    ByHand(asked, pipe.send, profiled=profiled).train(workload, **params)


def table(workload: Workload, *, rounds: int, of: Sequence[Setting] | None = None) -> Table:
    """Measure what epochs of a workload take with each setting.

    Args:
        workload: What is measured.
        rounds: How many epochs of each setting, after its first one.
        of: The settings, the default first; None for all that make sense here.
    """
    measured = settings_of(workload) if of is None else tuple(of)
    seats = [seat(workload) for _ in measured]
    found: list[list[Epoch]] = [[] for _ in measured]
    try:
        for nth in range(rounds + 1):
            for place in range(len(measured)):
                which = (place + nth) % len(measured)  # nobody always comes after the same one
                found[which].append(seats[which].epoch(measured[which]))
    finally:
        for one in seats:
            one.leave()
    return Table(
        workload.name,
        KINDS[workload.name],
        measured[0],
        {spelled(setting): _row(setting, epochs) for setting, epochs in zip(measured, found, strict=True)},
    )


def _row(setting: Setting, epochs: Sequence[Epoch]) -> Row:
    first, *later = epochs
    joules = [one.joules for one in later if one.joules is not None]
    return Row(
        setting,
        tuple(one.seconds for one in later),
        tuple(joules) if len(joules) == len(later) else None,
        first.seconds,
    )
