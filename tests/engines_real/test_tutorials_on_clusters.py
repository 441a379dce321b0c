"""The tutorials as batches, on real Ray and on real Spark: no cell of them changes, and they come to as much."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from apart import from_others, started_command

import etude

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)
pytest.importorskip("papermill")
pytest.importorskip("sklearn")

TUTORIALS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
BEST = {"1-tune": 0.93, "3-data-parallel-with-importance": 0.9, "4-from-search-weights-to-a-final-model": 0.88}
"""Notebook -> what the best trial of each of its studies comes to at least, on the data that it was chosen by."""

LONGEST_S = 540.0
"""A notebook has up to six studies, and Ray or Spark is started for some of them anew."""


def code(notebook: dict[str, Any]) -> list[str]:
    """Return the code of a notebook, without the cell that papermill has put in."""
    return [
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and "injected-parameters" not in cell["metadata"].get("tags", [])
    ]


def ran(path: Path, folder: Path, *command: str, **environment: str) -> dict[str, Any]:
    """Run a tutorial by a command that leaves ``done.ipynb``; return that, in which nothing went wrong."""
    shutil.copy(path, folder / "asked.ipynb")
    own = {
        name: str(folder / name)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    with (
        from_others() as others,
        started_command(command, folder=folder, environment={**others, **own, **environment}) as it,
    ):
        it.end(limit_s=LONGEST_S)
    done: dict[str, Any] = json.loads((folder / "done.ipynb").read_text())
    assert code(done) == code(json.loads((folder / "asked.ipynb").read_text()))
    assert not [
        output for cell in done["cells"] for output in cell.get("outputs", []) if output["output_type"] == "error"
    ]
    return done


def check_studies(folder: Path, name: str, engine: str) -> None:
    """Fail unless the studies of a tutorial have run there, and come to as much as they should."""
    studies = [etude.open(found.parent) for found in (folder / "studies").glob("*/journal.sqlite")]
    assert studies
    for study in studies:
        assert study.complete
        assert study.counts().get("failed", 0) == 0
        assert study.meta["call"]["engine"] == engine
        if name in BEST:
            assert study.best.value is not None
            assert study.best.value >= BEST[name]
        else:
            assert isinstance(study, etude.Ablation)
            assert study.verdicts()["feature:worst *"].verdict == "matters"


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["ray", "spark"])
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_there_and_not_one_cell_changes(path: Path, engine: str, tmp_path: Path) -> None:
    pytest.importorskip({"ray": "ray", "spark": "pyspark"}[engine])
    done = ran(path, tmp_path, sys.executable, "-m", "papermill", "asked.ipynb", "done.ipynb", "-p", "engine", engine)
    (put_in,) = [cell for cell in done["cells"] if "injected-parameters" in cell["metadata"].get("tags", [])]
    assert f'engine = "{engine}"' in "".join(put_in["source"])
    check_studies(tmp_path, path.stem, engine)


@pytest.mark.thorough
def test_a_tutorial_runs_where_the_variable_says(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    tune, execute = TUTORIALS[0], str(Path(sys.executable).parent / "jupyter-execute")
    ran(tune, tmp_path, execute, "--output=done.ipynb", "asked.ipynb", ETUDE_ENGINE="ray")
    check_studies(tmp_path, tune.stem, "ray")
