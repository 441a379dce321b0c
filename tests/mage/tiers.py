"""Sandboxes for tests: where a tier is missing its tests are skipped and say what is missing, and the others run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from etude.core.errors import SandboxMissing
from etude.mage.sandbox.finding import NOT_RUNNING, find_sandbox
from etude.mage.sandbox.protocol import Sandbox, Tier
from etude.mage.sandbox.supervising import below


def permitted(tier: Tier) -> Sandbox:
    """Return a sandbox that this machine permits; without one the test is skipped."""
    try:
        return find_sandbox(tier)
    except SandboxMissing as error:
        pytest.skip(f"no sandbox {tier.value} here: {str(error).partition(NOT_RUNNING)[0].strip()}")


BEFORE: set[int] = set()
"""Processes below this one that were there before a test began: browsers and servers that other tests share."""


@pytest.fixture(autouse=True)
def _before() -> None:
    BEFORE.clear()
    BEFORE.update(below(os.getpid()))


def left_below() -> list[int]:
    """Return the processes below this one that a test has left, without workers and what is kept warm for them."""

    def is_kept(pid: int) -> bool:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return True  # it has ended
        return b"etude.worker" in command or b"etude.tune" in command or b"multiprocessing" in command

    return [pid for pid in below(os.getpid()) if pid not in BEFORE and not is_kept(pid)]
