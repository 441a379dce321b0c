"""The benchmark of engines runs where they are. How fast anything is, is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from apart import LIMIT_S

pytest.importorskip("ray", reason="Ray is not installed: pip install 'etude[ray]'")
pytest.importorskip("pyspark", reason="pyspark is not installed; see the extra etude[spark]")

ROOT = Path(__file__).parents[2]
CELLS = ("ray: hand-out", "ray: kill of a carrier", "spark: stragglers", "waves: hand-out")


def test_engines_are_measured_beside_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.engines", "--small", "--runs", "1", "--only", ",".join(CELLS)]
    done = subprocess.run(
        [*command, "--work-dir", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if "lies in memory" in done.stderr:
        pytest.skip("the temporary folder is no disk")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert {row["name"].rpartition(": ")[2] for row in rows} == {"trials_per_s", "over_bound", "again_s", "worst_s"}
    assert all(row["median"] > 0 for row in rows)
