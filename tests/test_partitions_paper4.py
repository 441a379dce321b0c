"""The paper's printed numbers are compared to the last digit, and what is told of its runs follows from them."""

from __future__ import annotations

import copy
import gzip
import random
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from benchmarks import partitions_paper4
from benchmarks.page import kept
from benchmarks.paper4 import compared, figures, judged, page, runs, seeds, selected
from benchmarks.paper4.printed import MARGIN, SETTINGS, WORKLOADS, Setting

from etude.analyse.paired import same, smallest_seen

COLUMNS = (
    "source_file,id,epoch_1,epoch_2,best_accuracy,best_epoch,"
    "warmup_epochs,interval_epochs,measure,heuristic,model,dataset"
)
STRIPES, _, BLOCKS, _, _ = WORKLOADS


def kept_line() -> dict[str, Any]:
    return next(dict(line) for line in kept() if line["benchmark"] == "partitions_paper4")


def found() -> dict[str, Any]:
    return kept_line()["details"]["étude"]


# --- what was typed ---------------------------------------------------------------------------------


def test_what_was_typed_adds_up_to_what_the_paper_says():
    assert [workload.table for workload in WORKLOADS] == [1, 2, 3, 4, 5]
    assert len(SETTINGS) == 36
    vanilla = {(workload.data, workload.model): workload.vanilla for workload in WORKLOADS}
    assert len(WORKLOADS) * len(SETTINGS) + len(vanilla) == 183
    assert {workload.vanilla for workload in WORKLOADS} == set(vanilla.values())
    for workload in WORKLOADS:
        assert list(workload.printed) == [None, *SETTINGS]
    assert STRIPES.printed[Setting(20, 30)] == ("83.044", "0.311")
    assert BLOCKS.printed[Setting(40, 10)] == ("82.925", "0.18")
    assert partitions_paper4.PRINTED == 5 * 2 * 37 + 6


def test_each_typed_number_is_compared_once_and_none_differs():
    numbers = found()["numbers"]
    assert len({(number["where"], number["what"]) for number in numbers}) == len(numbers) == partitions_paper4.PRINTED
    typed = [text for workload in WORKLOADS for pair in workload.printed.values() for text in pair]
    assert [number["printed"] for number in numbers if number["where"].startswith("table")] == typed
    assert {number["how"] for number in numbers} == {"rounded"}


@pytest.mark.skipif(not runs.FILE.exists(), reason="the paper's raw runs are not here")
def test_what_is_kept_comes_of_the_raw_runs():
    rows = runs.read(runs.FILE)
    assert compared.compared(rows) == found()["numbers"]
    assert compared.rows_of(rows) == found()["rows"] | {"rows": 1830, "curves_twice": 0}
    for workload, table in zip(WORKLOADS, found()["tables"], strict=True):
        values = {key: [float(run.top) for run in mine] for key, mine in runs.arms(rows, workload).items()}
        assert table["vanilla"]["values"] == values[None]
        assert {each["setting"]: each["values"] for each in table["settings"]} == {
            str(setting): mine for setting, mine in values.items() if setting is not None
        }
        gains = [fmean(each["values"]) - fmean(values[None]) for each in table["settings"]]
        assert [each["best"]["gain"] for each in table["settings"]] == pytest.approx(gains)
        assert table["selected"]["gain"] == pytest.approx(max(gains))
        assert table["higher"] == sum(gain > 0 for gain in gains)
    assert selected.selected(list(values.values())) == pytest.approx(table["selected"])


def test_a_number_that_is_not_the_runs_is_told():
    rows = runs.invented()
    off = [replace(run, values=("83.0", "84.5")) if run.setting == Setting(10, 1) else run for run in rows]
    numbers = {(n["where"], n["what"]): n for n in compared.compared(off)}
    assert numbers["table 1", "W10-INT1: mean"]["found"] == 84.5
    assert numbers["table 1", "W10-INT1: mean"]["how"] == "differs"
    assert numbers["5", "epochs of each run"]["how"] == "differs"  # not the same for all


# --- the raw runs -----------------------------------------------------------------------------------


def write(file: Path, *lines: str) -> Path:
    with gzip.open(file, "wt") as out:
        out.write("\n".join([COLUMNS, *lines]) + "\n")
    return file


def test_rows_are_read_as_they_are(tmp_path: Path):
    file = write(
        tmp_path / "runs.csv.gz",
        "Baselines/a.csv,one,1.10,2.2,2.2,2,100,98,variance,none,resnet18,cifar10",
        "CIFAR100-ResNet34-Stripes-Variance/W15-INT8.csv,two,3.3,,3.3,1,15,8,variance,roundrobin,resnet34,cifar100",
    )
    vanilla, other = runs.read(file)
    assert vanilla == runs.Run("one", "Baselines", "CIFAR-10", "ResNet-18", None, ("1.10", "2.2"), "2.2", "2")
    assert (other.data, other.model, other.setting, other.values) == (
        "CIFAR-100",
        "ResNet-34",
        Setting(15, 8),
        ("3.3",),
    )
    assert runs.arm([vanilla, other], STRIPES, None) == [vanilla]
    assert runs.arms([vanilla, other], WORKLOADS[4]) == {None: [], Setting(15, 8): [other]}


