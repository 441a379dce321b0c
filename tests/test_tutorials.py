"""The notebooks in examples: what is stored of them, and that their cells come to as much when they are run again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from examples.notebooks import execute

import etude

TUTORIALS = execute.notebooks()
LIMIT_S = 600


def outputs(notebook: Any, kind: str) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == kind]


def printed(notebook: Any) -> str:
    return "".join(output.text for output in outputs(notebook, "stream") if output.name == "stdout")


def code(notebook: Any) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_four_of_them() -> None:
    assert [path.stem for path in TUTORIALS] == [
        "1-tune",
        "2-ablate",
        "3-data-parallel-with-importance",
        "4-from-search-weights-to-a-final-model",
    ]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_it_is_stored_as_it_was_run_from_its_first_cell_to_its_last(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    ran = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert ran == list(range(1, len(ran) + 1))
    assert outputs(notebook, "error") == []
    assert len(outputs(notebook, "display_data")) >= 1, "progress"
    assert any("<table>" in output.data.get("text/html", "") for output in outputs(notebook, "execute_result"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_nothing_is_stored_that_the_next_run_would_change_for_no_reason(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"/(tmp|home|root|work|Users|private|var)/", text)
    assert not re.search(rf"(elapsed|took +model) {execute.DURATION}", text)
    notebook = nbformat.read(path, as_version=4)
    before = nbformat.writes(notebook)
    execute.settle(notebook, Path("/nowhere"))
    assert nbformat.writes(notebook) == before


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_where_it_runs_is_said_in_one_cell_that_papermill_knows(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert cell.source.startswith("engine = None  # ")
    assert cell.source.endswith("\nworkers = 2")
    others = "\n".join(source for source in code(notebook) if source != cell.source)
    assert not re.search(r"\b(ray|spark|ETUDE_ENGINE)\b", others, re.IGNORECASE)
    assert "engine=engine" in others
    assert code(notebook)[-1].endswith(".raise_if_failed()")


def test_what_is_noise_is_taken_out_of_an_output_and_nothing_else() -> None:
    folder = Path("/tmp/here")
    text = "best 0.5 s in /tmp/here/etude-studies/x\nelapsed 1 min 3 s, time left 2 s - 15 s   \nelapsed: no"
    assert execute.settled(text, folder) == "best 0.5 s in etude-studies/x\nelapsed …\nelapsed: no"
    assert execute.settled("returned 1\ntook        model 0.07 s, data 2e-05 s", folder) == "returned 1\ntook        …"
    assert execute.settled("<f at 0x7f0011223344>", folder) == "<f at 0x…>"


def tuned(notebook: Any, studies: dict[str, Any]) -> None:
    (search,) = studies.values()
    assert len(search.trials) == 16
    assert {trial.attempts for trial in search.trials} == {1}, "what was there was not run again"
    assert search.best.value >= 0.93
    found = re.search(r"validation (0\.\d+), test (0\.\d+)", printed(notebook))
    assert found is not None
    assert float(found[1]) == pytest.approx(search.best.value, abs=0.001)
    assert float(found[2]) >= 0.85


def ablated(notebook: Any, studies: dict[str, Any]) -> None:
    (ablation,) = studies.values()
    assert len(ablation.trials) == 60
    assert ablation.verdicts()["feature:worst *"].verdict == "matters"
    assert ablation.verdicts()["dropout"].verdict != "matters"
    assert all(pairs == seeds == 10 for pairs, seeds in ablation.paired().values())
    assert next(arm.mean for arm in ablation.arms) < 0.15


def parallel(notebook: Any, studies: dict[str, Any]) -> None:
    trainings = [study for study in studies.values() if len(study.trials) == 1]
    assert len(trainings) == 3
    assert all(study.best.value >= 0.9 for study in trainings)
    curves = re.search(r"alone +([\d. ]+)\ntogether +([\d. ]+)\n", printed(notebook))
    assert curves is not None
    alone, together = ([float(value) for value in curve.split()] for curve in curves.groups())
    assert together == pytest.approx(alone, abs=0.005), "ranks change nothing but the rounding of sums"
    moved = re.search(r"'examples_moved': (\d+)", printed(notebook))
    assert moved is not None
    assert 0 < int(moved[1]) < 1000
    assert re.search(r"^(Nothing won: |stripes)", printed(notebook), re.MULTILINE)


def finished(notebook: Any, studies: dict[str, Any]) -> None:
    assert len(studies) == 5
    cold, warm = (
        [float(value) for value in found.split()]
        for found in re.findall(r"^from .*?  ([\d. ]+)$", printed(notebook), re.MULTILINE)
    )
    assert warm[0] > cold[0], "the second begins where the search had ended"
    assert "best of 4 by loss" in printed(notebook)
    on_test = re.search(r"^on test data: (0\.\d+)$", printed(notebook), re.MULTILINE)
    assert on_test is not None
    assert float(on_test[1]) >= 0.85


COME_TO: dict[str, Callable[[Any, dict[str, Any]], None]] = dict(
    zip((path.stem for path in TUTORIALS), (tuned, ablated, parallel, finished), strict=True)
)


@pytest.mark.thorough
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_its_cells_come_to_as_much_when_they_are_run_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    stored = nbformat.read(path, as_version=4)
    folder = tmp_path / "empty"
    folder.mkdir()
    notebook = execute.executed(path, folder=folder)
    assert code(notebook) == code(stored)
    assert outputs(notebook, "error") == []
    assert len(outputs(notebook, "execute_result")) == len(outputs(stored, "execute_result"))
    studies = {found.parent.name: etude.open(found.parent) for found in folder.glob("etude-studies/*/journal.sqlite")}
    assert all(study.complete for study in studies.values())
    COME_TO[path.stem](notebook, studies)


FAILS = """
import etude

def train(lr: float):
    if lr > 0.5:
        raise RuntimeError("it broke")
    return lr

experiment = etude.Experiment(train, metric="score", mode="max")
search = experiment.tune({"lr": [0.1, 0.9]}, trials=2, sampler="grid", workers=workers, engine=engine, name="grid")
"""


@pytest.mark.parametrize(
    ("last", "code_of_exit", "told"),
    [
        ("search", 0, ""),
        ("search.raise_if_failed()", 1, "StudyError: 1 of the 2 trials of study 'grid' failed, 1 the first: "),
        ("import sys; sys.exit(3)", 1, "SystemExit: 3"),
    ],
    ids=["looked at", "raises", "exits"],
)
def test_papermill_ends_with_a_code_of_exit_as_the_notebook_says(
    last: str, code_of_exit: int, told: str, tmp_path: Path
) -> None:
    cells = [nbformat.v4.new_code_cell(text) for text in ("engine = None\nworkers = 2", FAILS, last)]
    cells[0].metadata["tags"] = ["parameters"]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": execute.KERNEL})
    nbformat.write(notebook, tmp_path / "asked.ipynb")
    own = {
        name: str(tmp_path / name)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    command = ["papermill", "asked.ipynb", "done.ipynb", "-p", "engine", "local", "-p", "workers", "1"]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tmp_path,
        env={**os.environ, **own, "JUPYTER_PLATFORM_DIRS": "1", "ETUDE_STUDIES": "studies"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == code_of_exit, done.stderr
    assert told in done.stderr
    assert etude.open(tmp_path / "studies" / "grid").counts() == {"finished": 1, "failed": 1}
    after = json.loads((tmp_path / "done.ipynb").read_text())
    sources = ["".join(cell["source"]) for cell in after["cells"] if cell["cell_type"] == "code"]
    assert 'engine = "local"' in "\n".join(sources)
    assert FAILS in sources
