"""What a verb was called with, as far as it says how a study is run and not what it is to find out: checked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from etude.core.errors import ConfigError
from etude.core.numbers import is_number, whole

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Call:
    """How a study is to be run. All of it may change from one run of a study to the next, but for the name.

    Attributes:
        workers: How many trials run at a time.
        name: The study's name; None if it is to be named by its definition.
        retries: How often a trial is run again whose process was killed or lost.
        timeout_s: Seconds after which a trial is ended; None for no limit.
        grace_s: Seconds that a trial has to see a stop.
        reuse_child: Whether one process runs trial after trial.
    """

    workers: int
    name: str | None = None
    retries: int = 2
    timeout_s: float | None = None
    grace_s: float = 10.0
    reuse_child: bool = False

    @classmethod
    def read(
        cls,
        *,
        workers: int | None,
        name: str | None,
        retries: int,
        timeout_s: float | None,
        grace_s: float,
        reuse_child: bool,
    ) -> Call:
        """Read what a verb was given.

        Raises:
            ConfigError: Something of it cannot be.
        """
        if timeout_s is not None and not (is_number(timeout_s) and timeout_s > 0):
            raise ConfigError(f"timeout_s={timeout_s!r} leaves no time. Pass seconds above 0, or None for no limit.")
        if not (is_number(grace_s) and grace_s >= 0):
            raise ConfigError(f"grace_s={grace_s!r} is no time. Pass seconds; 0 ends a trial as soon as it is stopped.")
        if name is not None and (not isinstance(name, str) or not NAME.fullmatch(name)):
            raise ConfigError(
                f"name={name!r} cannot name a folder. Use letters, digits, '.', '_' and '-', and start with a "
                "letter or a digit."
            )
        return cls(
            workers=whole(
                "workers", available_cores() if workers is None else workers, 1, "nobody would run the trials"
            ),
            name=name,
            retries=whole("retries", retries, 0, "0 already runs every trial just once"),
            timeout_s=timeout_s,
            grace_s=grace_s,
            reuse_child=reuse_child,
        )

    @property
    def threads(self) -> int:
        """How many threads a trial may use: the cores, shared evenly."""
        return max(1, available_cores() // self.workers)


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
