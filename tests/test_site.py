"""The documentation site: it is made of the pages without a warning, its diagrams are drawn, its reference is whole."""

from __future__ import annotations

import html
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


NAMED = re.compile(r'<dt class="sig sig-object py" id="([^"]+)">(.*?)</dt>', re.DOTALL)
"""What the reference says of a name: the name, and how it is called."""
SOURCE = re.compile(r'href="([^"#]+)#([^"]+)"><span class="viewcode-link">')
BACK = re.compile(r'class="viewcode-back" href="([^"#]+)#([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("dot") is None and os.environ.get("ETUDE_BROWSER") != "required":
        pytest.skip("Graphviz is not installed; `make test` installs it where it can (apt-get install graphviz)")
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs", "."]
    done = subprocess.run(
        [*command, str(made / "site"), "-d", str(made / "doctrees")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return made / "site"


def reference(site: Path) -> dict[str, tuple[Path, str]]:
    """Return each name of the reference with the page that it is on, and how it is called as HTML."""
    pages = sorted((site / "docs" / "reference").glob("*.html"))
    return {found[1]: (page, found[2]) for page in pages for found in NAMED.finditer(page.read_text())}


def called(signature: str) -> str:
    """Return how something is called as a reader sees it, on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", signature)).replace("[source]¶", "").split())


def test_the_site_is_made_without_a_warning(site: Path) -> None:
    front = (site / "docs" / "index.html").read_text()
    for page in ("start", "tune", "ablation", "final-training", "reference/samplers", "results/README"):
        assert f'href="{page}.html"' in front, page
    sampler = (site / "docs" / "reference" / "samplers.html").read_text()
    assert 'id="etude.TPE"' in sampler
    architecture = (site / "docs" / "architecture.html").read_text()
    drawn = re.findall(r'data="\.\./_images/(graphviz-\w+\.svg)"', architecture)
    assert len(drawn) == 2
    assert all("queued" in (site / "_images" / name).read_text() for name in drawn[1:])


def test_each_name_of_the_reference_leads_to_its_source_and_back(site: Path) -> None:
    named = reference(site)
    assert len(named) > 350
    for name, (page, signature) in named.items():
        found = SOURCE.search(signature)
        assert found is not None, f"{name} leads to no source"
        assert f'id="{found[2]}"' in (page.parent / found[1]).read_text(), f"the source of {name} is not where it leads"
    for source in (site / "_modules" / "etude").rglob("*.html"):
        for back, name in BACK.findall(source.read_text()):
            assert (source.parent / back).resolve() == named[name][0], f"{source.name} leads to {name} elsewhere"


def test_the_reference_says_how_things_are_called(site: Path) -> None:
    named = {name: called(signature) for name, (_, signature) in reference(site).items()}
    assert named["etude.Stopper"] == "class etude.Stopper"
    assert named["etude.Stopper.decide"] == "decide(report: Report, standing: Standing) → Decision"
    assert named["etude.Sampler.suggest"] == "suggest(request: Request) → Params"
    assert named["etude.Fit.save"] == "save(path: str | os.PathLike[str]) → pathlib.Path"
    assert named["etude.Random"] == "final class etude.Random"
    assert named["etude.Request.stream"] == "stream() → random.Random"
    assert "custom: Mapping[str, float] = {}," in named["etude.Ray"]
    for verb in ("tune", "ablate", "fit"):
        assert "workers: int | tuple[int, int | None] | None = None," in named[f"etude.Experiment.{verb}"]
    assert "Unpack" not in named["etude.Experiment.ablate"]
    odd = [name for name, text in named.items() if re.search(r"\*args|<factory>|<function|, _\w+:|~", text)]
    assert not odd, f"nobody can call that: {odd}"


def test_what_is_returned_is_told_in_sentences_and_a_type_leads_to_what_is_meant(site: Path) -> None:
    pages = {page.stem: page.read_text() for page in (site / "docs" / "reference").glob("*.html")}
    assert not [name for name, text in pages.items() if "Return type" in text]
    assert "<p>The search: <code" in pages["experiment"]
    assert not [name for name, text in pages.items() if name != "policies" and "#etude.policies.Path" in text]


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
