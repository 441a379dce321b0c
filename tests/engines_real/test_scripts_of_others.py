"""Scripts of other tools, from the pages for those who come from them, run, and leave what the pages read."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.pages import ROOT, blocks_of, run

BEFORE_KERAS_TUNER = """
import numpy as np

x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
y = x.sum(1)
"""


@pytest.fixture
def block(request: pytest.FixtureRequest) -> str:
    """The block of a page that is marked as run by this test."""
    (found,) = blocks_of("tests/engines_real/test_scripts_of_others.py", request.node.originalname)
    return found


def test_the_script_of_hydra_runs_four_jobs_by_the_command_beside_it(block: str, tmp_path: Path) -> None:
    pytest.importorskip("hydra", reason="Hydra is not installed: make test-engines")
    page = (ROOT / "docs" / "coming-from" / "hydra.md").read_text()
    [*_, command] = re.findall(r"`python (train\.py -m [^`]+)`", page)
    (tmp_path / "train.py").write_text(block)
    (tmp_path / "config.yaml").write_text("lr: 0.1\nwidth: 32\n")
    done = run(sys.executable, *shlex.split(command), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("multirun/*/*/*/.hydra/overrides.yaml"))) == 4


@pytest.mark.thorough
def test_the_script_of_keras_tuner_runs_and_leaves_what_the_page_reads(block: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("keras_tuner", reason="Keras Tuner is not installed: make test-engines")
    (tmp_path / "script.py").write_text(BEFORE_KERAS_TUNER + block)
    done = run(sys.executable, "script.py", cwd=tmp_path, KERAS_BACKEND="torch", TF_CPP_MIN_LOG_LEVEL="3")
    assert done.returncode == 0, done.stderr
    assert "{'units': " in done.stdout
    written = [json.loads(file.read_text()) for file in (tmp_path / "old" / "sums").glob("trial_*/trial.json")]
    assert len(written) == 4
    assert all(set(trial["hyperparameters"]["values"]) == {"units", "lr"} for trial in written)
    assert all(trial["score"] > 0 and trial["status"] == "COMPLETED" for trial in written)
