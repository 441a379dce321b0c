"""What the tests of whole studies share: scripts in processes of their own, and patience with a limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import etude
from etude.core.events import Assigned, Settled
from etude.engines.local import DRIVER_MARK
from etude.store.journal import Journal
from etude.worker import processes

PATIENCE_S = 60.0


def wait_for(what: Callable[[], object], *, patience_s: float = PATIENCE_S) -> None:
    """Wait until something is the case; fail if it does not happen."""
    give_up_at = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.005)


def write_script(folder: Path, text: str, name: str = "script.py") -> Path:
    """Write a user's script."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def start_script(path: Path, *args: str, **environment: str) -> subprocess.Popen[str]:
    """Start a user's script, with its studies beside it and without progress."""
    env = {**os.environ, "ETUDE_STUDIES": str(path.parent / "studies"), "ETUDE_PROGRESS": "0", **environment}
    return subprocess.Popen(
        [sys.executable, path.name, *args],
        cwd=path.parent,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_script(
    path: Path, *args: str, patience_s: float = PATIENCE_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a user's script to its end."""
    process = start_script(path, *args, **environment)
    try:
        out, err = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def left_behind_by(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes that a driver in ``process`` started and that still live."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit():
                environ = Path(f"/proc/{entry}/environ").read_bytes()
                if f"{DRIVER_MARK}={process.pid}-".encode() in environ and _alive(int(entry)):
                    found.append(int(entry))
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def facts_of(folder: Path, kind: type[Any]) -> list[Any]:
    """Return the facts of a kind that the journal of a study has."""
    with contextlib.closing(Journal.read(folder)) as journal:
        return [fact for fact in journal.facts() if isinstance(fact, kind)]


def table(folder: Path) -> list[tuple[Any, ...]]:
    """Return what is equal in equal studies."""
    return [(t.number, t.params, t.state, t.value, list(t.curve)) for t in etude.open(folder).trials]


def running_at_once(folder: Path, trial: int, attempt: int) -> set[int]:
    """Return which trials held a worker while an attempt did, as the journal has it."""
    live: set[int] = set()
    found: set[int] = set()
    with contextlib.closing(Journal.read(folder)) as journal:
        for fact in journal.facts():
            if isinstance(fact, Assigned):
                live.add(fact.trial)
            elif isinstance(fact, Settled) and fact.attempt is not None:
                live.discard(fact.trial)
                if (fact.trial, fact.attempt) == (trial, attempt):
                    return found - {trial}
            if trial in live:
                found |= live
            elif isinstance(fact, Settled):
                found.clear()
        raise AssertionError("the attempt has not ended")


@contextlib.contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End a process, however the block ends."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.communicate()
        wait_for(lambda: not left_behind_by(process))


class Disk(type(Path())):  # type: ignore[misc]
    """A folder that is a small file system of its own."""

    def be_read_only(self) -> None:
        """Let nobody write to it any more, once those are gone who still do: who was killed closes its files last."""
        remount = ["mount", "-o", "remount,ro", str(self)]
        wait_for(lambda: subprocess.run(remount, capture_output=True, check=False).returncode == 0)


@contextlib.contextmanager
def small_disk(place: Path, *, megabytes: int) -> Iterator[Disk]:
    """Give a file system in memory that is soon full; skip the test where none can be mounted."""
    place.mkdir()
    options = ["-o", f"size={megabytes}m", "none", str(place)]
    mounted = subprocess.run(["mount", "-t", "tmpfs", *options], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


__all__ = [
    "facts_of",
    "left_behind_by",
    "processes",
    "run_script",
    "running",
    "running_at_once",
    "small_disk",
    "start_script",
    "table",
    "wait_for",
    "write_script",
]
