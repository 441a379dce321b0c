"""The first process of a sandbox: it starts the command, adopts what the command leaves, and says how it ended.

It runs as a script of its own, ``python -I -S supervising.py SPEC STATUS ERRORS`` with the numbers of three pipes, and
needs the standard library alone. In a PID namespace it is process 1, and when it ends the kernel ends all others.
Elsewhere it is a sub-reaper: whatever is orphaned falls to it, however often it forked and whatever session it is in,
and so can be found below it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

LINUX: Final = sys.platform == "linux"
LOOK_S: Final = 0.002
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_CAP_SYS_RESOURCE: Final = 24
_KEYCTL: Final = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
"""The number of a system call for which the C library has no name."""
_KEYCTL_JOIN_SESSION_KEYRING: Final = 1


def below(pid: int, *, most: int | None = None, send: int | None = None) -> list[int]:
    """Return the processes below one, parents before children; empty where that cannot be told.

    Args:
        pid: The one.
        most: Look no further when there are more than so many: whoever counts a fork bomb has little time.
        send: A signal that each is sent as soon as it is found. They take our time, so the first to be found are not
            to wait for the last.
    """
    found: dict[int, None] = {}
    todo = [pid]
    while todo and (most is None or len(found) <= most):
        one = todo.pop()
        if send is not None and one != pid:
            _send(one, send)
        children = [child for child in _children(one) if child not in found]
        found |= dict.fromkeys(children)
        todo += children
    return list(found)


def end_below(pid: int, *, limit_s: float = 1.0) -> bool:
    """Kill all processes below one; whether none is left after so many seconds.

    All of them are stopped first, as long as new ones turn up: one that forks faster than it can be killed stands
    still then.
    """
    deadline_s = time.monotonic() + limit_s
    stopped: set[int] = set()
    while (fresh := set(below(pid, send=signal.SIGSTOP)) - stopped) and time.monotonic() < deadline_s:
        stopped |= fresh
    while [one for one in below(pid, send=signal.SIGKILL) if is_alive(one)]:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(LOOK_S)
    return True


def kill_below(pid: int, *, until: Callable[[], bool], limit_s: float) -> None:
    """Kill all processes below one, parents first, over and over until it has ended by itself, or time is over.

    With process 1 of a namespace all others go, but a fork bomb leaves it no time to go; so they are killed, too.
    """
    deadline_s = time.monotonic() + limit_s
    while not until() and time.monotonic() < deadline_s:
        below(pid, send=signal.SIGKILL)
        time.sleep(LOOK_S)


def is_alive(pid: int) -> bool:
    """Say whether a process is there and has not ended."""
    return _stat(pid)[:1] not in ([], [b"Z"], [b"X"])


def began(pid: int) -> bytes:
    """Return when a process began, by which it is told from a later one of its number; empty if it is gone."""
    return b"".join(_stat(pid)[19:20])


def _stat(pid: int) -> list[bytes]:
    """Return what the kernel says of a process, from its state on."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
    return []


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


# --- the script -----------------------------------------------------------------------------------


def main(spec_fd: int, status_fd: int, err_fd: int) -> None:
    """Run what is asked for, and say how it ended."""
    with open(spec_fd, "rb") as file:
        spec = json.load(file)
    os.set_inheritable(status_fd, False)
    # a signal that comes while we fork would end us, and leave the command to nobody
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if LINUX:
        _tie(spec["parent"])
    waits_fd, told_fd = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told_fd)
        if not os.read(waits_fd, 1):  # it may end us in its first moment, and that it has started is to be known then
            os._exit(1)
        os.dup2(err_fd, 2)
        os.close(err_fd)
        _become(spec)
    os.close(err_fd)
    _tell(status_fd, started=True)
    os.write(told_fd, b"x")
    os.close(told_fd)
    os.close(waits_fd)
    if not spec["is_first"]:
        signal.signal(signal.SIGTERM, lambda *_: _end_all(child))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _tell(status_fd, **_outcome(child))
    while not spec["is_first"]:  # whoever started us ends what is left
        try:
            os.wait()
        except ChildProcessError:
            break
    os._exit(0)


def _prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _tie(parent: int) -> None:
    """Adopt orphans, and end with the process that started us, if that is to be."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_DUMPABLE, 0)  # else the command opens our pipes in /proc, and answers in our place
    if parent:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)


def _become(spec: dict[str, Any]) -> None:
    """Turn into the command; never returns."""
    name = "".join(spec["command"][:1])
    try:
        for ignored in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and what it starts would, too
            signal.signal(getattr(signal, ignored), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.setsid()
        os.chdir(spec["folder"])
        if spec["is_first"]:
            _leave_keys()
        elif LINUX:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # one that kills its supervisor goes with it
        _limit(spec["rlimits"])
        if not name:
            raise ValueError("there is no command")
        os.execvpe(name, spec["command"], spec["environment"])  # noqa: S606
    except OSError as error:
        os.write(2, f"{name}: {error.strerror}\n".encode(errors="replace"))
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)
    except BaseException as error:  # it must not go on as a second supervisor
        os.write(2, f"{name}: {error}\n".encode(errors="replace"))
        os._exit(NOT_EXECUTABLE)


def _leave_keys() -> None:
    """Begin a keyring of its own: that of the session goes by no namespace, and holds tickets of Kerberos, say."""
    import ctypes

    if number := _KEYCTL.get(os.uname().machine):
        ctypes.CDLL(None).syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)


def _limit(rlimits: dict[str, int]) -> None:
    """Take limits of the kernel, and the right to lift them, which root would have."""
    import resource

    for name, value in rlimits.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            more = value + (name == "RLIMIT_CPU")  # it is told at the first limit, and killed at the second
            hard = resource.getrlimit(kind)[1]
            most = more if hard == resource.RLIM_INFINITY else min(more, hard)
            resource.setrlimit(kind, (min(value, most), most))
    if rlimits and LINUX:
        _prctl(_PR_CAPBSET_DROP, _CAP_SYS_RESOURCE)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _outcome(child: int) -> dict[str, int]:
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return {"code": code} if code >= 0 else {"signal": -code}


def _end_all(child: int) -> None:
    """Kill all, and end. What /proc says of children may lack some while others end; whether there are any does not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            end_below(os.getpid())
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(LOOK_S)
    os._exit(1)


def _tell(fd: int, **said: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # who listened is gone, and SIGTERM comes
        os.write(fd, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