def test_runs_that_are_not_there_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    gone = tmp_path / "gone.csv.gz"
    with pytest.raises(SystemExit) as refused:
        runs.read(gone)
    assert str(refused.value) == (
        f"The paper's raw runs cannot be read: [Errno 2] No such file or directory: '{gone}'. They are the files "
        f"PaperCSVs/**/*.csv of {runs.SOURCE}. Put them together with `python -m benchmarks.raw_runs PaperCSVs "
        "runs.csv.gz`, and name the file with ETUDE_PARTITION_RUNS=..."
    )
    monkeypatch.setattr(partitions_paper4, "FILE", gone)
    with pytest.raises(SystemExit, match="ETUDE_PARTITION_RUNS"):
        partitions_paper4.BENCHMARK.cells(False)
    assert len(partitions_paper4.BENCHMARK.cells(True)) == 1


def test_a_file_of_something_else_is_refused(tmp_path: Path):
    file = write(tmp_path / "runs.csv.gz", "Baselines/a.csv,one,1.10,2.2,2.2,2,ten,98,variance,none,resnet18,cifar10")
    with pytest.raises(SystemExit, match=r"does not hold the paper's raw runs: ValueError\("):
        runs.read(file)


# --- which runs belong together ---------------------------------------------------------------------


def test_rows_in_the_order_of_the_others_are_told_from_shuffled_ones():
    rng = np.random.default_rng(1)
    first = rng.normal(size=(10, 5)) + 0.5 * rng.normal(size=(12, 10, 5))
    first[3] = first[3, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]]
    ps = seeds.own_order(first)
    assert ps[3] > 0.2
    assert max(np.delete(ps, 3)) <= 0.001


def test_the_rows_of_the_paper_are_in_one_order():
    for kind in found()["seeds"]:
        assert kind["fitting"] >= kind["settings"] - 1
        assert kind["vanilla_p"] <= 0.05
    assert sum(kind["settings"] for kind in found()["seeds"]) == 183


# --- the best of many -------------------------------------------------------------------------------


def made(lead: float = 0.0, settings: int = 8, count: int = 10) -> list[list[float]]:
    """Values of vanilla and of settings, seeds in common; the third setting is better by so much."""
    draws = random.Random(3)
    of_seeds = [draws.gauss(0, 1) for _ in range(count)]
    return [[s + draws.gauss(0, 0.2) + (lead if nth == 3 else 0) for s in of_seeds] for nth in range(settings + 1)]


def test_the_best_of_equal_settings_is_within_chance_and_a_better_one_is_not():
    equal, better = selected.selected(made()), selected.selected(made(lead=1.0))
    assert equal["p"] > 0.05
    assert equal["lead_p"] > 0.05
    assert equal["beyond"] == equal["below"] == 0
    assert 0 < equal["by_chance"] < equal["bar"] < 0.5  # seeds are shared, so their spread of 1 is no part of it
    assert better["p"] <= 1e-3
    assert better["lead_p"] <= 1e-3
    assert (better["beyond"], better["below"]) == (1, 0)
    assert better["left"] > 0.9


def test_a_worse_setting_is_found_as_well():
    worse = selected.selected(made(lead=-1.0))
    assert (worse["beyond"], worse["below"]) == (0, 1)
    assert worse["loss_p"] <= 1e-3
    assert worse["p"] > 0.05


def test_chance_alone_is_called_a_win_as_often_as_it_was_said():
    rng = np.random.default_rng(0)
    ps = [selected.selected(rng.normal(size=(5, 6)).tolist())["p"] for _ in range(60)]
    assert 0 <= sum(p <= 0.1 for p in ps) <= 12  # 6 expected
    assert 0.3 < fmean(ps) < 0.7


# --- the tests --------------------------------------------------------------------------------------


def planted(lead: float) -> list[runs.Run]:
    """Invented runs, where one setting of table 3 is better by so much in every run."""

    def moved(run: runs.Run) -> runs.Run:
        if (run.folder, run.setting) != (BLOCKS.folder, Setting(15, 1)):
            return run
        return replace(run, values=tuple(f"{float(value) + lead:.2f}" for value in run.values))

    return [moved(run) for run in runs.invented()]


def test_a_planted_win_is_found_and_so_is_a_loss():
    better = judged.judged(planted(5.0))
    assert judged.won(better, "holm_all") == [f"{BLOCKS.name}, W15-INT1"]
    assert judged.won(better, "holm_all", sign=-1) == []
    assert better[2]["selected"]["gain"] > 4
    assert page._headline(better).startswith(
        "1 of 20 importance-aware settings beat random partitions after correction"
    )
    worse = judged.judged(planted(-5.0))
    assert judged.won(worse, "holm_all") == []
    assert judged.won(worse, "holm_all", sign=-1) == [f"{BLOCKS.name}, W15-INT1"]


