"""What pages say of Ray and of Spark runs there, as it stands on them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from apart import from_others, started, started_command
from tests.pages import blocks_of

import etude

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)

PATIENT = {"RAY_raylet_start_wait_time_s": "120"}
"""A raylet may take longer than Ray's own 30 seconds on a busy machine."""

LONGEST_S = 540.0
"""Ray Tune starts a process for each trial, eight on the page."""

BEFORE = """
import etude


def train(run, lr: float):
    for epoch in run.epochs(3):
        run.report(score=1 - (lr - 0.3) ** 2)


experiment = etude.Experiment(train, metric="score", mode="max")
space = {"lr": etude.uniform(0, 1)}
"""
SPARK = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[4,4]").config("spark.ui.enabled", "false").getOrCreate()
"""
AFTER = """
print(search.counts().get("failed", 0), len(search.trials), search.meta["call"]["engine"])
"""
FILES = """
import json
from pathlib import Path

known = [json.loads(file.read_text()) for file in Path(results.experiment_path).glob("*/params.json")]
print(results.num_errors, json.dumps(known))
"""


@pytest.fixture
def block(request: pytest.FixtureRequest) -> str:
    """The block of a page that is marked as run by this test."""
    (found,) = blocks_of("tests/engines_real/test_pages_on_clusters.py", request.node.originalname)
    return found


def script(folder: Path, *parts: str) -> Path:
    folder.mkdir()
    (folder / "script.py").write_text("".join(parts))
    return folder / "script.py"


def test_the_call_of_the_page_has_its_workers_on_ray(block: str, tmp_path: Path) -> None:
    """The cluster's cores and GPUs are numbers that Ray was told; its trials take neither."""
    pytest.importorskip("ray")
    keeping = [sys.executable, str(Path(__file__).with_name("ray_cluster.py"))]
    written = script(tmp_path / "project", BEFORE, block, AFTER)
    (tmp_path / "ray").mkdir()
    with (
        from_others() as environment,
        started_command(
            keeping, folder=tmp_path / "ray", environment=environment | PATIENT, stdin=subprocess.PIPE
        ) as keeper,
    ):
        out = tmp_path / "ray" / "out"
        keeper.wait_for(lambda: out.read_text().endswith("\n"), "the cluster is there")
        address = json.loads(out.read_text().splitlines()[0])
        assert keeper.process.stdin is not None
        print(f"add A {json.dumps({'num_cpus': 8, 'num_gpus': 2})}", file=keeper.process.stdin, flush=True)
        keeper.wait_for(lambda: out.read_text().count("\n") == 2, "the machine is there")
        with started(written, environment={**environment, "RAY_ADDRESS": address}) as driver:
            told = driver.end().split()
        keeper.process.stdin.close()
        keeper.process.wait(60)
    assert told[:2] == ["0", "20"]
    assert told[2] == "Ray"


def test_the_call_of_the_page_has_its_workers_on_spark(block: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    written = script(tmp_path / "project", BEFORE, SPARK, block, AFTER)
    with from_others() as environment, started(written, environment=environment) as driver:
        assert driver.end().splitlines()[-1] == "0 20 Spark"


@pytest.mark.thorough
def test_the_script_of_ray_tune_runs_and_its_results_come_along(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page reads of Ray's folder is what Ray writes there: `params.json`, with parameters of the space."""
    pytest.importorskip("ray.tune", exc_type=ImportError)
    written = script(tmp_path / "project", block, FILES)
    with from_others() as environment:
        home = {**environment, **PATIENT, "HOME": str(tmp_path), "RAY_AIR_NEW_OUTPUT": "0"}
        with started(written, environment=home) as driver:
            errors, _, told = driver.end(limit_s=LONGEST_S).splitlines()[-1].partition(" ")
    assert errors == "0"
    known = json.loads(told)
    assert len(known) == 8

    def train(run, *, lr: float, width: int = 32) -> float:
        return lr + width

    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    space = {"lr": etude.loguniform(1e-3, 1.0), "width": [16, 32, 64]}
    draft = etude.Experiment(train, metric="score", mode="max")
    search = draft.tune(space, trials=8, start=known, engine=simulated())
    assert [trial.params for trial in search.trials] == known


def simulated() -> etude.Simulated:
    return etude.Simulated(curves=lambda params, seed: [(1.0, {"score": params["lr"]})], workers=2)
