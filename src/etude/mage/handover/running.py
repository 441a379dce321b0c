"""Runs a command to its end, shows what it prints while it does, and leaves none of its processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from etude.core.clock import Clock, WallClock

KEPT_B: Final = 1_000_000
"""So much of the end of what a command prints is kept."""
LOOK_S: Final = 0.05
DRAINED_S: Final = 0.5
"""What is still in the pipe when the command has ended is read for so long at most: a grandchild may hold it open."""
MARK: Final = "ETUDE_COMMAND"
"""Is in the environment of all that a command starts: other processes of this one are left alone."""
_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37


@dataclass(frozen=True)
class Done:
    """How a command ended.

    Attributes:
        code: Its exit code; negative for a signal.
        timed_out: Whether its time was over.
        printed: The end of what it printed, on both streams.
    """

    code: int
    timed_out: bool
    printed: str


def run_to_end(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str],
    limit_s: float | None,
    show: Callable[[str], object],
    clock: Clock | None = None,
) -> Done:
    """Run a command, and end all that it has started when it ends or its time is over.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        environment: All of its environment.
        limit_s: Seconds that it may take; None for any.
        show: Is given what it prints as it comes.
        clock: Tells how long it has taken.
    """
    clock = clock or WallClock()
    adopted = _adopt_orphans(True)
    token = secrets.token_hex(16)
    child = subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, MARK: token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    kept, timed_out = bytearray(), False
    started_s, ended_s = clock.now_s(), None
    assert child.stdout is not None
    try:
        with selectors.DefaultSelector() as waiting:
            waiting.register(child.stdout, selectors.EVENT_READ)
            while True:
                content = os.read(child.stdout.fileno(), 65536) if waiting.select(LOOK_S) else None
                if content:
                    show(content.decode("utf-8", "replace"))
                    kept = (kept + content)[-KEPT_B:]
                now_s = clock.now_s()
                if limit_s is not None and ended_s is None and now_s - started_s > limit_s:
                    timed_out = True
                    break
                if ended_s is None and child.poll() is not None:
                    ended_s = now_s
                if ended_s is not None and (content is None or content == b"" or now_s - ended_s > DRAINED_S):
                    break
                if content == b"" and ended_s is None:  # it has closed its output, and goes on
                    waiting.unregister(child.stdout)
    finally:
        _end(child, token)
        child.stdout.close()
        if not adopted:
            _adopt_orphans(False)
    return Done(child.returncode, timed_out, kept.decode("utf-8", "replace"))


def _end(child: subprocess.Popen[bytes], token: str) -> None:
    """Kill a command and all that it has started, whatever session that is in; nothing of it is left afterwards."""
    left = {child.pid, *_below(child.pid)}
    while left:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if child.pid in left:
            child.wait()
        for pid in left - {child.pid}:
            with contextlib.suppress(ChildProcessError, OSError):
                os.waitpid(pid, 0)  # it has fallen to us, or will never
        left = {pid for pid in _below(os.getpid()) if _bears(pid, token)}


def _bears(pid: int, token: str) -> bool:
    """Say whether a process, however orphaned, descends from the command of this token."""
    with contextlib.suppress(OSError):
        return f"{MARK}={token}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _adopt_orphans(wanted: bool) -> bool:
    """Have what a command leaves behind fall to this process, where it can be found, or not; say whether it did."""
    if sys.platform != "linux":
        return False
    import ctypes

    prctl, had = ctypes.CDLL(None).prctl, ctypes.c_int(0)
    prctl(_GET_SUBREAPER, ctypes.byref(had), 0, 0, 0)
    prctl(_SUBREAPER, int(wanted), 0, 0, 0)
    return bool(had.value)


def _below(pid: int) -> list[int]:
    """Return the processes below one; empty where that cannot be told."""
    found: list[int] = []
    todo = [pid]
    while todo:
        parent = todo.pop()
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                with contextlib.suppress(OSError):
                    inner = [int(one) for one in (task / "children").read_text().split()]
                    found += inner
                    todo += inner
    return found
