"""Sandboxes for tests: where a tier is missing its tests are skipped and say what is missing, and the others run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from etude.core.errors import SandboxMissing
from etude.mage.sandbox.finding import NOT_RUNNING, find_sandbox
from etude.mage.sandbox.protocol import Sandbox, Tier

Left = Callable[[], list[int]]
"""Returns the processes that a test has left: the fixture ``left_below``."""


def permitted(tier: Tier) -> Sandbox:
    """Return a sandbox that this machine permits; without one the test is skipped."""
    try:
        return find_sandbox(tier)
    except SandboxMissing as error:
        pytest.skip(f"no sandbox {tier.value} here: {str(error).partition(NOT_RUNNING)[0].strip()}")
