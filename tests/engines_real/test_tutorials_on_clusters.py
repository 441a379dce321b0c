"""The tutorials by papermill, on real Ray and on real Spark: no cell of them changes, and they come to as much."""

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


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["ray", "spark"])
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_there_and_not_one_cell_changes(path: Path, engine: str, tmp_path: Path) -> None:
    pytest.importorskip({"ray": "ray", "spark": "pyspark"}[engine])
    shutil.copy(path, tmp_path / "asked.ipynb")
    own = {
        name: str(tmp_path / name)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    command = [sys.executable, "-m", "papermill", "asked.ipynb", "done.ipynb", "-p", "engine", engine]
    with (
        from_others() as environment,
        started_command(command, folder=tmp_path, environment={**environment, **own}) as papermill,
    ):
        papermill.end(limit_s=LONGEST_S)
    asked, done = (json.loads((tmp_path / name).read_text()) for name in ("asked.ipynb", "done.ipynb"))
    assert code(done) == code(asked)
    (put_in,) = [cell for cell in done["cells"] if "injected-parameters" in cell["metadata"].get("tags", [])]
    assert f'engine = "{engine}"' in "".join(put_in["source"])
    assert not [
        output for cell in done["cells"] for output in cell.get("outputs", []) if output["output_type"] == "error"
    ]

    studies = [etude.open(found.parent) for found in (tmp_path / "studies").glob("*/journal.sqlite")]
    assert studies
    for study in studies:
        assert study.complete
        assert study.counts().get("failed", 0) == 0
        assert study.meta["call"]["engine"] == engine
        if path.stem in BEST:
            assert study.best.value is not None
            assert study.best.value >= BEST[path.stem]
        else:
            assert isinstance(study, etude.Ablation)
            assert study.verdicts()["feature:worst *"].verdict == "matters"
