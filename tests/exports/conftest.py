"""Gives the tests of exports their study."""

from __future__ import annotations

from pathlib import Path

import pytest
from everything import written

from etude.results.search import Search


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Give a study in which everything happens that can happen to a trial, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path / "digits")
