"""The paper's printed numbers are compared to the last digit, and what is told of its runs follows from them."""

from __future__ import annotations

import gzip
import math
import re
import statistics
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks import agreement, raw_runs, weights_paper5, writing
from benchmarks.page import kept
from benchmarks.paper5 import compared, judged, page, runs
from benchmarks.paper5.printed import FINAL, RANDOM, WORKLOADS, Workload
from hypothesis import given
from hypothesis import strategies as st

CIFAR10, _, TINY, _, _ = WORKLOADS
COLUMNS = (
    "source_file,id,epoch_1,epoch_2,best_accuracy,target_accuracy_epoch,seed,num_epochs,weight_initialization,hp_epoch"
)


def kept_line() -> dict[str, Any]:
    return next(dict(line) for line in kept() if line["benchmark"] == "weights_paper5")


def found() -> dict[str, Any]:
    return kept_line()["details"]["étude"]


def a_run(*values: str, start: str = RANDOM, folder: str = "res18-c10", name: str = "a") -> runs.Run:
    return runs.Run(name, folder, start, values, max(values, key=float), "", "")


# --- the last digit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "exact", "how"),
    [
        ("94.198", "94.1975", "half-way"),
        ("94.197", "94.1975", "half-way"),
        ("94.289", "94.28875", "rounded"),
        ("94.288", "94.28875", "truncated"),
        ("74.93", "74.9297", "rounded"),
        ("24.0", "24", "rounded"),
        ("2.027", "2.026086956", "differs"),
        ("2.026", "2.027", "differs"),
    ],
)
def test_how_a_printed_number_comes_of_an_exact_one(printed: str, exact: str, how: str):
    assert agreement.agreement(printed, Fraction(exact), digits=3) == how


@given(st.fractions(0, 1000), st.integers(0, 5), st.integers(2, 9))
def test_rounded_and_cut_numbers_are_told_apart_from_wrong_ones(exact: Fraction, digits: int, off: int):
    one = Fraction(1, 10**digits)
    assert agreement.agreement(str(round(exact, digits)), exact, digits=digits) in ("rounded", "half-way")
    cut = Fraction(math.floor(exact / one)) * one
    assert agreement.agreement(str(cut), exact, digits=digits) != "differs"
    for wrong in (cut - one, cut + off * one):
        assert agreement.agreement(str(wrong), exact, digits=digits) == "differs"


@given(st.lists(st.decimals(0, 100, places=2), min_size=2, max_size=12))
def test_deviations_are_those_of_samples(values: list[Any]):
    exact = agreement.deviation([Fraction(value) for value in values])
    assert float(exact) == pytest.approx(statistics.stdev(map(float, values)), abs=1e-9)


def test_the_target_is_reached_by_what_equals_it():
    assert compared.first_epoch(a_run("89.99", "90.00", "91.0"), "90.00") == 2
    assert compared.first_epoch(a_run("89.99", "89.98"), "90.00") == 3


# --- what was typed ---------------------------------------------------------------------------------


def test_what_was_typed_adds_up_to_what_the_paper_says():
    assert sum(workload.repeats * len(workload.rows) for workload in WORKLOADS) == 232
    assert [len(workload.rows) for workload in WORKLOADS] == [8, 7, 7, 4, 5]
    assert [figure for workload in WORKLOADS for figure in workload.figures] == [2, 3, 4, 5, 6, 7, 8]
    assert weights_paper5.PRINTED == 3 * 31 + 8 + 5 * 4 == 121
    for workload in WORKLOADS:
        assert {FINAL, RANDOM} < {row.start for row in workload.rows}
        inherited = [workload.inherits(row.start) for row in workload.rows]
        assert inherited == [*sorted(inherited[:-1]), 0]
        assert inherited[-2] == workload.tuning.epochs


def test_each_typed_number_is_compared_once_and_only_one_differs():
    numbers = found()["numbers"]
    assert len({(number["where"], number["what"]) for number in numbers}) == len(numbers) == weights_paper5.PRINTED
    typed = [text for w in WORKLOADS for row in w.rows for text in (row.best, row.deviation, row.epochs)]
    assert [number["printed"] for number in numbers if number["where"].startswith("table")] == typed
    assert [(n["what"], n["printed"]) for n in numbers if n["how"] == "differs"] == [
        ("speed-up of Epoch 25 over Random, time to target", "2.027")
    ]
    assert len(found()["absent"]) == 5 * 6 - 1 + 1


