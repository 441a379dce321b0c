"""Engines of other people's clusters, for real; each file is skipped where its framework is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))  # their support.py is ours too

TEST_S = 600.0
"""No test here may take longer, its fixtures included: a framework that hangs would hold up all the others."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test here its limit; pytest asks us for those of this folder alone.

    The alarm raises in the test, so fixtures and context managers clean up. The plugin's other method ends the whole
    process at once, and would leave clusters behind. It takes the limit off a test that has failed: whoever cleans up
    has limits of their own, in ``apart``. The plugin is there where the frameworks are, and nothing is run elsewhere.
    """
    if item.config.pluginmanager.hasplugin("timeout"):
        item.add_marker(pytest.mark.timeout(TEST_S, method="signal"))
