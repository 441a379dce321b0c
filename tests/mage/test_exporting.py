"""What is exported is complete, says what changed, and runs where there is no Étude."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from etude.core.errors import ConfigError
from etude.mage.handover.components import Accepted
from etude.mage.handover.exporting import export
from etude.mage.patch.blocks import Author, Search
from etude.mage.patch.making import make_patch, patched
from etude.mage.tree import Tree

PROGRAM = """\
import argparse, json
from pathlib import Path
from parts.worth import worth

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, required=True)
args = parser.parse_args()
rows = len(Path("data/rows.csv").read_text().splitlines())
Path("metrics.json").write_text(json.dumps({"accuracy": worth() + rows + args.seed}))
"""
WORTH = "def worth():\n    return 10.0\n"
EXPERIMENT = """\
import etude
from parts.worth import worth


def model(width: etude.Stateless[int] = 2):
    return width


def train(model, run, seed, rounds: int = 2):
    for _ in run.epochs(rounds):
        run.report(score=model() + worth() + seed)


experiment = etude.Experiment(train, model=model, metric="score", mode="max")
"""
ENTRY = "python train.py --seed {seed}"


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, Tree, list[Accepted]]:
    root = tmp_path / "project"
    files = {"train.py": PROGRAM, "exp.py": EXPERIMENT, "parts/__init__.py": "", "parts/worth.py": WORTH}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "data").mkdir()
    (root / "data" / "rows.csv").write_text("1\n2\n")
    base = Tree({path: text.encode() for path, text in files.items()})
    accepted = []
    for name, worth in (("fewer", "7.0"), ("none", "0.0")):
        block = Search(file="parts/worth.py", search="    return 10.0\n", text=f"    return {worth}\n")
        patch = make_patch(base, [block], author=Author(name="a person"))
        accepted.append(Accepted(name, patch, patched(base, patch)))
    return root, base, accepted


def clean(command: list[str] | str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run something where `import etude` fails."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.fixture
def alone(tmp_path: Path) -> str:
    """A Python that has nothing installed."""
    place = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    python = place / "bin" / "python"
    assert subprocess.run([python, "-c", "import etude"], capture_output=True, check=False, env={}).returncode == 1
    return str(python)


def run_lines(readme: Path, python: str) -> list[str]:
    block = re.search(r"```sh\n(.*?)```", readme.read_text(), re.DOTALL)
    assert block is not None
    return [line.replace("python ", f"{shlex.quote(python)} ", 1) for line in block[1].splitlines()]


def test_each_variant_is_exported_whole_and_runs_as_the_readme_says(
    project: tuple[Path, Tree, list[Accepted]], tmp_path: Path, alone: str
) -> None:
    root, base, accepted = project
    place = export(accepted, entry=ENTRY, base=base, root=root, into=tmp_path / "out", intents={"none": "No worth."})
    for line in run_lines(place / "README.md", alone):
        clean(line, place)
    found = {path.parent.name: json.loads(path.read_text())["accuracy"] for path in sorted(place.rglob("metrics.json"))}
    assert found == {"base": 12.0, "fewer": 9.0, "none": 2.0}
    for one in accepted:
        assert (place / "variants" / one.name / "patch.diff").read_text() == one.patch.diff
        assert all((place / "variants" / one.name / path).read_bytes() == one.tree.files[path] for path in one.tree)
    said = (place / "README.md").read_text()
    assert "No worth. Changed: `parts/worth.py`" in said
    assert "-    return 10.0\n+    return 0.0" in said
    assert not (root / "metrics.json").exists()


def test_one_script_runs_every_variant(project: tuple[Path, Tree, list[Accepted]], tmp_path: Path, alone: str) -> None:
    root, base, accepted = project
    place = export(accepted, entry=ENTRY, base=base, root=root, into=tmp_path / "out", one=True)
    assert sorted(path.name for path in (place / "variants" / "fewer").rglob("*") if path.is_file()) == [
        "patch.diff",
        "worth.py",
    ]
    for line in run_lines(place / "README.md", alone):
        clean(line, place)
    found = {path.parent.name: json.loads(path.read_text())["accuracy"] for path in sorted(place.rglob("metrics.json"))}
    assert found == {"base-0": 12.0, "fewer-0": 9.0, "none-0": 2.0}


@pytest.mark.parametrize("one", [False, True])
def test_an_experiment_of_etude_runs_without_it(
    project: tuple[Path, Tree, list[Accepted]], tmp_path: Path, alone: str, one: bool
) -> None:
    root, base, accepted = project
    place = export(accepted, entry="exp.py:experiment", base=base, root=root, into=tmp_path / "out", one=one)
    for line in run_lines(place / "README.md", alone):
        clean(line, place)
    found = {path.parent.name.removesuffix("-0"): json.loads(path.read_text()) for path in place.rglob("metrics.json")}
    assert {name: told["score"] for name, told in found.items()} == {"base": 12.0, "fewer": 9.0, "none": 2.0}


def test_nothing_is_written_over(project: tuple[Path, Tree, list[Accepted]], tmp_path: Path) -> None:
    root, base, accepted = project
    with pytest.raises(ConfigError) as refused:
        export(accepted, entry=ENTRY, base=base, root=root, into=root)
    assert str(refused.value) == f"{root} is not empty, and nothing there is written over. Give a folder that is new."