@pytest.mark.skipif(not runs.FILE.exists(), reason="the paper's raw runs are not here")
def test_the_kept_numbers_come_of_the_raw_runs():
    rows = runs.read(runs.FILE)
    assert len(rows) == 248
    assert compared.compared(rows) == found()["numbers"]
    assert compared.rows_of(rows, "res152-c100-70", "res152-c100") == found()["rows"]


# --- the raw runs -----------------------------------------------------------------------------------


def write(file: Path, *lines: str) -> Path:
    with gzip.open(file, "wt") as out:
        out.write("\n".join([COLUMNS, *lines]) + "\n")
    return file


def test_rows_are_read_as_they_are(tmp_path: Path):
    file = write(
        tmp_path / "runs.csv.gz",
        "res18-c10/a.csv,one,1.10,2.2,2.2,,,2,hp-epoch,25",
        "res152-c100-70/b.csv,two,3.3,,3.3,1,7,1,random,-1",
        "res152-c100/b.csv,two,3.3,,3.3,,,1,HP Final,-1",
    )
    assert runs.read(file) == [
        runs.Run("one", "res18-c10", "Epoch 25", ("1.10", "2.2"), "2.2", "", ""),
        runs.Run("two", "res152-c100-70", RANDOM, ("3.3",), "3.3", "1", "7"),
        runs.Run("two", "res152-c100", FINAL, ("3.3",), "3.3", "", ""),
    ]


def test_files_as_they_were_published_are_put_together_though_they_have_other_columns(tmp_path: Path):
    published = tmp_path / "PaperCSVs"
    shared = "id,epoch_1,best_accuracy,target_accuracy_epoch"
    for name, head, row in (
        ("res18-c10/a.csv", f"{shared},num_epochs,weight_initialization,hp_epoch", "one,1.10,1.1,3,1,hp-epoch,25"),
        ("res152-c100/b.csv", f"{shared},seed,num_epochs,weight_initialization,hp_epoch", "two,3.3,3.3,,7,1,random,-1"),
    ):
        (published / name).parent.mkdir(parents=True)
        (published / name).write_text(f"{head}\n{row}\n")
    file = tmp_path / "runs.csv.gz"
    assert raw_runs.put_together(published, file) == 2
    assert runs.read(file) == [
        runs.Run("two", "res152-c100", RANDOM, ("3.3",), "3.3", "", "7"),
        runs.Run("one", "res18-c10", "Epoch 25", ("1.10",), "1.1", "3", ""),
    ]


def test_runs_that_are_not_there_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    gone = tmp_path / "gone.csv.gz"
    with pytest.raises(SystemExit) as refused:
        runs.read(gone)
    assert str(refused.value) == (
        f"The paper's raw runs cannot be read: [Errno 2] No such file or directory: '{gone}'. They are the files "
        f"PaperCSVs/**/*.csv of {runs.SOURCE}. Put them together with `python -m benchmarks.raw_runs PaperCSVs "
        "runs.csv.gz`, and name the file with ETUDE_WEIGHT_RUNS=..."
    )
    monkeypatch.setattr(weights_paper5, "FILE", gone)
    with pytest.raises(SystemExit, match="ETUDE_WEIGHT_RUNS"):
        weights_paper5.BENCHMARK.cells(False)
    assert len(weights_paper5.BENCHMARK.cells(True)) == 1


def test_a_file_of_something_else_is_refused(tmp_path: Path):
    file = write(tmp_path / "runs.csv.gz", "res18-c10/a.csv,one,1.10,2.2,2.2,,,2,xavier,-1")
    with pytest.raises(SystemExit) as refused:
        runs.read(file)
    assert str(refused.value) == f"{file} does not hold the paper's raw runs: KeyError('xavier') is wrong with it."


# --- clocks and tests -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "start", "epochs"),
    [
        (CIFAR10, RANDOM, 0.0),
        (CIFAR10, "Epoch 10", 10 * (0.8 + 0.2 / 3)),
        (CIFAR10, FINAL, 26.0),
        (TINY, FINAL, 40 * (1 + 0.1 / 3)),
    ],
)
def test_inherited_epochs_are_paid_for_at_their_share_and_their_validation(
    workload: Workload, start: str, epochs: float
):
    charges = judged.charges_of(workload, start)
    assert charges.inherited.epochs == pytest.approx(epochs)
    assert charges.inherited.steps == pytest.approx(epochs * judged.steps_of(workload))
    assert charges.kept.epochs == charges.kept.steps == 0


