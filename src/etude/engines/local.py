"""Workers on this machine: supervisor processes over socket pairs.

Workers outlive a study for a while, warm: the next one in the same process finds packages imported.
They end when this process does, however it does, because their sockets end with it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from etude.core.resources import Machine
from etude.engines import Door
from etude.wire.channel import frame
from etude.wire.messages import Bye, Rest, encode
from etude.worker import processes
from etude.worker.attempt import THREAD_VARIABLES
from etude.worker.machine import this_machine

DRIVER_ID: Final = f"{os.getpid()}-{secrets.token_hex(6)}"
"""Marks all processes that are started from this one, so that a later driver can find what is left."""

DRIVER_MARK: Final = "ETUDE_DRIVER"
WORKER_MARK: Final = "ETUDE_WORKER"


class WorkerProcess:
    """A worker as a process of this machine, and our end of the socket to it: what engines can be made of.

    Args:
        behind: A command that the worker's own is put behind, such as ``["nice", "-n", "10"]``. It has to leave open
            files and the environment as they are, and to become the worker: one that stays beside it, as a shell
            does, holds the socket as well.

    Attributes:
        name: The worker's name, like that of no other.
        process: Its process.
    """

    def __init__(self, behind: Sequence[str] = ()) -> None:
        self.name = f"w{secrets.token_hex(3)}"
        self._sock, theirs = socket.socketpair()
        with theirs:  # if we held it open, we would not notice that the worker is gone
            environment = {**os.environ, DRIVER_MARK: DRIVER_ID, WORKER_MARK: self.name}
            environment.update(dict.fromkeys(THREAD_VARIABLES, "1"))  # no pools before the fork
            self.process = subprocess.Popen(
                [*behind, sys.executable, "-m", "etude.worker.supervisor", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )

    def line(self) -> socket.socket:
        """Return a socket to it, for the driver, who closes it."""
        return self._sock.dup()

    def fileno(self) -> int:
        """Return the file descriptor of our own end."""
        return self._sock.fileno()

    def alive(self) -> bool:
        """Say whether its process lives."""
        return self.process.poll() is None

    def rest(self) -> bool:
        """Have it end the study's work and stay for the next; return whether it is there."""
        return self.alive() and self._told(encode(Rest()))

    def end(self) -> None:
        """Ask it to leave, and sweep up what does not."""
        self._told(encode(Bye()))
        self._sock.close()
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            processes.kill(self.process.pid)
            self.process.wait()
        processes.sweep(WORKER_MARK, self.name)

    def kill(self) -> None:
        """Kill it with everything that it started; fine if it is gone."""
        processes.kill(self.process.pid)
        self.end()

    def _told(self, content: bytes) -> bool:
        try:
            self._sock.sendall(frame(content))
        except OSError:
            return False
        return True


def sweep_after(driver: str) -> int:
    """End what a driver that is dead left behind, given its id; return how many processes that were."""
    pid = driver.partition("-")[0]
    left = processes.marked(DRIVER_MARK, driver)
    if any(str(processes.parent(process)) == pid for process in left):
        return 0  # it lives, and works on something else by now: its supervisors are still its children
    return processes.sweep(DRIVER_MARK, driver)


class LocalEngine:
    """Starts workers as processes of this machine."""

    def __init__(self) -> None:
        self._workers: dict[str, WorkerProcess] = {}

    def machine(self) -> Machine:
        """Return what this machine has for the workers."""
        return this_machine()

    def start(self, n: int, door: Door) -> None:
        """Start ``n`` workers, warm ones first."""
        for _ in range(n):
            worker = _take_warm() or WorkerProcess()
            self._workers[worker.name] = worker
            door.connect(worker.name, worker.line())

    def end(self, worker: str) -> None:
        """Kill a worker with everything that it started."""
        found = self._workers.pop(worker, None)
        if found is not None:
            found.kill()

    def stop(self) -> None:
        """Let the workers rest until the next study."""
        for worker in self._workers.values():
            if worker.rest():
                _warm.append(worker)
            else:
                worker.end()
        self._workers.clear()


_warm: list[WorkerProcess] = []


def _take_warm() -> WorkerProcess | None:
    while _warm:
        worker = _warm.pop()
        if worker.alive():
            return worker
        worker.end()
    return None


@atexit.register
def close_warm_workers() -> None:
    """End the workers that rest between studies."""
    while _warm:
        with contextlib.suppress(OSError, KeyboardInterrupt):  # an impatient Ctrl-C; they end with us anyway
            _warm.pop().end()
