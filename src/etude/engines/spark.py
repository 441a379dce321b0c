"""Workers on a Spark cluster: one long task for each, which is a node with one worker.

Spark places the tasks and starts one anew when its executor is gone; all else is Étude's. Each task is a job of its
own, in a thread and a job group of its own: the session stays free for other work, a task that is lost too often ends
no other one, and Spark does not take the one that works longest for a straggler.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from etude.core.errors import ConfigError, StudyError
from etude.core.numbers import amount, port_to_open
from etude.core.resources import VISIBLE_GPUS, Machine, Resources
from etude.engines import Door
from etude.engines.spark_errors import in_short
from etude.engines.spark_refusals import refuse_other_shares, refuse_too_few_threads, refuse_without_slot
from etude.engines.spark_session import are_tasks_here, find_or_make, is_stopped, where_to_listen
from etude.wire.credentials import Invitation
from etude.worker.machine import memory_gb
from etude.worker.processes import variable_set

LIVED_S: Final = 30.0
"""Seconds after which a job that ended was a good one: something happened to it."""
AGAIN_S: Final = (0.5, 1.0, 4.0, 15.0)
"""Seconds before a job that ended is run again, by how many in a row were no good; after one more, none is."""
LEAVE_S: Final = 10.0
"""Seconds that tasks have to end with their study before they are cancelled."""
CANCEL_S: Final = 30.0
LOOK_S: Final = 0.05
LONGEST_S: Final = 1e9
"""Seconds; no thread can wait much longer."""


@dataclass
class Spark:
    """Starts workers as tasks on a Spark cluster.

    Each worker takes one slot as long as the study runs: with as many workers as slots, other jobs of the session wait
    until it is over. What tasks are told goes the way of all of Spark's data; where others can listen in, have Spark
    encrypt it (``spark.network.crypto.enabled``), since it lets them into the study.

    Args:
        session: A SparkSession or SparkContext that you have; it stays yours. If none is given, that of this process is
            taken, or else one is made, and stopped when the study is over.
        master: Where to make one, as Spark takes it; ``local[n,4]`` with a thread for each worker if not given.
        config: Further settings of the session that is made.
        port: The port of this machine that workers come to; 0 for any that is free.
        wait_s: Seconds until the cluster has to have a slot, or the study is refused; they begin when there is
            a session.

    Raises:
        ConfigError: An option cannot be.

    Example:
        >>> Spark(master="spark://head:7077").master
        'spark://head:7077'
    """

    session: Any = None
    master: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    wait_s: float = 120.0
    _context: Any = field(default=None, init=False, repr=False)
    _ours: bool = field(default=False, init=False, repr=False)
    _places: list[Place] = field(default_factory=list, init=False, repr=False)
    _gives_up: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.session is not None and (self.master is not None or self.config):
            raise ConfigError("master= and config= are for a session that is made, and session= is one that you have.")
        self.port = port_to_open("port", self.port)
        self.wait_s = amount("wait_s", self.wait_s, above=True, most=LONGEST_S)

    def machine(self) -> Machine | None:
        """Return the memory of this machine if its tasks share that, since Spark counts none; None for a cluster.

        Raises:
            ConfigError: What was given is no session that can carry workers.
        """
        if not are_tasks_here(self.session, self.master):
            return None  # nobody knows the machines, and others may come
        return Machine(cores=None, gpus=None, memory_gb=memory_gb())

    def prepare(self, n: int, resources: Resources | None = None, *, least: int = 1, ranks: int = 1) -> None:
        """Find or make a session, and see whether its tasks may fail, have a slot and find Étude.

        Args:
            n: Workers that there are to be.
            resources: What each of them needs. Spark fixes for a session what a task has, so one that is made here has
                the cores. Memory is not looked at: see ``machine``.
            least: Workers that have to be there before the first trial.
            ranks: How many of them train each trial together.

        Raises:
            ConfigError: pyspark or Java is missing, or the session cannot carry workers.
        """
        self._context, self._ours = find_or_make(self.session, self.master, self.config, n, resources)
        try:
            refuse_other_shares(self._context, resources)
            refuse_too_few_threads(self._context, least, ranks)
            refuse_without_slot(self._context, wait_s=self.wait_s)
        except BaseException:
            self._let_go()
            raise

    def start(self, n: int, door: Door) -> None:
        """Have Spark run ``n`` tasks; each comes by itself when there is a slot for it."""
        if self._context is None:
            self.prepare(n)
        bind, advertise = where_to_listen(self._context)
        invitation = msgspec.json.encode(door.invite(bind, self.port, advertise))
        fail = functools.partial(self._gave_up, door)
        places = [Place(self._context, functools.partial(carry_one, invitation), fail) for _ in range(n)]
        self._places += places
        for place in places:
            place.start()

    def end(self, worker: str) -> None:
        """Its node ends it."""

    def stop(self) -> None:
        """Wait for the tasks, which end with the study; cancel those that do not, or never had a slot."""
        with self._gives_up:
            places, self._places = self._places, []
        try:
            _end(places)
        finally:
            self._let_go()

    def _gave_up(self, door: Door, error: BaseException) -> None:
        """Take in, in its own thread, that a place has been given up; without any other the study ends with that."""
        with self._gives_up:
            self._places = [place for place in self._places if place is not threading.current_thread()]
            others = bool(self._places)
        if others and not is_stopped(self._context):
            door.tell(f"{error} Those that are at work go on.")
        else:
            door.fail(error)

    def _let_go(self) -> None:
        context, self._context = self._context, None
        ours, self._ours = self._ours, False
        if ours:
            context.stop()


class Place(threading.Thread):
    """A worker's place on the cluster: a job of one task, run again as often as it ends before the study.

    Args:
        context: The SparkContext.
        task: What the task does. It returns why it could not, or an empty text.
        fail: Is told why no worker will come here any more.
    """

    def __init__(
        self, context: Any, task: Callable[[Iterable[Any]], list[str]], fail: Callable[[BaseException], None]
    ) -> None:
        self.group = f"etude-{os.getpid()}-{secrets.token_hex(4)}"
        super().__init__(name=self.group, daemon=True)
        self._context = context
        self._task = task
        self._fail = fail
        self._leaving = threading.Event()

    def run(self) -> None:
        """Keep the job running."""
        bad = 0
        while not self._leaving.is_set():
            began = time.monotonic()
            reason = self._run_once()
            bad = 0 if time.monotonic() - began >= LIVED_S else bad + 1
            if self._leaving.is_set():
                return
            if is_stopped(self._context):
                self._fail(StudyError("The Spark session was stopped while the study ran. Call it again to go on."))
                return
            if bad > len(AGAIN_S):
                self._fail(StudyError(f"Spark has no worker for the study: {bad} jobs in a row ended soon. {reason}"))
                return
            self._leaving.wait(AGAIN_S[max(bad - 1, 0)])

    def leave(self) -> None:
        """Run no job any more after this one."""
        self._leaving.set()

    def cancel(self) -> None:
        """End the job, whatever it does."""
        with contextlib.suppress(Exception):  # Spark is gone, and the job with it
            self._context.cancelJobGroup(self.group)

    def has_task(self) -> bool:
        """Say whether the task runs, rather than to wait for a slot."""
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return any(stage.numActiveTasks for stage in stages if stage)

    def _run_once(self) -> str:
        try:
            self._context.setJobGroup(self.group, "Étude: a worker", interruptOnCancel=True)
            [reason] = self._context.parallelize([0], 1).mapPartitions(self._task).collect()
        except Exception as error:
            return in_short(error)
        return str(reason)


def _end(places: Sequence[Place]) -> None:
    for place in places:
        place.leave()
    began = time.monotonic()
    while left := [place for place in places if place.is_alive()]:
        waited = time.monotonic() - began
        if waited > LEAVE_S + CANCEL_S:
            raise StudyError(f"Spark did not end {len(left)} of the study's jobs within {waited:.0f} s.")
        for place in left:
            if waited > LEAVE_S or not _surely(place.has_task):
                place.cancel()
        left[0].join(LOOK_S)


def _surely(has_task: Callable[[], bool]) -> bool:
    try:
        return has_task()
    except Exception:  # Spark is gone
        return False


def carry_one(invitation: bytes, _: Iterable[Any]) -> list[str]:
    """Be a task: a node with one worker, until the study is over; return why it could not be, or an empty text."""
    from pyspark import TaskContext

    task = TaskContext.get()
    with gpus_visible(task):
        try:
            cores = task.cpus() if task is not None else 1
            asyncio.run(carry_until_hung_up(msgspec.json.decode(invitation, type=Invitation), cores))
        except StudyError as error:
            return [str(error)]
        except asyncio.CancelledError:  # nobody is there any more to tell
            signal.raise_signal(signal.SIGHUP)
    return [""]


async def carry_until_hung_up(invitation: Invitation, threads: int) -> None:
    """Carry a worker until the study is over, or Spark hangs up, as it does when the executor has ended.

    The hang-up alone would end this process at once, with its folder left on the disk: perhaps nobody comes here again.
    """
    from etude.engines.node import carry

    loop = asyncio.get_running_loop()
    carrying = asyncio.ensure_future(carry(invitation, workers=1, threads=threads, placed=True))
    loop.add_signal_handler(signal.SIGHUP, carrying.cancel)
    try:
        await carrying
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def gpus_visible(task: Any) -> contextlib.AbstractContextManager[None]:
    """Show what is started from now on the GPUs that Spark gave to the task, if it gives any."""
    given = task.resources().get("gpu") if task is not None else None
    if given is None:
        return contextlib.nullcontext()
    return variable_set(VISIBLE_GPUS, ",".join(given.addresses))
