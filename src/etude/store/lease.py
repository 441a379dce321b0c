"""Who may write a journal: one driver at a time.

The lease is a row with an epoch and a counter. Its holder raises the counter every two seconds and
looks at the epoch in every transaction; if it meets a later one, it stops and has written nothing.
A newcomer takes the next epoch at once if the holder said goodbye or its process is known to be dead;
else it watches the counter by its own clock, and only takes over when it stands still.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from etude.core.errors import StudyInUseError

BEAT_S: Final = 2.0
WATCH_S: Final = 10.0
LOOK_S: Final = 0.25


class Lease:
    """The right to write a journal.

    Args:
        connection: The journal's connection. A method that writes wants to be called inside a
            transaction or makes its own single statement.
        seq: Gives the number of the last fact that we know of. Who does not know the last one there is
            gets no lease: it would go on from a past.
    """

    def __init__(self, connection: sqlite3.Connection, seq: Callable[[], int]) -> None:
        self._connection = connection
        self._seq = seq
        self.epoch = 0
        """The epoch that we hold; 0 while we hold none."""

    def take(
        self,
        driver: str,
        *,
        wait: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> int:
        """Take the lease and return the new epoch.

        Args:
            driver: Id of the driver that takes it.
            wait: Lets some seconds go by.
            now_s: Our own clock.

        Raises:
            StudyInUseError: Another driver holds it and is alive.
        """
        epoch, counter = self._row()[:2]
        began = now_s()
        while (held := self.held_by()) is not None and now_s() - began < WATCH_S:
            if self._row()[:2] != (epoch, counter):
                host, pid = held
                raise StudyInUseError(
                    f"Another driver works on this study (process {pid} on {host}). Two would undo each other's "
                    "work. Wait for it, end it with `etude stop`, or give this study another name."
                )
            wait(LOOK_S)
        mine = (driver, host_id(), os.getpid(), start_time(os.getpid()) or "")
        taken = self._connection.execute(
            "UPDATE lease SET epoch = epoch + 1, counter = 0, driver = ?, host = ?, pid = ?, started = ? "
            "WHERE epoch = ? AND counter = ? AND ? = max(coalesce((SELECT max(seq) FROM facts), 0), "
            "coalesce((SELECT max(seq) FROM reports), 0))",
            (*mine, epoch, counter, self._seq()),
        )
        if taken.rowcount != 1:
            raise StudyInUseError(
                "Another driver took this study up or wrote to it at the same moment. Let one of the two go on; "
                "if it has ended, run this one again."
            )
        self.epoch = epoch + 1
        return self.epoch

    def beat(self) -> None:
        """Show that we are alive."""
        self._connection.execute("UPDATE lease SET counter = counter + 1 WHERE epoch = ?", (self.epoch,))

    def check(self) -> None:
        """Refuse to write if another driver has taken over.

        Raises:
            StudyInUseError: It has.
        """
        epoch, _, _, host, pid, _ = self._row()
        if epoch != self.epoch:
            raise StudyInUseError(
                f"Another driver (process {pid} on {host.partition('/')[0]}) has taken this study over while this "
                "one stood still. This one stops and has written nothing since."
            )

    def is_ours(self) -> bool:
        """Say whether nobody has taken it after us."""
        return bool(self._row()[0] == self.epoch)

    def release(self) -> None:
        """Say goodbye, so that the next driver need not wait."""
        self._connection.execute("UPDATE lease SET driver = '' WHERE epoch = ?", (self.epoch,))

    def held_by(self) -> tuple[str, int] | None:
        """Return host and pid of the driver that works on the study now; None if none seems to."""
        _, _, driver, host, pid, started = self._row()
        return (host.partition("/")[0], pid) if driver and not self._is_dead(host, pid, started) else None

    def _row(self) -> tuple[int, int, str, str, int, str]:
        row: tuple[int, int, str, str, int, str] = self._connection.execute(
            "SELECT epoch, counter, driver, host, pid, started FROM lease"
        ).fetchone()
        return row

    def _is_dead(self, host: str, pid: int, started: str) -> bool:
        return host == host_id() and start_time(pid) != started


def host_id() -> str:
    """Return this machine's name and, where they can be known, what process ids mean something in.

    That is the current boot and the namespace of process ids: two containers may have one name.
    """
    boot = space = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with contextlib.suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return f"{platform.node()}/{boot}/{space}"


def start_time(pid: int) -> str | None:
    """Return when a process started, in the kernel's own count; None if there is no such process.

    Where the kernel does not tell, a process that exists gives ``"running"``.
    """
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "running"
