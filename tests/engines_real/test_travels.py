"""One study that begins on this machine, goes on on Ray, and ends on Spark."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from apart import LIMIT_S, from_others, started
from support import table, write_script

import etude

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)
pytest.importorskip("ray", reason="Ray is not installed: pip install 'etude[ray]'")
pytest.importorskip("pyspark", reason="pyspark is not installed; see the extra etude[spark]")

TRIALS = 12

SCRIPT = """
    import json, os, sys, time
    from pathlib import Path
    import etude

    def train(lr: float, run):
        now = json.loads(Path(PROJECT, "now").read_text())
        with open(Path(PROJECT, "starts"), "a") as starts:
            starts.write(json.dumps([run.trial, now["engine"]]) + "\\n")
        (run.folder / "weights.bin").write_bytes(b"w" * 100_000)
        for epoch in run.epochs(3):
            run.report(score=lr * (epoch + 1))
            while epoch == 0 and run.trial >= now["hold_from"]:
                time.sleep(0.01)
        return 3 * lr

    PROJECT = os.getcwd()
    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        search = experiment.tune(
            {"lr": etude.uniform(0, 1)}, trials=int(sys.argv[2]), workers=2, sampler="random", stopper="none", seed=7,
            engine=sys.argv[1], name="study", wait=False,
        )
        if "stop-here" in sys.argv:
            while not Path(PROJECT, "stop").exists():
                time.sleep(0.01)
            search.stop()
        print(search.wait().counts(), search.complete, search.notes)
"""


def test_a_study_goes_from_this_machine_to_ray_and_to_spark_with_the_table_of_one_that_stayed(tmp_path: Path) -> None:
    script = write_script(tmp_path, SCRIPT)
    folder = tmp_path / "studies" / "study"

    def run(engine: str, *args: str, hold_from: int = TRIALS, stop_by: str = "", **environment: str) -> None:
        """Run the script until it ends, or until all before ``hold_from`` are finished and the next two at work."""
        (tmp_path / "now").write_text(json.dumps({"engine": engine, "hold_from": hold_from}))
        with (
            from_others() as others,
            started(script, engine, str(TRIALS), *args, environment={**others, **environment}) as driver,
        ):
            if not stop_by:
                assert driver.end() == f"{{'finished': {TRIALS}}} True []\n"
                return

            def both_are_held() -> bool:
                held = [trial for trial, where in starts() if trial >= hold_from and where == engine]
                return len(held) == 2 and reported(held) and driver.finished() == set(range(hold_from))

            driver.wait_for(both_are_held, "those before are finished, and the next two at work")
            if stop_by == "itself":
                (tmp_path / "stop").touch()
            else:
                command = [sys.executable, "-c", "from etude.cli import main; main()", "stop", str(folder)]
                subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
            assert " False " in driver.end()
        states = [t.state for t in etude.open(folder).trials[: hold_from + 2]]
        assert states == ["finished"] * hold_from + ["queued"] * 2

    def starts() -> list[tuple[int, str]]:
        with contextlib.suppress(FileNotFoundError):
            return [tuple(json.loads(line)) for line in (tmp_path / "starts").read_text().splitlines()]
        return []

    def reported(trials: list[int]) -> bool:
        return all(len(etude.open(folder).trials[trial].curve) == 1 for trial in trials)

    run("local", "stop-here", hold_from=4, stop_by="itself")
    run("ray", hold_from=8, stop_by="a command")
    run("spark")

    search = etude.open(folder)
    begun = [
        (range(4), ["local"]),
        ([4, 5], ["local", "ray"]),
        ([6, 7], ["ray"]),
        ([8, 9], ["ray", "spark"]),
        ([10, 11], ["spark"]),
    ]
    assert Counter(starts()) == Counter(
        (trial, where) for trials, places in begun for trial in trials for where in places
    )
    assert {(t.folder / "weights.bin").stat().st_size for t in search.trials} == {100_000}
    assert search.rows()
    run("local", ETUDE_STUDIES=str(tmp_path / "others"))
    assert table(folder) == table(tmp_path / "others" / "study")
