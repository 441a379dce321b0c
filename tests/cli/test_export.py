"""``export``: trials and reports as tables, the same bytes for equal studies."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import etude as library
from etude.cli import export

if TYPE_CHECKING:
    from .conftest import Etude


SCRIPT = """
import etude


def train(run, lr: float, epochs: int = 3):
    for epoch in run.epochs(epochs):
        run.report(score=lr - 1 / (epoch + 1))


experiment = etude.Experiment(train, metric="score", mode="max")

if __name__ == "__main__":
    plain = {"sampler": "random", "stopper": "none", "trials": 4}
    for name, workers in (("one", 1), ("two", 2)):
        experiment.tune({"lr": etude.uniform(0, 1)}, workers=workers, name=name, **plain)
"""


@pytest.fixture(scope="module")
def made(made_by: Callable[[str], Path]) -> Path:
    """Give a folder with two studies that computed the same, one and two trials at a time."""
    return made_by(SCRIPT)


@pytest.fixture
def equal(etude: Etude, made: Path) -> Etude:
    """Give the command line, with a copy of that folder."""
    shutil.copytree(made, etude.folder, dirs_exist_ok=True)
    return etude


@pytest.mark.parametrize("form", ["csv", "json", "jsonl"])
def test_equal_studies_are_equal_to_the_byte(equal: Etude, form: str) -> None:
    for what in ([], ["--reports"]):
        first, second = (equal("export", name, "--format", form, *what).out for name in ("one", "two"))
        assert first
        assert first == second


def test_trials_are_rows(equal: Etude) -> None:
    rows = library.open("one").rows()
    assert json.loads(equal("export", "one", "--format", "json").out) == rows
    assert [json.loads(line) for line in equal("export", "one", "--format", "jsonl").out.splitlines()] == rows
    table = list(csv.DictReader(io.StringIO(equal("export", "one").out)))
    assert list(table[0]) == ["trial", "state", "score", "lr", "seed", "same_as"]
    assert [(int(row["trial"]), float(row["score"]), float(row["lr"])) for row in table] == [
        (row["trial"], row["score"], row["lr"]) for row in rows
    ]


def test_reports_are_rows(equal: Etude) -> None:
    table = [json.loads(line) for line in equal("export", "one", "--format", "jsonl", "--reports").out.splitlines()]
    trials = library.open("one").trials
    assert [row["score"] for row in table] == [value for trial in trials for value in trial.curve]
    assert [(row["trial"], row["step"]) for row in table[:4]] == [(0, 1), (0, 2), (0, 3), (1, 1)]


def test_times_are_told_when_asked_for(equal: Etude) -> None:
    row = json.loads(equal("export", "one", "--format", "jsonl", "--times").out.splitlines()[0])
    trial = library.open("one").trials[0]
    assert row["duration_s"] == trial.duration_s
    assert (row["started_at"], row["ended_at"]) == (trial.started_at, trial.ended_at)
    assert {"cpu_s", "memory_mb"} <= set(row)
    row = json.loads(equal("export", "one", "--format", "jsonl", "--times", "--reports").out.splitlines()[0])
    assert row["at"] == library.open("one").trials[0].reports[0].at


def test_a_metric_with_the_name_of_a_column_keeps_its_values(etude: Etude) -> None:
    experiment = library.Experiment(
        lambda lr: {"seed": lr, "duration_s": -lr}, metric={"seed": "max", "duration_s": "min"}
    )
    search = experiment.tune({"lr": [0.25]}, trials=1, workers=1, sampler="random", seed=7, name="taken")
    (row,) = search.rows()
    assert (row["metrics.seed"], row["seed"], row["duration_s"]) == (0.25, 7, -0.25)
    (exported,) = json.loads(etude("export", "taken", "--format", "json", "--times").out)
    wall_s = search.trials[0].duration_s
    more = {name: exported[name] for name in ("started_at", "ended_at", "cpu_s", "memory_mb")}
    assert exported == {**row, "usage.duration_s": wall_s, **more}
    (shown,) = json.loads(etude("show", "taken", "--json").out)["front"]
    assert (shown["metrics.seed"], shown["seed"]) == (0.25, 7)
    assert (shown["metrics.duration_s"], shown["duration_s"]) == (-0.25, wall_s)


def test_a_file_is_replaced_as_a_whole_and_its_name_says_the_format(
    equal: Etude, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Path("table.json")
    target.write_text("what was there")
    done = equal("export", "one", "-o", "table.json")
    assert (done.code, done.out) == (0, "")
    assert json.loads(target.read_text()) == library.open("one").rows()
    before = target.read_bytes()

    def full(self: Path, other: Path) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="the disk is full"):
        export.replace_file(target, b"half of it")
    assert target.read_bytes() == before
    assert sorted(path.name for path in Path().iterdir() if "table" in path.name) == ["table.json"]


def test_json_is_asked_for_as_everywhere(equal: Etude) -> None:
    assert equal("export", "one", "--json").out == equal("export", "one", "--format", "json").out
    assert equal("export", "one", "--json", "--format", "json").code == 0
    done = equal("export", "one", "--json", "--format", "csv")
    assert (done.code, done.err) == (2, "--json and --format csv are two formats. Leave one of them.\n")
    assert json.loads(done.out) == {"error": done.err.strip()}


def test_a_name_that_ends_in_no_format_is_refused_unless_the_format_is_said(equal: Etude) -> None:
    done = equal("export", "one", "-o", "table.xlsx")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "--output table.xlsx ends in '.xlsx', which is no format that can be written. "
        "End it in one of .csv, .json, .jsonl, .parquet, .yaml, or say the format: --format csv.\n"
    )
    assert not Path("table.xlsx").exists()
    assert equal("export", "one", "-o", "table.txt", "--format", "csv").code == 0
    assert equal("export", "one", "-o", "table").code == 0
    assert Path("table").read_bytes() == Path("table.txt").read_bytes()


def test_a_place_that_is_none_is_refused(equal: Etude) -> None:
    done = equal("export", "one", "-o", "nowhere/table.csv")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "nowhere/table.csv cannot be written: No such file or directory. Name another place with --output.\n"
    )


def test_what_is_nested_is_json_in_a_cell_and_nothing_is_empty() -> None:
    rows: list[dict[str, Any]] = [
        {"trial": 0, "layers": [8, 8], "on": True, "score": 0.5},
        {"trial": 1, "layers": [], "on": None, "score": float("nan"), "more": 'a "b", c'},
    ]
    assert export._csv(rows).decode() == ('trial,layers,on,score,more\n0,"[8, 8]",true,0.5,\n1,[],,nan,"a ""b"", c"\n')
    assert json.loads(export._json(rows))[1]["score"] is None
    assert export._csv([]) == b"\n"


def test_parquet_is_refused_with_what_is_missing(equal: Etude, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "pyarrow" else name)
    done = equal("export", "one", "-o", "table.parquet")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "--format parquet needs pyarrow, not installed here: pip install pyarrow. Or write csv, json or jsonl.\n"
    )
    assert not Path("table.parquet").exists()


def test_parquet_gets_columns_of_one_type(monkeypatch: pytest.MonkeyPatch) -> None:
    pd = pytest.importorskip("pandas")
    written: list[Any] = []

    def write(self: Any, file: io.BytesIO, *, index: bool) -> None:
        assert not index
        written.append(self.to_dict("list"))
        file.write(b"parquet")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", write)
    assert export._parquet([{"a": 1, "b": "x", "c": [1], "d": 3}, {"a": 2, "b": 3, "c": None}]) == b"parquet"
    assert written == [{"a": [1, 2], "b": ['"x"', "3"], "c": ["[1]", None], "d": [3, None]}]
