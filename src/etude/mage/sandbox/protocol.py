"""What a sandbox is: a command in, what it printed and how it ended out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Tier(StrEnum):
    """How much a sandbox keeps apart, the most first."""

    BWRAP = "bwrap"
    NAMESPACES = "namespaces"
    LIMITS = "limits"
    OUTER = "outer"


@dataclass(frozen=True)
class Limits:
    """What a command may take.

    Attributes:
        wall_s: Seconds, from start to end; all that it started is ended then, too.
        cpu_s: CPU seconds of each process; None for any.
        memory_mb: Address space of each process; None for any.
        processes: How many at a time; None for any.
        output_bytes: So much of what it prints is kept, half from the beginning and half from the end.
        file_mb: How large a file may become; None for any.
    """

    wall_s: float = 120.0
    cpu_s: float | None = None
    memory_mb: int | None = None
    processes: int | None = 256
    output_bytes: int = 10_000_000
    file_mb: int | None = None


@dataclass(frozen=True)
class Ran:
    """How a command ended.

    Attributes:
        code: Its exit code; None if it was killed.
        signal: The signal that killed it, or None.
        timed_out: Whether that was its time limit.
        out: What it printed on standard output.
        err: What it printed on standard error.
        wall_s: How long it took, until nothing of it was left.
        tier: What it ran in.
        stopped: Why we ended it: ``time limit`` or ``more than 256 processes``; empty if we did not.
    """

    code: int | None
    signal: int | None = None
    timed_out: bool = False
    out: bytes = b""
    err: bytes = b""
    wall_s: float = 0.0
    tier: Tier = Tier.LIMITS
    stopped: str = ""


@dataclass(frozen=True)
class Job:
    """What is to be run.

    Attributes:
        command: The program and its arguments.
        folder: Where it runs, and the only place that it may write to.
        reads: Further folders and files that it may read: the interpreter's, the project's, data.
        hides: What of these it is not to find: sockets and pipes, for instance, which can be talked to by whoever may
            read them. Only bubblewrap can hide anything.
        environment: All of its environment.
        limits: What it may take.
        network: Whether it may reach any.
    """

    command: Sequence[str]
    folder: Path
    reads: Sequence[Path] = ()
    hides: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    network: bool = False


class Sandbox(Protocol):
    """Runs commands.

    Attributes:
        tier: How much it keeps apart.
    """

    tier: Tier

    def run(self, job: Job) -> Ran:
        """Run a command to its end, or to that of its time, and leave none of its processes behind."""
        ...