def test_corrections_are_in_order_and_no_test_of_pairs_could_have_passed():
    tests = [each["best"] for table in found()["tables"] for each in table["settings"]]
    assert len(tests) == 180
    for one in tests:
        for test in (*judged.TESTS, "same"):
            assert one["p"][test] <= one["holm_here"][test] <= one["holm_all"][test] <= 1
        assert one["p"]["pairs"] >= 2 / 2**10
        assert one["holm_here"]["pairs"] > 0.05


def test_better_and_worse_are_counted_apart():
    def one(gain: float, p: float) -> dict[str, Any]:
        of = dict.fromkeys(judged.TESTS, p)
        return {"gain": gain, "p": of, "holm_here": of, "holm_all": dict.fromkeys(judged.TESTS, 1.0)}

    got = judged.counts([one(1, 0.05), one(1, 0.051), one(-1, 0.01), one(-2, 0.02)])
    assert got["welch"] == {"p": [1, 2], "holm_here": [1, 2], "holm_all": [0, 0]}


@pytest.mark.parametrize(("off", "least", "most"), [(0.0, 0, 0.01), (0.3, 0.5, 0.5), (-0.3, 0.5, 0.5), (0.6, 0.99, 1)])
def test_settings_are_the_same_where_their_difference_is_small_for_certain(off: float, least: float, most: float):
    vanilla = [80.0, 81.0, 82.0, 83.0, 84.0, 85.0]
    mine = [value + off + aside for value, aside in zip(vanilla, (0.1, -0.1, 0.05, -0.05, 0.1, -0.1), strict=True)]
    assert least - 1e-6 <= same(mine, vanilla, margin=MARGIN) <= most + 1e-6


def test_the_smallest_difference_that_is_found_is_that_of_the_books():
    # Ten pairs, two-sided .05, power .8: .996 deviations (tables of Cohen 1988, by noncentral t)
    assert smallest_seen(1.0, pairs=10, level=0.05) == pytest.approx(0.996, abs=2e-3)
    assert smallest_seen(2.0, pairs=10, level=0.05) == pytest.approx(1.992, abs=4e-3)
    assert smallest_seen(1.0, pairs=20, level=0.05) < 0.7


# --- the page ---------------------------------------------------------------------------------------


def test_the_page_says_first_that_nothing_won():
    tables = found()["tables"]
    assert judged.won(tables, "p") == []
    assert not any(table["selected"]["beyond"] for table in tables)
    lines = page.files(kept_line())["partitions-paper4.md"].splitlines()
    assert lines[0] == (
        "# None of 180 importance-aware settings beats random partitions, even without correction; "
        "11 are worse without it, 1 with it"
    )


def test_the_first_line_follows_from_the_tests():
    tables = copy.deepcopy(found()["tables"])
    best = next(each["best"] for each in tables[0]["settings"] if each["best"]["gain"] > 0)
    best["p"]["welch"] = 0.05
    assert page._headline(tables).startswith(
        "None of 180 importance-aware settings beats random partitions after correction, 1 before; 11 are"
    )
    best["holm_all"]["welch"] = 0.05
    assert page._headline(tables).startswith(
        "1 of 180 importance-aware settings beat random partitions after correction; 11 are"
    )


def test_the_page_shows_all_that_was_compared():
    text = page.files(kept_line())["partitions-paper4.md"]
    for workload in WORKLOADS:
        part = text.split(f"#### Table {workload.table}:")[1].split("####")[0]
        for setting, numbers in workload.printed.items():
            (line,) = re.findall(rf"^\| {compared.named(setting)} \|.*$", part, re.MULTILINE)
            cells = [cell.strip() for cell in line.split("|")]
            assert (cells[2], cells[4]) == numbers


def test_the_figures_show_the_best_five_of_each_table_and_every_epoch():
    drawn = {name: ElementTree.fromstring(text) for name, text in page.files(kept_line()).items() if "svg" in name}
    classes = [element.get("class") for element in drawn["partitions-paper4-boxes.svg"].iter()]
    assert classes.count("box") == classes.count("mean") == 5 * 6
    lines = [e.get("points", "") for e in drawn["partitions-paper4-epochs.svg"].iter() if e.tag.endswith("polyline")]
    assert [len(line.split()) for line in lines] == [100] * 5


def test_the_best_settings_are_those_with_the_highest_printed_means():
    for workload, table in zip(WORKLOADS, found()["tables"], strict=True):
        (vanilla, _), *best = figures.shown(table)
        assert vanilla == "vanilla"
        means = {str(setting): float(mean) for setting, (mean, _) in workload.printed.items() if setting is not None}
        assert [means[name] for name, _ in best] == sorted(means.values(), reverse=True)[:5]


def test_sentences_of_the_paper_are_judged_by_means_and_by_tests():
    assert [(s["where"], s["by_means"], s["by_tests"]) for s in found()["sentences"]] == [
        ("5.2", True, False),
        ("5.3", True, False),
        ("5.4", True, False),
        ("5.4", True, False),
        ("5.5", False, False),
    ]
