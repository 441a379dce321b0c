"""Processes: how they are tied to each other, found, and ended with all their descendants.

On Linux a child dies with its parent (PDEATHSIG), orphans fall to the nearest sub-reaper, and
``/proc`` tells who is whose. Elsewhere this does what POSIX allows, and no more is promised.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final

LINUX: Final = sys.platform == "linux"
EXEC_LOOKS: Final = 50
EXEC_LOOK_S: Final = 0.001
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_libc = ctypes.CDLL(None, use_errno=True) if LINUX else None


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Have an environment variable for a while, for us and for what we start; it is as it was after that."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def die_with_parent(parent: int) -> None:
    """Have this process killed when ``parent``, its parent, ends."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """Return the pids of this process's children; empty where that cannot be told."""
    if not LINUX:
        return []
    try:
        file = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return []
    try:
        return [int(pid) for pid in os.read(file, 1 << 16).split()]
    finally:
        os.close(file)


def kill(pid: int, *, group: bool = False) -> None:
    """Kill a process, with the rest of the group that it leads if ``group``; fine if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)


def kill_orphans(spare: Iterable[int]) -> None:
    """Kill and reap every child of this process but ``spare``, and what falls to it by that."""
    spared = set(spare)
    while orphans := [pid for pid in children() if pid not in spared]:
        for pid in orphans:
            kill(pid)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def marked(name: str, value: str) -> list[int]:
    """Return the processes whose environment, when they were started, held ``name=value``."""
    if not LINUX:
        return []
    mark = f"{name}={value}".encode()
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]
    return [pid for pid in pids if mark in _environment(pid).split(b"\0")]


def _environment(pid: int) -> bytes:
    """Return what a process was started with. One that has just called exec has none for a moment: it is waited for."""
    for _ in range(EXEC_LOOKS):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if found := file.read():
                    return found
            os.readlink(f"/proc/{pid}/exe")  # which the kernel's own threads, and those that have ended, do not have
        except OSError:
            break
        time.sleep(EXEC_LOOK_S)
    return b""


def parent(pid: int) -> int | None:
    """Return the parent of a process; None if it is gone, or where that cannot be told."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


def is_stopped(pid: int) -> bool:
    """Say whether a process was stopped, by SIGSTOP or a debugger; False where that cannot be told."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


def sweep(name: str, value: str) -> int:
    """Kill all processes that carry ``name=value`` in their environment; return how many there were."""
    killed: set[int] = set()
    while left := set(marked(name, value)) - killed:
        for pid in left:
            kill(pid)
        killed |= left
    return len(killed)


def peak_memory_mb(usage: resource.struct_rusage) -> float:
    """Return the peak of resident memory in MB: the kernel counts kilobytes on Linux, and bytes on macOS."""
    return usage.ru_maxrss / 2**10 if LINUX else usage.ru_maxrss / 2**20


def forget_peak_memory() -> None:
    """Have the peak of this process's resident memory start over from what it holds, where the kernel can do that."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def oom_kills() -> int:
    """Return how many processes the kernel has killed for memory among ours; 0 if unknown.

    A control group counts its own. Where there is none to ask, the count is that of the whole machine.
    """
    for path in _counts_of_oom_kills():
        try:
            with open(path) as file:
                for line in file:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        except OSError:
            continue
    return 0


def _counts_of_oom_kills(proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> list[str]:
    """Return the files that may hold such a count, the nearest to this process first."""
    found = []
    try:
        with open(f"{proc}/self/cgroup") as file:
            for line in file:
                _, controllers, place = line.rstrip("\n").split(":", 2)
                if not controllers:  # version 2. A container may see its own group as the root
                    found += [f"{groups}{place.rstrip('/')}/memory.events", f"{groups}/memory.events"]
                elif "memory" in controllers.split(","):
                    root = f"{groups}/memory"
                    found = [f"{root}{place.rstrip('/')}/memory.oom_control", f"{root}/memory.oom_control", *found]
    except OSError:
        pass
    return [*found, f"{proc}/vmstat"]
