"""Control groups of Linux: what all processes of a command together may take, seen to by the kernel itself.

Whoever counts from outside comes too late for one that forks without end, and nobody but the kernel knows how much
memory many processes take together. So a command gets a group of its own where one may be made, and what cannot be had
is left to limits of each process and to counting. Nothing of the groups that are there is changed: in version 1 a group
may have groups below it anywhere; in version 2 only where controllers are handed on already, which is below the root,
or beside our own group where a user's session or a service has been delegated its own. A group beside ours knows
nothing of our own limits, so where there are any none is made.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from etude.mage.sandbox.protocol import Limits
from etude.system.groups import GROUPS, PROC, Groups, counted, groups_of, kills_for_memory, text

NAMES: Final = {"pids": "processes", "memory": "memory"}
"""Controller -> what it limits, in a word."""
OWN: Final = 2
"""Processes of the sandbox itself in the group: its supervisor, and what holds its namespaces."""
OURS: Final = "etude-sandbox-"
PROCESSES: Final = "cgroup.procs"
HANDED_ON: Final = "cgroup.subtree_control"
END_S: Final = 2.0
LOOK_S: Final = 0.002
MB: Final = 2**20
LIMITING: Final = ("pids.max", "memory.max", "memory.high", "cpu.max", "cpuset.cpus")
"""Files of a group of version 2 that say nothing, or begin with ``max``, where it limits nothing."""
TWO: Final = 2


@dataclass(frozen=True)
class Tree:
    """Where control groups are, and how they are made; a test has a tree without a kernel.

    Attributes:
        proc: Where /proc is.
        groups: Where control groups are mounted.
        make: Makes the folder of a group.
        remove: Removes it.
    """

    proc: Path = PROC
    groups: Path = GROUPS
    make: Callable[[Path], None] = os.mkdir
    remove: Callable[[Path], None] = os.rmdir

    @property
    def ours(self) -> Groups:
        """The groups that we are in, or the nearest around them that we can see."""
        return groups_of(proc=self.proc, groups=self.groups, controllers=tuple(NAMES))

    def parents(self, controller: str) -> Iterator[Path]:
        """Give the groups in which one could be made that limits something."""
        ours = self.ours
        home = ours.folders.get(controller)
        if home is None:
            return
        if ours.version != TWO:
            yield home
            return
        is_free = home != self.groups and all(text(home / name)[:3] in ("", "max") for name in LIMITING)
        for around in (home, home.parent) if is_free else (home,):
            if controller in text(around / HANDED_ON).split():
                yield around


@dataclass
class Group:
    """A group of its own for a command, or in version 1 one for each controller.

    Attributes:
        tree: Where it is.
        limits: What it is to hold.
        folders: Controller -> its folder, for those that it holds.
    """

    tree: Tree
    limits: Limits
    folders: dict[str, Path] = field(default_factory=dict)

    @property
    def held(self) -> tuple[str, ...]:
        """What it limits, in words."""
        return tuple(NAMES[name] for name in NAMES if name in self.folders)

    def take(self, pid: int) -> None:
        """Move a process into it, before that has started any other; what cannot be is no longer held."""
        for name, folder in list(self.folders.items()):
            try:
                _write(folder / PROCESSES, str(pid))
            except OSError:
                del self.folders[name]
                if folder not in self.folders.values():
                    self._remove(folder)

    def refused(self) -> str:
        """Return which limit the kernel had to hold, in words; empty if none."""
        if (folder := self.folders.get("memory")) and kills_for_memory(folder):
            return f"more than {self.limits.memory_mb:,} MB of memory in all"
        if (folder := self.folders.get("pids")) and counted(folder / "pids.events", "max"):
            return f"more than {most_tasks(self.limits):,} processes and threads"
        return ""

    def end(self) -> None:
        """End whoever is left in it, and remove it."""
        until_s = time.monotonic() + END_S
        left = set(self.folders.values())
        while left:
            for folder in list(left):
                for pid in map(int, text(folder / PROCESSES).split()):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL) if pid > 0 else None
                if self._remove(folder):
                    left.discard(folder)
            if not left or time.monotonic() > until_s:  # the next one sweeps
                break
            time.sleep(LOOK_S)
        self.folders = {}

    def _remove(self, folder: Path) -> bool:
        try:
            self.tree.remove(folder)
        except FileNotFoundError:
            return True
        except OSError:  # some of it are still about to end
            return False
        return True


def most_tasks(limits: Limits) -> int | None:
    """Return how many processes and threads there may be; None for any.

    The kernel counts threads as it does processes, and a process of a numerical library has some for each core.
    """
    if limits.tasks is not None or limits.processes is None:
        return limits.tasks
    return limits.processes * (2 * (os.cpu_count() or 1) + 8)


def make(limits: Limits, tree: Tree = Tree()) -> Group | None:
    """Return a new group that holds limits, as far as this machine lets us make one; None where it does not at all."""
    group = Group(tree, limits)
    name = f"{OURS}{os.getpid()}-{secrets.token_hex(4)}"
    for controller, files in _wanted(limits, tree.ours.version).items():
        for around in tree.parents(controller):
            _sweep(around, tree)
            folder = around / name
            try:
                if folder not in group.folders.values():
                    tree.make(folder)
                (first, said), *others = files.items()
                _write(folder / first, said)
            except OSError:
                if folder not in group.folders.values():
                    with contextlib.suppress(OSError):
                        tree.remove(folder)
                continue
            for other, said in others:  # a kernel without swap has no such file
                with contextlib.suppress(OSError):
                    _write(folder / other, said)
            group.folders[controller] = folder
            break
    return group if group.folders else None


def _wanted(limits: Limits, version: int) -> dict[str, Mapping[str, str]]:
    """Return what is written into which files of a group, by controller."""
    found: dict[str, Mapping[str, str]] = {}
    if (tasks := most_tasks(limits)) is not None:
        found["pids"] = {"pids.max": str(tasks + OWN)}
    if limits.memory_mb is not None:
        most = str(limits.memory_mb * MB)
        in_two = {"memory.max": most, "memory.swap.max": "0"}
        in_one = {"memory.limit_in_bytes": most, "memory.memsw.limit_in_bytes": most}
        found["memory"] = in_two if version == TWO else in_one
    return found


def _sweep(around: Path, tree: Tree) -> None:
    """Remove the groups of those who were killed."""
    for group in around.glob(f"{OURS}*-*"):
        if not (tree.proc / group.name.removeprefix(OURS).partition("-")[0]).exists():
            with contextlib.suppress(OSError):  # it has processes, or is not ours to remove
                tree.remove(group)


def _write(file: Path, said: str) -> None:
    """Write into a file of a group, at once; nothing is made that the kernel does not have."""
    handle = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, said.encode())
    finally:
        os.close(handle)
