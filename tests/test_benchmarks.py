"""Every benchmark runs, and ends with one line of JSON. How fast anything is, is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import common

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("gap", "handout", "quality", "reports", "startup", "stopping", "stragglers")


def test_every_benchmark_is_tested():
    there = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "BENCHMARK.main()" in path.read_text()}
    assert there == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_ends_with_one_line_of_json(name: str, tmp_path: Path):
    command = [sys.executable, "-m", f"benchmarks.{name}", "--small", "--runs", "1", "--only", "étude"]
    done = subprocess.run(
        [*command, "--work-dir", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    if "lies in memory" in done.stderr:
        pytest.skip("the temporary folder is no disk")
    assert done.returncode == 0, done.stderr

    lines = done.stdout.splitlines()
    found = json.loads(lines[-1])
    assert found["benchmark"] == name
    assert found["commit"] is None or int(found["commit"], 16) >= 0
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["cpu"]
    assert found["rows"]
    for row in found["rows"]:
        assert row["name"].startswith("étude")
        assert row["min"] <= row["median"] <= row["max"]
        assert row["runs"] == 1
        assert row["probe"] > 0
    for target in found["targets"]:
        assert set(target) == {"what", "target", "measured", "met"}
        assert isinstance(target["met"], bool)
    assert lines[0].split()[:1] == ["median"]
    assert not any(tmp_path.iterdir()), "studies are swept up"


def test_the_bound_is_that_of_a_list_schedule():
    from benchmarks.stragglers import durations, list_schedule

    assert list_schedule([3, 1, 1, 1, 2], workers=2) == 5
    lengths = durations(64)
    assert lengths == durations(64)
    assert max(lengths) <= 3.0
    assert list_schedule(lengths, workers=4) == pytest.approx(6.50, abs=0.01)


def test_the_floors_are_those_of_the_rules_themselves():
    from benchmarks.stopping import RULES, crossing, floor, make, rising, risk, simulate

    curves = rising(100, 30)
    assert curves == rising(100, 30)
    without = simulate(make("none"), curves, workers=4)
    assert without == {"steps": 750, "run": 3000, "stopped": 0, "best": max(curve[-1] for curve in curves)}
    found = {rule: round(floor(rule, 100, 30)["floor"], 3) for rule in RULES}
    assert found == {"median": 0.285, "median-best": 0.216, "asha": 0.179, "hyperband": 0.283}
    at_once = simulate(make("asha"), curves, workers=4, late=0)
    assert at_once["run"] < simulate(make("asha"), curves, workers=4)["run"]
    assert risk("asha", crossing(100, 30), orders=3)["share"] < 0.3


def test_p_values_are_corrected_for_their_number():
    from benchmarks.quality import holm

    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_the_functions_have_their_least_value_where_it_is_said_to_be():
    from benchmarks.quality import branin, hartmann, mixed, rosenbrock, sphere

    assert sphere(dict.fromkeys("abcde", 0.3)) == 0
    assert rosenbrock(dict.fromkeys("abcd", 1)) == 0
    assert branin({"x": 9.42478, "y": 2.475}) == pytest.approx(0, abs=1e-5)
    best = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
    assert hartmann(dict(zip("abcdef", best, strict=True))) == pytest.approx(0, abs=1e-4)
    assert mixed({"lr": 3e-3, "units": 96, "batch": 32, "drop": 0.2, "opt": "adam"}) == 0


def test_a_target_is_judged_by_its_rows_median():
    found = [{"rate": value, "probe": 1.0} for value in (1.0, 9.0, 5.0)]
    row = common.row("étude", common.Quantity("rate", "1/s"), found)
    assert (row["median"], row["min"], row["max"], row["runs"]) == (5.0, 1.0, 9.0, 3)
    assert common.judge(common.Target("fast", "étude: rate", 5.0, "1/s"), [row])["met"]
    assert not common.judge(common.Target("slow", "étude: rate", 4.9, "1/s", at_least=False), [row])["met"]


def test_a_failing_cell_ends_the_benchmark(tmp_path: Path):
    with pytest.raises(SystemExit, match="ended with code 1"):
        common.run_cell("stragglers", common.Cell("broken", {"trials": "many"}), tmp_path)


def test_the_page_shows_rows_and_says_what_was_missed():
    from benchmarks.page import page

    row = {"name": "étude: rate", "median": 1234.5, "min": 1.0, "max": 2.0, "runs": 3, "unit": "1/s"}
    target = {"what": "fast", "target": ">= 2000 1/s", "measured": 1234.5, "met": False}
    machine = {"cores": 2, "cpu": "a cpu", "python": "3.11"}
    result = {"benchmark": "b", "commit": "c", "machine": machine, "targets": [target]}
    text = page([{**result, "rows": [{**row, "probe": 1.0, "digits": 1}]}])
    assert "| étude: rate | 1,234.5 | 1.0 | 2.0 | 1/s | 3 | 1.00 |" in text
    assert "| fast | >= 2000 1/s | 1,234 | **missed** |" in text
