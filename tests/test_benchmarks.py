"""Every benchmark runs, and ends with one line of JSON. How fast anything is, is no test's business."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import asynchrony, common
from hypothesis import given
from hypothesis import strategies as st

import etude

ROOT = Path(__file__).resolve().parent.parent
NAMES = (
    "ablate_pairing", "ablate_scaling", "ablator_rq2", "asynchrony", "autoablation_inception", "autoablation_mnist",
    "autoablation_titanic", "chaos", "contexts", "driver", "engines", "fidelity", "first_study", "gap", "handout",
    "importance_exact", "importance_io", "importance_moved", "importance_overhead", "importance_repartition",
    "importance_verdict", "mage_judged", "mage_limits", "mage_requests", "mage_scan", "mage_tokens", "moving_lines",
    "paper2", "parallel_elastic", "parallel_equal", "parallel_fails", "parallel_step", "partitions_paper4", "quality",
    "removal_cost", "removal_zoo", "report_size", "report_time", "reports", "server", "simulate", "startup", "stopping",
    "stragglers", "system_crowded", "system_lossless", "system_overhead", "system_pipetune", "system_profiles",
    "system_recognise", "system_regret", "system_sizes", "system_tables", "system_tenants", "tablator",
    "verdicts_designs", "verdicts_golden", "verdicts_margin", "verdicts_null", "verdicts_power", "verdicts_racing",
    "view", "weights_live", "weights_paper5", "weights_prefix", "weights_stall", "weights_storage",
)  # fmt: skip


def test_every_benchmark_is_tested():
    there = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "BENCHMARK.main()" in path.read_text()}
    assert there == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.thorough
def test_a_benchmark_ends_with_one_line_of_json(name: str, tmp_path: Path):
    command = [sys.executable, "-m", f"benchmarks.{name}", "--small", "--runs", "1", "--only", "étude"]
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        [*command, "--work-dir", str(place)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    if "lies in memory" in done.stderr:
        pytest.skip("the temporary folder is no disk")
    if "No network namespaces" in done.stderr:
        pytest.skip("networks of our own cannot be made here")
    if "Not running generated code" in done.stderr:
        pytest.skip("this kernel does not permit all sandboxes, or bubblewrap is not installed")
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
    assert not any(place.iterdir()), "studies are swept up"


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


@pytest.mark.parametrize("workers", [2, 5])
def test_a_wave_begins_when_the_one_before_has_ended(workers: int):
    from benchmarks.stragglers import durations, list_schedule
    from benchmarks.waves import FORMS, four, tune

    lengths = durations(13)
    curve = asynchrony.make_curve("y", [[(length, -length)] for length in lengths])
    experiment = etude.Experiment(asynchrony.nothing, metric="y", mode="max")
    studies = []

    def run(**form: Any) -> etude.Search:
        start = [{"k": k} for k in range(len(lengths))]
        engine = etude.Simulated(curves=curve, workers=workers)
        space = {"k": list(range(len(lengths)))}
        studies.append(tune(experiment, space, trials=13, workers=workers, start=start, engine=engine, **form))
        return studies[-1]

    found = four(run)
    assert list(found) == list(FORMS)
    in_waves = sum(max(lengths[at : at + workers]) for at in range(0, 13, workers))
    assert found["waves"].makespan_s == pytest.approx(in_waves)
    assert found["async"].makespan_s == pytest.approx(list_schedule(lengths, workers))
    assert found["waves"].best == found["async"].best == -min(lengths)
    begun = [trial.started_at for trial in studies[0].trials]
    ended = [trial.ended_at for trial in studies[0].trials]
    for at in range(workers, 13, workers):
        assert set(begun[at : at + workers]) == {max(ended[at - workers : at])}


def test_a_rule_may_stop_trials_in_a_wave():
    from benchmarks.waves import Went, tune

    curve = asynchrony.make_curve("y", [[(1.0, float(k < 4))] * 3 for k in range(8)])
    study = tune(
        etude.Experiment(asynchrony.nothing, metric="y", mode="max"),
        {"k": list(range(8))},
        trials=8,
        start=[{"k": k} for k in range(8)],
        workers=4,
        name="stopped",
        waves=True,
        stopper="median",
        engine=etude.Simulated(curves=curve, workers=4),
    )
    path = ((3.0, 1.0),)
    assert Went.of(study) == Went(makespan_s=5.0, best=1.0, stopped=4, path=path)  # a stop is seen at the next report


def test_the_best_so_far_is_of_trials_that_have_finished_and_begins_where_all_studies_have_one():
    from benchmarks.waves import Went, best_so_far, path_of

    def trial(began: float, ended: float, value: float | None) -> SimpleNamespace:
        state = "finished" if value is not None else "stopped"
        return SimpleNamespace(started_at=began, ended_at=ended, value=value, state=state)

    trials = [trial(10.0, 18.0, 0.9), trial(10.0, 11.0, None), trial(10.0, 12.0, 0.5), trial(12.0, 15.0, 0.4)]
    assert path_of(trials, larger_is_better=True) == ((2.0, 0.5), (8.0, 0.9))
    assert path_of(trials, larger_is_better=False) == ((2.0, 0.5), (5.0, 0.4))
    one = Went(9.0, 0.9, 1, path_of(trials, larger_is_better=True))
    other = Went(6.0, 0.7, 0, ((3.0, 0.1), (4.0, 0.7)))
    assert math.isnan(one.best_at(1.9))
    assert (one.best_at(2.0), one.best_at(100.0)) == (0.5, 0.9)
    assert best_so_far([one, other]) == [
        (3.0, pytest.approx(0.3)),
        (4.0, pytest.approx(0.6)),
        (8.0, pytest.approx(0.8)),
        (9.0, pytest.approx(0.8)),
    ]


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_shares_of_what_multiplies_add_up(asynchrony_alone: float, stopping_alone: float):
    from benchmarks.shares import share_of_asynchrony

    def share(waves_median: float, asynchronous: float) -> float:
        times = {"waves": 1.0, "waves_median": waves_median, "async": asynchronous}
        return share_of_asynchrony({**times, "async_median": waves_median * asynchronous})

    if asynchrony_alone * stopping_alone == 1.0:
        assert math.isnan(share(stopping_alone, asynchrony_alone))
        return
    both = share(stopping_alone, asynchrony_alone) + share(asynchrony_alone, stopping_alone)
    assert both == pytest.approx(1.0)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30))
def test_an_interval_holds_the_mean_of_what_does_not_vary_and_lies_among_the_values(values: list[float]):
    from benchmarks.shares import interval

    low, high = interval(values, resamples=50)
    assert (low, high) == interval(values, resamples=50)
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert min(values) - slack <= low <= high <= max(values) + slack


def test_an_interval_is_about_as_wide_as_the_error_of_the_mean_says():
    from benchmarks.shares import interval

    draws = random.Random(1)
    values = [draws.gauss(5.0, 1.0) for _ in range(100)]
    low, high = interval(values)
    assert high - low == pytest.approx(2 * 1.96 * statistics.stdev(values) / 10, rel=0.1)


def test_live_trials_are_the_curves_made_short():
    curves = asynchrony.Curves(small=True)
    along = asynchrony.courses(curves, trials=6, mean_s=0.4)
    lengths = [sum(seconds for seconds, _ in course) for course in along]
    assert sum(lengths) / 6 == pytest.approx(0.4)
    drawn = [r for r in curves.records if any(r["metrics"]["accuracy"][-1] == course[-1][1] for course in along)]
    assert len(drawn) >= 6


def test_the_seconds_of_lost_attempts_count_as_work():
    from benchmarks.waves import tune

    curve = asynchrony.make_curve("y", [[(10.0, 1.0)]] * 40)
    study = tune(
        etude.Experiment(asynchrony.nothing, metric="y", mode="max"),
        {"k": list(range(40))},
        trials=40,
        start=[{"k": k} for k in range(40)],
        workers=3,
        name="lossy",
        engine=etude.Simulated(curves=curve, workers=3, failures=0.3),
    )
    busy_s, lost = asynchrony.at_work(study)
    assert lost == sum(trial.attempts - (trial.state == "finished") for trial in study.trials) > 0
    finished = study.counts()["finished"]
    assert 10.0 * finished < busy_s <= 3 * study.makespan_s
    assert asynchrony.most_s(study, share=1.0) == max(trial.ended_at for trial in study.trials)


def test_the_papers_curves_are_the_first_configurations_of_the_search():
    from benchmarks import paper2_curves

    records, how = paper2_curves.records(), paper2_curves.how()
    assert len(records) == paper2_curves.TRIALS
    assert {len(record["seconds"]) for record in records} == {how["epochs"]}
    search = etude.Experiment(asynchrony.nothing, metric="accuracy", mode="max").tune(
        paper2_curves.space(),
        trials=len(records),
        sampler="random",
        stopper="none",
        seed=how["seed"],
        engine=etude.Simulated(curves=etude.RecordedCurves(records), workers=4),
    )
    assert [trial.params for trial in search.trials] == [record["params"] for record in records]
    assert search.best.value == max(record["metrics"]["accuracy"][-1] for record in records)


def test_the_papers_network_takes_every_kernel_and_pooling():
    torch = pytest.importorskip("torch")
    from benchmarks import paper2_curves

    for kernel in range(2, 9):
        for pool in range(2, 9):
            net = paper2_curves.model(kernel, pool, 0.5)
            assert net(torch.zeros(1, 1, 28, 28)).shape == (1, 10)


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


def test_a_target_may_be_a_ratio_or_of_the_worst_run():
    found = {"here": (4.0, 8.0, 6.0), "there": (3.0, 9.0, 6.6), "slow": (1.0, 1.5, 2.5)}
    quantity = common.Quantity("n", "")
    rows = [common.row(cell, quantity, [{"n": n, "probe": 1.0} for n in ns]) for cell, ns in found.items()]
    ratio = common.judge(common.Target("as fast", "there: n", 1.0, "", over="here: n"), rows)
    assert (ratio["measured"], ratio["met"]) == (pytest.approx(1.1), True)
    worst = common.judge(common.Target("soon", "slow: n", 2.0, "s", at_least=False, worst=True), rows)
    assert (worst["measured"], worst["met"]) == (2.5, False)
    assert common.judge(common.Target("ever", "there: n", 3.0, "", worst=True), rows)["met"]


def test_a_failing_cell_ends_the_benchmark(tmp_path: Path):
    with pytest.raises(SystemExit, match="ended with code 1"):
        common.run_cell("stragglers", common.Cell("broken", {"trials": "many"}), tmp_path)


def test_a_page_shows_rows_and_says_what_was_missed():
    from benchmarks.page import pages

    row = {"name": "étude: rate", "median": 1234.5, "min": 1.0, "max": 2.0, "runs": 3, "unit": "1/s"}
    target = {"what": "fast", "target": ">= 2000 1/s", "measured": 1234.5, "met": False}
    machine = {"cores": 2, "cpu": "a cpu", "python": "3.11"}
    result = {"benchmark": "gap", "commit": "c", "changed": False, "machine": machine, "targets": [target]}
    (text,) = pages([{**result, "rows": [{**row, "probe": 1.0, "digits": 1}]}]).values()
    assert "| étude: rate | 1,234.5 | 1.0 | 2.0 | 1/s | 3 | 1.00 |" in text
    assert "| fast | >= 2000 1/s | 1,234 | **missed** |" in text


def test_the_pages_of_results_are_what_the_kept_lines_give():
    from benchmarks.page import RESULTS, files, kept

    results = kept()
    assert not any(result["small"] for result in results)
    found = {path.name: path.read_text() for path in RESULTS.iterdir() if path.is_file() and path.stem != "README"}
    assert found == files(results), "run `python -m benchmarks.page`"


def test_the_figures_of_the_front_page_are_those_of_the_kept_lines_that_it_links():
    from benchmarks.page import kept

    lines = {result["benchmark"]: result["rows"] for result in kept()}
    table = (ROOT / "README.md").read_text().partition("| measured by |")[2].splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in itertools.takewhile(bool, table)]
    assert len(rows) > 10
    for what, ours, theirs, measured_by in rows:
        name = re.fullmatch(r"\[(\w+)\]\(docs/results/[\w-]+\.md#\1\)", measured_by)
        assert name is not None, what
        values = [row["median"] for row in lines[name[1]]]
        for figure in re.findall(r"\d[\d,]*(?:\.\d+)?", re.sub(r"\d+ of \d+", "", f"{ours} {theirs}")):
            assert any(map(partial(is_said, figure), values)), f"{what}: {figure} is no median of {name[1]}"


def is_said(figure: str, value: float) -> bool:
    """Say whether a figure is a value, rounded to the digits that the figure has."""
    digits = figure.replace(",", "").replace(".", "")
    digits = digits if "." in figure else digits.rstrip("0")
    return float(f"{value:.{max(1, len(digits.lstrip('0')))}g}") == float(figure.replace(",", ""))


def test_a_benchmark_without_targets_has_no_table_of_them():
    from benchmarks.page import section

    machine = {"cores": 2, "cpu": "a cpu", "python": "3.11"}
    none = {"targets": [], "rows": []}
    text = section({"benchmark": "b", "commit": "c", "changed": True, "machine": machine, **none})
    assert "| target |" not in text


def test_the_figure_has_a_bar_and_a_whisker_for_each_ratio():
    from xml.etree import ElementTree

    from benchmarks.figure import figure, read
    from benchmarks.shares import RATIOS

    ends = {"": 0.5, "_low": 0.4, "_high": 0.6}
    rows = [
        {"name": f"étude {workers} workers: {name}{end}", "median": value}
        for workers in (16, 4)
        for name in RATIOS
        for end, value in ends.items()
    ]
    others = [{"name": f"étude 4 workers: {name}", "median": 9.0} for name in ("async_s", "change_low", "waves_best")]
    result = {"benchmark": "paper2", "rows": [*rows, *others, {"name": "étude live, 2 workers: both", "median": 9.0}]}
    assert read(result) == {n: dict.fromkeys(RATIOS, (0.5, 0.4, 0.6)) for n in (4, 16)}
    drawn = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(figure(result)).iter()]
    assert drawn.count("rect") == 1 + len(RATIOS) + 2 * len(RATIOS)
    assert drawn.count("path") == 1 + 2
    plain = ElementTree.fromstring(figure({**result, "benchmark": "asynchrony"})).iter()
    assert not [element for element in plain if element.tag.endswith("path")]


def test_the_best_so_far_has_a_panel_for_each_number_of_workers_whose_run_times_are_the_measured_ones():
    from xml.etree import ElementTree

    from benchmarks.figure import sooner

    cells = ("étude 4 workers", "étude 16 workers")
    path = {"waves": [[1.0, 0.5], [9.0, 0.8]], "async_median": [[1.0, 0.5], [4.0, 0.8]]}
    details = {cell: {"best_so_far": path} for cell in (*cells, "étude 4 workers, equal run times")}
    result = {"benchmark": "paper2", "rows": [], "details": details}
    drawn = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(sooner(result)).iter()]
    assert (drawn.count("g"), drawn.count("polyline")) == (2, 4)


def test_trials_far_slower_than_the_others_of_their_study_are_told_of_and_three_runs_are_no_single_one():
    from benchmarks.autoablation.page import inception

    def line(runs: int, alone_s: list[float]) -> dict[str, Any]:
        arm = {"name": "base", "mean": 0.1, "values": {"0": 0.1}, "changes": [], "parameters": 7}
        at = {"images": 48, "epochs": 1, "batch_size": 16}
        arms = [{**arm, "name": f"arm {nth}"} for nth in range(3)]
        cells = {"étude, 1 worker": (alone_s, 12.0), "étude, 2 workers": ([4.0, 4.0, 4.0], 6.0)}
        rows = [
            {"name": f"{cell}: {name}", "median": value, "probe": 1.0, "runs": runs}
            for cell, (_, wall_s) in cells.items()
            for name, value in (("study_s", wall_s), ("plan_s", 1.0), ("over_bound", 1.0), ("trials_s", 9.0))
        ]
        details = {cell: {"arms": arms, "trial_s": trial_s, "at": at} for cell, (trial_s, _) in cells.items()}
        shared = {"commit": "c", "changed": False, "machine": {"cores": 2, "cpu": "a cpu", "python": "3.11"}}
        return {"benchmark": "autoablation_inception", "rows": rows, "details": details, **shared}

    def told(runs: int, alone_s: list[float]) -> str:
        return " ".join(inception(line(runs, alone_s))["autoablation-inception.md"].split())

    uneven, even = told(1, [3.0, 3.5, 19.5]), told(3, [3.0, 3.5, 3.25])
    assert "study with 1 worker, 1 of 3 trials took 19.5 s where the others took 3.0 to 3.5" in uneven
    assert "look quicker" not in even
    assert ("--runs 1" in uneven, "--runs 1" in even) == (True, False)
    assert ("Medians of" in uneven, "Medians of 3 runs" in even) == (False, True)
    assert "| 2 | 6 | 2.00 | 2 | 9 | 1.000 | 1.00 |" in even


def test_a_benchmark_that_goes_on_measures_only_what_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    measured, at = [], {"commit": "abc", "changed": False}
    benchmark = common.Benchmark("one", lambda small: (), lambda args, place: {}, (), ())
    cells = [common.Cell(name, {"x": name}) for name in ("a", "b")]

    def run_cell(name: str, cell: common.Cell, place: Path) -> common.Result:
        if len(measured) == 3 and at["commit"] == "abc":
            raise SystemExit("killed")
        measured.append(cell.name)
        return {"s": len(measured), "probe": 1.0}

    def measure() -> dict[str, list[common.Result]]:
        return benchmark.measure(cells, 2, tmp_path, common.Measured(tmp_path / "kept.jsonl"))

    monkeypatch.setattr(common, "run_cell", run_cell)
    monkeypatch.setattr(common, "commit", lambda: at["commit"])
    monkeypatch.setattr(common, "changed", lambda: at["changed"])
    with pytest.raises(SystemExit, match="killed"):
        measure()
    monkeypatch.setattr(common, "run_cell", lambda name, cell, place: {"s": 4, "probe": 1.0})
    gone_on = measure()
    assert measured == ["a", "b", "a"]
    assert [[one["s"] for one in gone_on[name]] for name in "ab"] == [[1, 3], [2, 4]]
    at["changed"] = True
    assert [one["s"] for one in measure()["a"]] == [4, 4], "what was measured of other code is not taken"
    at.update(commit="abd", changed=False)
    assert [one["s"] for one in measure()["a"]] == [4, 4]
