"""The benchmark of engines runs where they are. How fast anything is, is no test's business."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from apart import started_command, wait_for

pytest.importorskip("ray", reason="Ray is not installed: pip install 'etude[ray]'")
pytest.importorskip("pyspark", reason="pyspark is not installed; see the extra etude[spark]")

ROOT = Path(__file__).parents[2]
CELLS = ("ray: hand-out", "ray: kill of a carrier", "spark: stragglers", "waves: hand-out")


def test_engines_are_measured_beside_each_other(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    command = [sys.executable, "-m", "benchmarks.engines", "--small", "--runs", "1", "--only", ",".join(CELLS)]
    with started_command([*command, "--work-dir", str(work)], folder=tmp_path, environment={}, cwd=ROOT) as benchmark:
        wait_for(lambda: benchmark.process.poll() is not None, "it has ended")
        if "lies in memory" in benchmark.said():
            pytest.skip("the temporary folder is no disk")
        rows = json.loads(benchmark.end().splitlines()[-1])["rows"]
    measured = {row["name"].rpartition(": ")[2] for row in rows}
    assert measured == {"trials_per_s", "over_local", "over_bound", "again_s", "worst_s"}
    assert all(row["median"] > 0 for row in rows)
