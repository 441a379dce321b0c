"""A search of two trials from end to end, for which the core is enough; ``make test-pythons`` has it on each Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import etude

SCRIPT = """
import etude

def train(run, *, x: float):
    for _ in run.epochs(2):
        run.report(score=x)
    return x

experiment = etude.Experiment(train, metric="score", mode="max")
experiment.tune({"x": etude.uniform(0, 1)}, trials=2, workers=2, name="two")
"""


def test_a_script_searches_in_processes_and_its_study_is_read(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-W", "error", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    search = etude.open("two")
    assert search.counts() == {"finished": 2}
    assert [len(trial.reports) for trial in search.trials] == [2, 2]
    assert search.best.value == max(trial.value for trial in search.trials)
