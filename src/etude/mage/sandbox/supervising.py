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
from typing import Any, Final

LINUX: Final = sys.platform == "linux"
LOOK_S: Final = 0.002
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def below(pid: int) -> list[int]:
    """Return the processes below one, parents before children; empty where that cannot be told."""
    found: list[int] = []
    todo = [pid]
    while todo:
        children = [child for child in _children(todo.pop()) if child not in found]
        found += children
        todo += children
    return found


def end_below(pid: int, *, limit_s: float = 1.0) -> bool:
    """Kill all processes below one; whether none is left after so many seconds.

    All of them are stopped first, as long as new ones turn up: one that forks faster than it can be killed stands
    still then.
    """
    deadline_s = time.monotonic() + limit_s
    stopped: set[int] = set()
    while (fresh := set(below(pid)) - stopped) and time.monotonic() < deadline_s:
        for one in fresh:
            _send(one, signal.SIGSTOP)
        stopped |= fresh
    while left := [one for one in below(pid) if is_alive(one)]:
        if time.monotonic() > deadline_s:
            return False
        for one in left:
            _send(one, signal.SIGKILL)
        time.sleep(LOOK_S)
    return True


def is_alive(pid: int) -> bool:
    """Say whether a process is there and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


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
    if LINUX:
        _tie(spec["parent"])
    _tell(status_fd, started=True)
    child = os.fork()
    if child == 0:
        os.dup2(err_fd, 2)
        os.close(err_fd)
        _become(spec)
    os.close(err_fd)
    if not spec["is_first"]:
        signal.signal(signal.SIGTERM, lambda *_: _end_all(child))
    _tell(status_fd, **_outcome(child))
    while not spec["is_first"]:  # whoever started us ends what is left
        try:
            os.wait()
        except ChildProcessError:
            break
    os._exit(0)


def _tie(parent: int) -> None:
    """Adopt orphans, and end with the process that started us, if that is to be."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if parent:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _become(spec: dict[str, Any]) -> None:
    """Turn into the command; never returns."""
    import resource

    try:
        for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and what it starts would, too
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        os.chdir(spec["folder"])
        for name, value in spec["rlimits"].items():
            kind = getattr(resource, name, None)
            if kind is not None:
                more = value + (name == "RLIMIT_CPU")  # it is told at the first limit, and killed at the second
                hard = resource.getrlimit(kind)[1]
                most = more if hard == resource.RLIM_INFINITY else min(more, hard)
                resource.setrlimit(kind, (min(value, most), most))
        os.execvpe(spec["command"][0], spec["command"], spec["environment"])  # noqa: S606
    except OSError as error:
        os.write(2, f"{spec['command'][0]}: {error.strerror}\n".encode())
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)
    except BaseException as error:  # it must not go on as a second supervisor
        os.write(2, f"{spec['command'][0]}: {error}\n".encode())
        os._exit(NOT_EXECUTABLE)


def _outcome(child: int) -> dict[str, int]:
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return {"code": code} if code >= 0 else {"signal": -code}


def _end_all(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    end_below(os.getpid())
    os._exit(1)


def _tell(fd: int, **said: object) -> None:
    os.write(fd, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