def arm(start: str, *, gain: float, p: float) -> dict[str, Any]:
    return {"start": start, "sunk": {"gain": gain, "holm_all": p}}


def test_who_wins_is_better_and_beyond_chance():
    arms = [arm("a", gain=1, p=0.05), arm("b", gain=1, p=0.051), arm("c", gain=-1, p=0.001), {"start": RANDOM}]
    assert judged.wins({"arms": arms}, "sunk", "holm_all") == ["a"]


def test_what_is_kept_says_what_the_page_says_first():
    workloads = found()["workloads"]
    won = {of: [w["name"] for w in workloads if FINAL in judged.wins(w, of, "holm_final")] for of in judged.MEASURES}
    assert won == {
        "sunk": ["ResNet-18 on CIFAR-10", "InceptionV3 on Food-101"],
        "charged": [],
        "best": ["InceptionV3 on Food-101"],
    }
    first = page.files(kept_line())["weights-paper5.md"].splitlines()[0]
    assert first == (
        "# Weights from tuning trials win on 2 of 5 workloads: ResNet-18 on CIFAR-10 and InceptionV3 on Food-101; "
        "when they are paid for, on none"
    )


def test_clocks_and_corrections_are_in_order():
    for workload in found()["workloads"]:
        for each in workload["arms"]:
            assert each["sunk"]["mean"] == each["marginal"]["mean"] <= each["charged"]["mean"]
            if each["start"] != RANDOM:
                free, third, dear = each["charged_at"]
                assert free < third == each["charged"]["mean"] < dear
                for measure in judged.MEASURES:
                    compared_here = each[measure]
                    assert compared_here["p"] <= compared_here["holm_here"] <= compared_here["holm_all"] <= 1


def test_a_win_that_everybody_shares_is_found_and_chance_is_not():
    def made(start: str, lead: int) -> list[runs.Run]:
        def curve(workload: Workload, nth: int) -> list[str]:
            target = float(workload.target)
            return [f"{min(target - 25 + 2 * (epoch + lead) + nth / 10, target + 5):.2f}" for epoch in range(25)]

        return [a_run(*curve(w, nth), start=start, folder=w.folder) for w in WORKLOADS for nth in range(7)]

    starts = {row.start for workload in WORKLOADS for row in workload.rows} - {RANDOM}
    rows = [*made(RANDOM, 0), *(run for start in starts for run in made(start, 8 if start == FINAL else 0))]
    for typed, workload in zip(WORKLOADS, judged.judged(rows), strict=True):
        firsts = [judged.arm_of(workload, start)["first_mean"] for start in (RANDOM, FINAL)]
        assert firsts == pytest.approx([float(typed.target) - 24.7, float(typed.target) - 8.7])
        assert judged.wins(workload, "sunk", "holm_final") == [FINAL]
        assert judged.wins(workload, "sunk", "holm_all") == [FINAL]
        assert judged.wins(workload, "charged", "holm_all") == []
        assert judged.wins(workload, "best", "holm_all") == []
        assert judged.arm_of(workload, FINAL)["sunk"]["gain"] > 0


# --- the page ---------------------------------------------------------------------------------------


def test_the_figures_show_every_run_and_every_target():
    drawn = {name: text for name, text in page.files(kept_line()).items() if name.endswith(".svg")}
    tags = {
        name: [e.tag.rpartition("}")[2] for e in ElementTree.fromstring(text).iter()] for name, text in drawn.items()
    }
    in_two_figures = sum(w.repeats * len(w.rows) for w in WORKLOADS if len(w.figures) > 1)
    assert tags["weights-paper5-figures.svg"].count("circle") == 232 + in_two_figures
    assert tags["weights-paper5-targets.svg"].count("polyline") == 2 * len(WORKLOADS)


def test_the_page_shows_all_that_was_compared():
    text = page.files(kept_line())["weights-paper5.md"]
    for workload in WORKLOADS:
        part = text.split(f"### Table {workload.table}:")[1].split("###")[0]
        for row in workload.rows:
            (line,) = re.findall(rf"^\| {row.start} \|.*$", part, re.MULTILINE)
            cells = [cell.strip() for cell in line.split("|")]
            assert cells[2::2][:3] == [row.best, row.deviation, row.epochs]
    assert "| 2.027 | 2.026087 | differs |" in text


def test_names_are_listed_as_people_do():
    assert [writing.listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "none",
        "a",
        "a and b",
        "a, b and c",
    ]
