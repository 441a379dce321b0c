"""The documentation site: it is made of the pages without a warning, and its diagrams are drawn."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    if shutil.which("dot") is None and os.environ.get("ETUDE_BROWSER") != "required":
        pytest.skip("Graphviz is not installed; `make test` installs it where it can (apt-get install graphviz)")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs", "."]
    done = subprocess.run(
        [*command, str(site), "-d", str(tmp_path / "doctrees")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    front = (site / "docs" / "index.html").read_text()
    for page in ("start", "tune", "ablation", "final-training", "reference/samplers", "results/README"):
        assert f'href="{page}.html"' in front, page
    sampler = (site / "docs" / "reference" / "samplers.html").read_text()
    assert 'id="etude.TPE"' in sampler
    architecture = (site / "docs" / "architecture.html").read_text()
    drawn = re.findall(r'data="\.\./_images/(graphviz-\w+\.svg)"', architecture)
    assert len(drawn) == 2
    assert all("queued" in (site / "_images" / name).read_text() for name in drawn[1:])


def as_graph(mermaid: str) -> str:
    graph: str = runpy.run_path(str(ROOT / "docs" / "_ext" / "diagrams.py"))["as_graph"](mermaid)
    return graph


def test_an_arrow_of_a_diagram_becomes_an_arrow() -> None:
    graph = as_graph('flowchart TD\n    a["one: of \\"two\\""] --> b\n    b -. by name .-> c["three"]')
    assert '"a" -> "b" [label=""];' in graph
    assert '"b" -> "c" [label="by name", style=dashed];' in graph
    assert '"c" [label="three"];' in graph
    states = as_graph("stateDiagram-v2\n    [*] --> queued\n    queued --> done: finished\n    done --> [*]")
    assert '"queued" -> "done" [label="finished"];' in states
    assert '"[*] 0" -> "queued" [label=""];' in states
    assert '"done" -> "[*] 1" [label=""];' in states


@pytest.mark.parametrize("mermaid", ["pie\n    a --> b", "flowchart TD\n    a links to b"])
def test_what_is_not_understood_is_no_picture(mermaid: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        as_graph(mermaid)
