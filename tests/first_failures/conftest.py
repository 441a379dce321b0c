"""A stranger in a folder of their own: what a script shows that is run there as it stands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from shown import Shown, run_here


@pytest.fixture
def stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[str], Shown]:
    """Give what runs a script as ``python script.py`` does, in a folder where nothing else is, without a GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda source: run_here(source, tmp_path, capfd.readouterr)
