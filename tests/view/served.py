"""A view that answers, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STARTS_S = 120


@dataclass
class Served:
    """A view that answers."""

    process: subprocess.Popen[str]
    link: str
    said: str = ""

    @property
    def address(self) -> str:
        return self.link.partition("/?")[0]

    @property
    def port(self) -> str:
        return self.address.rpartition(":")[2]

    def end(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        self.said, _ = self.process.communicate(timeout=STARTS_S)
        return self.process.returncode


Serve = Callable[..., Served]
AtWork = Callable[[Path], Path]
