"""What tests of the mage share: what a sandbox has left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from etude.mage.sandbox.supervising import below


@pytest.fixture
def left_below() -> Callable[[], list[int]]:
    """Give a function that returns the processes below this one that a test has left.

    Those that were there before are browsers and servers that other tests share. Workers are kept warm for others, too.
    """
    before = set(below(os.getpid()))

    def is_kept(pid: int) -> bool:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return True  # it has ended
        return b"etude.worker" in command or b"etude.tune" in command or b"multiprocessing" in command

    return lambda: [pid for pid in below(os.getpid()) if pid not in before and not is_kept(pid)]
