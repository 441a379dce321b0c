"""Which processes a study has, and in which role: they are found by what stands in their environment. Linux only."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from etude.engines.local import WORKER_MARK
from etude.worker import processes

MARK: Final = "ETUDE_CHAOS"
"""Is in the environment of every process of the study."""

PATIENCE_S: Final = 10.0
"""Seconds that processes have to be gone after the study."""

LOOK_S: Final = 0.02
"""Seconds between two looks whether they are."""


@dataclass(frozen=True)
class Victim:
    """A process that a fault may fall on."""

    pid: int
    worker: str


def victims(role: str, *, driver: int, token: str) -> list[Victim]:
    """Return the processes below a driver that have a role; of attempts, those that seem to be at work.

    Args:
        role: ``attempt``, ``template`` or ``worker``.
        driver: The pid of the study's driver.
        token: What its processes are marked with.
    """
    below: dict[int, list[int]] = {}
    for pid in sorted(processes.marked(MARK, token), key=_started):
        parent = processes.parent(pid)
        if parent is not None:
            below.setdefault(parent, []).append(pid)
    found = []
    for supervisor in below.get(driver, ()):
        worker = _variable(supervisor, WORKER_MARK)
        if not worker:
            continue
        templates = [t for warm in below.get(supervisor, ()) for t in below.get(warm, ())]
        if role == "worker":
            found.append(Victim(supervisor, worker))
        elif role == "template":
            found += [Victim(pid, worker) for pid in (*below.get(supervisor, ()), *templates)]
        else:
            for template in templates:
                children = below.get(template, [])
                found += [Victim(pid, worker) for pid in children[-2:-1] or children]  # the last one is the spare
    return found


def end_what_is_left(token: str) -> list[str]:
    """Return what is left of the study after some patience, and end it."""
    until = time.monotonic() + PATIENCE_S
    while (left := processes.marked(MARK, token)) and time.monotonic() < until:
        time.sleep(LOOK_S)
    shown = [f"{pid}: {_shown(pid)}" for pid in left]
    processes.sweep(MARK, token)
    return shown


def send(pid: int, number: int, *, token: str) -> None:
    """Send a signal to a process of the study; its number may belong to somebody else by now."""
    if _has_mark(pid, token):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _environ(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _has_mark(pid: int, token: str) -> bool:
    return f"{MARK}={token}" in _environ(pid)


def _variable(pid: int, name: str) -> str:
    return next((v.partition("=")[2] for v in _environ(pid) if v.startswith(f"{name}=")), "")


def _started(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def _shown(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return "(gone)"
