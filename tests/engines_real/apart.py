"""Scripts that use somebody else's framework: each in a process of its own, and nothing of it is left in the end."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import etude
from etude.worker import processes

MARK = "ETUDE_ENGINES_TEST"
"""Is in the environment of everything that a script starts, at any remove."""

LIMIT_S = 300.0
"""Nothing here takes longer, however busy this machine is: a framework alone may need a minute to start."""

RAY_SAYS = "\x1b[33m(raylet)"
"""So begins a line that Ray prints in a script by itself: of an actor that it had to end, for instance."""

END_S = 60.0
"""Who was killed, or told to end, is gone by then. A test that has failed has no other limit while it cleans up."""


@contextlib.contextmanager
def from_others() -> Iterator[dict[str, str]]:
    """Give variables that keep Ray and Spark apart from others on this machine, with a folder for what they write."""
    with tempfile.TemporaryDirectory(prefix="real-", dir="/tmp", ignore_cleanup_errors=True) as folder:  # Ray's sockets
        Path(folder, "tmp").mkdir()
        yield {
            "RAY_ADDRESS": "",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(Path(folder, "tmp")),
            **_spark_home(),
        }


def _spark_home() -> dict[str, str]:
    found = importlib.util.find_spec("pyspark")
    return {"SPARK_HOME": str(Path(found.origin).parent)} if found is not None and found.origin else {}


@contextlib.contextmanager
def started(script: Path, *args: str, environment: dict[str, str]) -> Iterator[Started]:
    """Run a script in its folder; it ends with the block, and so does all that it started."""
    with started_command([sys.executable, script.name, *args], folder=script.parent, environment=environment) as it:
        yield it


@contextlib.contextmanager
def started_command(
    command: Sequence[str],
    *,
    folder: Path,
    environment: dict[str, str],
    cwd: Path | None = None,
    stdin: int | None = None,
) -> Iterator[Started]:
    """Run a command; it ends with the block, and so does all that it started.

    Args:
        command: What to run.
        folder: Where its studies are, and what it says: in ``out`` and ``err``.
        environment: Variables beside ours; one that is empty is none.
        cwd: Where it runs, if not in that folder.
        stdin: What it reads, if not what we do.
    """
    mark = secrets.token_hex(8)
    own = {"ETUDE_STUDIES": str(folder / "studies"), "ETUDE_PROGRESS": "0"}
    env = {**os.environ, **own, **environment, MARK: mark}
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen(
            command,
            cwd=cwd or folder,
            env={name: value for name, value in env.items() if value},
            stdin=stdin,
            stdout=out,
            stderr=err,
            text=True,
        )
    it = Started(process, folder, mark)
    try:
        yield it
    finally:
        process.kill()  # fine if it has ended
        processes.sweep(MARK, mark)
        if process.stdin is not None:
            process.stdin.close()
        process.wait(END_S)
        wait_for(lambda: not it.processes(), "what was killed is gone", patience_s=END_S)


@dataclass(frozen=True)
class Started:
    """A script at work, and all processes that come of it.

    Attributes:
        process: Its own process.
        folder: Where it runs, with what it says and with its studies.
        mark: Is in the environment of whatever it started.
    """

    process: subprocess.Popen[str]
    folder: Path
    mark: str

    @property
    def study(self) -> Path:
        """The folder of the study that it has."""
        return self.folder / "studies" / "study"

    def end(self, *, code: int = 0, limit_s: float = LIMIT_S) -> str:
        """Wait until it has ended, well if nothing else is said, and nothing of it is left; return what it printed.

        What Ray prints between that is not among it.
        """
        try:
            ended = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {limit_s:g} s, and says:\n{self.said()}") from None
        assert ended == code, self.said()
        if code == 0:
            wait_for(lambda: not self.processes(), "nothing of it is left")
        with (self.folder / "out").open() as out:
            return "".join(line for line in out if not line.startswith(RAY_SAYS))

    def said(self) -> str:
        """Return all that it has said so far."""
        return (self.folder / "out").read_text() + (self.folder / "err").read_text()

    def processes(self) -> list[int]:
        """Return all processes that it started, at any remove."""
        return [pid for pid in processes.marked(MARK, self.mark) if pid != self.process.pid]

    def wait_for(self, what: Callable[[], object], text: str) -> None:
        """Wait until something is the case while it works."""
        wait_for(lambda: self.process.poll() is not None or what(), text)
        assert self.process.poll() is None, self.said()

    def begun(self) -> int:
        """Return how many attempts of its study were begun."""
        return sum(trial.attempts for trial in self._trials())

    def finished(self) -> set[int]:
        """Return which trials of its study are finished."""
        return {trial.number for trial in self._trials() if trial.state == "finished"}

    def _trials(self) -> Sequence[Any]:
        try:
            return etude.open(self.study).trials
        except etude.NotAStudyError:
            return ()


def wait_for(what: Callable[[], object], text: str, *, patience_s: float = LIMIT_S) -> None:
    """Wait until something is the case; fail with what it is if it does not happen."""
    give_up_at = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < give_up_at, f"it did not happen within {patience_s:g} s: {text}"
        time.sleep(0.02)


def command(pid: int) -> str:
    """Return the command that a process runs; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def above(pid: int) -> list[int]:
    """Return the processes above another one, the nearest first."""
    parent = processes.parent(pid)
    return [parent, *above(parent)] if parent else []
