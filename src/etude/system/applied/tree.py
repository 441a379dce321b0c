"""A control group of our own: made beside or below the one that a process is in, and removed again.

In version 1 any group may have groups below it. In version 2 a group that has processes may not hand controllers on, so
its processes move into a group ``etude-rest`` first, and stay there: that is done only where all of them are of one
family, as in a group that was delegated to a study or to its container.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from etude.system.applied.part import Refused
from etude.system.groups import GROUPS, PROC, groups_of, kills_for_memory, text

PROCESSES: Final = "cgroup.procs"
HANDED_ON: Final = "cgroup.subtree_control"
OURS: Final = "etude-"
REST: Final = "etude-rest"
ROUNDS: Final = 100
"""So often is looked for processes that were started while others were moved."""
ALONE: Final = (
    "Start the study in one of its own: systemd-run --user --scope -p Delegate=yes, or by a service with Delegate=yes."
)


def kills_of_attempt(pid: int, *, proc: Path = PROC, groups: Path = GROUPS) -> int:
    """Return how many processes the kernel has killed for memory in the group that an attempt had of its own.

    In version 1 the groups around it do not count them, nor does in version 2 the one that we were moved into. Each
    attempt begins with a new group, so all of them are its own.

    Args:
        pid: The attempt's process, which may have ended.
        proc: Where /proc is.
        groups: Where control groups are mounted.
    """
    home = groups_of(proc=proc, groups=groups).folders.get("memory")
    return kills_for_memory(_around(home) / f"{OURS}{pid}") if home is not None else 0


def _around(home: Path) -> Path:
    """Return the group that those of attempts are in, of a process that may have been moved into the rest of it."""
    return home.parent if home.name == REST else home


class Kernel(Protocol):
    """Does what is done to a tree of control groups; a test has one without a kernel."""

    def write(self, file: Path, said: str) -> None:
        """Write a text into a file of a group."""
        ...

    def make(self, folder: Path) -> None:
        """Make a group."""
        ...

    def remove(self, folder: Path) -> None:
        """Remove a group that has no processes."""
        ...


class Linux:
    """The kernel itself."""

    def write(self, file: Path, said: str) -> None:
        """Write a text into a file of a group, at once."""
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)  # nothing is made that the kernel does not have
        try:
            os.write(descriptor, said.encode())
        finally:
            os.close(descriptor)

    def make(self, folder: Path) -> None:
        """Make a group."""
        folder.mkdir()

    def remove(self, folder: Path) -> None:
        """Remove a group."""
        folder.rmdir()


@dataclass(frozen=True)
class Tree:
    """Control groups, as one process may change them.

    Attributes:
        kernel: Does it.
        proc: Where /proc is.
    """

    kernel: Kernel
    proc: Path = PROC

    def family(self, pid: int) -> list[int]:
        """Return a process and all its living descendants."""
        found = [pid]
        for one in found:
            for children in sorted(self.proc.glob(f"{one}/task/*/children")):
                found += [int(child) for child in text(children).split()]
        return found

    def members(self, folder: Path) -> list[int]:
        """Return the processes of a group."""
        return [int(pid) for pid in text(folder / PROCESSES).split()]

    def begin(self, home: Path, pid: int) -> Path:
        """Make a group for a process beside or below the one that it is in, and move it and its descendants there.

        Raises:
            OSError: That is not allowed. Then all is as before.
        """
        around = _around(home)
        self._sweep(around)
        group = around / f"{OURS}{pid}"
        with contextlib.suppress(OSError):
            self.kernel.remove(group)  # of an earlier process with this number
        self.kernel.make(group)
        try:
            self._move(lambda: self.family(pid), group)
        except OSError:
            self.end(group, home)
            raise
        return group

    def end(self, group: Path, home: Path) -> None:
        """Move the processes of a group to another one, and remove it.

        Raises:
            OSError: That is not allowed.
        """
        self._move_all(group, home)
        self.kernel.remove(group)

    def hand_on(self, home: Path, pid: int, controllers: Sequence[str]) -> None:
        """Have groups under this one, or under the one around it if it is the rest of that, limit something.

        Raises:
            Refused: The group lacks such a controller, or has processes that are not ours to move.
            OSError: It is not allowed.
        """
        around = _around(home)
        if lacking := sorted(set(controllers) - set(text(around / "cgroup.controllers").split())):
            raise Refused(f"the control group {around} has no controller {', '.join(lacking)}. {ALONE}")
        missing = [name for name in controllers if name not in text(around / HANDED_ON).split()]
        if not missing:
            return
        wanted = " ".join(f"+{name}" for name in missing)
        try:
            self.kernel.write(around / HANDED_ON, wanted)  # the root of all groups may have processes, too
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            self._refuse_strangers(around, pid)
            self._make_rest(around)
            try:
                self.kernel.write(around / HANDED_ON, wanted)
            except OSError:
                self.end(around / REST, around)
                raise

    def _refuse_strangers(self, folder: Path, pid: int) -> None:
        """Refuse a group whose processes do not all descend from one, as this process does; none is left to move."""
        members = self.members(folder)
        eldest = [one for one in members if self._parent(one) not in members]
        if members and (len(eldest) != 1 or pid not in self.family(eldest[0])):
            raise Refused(f"the control group {folder} has other processes than this study's. {ALONE}")

    def _make_rest(self, folder: Path) -> None:
        rest = folder / REST
        with contextlib.suppress(FileExistsError):
            self.kernel.make(rest)
        self._move_all(folder, rest)

    def _move_all(self, home: Path, group: Path) -> None:
        self._move(lambda: self.members(home), group)

    def _move(self, wanted: Callable[[], Iterable[int]], group: Path) -> None:
        """Move processes into a group, and those that they start meanwhile."""
        done: set[int] = set()
        for _ in range(ROUNDS):
            left = [pid for pid in wanted() if pid not in done]
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    self.kernel.write(group / PROCESSES, str(pid))
            done.update(left)
        raise OSError(errno.EAGAIN, "processes are started faster than they can be moved", str(group))

    def _sweep(self, around: Path) -> None:
        """Remove the groups of attempts that were killed."""
        for group in around.glob(f"{OURS}[0-9]*"):
            if not (self.proc / group.name.removeprefix(OURS)).exists():
                with contextlib.suppress(OSError):  # it has processes, or is not ours to remove
                    self.kernel.remove(group)

    def _parent(self, pid: int) -> int:
        fields = text(self.proc / str(pid) / "stat").rpartition(")")[2].split()  # the name may have brackets
        return int(fields[1]) if fields else 0
