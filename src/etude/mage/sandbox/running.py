"""Running a command under a supervisor: its output is read, its time is kept, and nothing of it is left behind.

The usual ways are no time limits: ``subprocess.run(timeout=...)`` ends one process and leaves what that has started,
and whoever kills the group and then reads to the end waits for any grandchild in a session of its own that holds the
pipe (``benchmarks/mage_limits.py``). Here pipes are read with a deadline of our own, all processes are ended by their
PID namespace or by walking the tree below the supervisor, and what a pipe still holds then is taken without waiting.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from etude.core.errors import SandboxMissing
from etude.mage.sandbox import groups, supervising
from etude.mage.sandbox.kept import Kept
from etude.mage.sandbox.protocol import Job, Limits, Ran, Tier

SUPERVISOR: Final = Path(supervising.__file__)
READ_BYTES: Final = 1 << 20
LOOK_S: Final = 0.02
"""How often processes are counted. A fork bomb takes the processor from whoever counts, so it has to be seen early."""
END_S: Final = 0.5
"""How long a sandbox that was told to end may take until it is ended by force."""
KILL_S: Final = 10.0
"""How long the last of many processes may take to be gone: those that compute leave little time to the dying."""
DRAIN_S: Final = 0.2
"""How long is read what pipes still hold: somebody who got away may fill them for ever."""
STATUS_BYTES: Final = 10_000
"""A supervisor says much less. Whoever says more is none."""
TROUBLE_BYTES: Final = 10_000
TOLD: Final = ("started", "code", "signal")
ONCE_TAKEN: Final = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
"""Runs what follows once it is told to: what it starts before it is in its group would not be."""
MB: Final = 2**20

Wrap = Callable[[Sequence[str]], Sequence[str]]


def run(job: Job, *, tier: Tier, wrap: Wrap | None = None, rlimits: Mapping[str, int] | None = None) -> Ran:
    """Run a job, and leave none of its processes behind.

    Args:
        job: The job.
        tier: What stands in the answer.
        wrap: Given the supervisor's command, the one that runs it in namespaces of its own, with a PID namespace
            among them; None for a sandbox without.
        rlimits: Limits of the kernel for the command, by their names.

    Raises:
        SandboxMissing: The sandbox itself could not be started.
    """
    with contextlib.ExitStack() as stack:
        return _Running(job, tier, wrap, dict(rlimits or {}), stack).to_the_end()


def rlimits(limits: Limits) -> dict[str, int]:
    """Return what the kernel can see to for each process by itself."""
    found = {"RLIMIT_CORE": 0}
    if limits.cpu_s is not None:
        found["RLIMIT_CPU"] = max(1, round(limits.cpu_s))
    if limits.memory_mb is not None:
        found["RLIMIT_AS"] = limits.memory_mb * MB
    if limits.file_mb is not None:
        found["RLIMIT_FSIZE"] = limits.file_mb * MB
    return found


class _Running:
    """A command that runs."""

    def __init__(
        self, job: Job, tier: Tier, wrap: Wrap | None, rlimits: dict[str, int], stack: contextlib.ExitStack
    ) -> None:
        self._job, self._tier = job, tier
        self._has_namespace = wrap is not None
        self._began_s = time.monotonic()
        ends = self._open_pipes(stack)
        command: Sequence[str] = [sys.executable, "-I", "-S", str(SUPERVISOR), *map(str, ends)]
        command = wrap(command) if wrap is not None else command
        self._group = groups.make(job.limits) if tier is not Tier.OUTER and supervising.LINUX else None
        if self._group is not None:
            stack.callback(self._group.end)
        try:
            self._process = subprocess.Popen(
                [*(ONCE_TAKEN if self._group is not None else ()), *command],
                stdin=subprocess.PIPE if self._group is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env={},
                pass_fds=ends,
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._spec_w)
            raise SandboxMissing(
                f"The sandbox ({tier.value}) could not be started: {error}. Nothing was run."
            ) from None
        finally:
            for fd in ends:
                os.close(fd)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        stack.enter_context(self._process.stdout)
        stack.enter_context(self._process.stderr)
        stack.callback(self._end)
        self._take()
        self._out, self._err = Kept(job.limits.output_bytes), Kept(job.limits.output_bytes)
        self._trouble = Kept(TROUBLE_BYTES)
        self._status = bytearray()
        self._seen: dict[int, bytes] = {}
        self._readers: dict[int, Callable[[bytes], object]] = {
            self._process.stdout.fileno(): self._out.add,
            self._process.stderr.fileno(): self._trouble.add,
            self._err_r: self._err.add,
            self._status_r: self._status.extend,
        }
        self._selector = stack.enter_context(selectors.DefaultSelector())
        for fd in self._readers:
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ)
        self._give(rlimits)

    def to_the_end(self) -> Ran:
        """Return how it ended."""
        stopped = self._read()
        self._end()
        until_s = time.monotonic() + DRAIN_S
        while self._read_once(0.0) and time.monotonic() < until_s:
            pass
        said = self._said()
        if "started" not in said and not stopped:
            told = self._trouble.whole().decode(errors="replace").strip() or f"exit code {self._process.returncode}"
            raise SandboxMissing(
                f"The sandbox ({self._tier.value}) could not start the command, and nothing was run: {told}"
            )
        lost = signal.SIGKILL if stopped or "code" not in said else None
        return Ran(
            code=None if stopped else said.get("code"),
            signal=lost if stopped else said.get("signal", lost),
            timed_out=stopped == "time limit",
            stopped=stopped,
            out=self._out.whole(),
            err=self._err.whole(),
            wall_s=time.monotonic() - self._began_s,
            tier=self._tier,
            kernel=self._group.held if self._group is not None else (),
            refused=self._group.refused() if self._group is not None else "",
        )

    def _take(self) -> None:
        """Let it begin, in its group if it has one."""
        if self._group is not None:
            self._group.take(self._process.pid)
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError), self._process.stdin as go:
                go.write(b"\n")

    def _open_pipes(self, stack: contextlib.ExitStack) -> tuple[int, int, int]:
        """Return the supervisor's ends. What the sandbox itself has to say does not mix with the command's errors."""
        spec_r, self._spec_w = os.pipe()
        self._status_r, status_w = os.pipe()
        self._err_r, err_w = os.pipe()
        stack.callback(os.close, self._status_r)
        stack.callback(os.close, self._err_r)
        return spec_r, status_w, err_w

    def _give(self, rlimits: Mapping[str, int]) -> None:
        job = self._job
        spec = {
            "command": [str(part) for part in job.command],
            "environment": dict(job.environment),
            "folder": str(job.folder),
            "rlimits": rlimits,
            "is_first": self._has_namespace,
            "parent": 0 if self._has_namespace else os.getpid(),
        }
        with contextlib.suppress(BrokenPipeError), open(self._spec_w, "wb") as file:
            file.write(json.dumps(spec).encode())

    def _read(self) -> str:
        """Read until the command has ended or has to; return why it has to."""
        limits = self._job.limits
        deadline_s = self._began_s + limits.wall_s
        look_s = self._began_s
        while not self._has_ended():
            now_s = time.monotonic()
            if now_s >= deadline_s:
                return "time limit"
            if now_s >= look_s:
                if self._are_too_many():
                    return f"more than {limits.processes} processes"
                look_s = time.monotonic() + LOOK_S
            self._read_once(max(0.0, min(deadline_s, look_s if look_s > now_s else deadline_s) - now_s))
        return ""

    def _are_too_many(self) -> bool:
        """Look which processes there are, and say whether they are more than there may be."""
        most = self._job.limits.processes if self._tier is not Tier.OUTER else None
        most = most + self._has_namespace if most is not None else None
        found = supervising.below(self._process.pid, most=most)
        if not self._has_namespace:
            self._seen = {pid: self._seen.get(pid) or supervising.began(pid) for pid in found}
        return most is not None and len(found) > most

    def _read_once(self, wait_s: float) -> bool:
        """Take what has come within so many seconds; whether anything has."""
        came = False
        for key, _ in self._selector.select(wait_s) if self._selector.get_map() else ():
            try:
                part = os.read(key.fd, READ_BYTES)
            except BlockingIOError:
                continue
            if part:
                self._readers[key.fd](part)
                came = True
            else:
                self._selector.unregister(key.fd)
        return came

    def _has_ended(self) -> bool:
        """Say whether the command has, or the supervisor, which is not to be waited for then."""
        said = len(self._status) > STATUS_BYTES or self._status.count(b"\n") > 1
        return said or self._status_r not in self._selector.get_map()

    def _said(self) -> dict[str, int]:
        """Return what the supervisor said: that it started, and a code or a signal. Root's command may forge it."""
        found: dict[str, int] = {}
        for line in bytes(self._status[:STATUS_BYTES]).splitlines()[:2]:
            with contextlib.suppress(ValueError, RecursionError):
                said = json.loads(line)
                if isinstance(said, dict):
                    found |= {name: said[name] for name in TOLD if isinstance(said.get(name), int)}
        return found

    def _end(self) -> None:
        """End all processes, and wait until they have ended."""
        process = self._process
        if process.poll() is None:
            if self._has_namespace:
                if not self._has_ended() or len(self._status) > STATUS_BYTES:
                    supervising.kill_below(process.pid, until=lambda: process.poll() is not None, limit_s=KILL_S)
                _wait(process, END_S)
            else:
                # one that has not forked yet ends by this, and forks no more; one that has ends what is below it
                process.terminate()
                process.send_signal(signal.SIGCONT)
                until_s = time.monotonic() + KILL_S
                while process.poll() is None and time.monotonic() < until_s:  # whoever is left then has no parent
                    supervising.end_below(process.pid)
                    _wait(process, LOOK_S)
            if process.returncode is None:
                process.kill()
                process.wait()
        self._end_orphans()

    def _end_orphans(self) -> None:
        """End those whose supervisor was killed before them, by one of them."""
        left, until_s = self._seen, time.monotonic() + END_S
        while left and time.monotonic() < until_s:
            left = {pid: began for pid, began in left.items() if began and supervising.began(pid) == began}
            left = {pid: began for pid, began in left.items() if supervising.is_alive(pid)}
            for pid in list(left):  # what it has started is to be found before it ends
                left |= {one: supervising.began(one) for one in supervising.below(pid) if one not in left}
            for pid in left:
                _kill(pid)
            if left:
                time.sleep(LOOK_S)
        self._seen = {}


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(limit_s)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
