"""The page beside the PipeTune paper: made of lines that were made up, with numbers that are known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks import system_crowded, system_recognise, system_sizes
from benchmarks.page import JOINED, files
from benchmarks.pipetune import figures, grid, page, profiles, shown
from benchmarks.pipetune.compared import path_of
from benchmarks.pipetune.tables import Row, Table, spelled

MACHINE = {"cores": 2, "cpu": "a cpu", "python": "3.11"}
SEARCH = {
    "v1": (100.0, 90.0, 2.0, 1000.0),
    "v2": (110.0, 80.0, 1.5, 1200.0),
    "fair v2": (108.0, 90.0, 1.8, 1100.0),
    "pipetune": (75.0, 91.0, 1.0, 800.0),
}
"""Tuning seconds, final accuracy, seconds of an epoch, joules."""


def line(name: str, rows: dict[str, float], details: dict[str, Any] | None = None) -> dict[str, Any]:
    shared = {"commit": "c", "changed": False, "small": False, "machine": MACHINE, "targets": []}
    told = [
        {"name": row, "median": value, "min": value, "max": value, "unit": "", "runs": 1, "probe": 1.0, "digits": 1}
        for row, value in rows.items()
    ]
    return {"benchmark": name, **shared, "rows": told, "details": details or {}}


def live() -> dict[str, Any]:
    names = ("tuning_s", "final_percent", "epoch_s", "joules_modelled")
    rows = {
        f"{approach}, {workload}: {name}": value
        for workload in ("lenet5 mnist", "cnn news", "jacobi")
        for approach, values in SEARCH.items()
        for name, value in zip(names, values, strict=True)
    }
    paths = {f"{approach}, cnn news": {"path": [[1.0, 0.3, 2.0], [5.0, 0.6, 1.0]]} for approach in SEARCH}
    return line("system_pipetune", {"étude, replayed, known: rich": 3.0, **rows}, paths)


def tenants() -> dict[str, Any]:
    rows = {}
    for mix, v1 in (("type I", 100.0), ("type III", 60.0)):
        told = {"v1_s": v1, "v2_s": 120.0, "pipetune_s": 70.0, "best_s": 65.0, "possible": 35.0}
        told |= {"less_than_v1": 30.0, "less_than_v2": 41.7}
        rows |= {f"étude, {mix}: {name}": value for name, value in told.items()}
    return line("system_tenants", rows)


def sizes() -> dict[str, Any]:
    def of(seconds: float) -> dict[str, float]:
        return {"epoch_s": seconds, "joules": 10 * seconds, "accuracy_percent": 80.0}

    details: dict[str, Any] = {
        f"étude, batch size {size}": {"threads": {"1": of(2 * seconds), "2": of(seconds)}}
        for size, seconds in ((32, 4.0), (1024, 1.0))
    }
    details["étude, epochs"] = {"rates": {"user s": [2.0, 1.0, 1.0], "page faults": [9.0, 3.0, 3.0]}}
    rows = {"arbitrary: epoch_s": 1.5, "arbitrary: accuracy_percent": 70.0}
    rows |= {"epochs: rates": 2.0, "epochs: steady_percent": 100.0}
    return line("system_sizes", {f"étude, {name}": value for name, value in rows.items()}, details)


def recognise() -> dict[str, Any]:
    rows = {"étude, nearest: recognised_percent": 97.0, "k-means as in the paper: recognised_percent": 20.0}
    clusters = {"lenet5 mnist": [9, 1], "cnn news": [0, 10]}
    return line("system_recognise", rows, {"k-means as in the paper": {"clusters": clusters}})


def every() -> list[dict[str, Any]]:
    return [live(), tenants(), sizes(), recognise()]


def tags(drawing: str, kind: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(drawing).iter() if one.get("class") == kind]


def test_the_page_has_the_table_and_all_figures_of_the_paper():
    made = page.files(*every())
    text = made["pipetune.md"]
    for told in ("Table 2", *(f"Figure {nth}" for nth in (1, 2, 3, 8)), *(f"Figures {a}" for a in ("9", "11", "13"))):
        assert f"## {told}" in text
    assert "| PipeTune | 91.0 | 9.0 | 75.0 | 92.70 | 188 | 3415 |" in text
    assert "| arbitrary | 70.0 | 13.5 | - | 84.47 | 445 | - |" in text
    assert "| jacobi | III | -25.0 % | +10.0 % | -20.0 % | 2.00 | 1.50 | +1.0 |" in text
    assert "| type III | 30.0 % | 41.7 % | 65 % | 35.0 % |" in text
    pictures = {part.split(")")[0] for part in text.split("](")[1:] if ".svg" in part.split(")")[0]}
    assert pictures == set(made) - {"pipetune.md"}
    assert len(pictures) == 9
    assert (
        "V1 tunes 4 in 100.0 s, for 0.056, V2 tunes 6 in 110.0 s, for 0.061 and PipeTune tunes 6 in 75.0 s"
        in " ".join(text.split())
    )
    for name in pictures:
        ElementTree.fromstring(made[name])
    assert "Not measured yet" not in text


def test_it_is_made_with_all_four_lines_and_what_they_lack_is_said():
    assert page.NEEDED in JOINED
    assert "pipetune.md" in files(every())
    assert "pipetune.md" not in files(every()[:3])
    bare = [line(name, {}) for name in page.NEEDED]
    made = page.files(*bare)
    assert list(made) == ["pipetune.md"]
    assert made["pipetune.md"].count("Not measured yet.") == 9


def test_a_grid_costs_what_the_epochs_of_all_its_trainings_took():
    def row(threads: int, workers: int, seconds: float) -> Row:
        return Row({"threads": threads, "loader_workers": workers}, (seconds,), None, seconds)

    rows = [row(2, 0, 10.0), row(2, 1, 15.0), row(1, 0, 20.0), row(1, 1, 20.0)]
    stays = Row({"threads": 2, "loader_workers": 1, "persistent_workers": True}, (99.0,), None, 99.0)
    table = Table("t", "I", rows[0].setting, {spelled(one.setting): one for one in (*rows, stays)})
    found = grid.grown(sizes(), table)
    assert [one.parameter for one in found] == list(grid.PARAMETERS)
    assert [one.trainings for one in found] == [2, 6, 18, 54, 108, 216]
    two_sizes = 4.0 + 1.0  # an epoch with each, two threads
    nine = [9 * two_sizes, 9 * 3 * two_sizes, 9 * 9 * two_sizes]
    epochs = (1 + 3 + 9) * 9 * two_sizes
    loaded = epochs * (1.0 + 1.5)
    threads = loaded + 2 * epochs * (1.0 + 1.0)  # with one thread an epoch takes twice as long, and a worker nothing
    assert [one.seconds for one in found] == pytest.approx([*nine, epochs, loaded, threads])
    assert found[0].cost == pytest.approx(grid.PRICE * 45 / 3600)
    assert grid.grown(sizes(), None) == []
    assert grid.grown(line("system_sizes", {}), table) == []


def test_in_powers_of_ten_what_grows_by_a_factor_is_a_straight_line():
    drawn = figures.growing("t", "number", {"a": [(1, 1.0), (2, 10.0), (3, 100.0)], "b": [(3, 1.0)]})
    dots = [(float(one.get("cx", "")), float(one.get("cy", ""))) for one in tags(drawn, "dot")]
    plain, powers = dots[:4], dots[4:]
    assert plain[1][1] - plain[2][1] == pytest.approx(10 * (plain[0][1] - plain[1][1]), abs=1.0)
    assert powers[1][1] - powers[2][1] == pytest.approx(powers[0][1] - powers[1][1], abs=0.2)
    assert powers[3] == (powers[2][0], powers[0][1]), "it is where it is counted, and as high as its value"


def test_a_curve_that_ends_has_a_dot_there_and_one_that_holds_goes_on():
    panels = {"t": {"a": [(0.0, 1.0), (4.0, 2.0)], "b": [(0.0, 1.0), (2.0, 2.0)]}}

    def ends(drawn: str) -> list[float]:
        lines = [one for one in ElementTree.fromstring(drawn).iter() if one.tag.endswith("polyline")]
        return [float(one.get("points", "").split()[-1].partition(",")[0]) for one in lines]

    held, ended = figures.steps(panels), figures.steps(panels, ends=True)
    assert ends(held)[0] == ends(held)[1]
    assert ends(ended)[1] < ends(ended)[0] == ends(held)[0]
    assert ("circle" in held, ended.count("<circle")) == (False, 2)


def test_searches_beside_others_are_told_over_the_one_that_was_alone():
    found = {
        system_crowded.V1: {"error_percent": 10.0, "epoch_s": 2.0},
        "étude, v2, 1 core, 2 jobs": {"error_percent": 12.0, "epoch_s": 1.0},
    }
    told = system_crowded.beside_v1(found)
    assert list(told) == ["étude, v2, 1 core, 2 jobs, beside v1"]
    (beside,) = told.values()
    assert beside == {"less_error": pytest.approx(-20.0), "less_time": pytest.approx(50.0)}
    assert system_crowded.beside_v1({"étude, v2, 1 core, 2 jobs": {}}) == {}


def test_a_bar_is_as_long_as_its_number_and_below_the_line_if_it_is_negative():
    drawn = tags(figures.bars({"t": {"g": {"a": 4.0, "b": -2.0}}}), "bar")
    long, short = (float(one.get("height", "")) for one in drawn)
    assert long == pytest.approx(2 * short, rel=0.01)
    top, below = (float(one.get("y", "")) for one in drawn)
    assert below == pytest.approx(top + long, abs=0.2)


def test_a_cell_of_a_map_is_as_dark_as_its_share_of_the_most():
    cells = tags(figures.heat("t", {"one": [4.0, 2.0], "none": [0.0, 0.0]}), "cell")
    assert [float(one.get("fill-opacity", "")) for one in cells] == [1.0, 0.5, 0.0, 0.0]


def test_batch_sizes_are_beside_the_smallest_and_threads_beside_one():
    made = shown.sized(sizes())
    assert "(a) % more than with the smallest batches" in made
    assert len(tags(made, "bar")) == 3 + 2 + 2  # one size beside the smallest, and two threads with either size
    assert shown.less(1.0, 4.0) == -75.0


def test_a_search_converges_by_what_it_goes_by():
    def report(step: int, at: float, accuracy: float, epoch_s: float) -> SimpleNamespace:
        metrics = {"accuracy": accuracy, "epoch_s": epoch_s, "score": accuracy / epoch_s}
        return SimpleNamespace(step=step, at=at, metrics=metrics)

    reports = [report(1, 105.0, 0.9, 3.0), report(1, 102.0, 0.5, 2.0), report(2, 106.0, 0.6, 1.0)]
    assert path_of(reports, "accuracy") == [(2.0, 0.5, 2.0), (5.0, 0.9, 3.0)]
    assert path_of(reports, "score") == [(2.0, 0.5, 2.0), (5.0, 0.9, 3.0), (6.0, 0.6, 1.0)]
    assert path_of([], "score") == []


def test_epochs_that_repeat_are_all_near_their_mean():
    assert system_sizes.is_steady([1.0, 1.05, 0.95])
    assert not system_sizes.is_steady([1.0, 1.0, 1.3])
    assert system_sizes.is_steady([0.0, 0.0])


def test_each_run_lies_in_one_of_two_clusters():
    runs = profiles.made_up(("a", "b"), runs=4)
    found = system_recognise.clusters(runs)
    assert {name: sum(of) for name, of in found.items()} == {"a": 4, "b": 4}
    assert found["a"] == found["b"][::-1]
