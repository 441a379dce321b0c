"""A notebook that others run with parameters, as papermill does: where its workers are is one of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from apart import from_others, started
from support import write_script

import etude

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)
pytest.importorskip("ray", reason="Ray is not installed: pip install 'etude[ray]'")
pytest.importorskip("papermill")

SCRIPT = """
    import nbformat
    import papermill

    PARAMETERS = "engine = 'local'"
    DEFINE = '''
    import os
    import etude

    def train(lr: float, run):
        print("below Ray:", "RAY_JOB_ID" in os.environ)
        return lr

    experiment = etude.Experiment(train, metric="score", mode="max")
    '''
    TUNE = '''
    search = experiment.tune(
        {"lr": etude.uniform(0, 1)}, trials=3, workers=1, sampler="random", engine=engine, name="study"
    )
    print(engine, search.counts(), search.notes)
    '''

    if __name__ == "__main__":
        cells = [nbformat.v4.new_code_cell(text) for text in (PARAMETERS, DEFINE, TUNE)]
        cells[0].metadata["tags"] = ["parameters"]
        kernel = {"name": "python3", "display_name": "Python", "language": "python"}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        nbformat.write(notebook, "asked.ipynb")
        done = papermill.execute_notebook(
            "asked.ipynb", "done.ipynb", parameters={"engine": "ray(cpus=1)"}, progress_bar=False
        )
        print("".join(output.text for output in done.cells[-1].outputs if output.get("name") == "stdout"))
"""


def test_a_parameter_of_a_notebook_has_its_workers_on_ray(tmp_path: Path) -> None:
    script = write_script(tmp_path, SCRIPT)
    own = {
        name: str(tmp_path / name)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    with from_others() as environment, started(script, environment={**environment, **own}) as notebook:
        assert notebook.end().strip() == "ray(cpus=1) {'finished': 3} []"
    for trial in etude.open(tmp_path / "studies" / "study").trials:
        assert "below Ray: True" in (trial.folder / "log.txt").read_text()
