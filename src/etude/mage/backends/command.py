"""A program of the user's is asked: the question on its standard input, the answer on its standard output."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from etude.core.errors import BackendError, ConfigError
from etude.mage.backends.capabilities import Capability
from etude.mage.backends.hosts import THIS_MACHINE
from etude.mage.backends.protocol import Reply, Request
from etude.mage.backends.wording import as_text
from etude.mage.scrubbing import scrub, secrets_of

MOST_BYTES: Final = 10_000_000
"""An answer may have so many bytes."""

ERRORS_SHOWN: Final = 800
"""So many of the last characters of standard error are shown."""


class Command:
    """Asks a program, such as ``llm -m x`` or ``ollama run x``. It needs no package of ours.

    It gets the user's whole environment, where its own keys are. Where it sends the question nobody can know.

    Args:
        command: The program and its arguments; no shell reads them.
        timeout_s: How long it may take. Then it is ended, with all that it started.
        environment: Its environment.
        capability: What the model behind it takes and gives, if that is known.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout_s: float = 600.0,
        environment: Mapping[str, str],
        capability: Capability | None = None,
    ) -> None:
        if not command:
            raise ConfigError("command: names no program. Write it as command:llm -m some-model.")
        self.command = tuple(command)
        self.name = f"command:{shlex.join(self.command)}"
        self.host = THIS_MACHINE
        self.timeout_s = timeout_s
        self.capability = capability
        self._environment = environment

    def __repr__(self) -> str:
        return f"Command({list(self.command)!r})"

    def ready(self) -> None:
        """Check that there is such a program.

        Raises:
            BackendError: There is none; its code is ``not installed``.
        """
        if shutil.which(self.command[0], path=self._environment.get("PATH")) is None:
            raise BackendError(
                f"There is no program {self.command[0]!r}. Install it, or give its whole path.", code="not installed"
            )

    def sent(self, request: Request) -> bytes:
        """Return what would be written down for whoever answers, byte for byte."""
        return as_text(request).encode("utf-8", "surrogatepass")

    def ask(self, request: Request) -> Reply:
        """Return what the program prints.

        Raises:
            BackendError: It is not there, took too long, or ended with another code than 0.
        """
        self.ready()
        # Files and no pipes: a process that outlives the program would hold a pipe open, and us with it.
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            asked.write(self.sent(request))
            asked.seek(0)
            code = self._run(asked, out, err)
            secrets = secrets_of(self._environment)
            said, errors = (scrub(_read(file), secrets) for file in (out, err))
        if code is None:
            raise BackendError(
                f"{self.command[0]} did not end within {self.timeout_s:g} s, and was ended. "
                f"Give it more time.{_told(errors)}",
                code="timeout",
                may_retry=True,
            )
        if code != 0:
            by = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise BackendError(f"{self.command[0]} {by}; what it printed is not used.{_told(errors)}", code="server")
        return Reply(text=said.decode("utf-8", "replace"), raw=said)

    def _run(self, asked: IO[bytes], out: IO[bytes], err: IO[bytes]) -> int | None:
        """Run the program to its end; None if that was the end of its time."""
        process = subprocess.Popen(
            self.command, stdin=asked, stdout=out, stderr=err, env=dict(self._environment), start_new_session=True
        )
        try:
            return process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:  # also when somebody interrupts us
            if process.poll() is None:
                end_with_descendants(process)


def end_with_descendants(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it started, those included that left its group."""
    for pid in (*_descendants(process.pid), process.pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> list[int]:
    """Return the processes below one, where the system shows them; elsewhere its group has to do."""
    found = [pid]
    for parent in found:
        for listed in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, listed.read_text().split())
    return found[1:]


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MOST_BYTES)


def _told(errors: bytes) -> str:
    text = errors.decode("utf-8", "replace").strip()
    shown = text if len(text) <= ERRORS_SHOWN else f"...{text[-ERRORS_SHOWN:]}"
    return f" It says: {shown}" if shown else ""
