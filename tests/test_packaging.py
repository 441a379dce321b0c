"""What people install: a wheel with our code, its types, its license and its command, and nothing else."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import etude

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src" / "etude").rglob("*.py")}
    report = {f"etude/analyse/report/assets/page.{kind}" for kind in ("css", "js")}
    alone = {"etude/mage/handover/run_alone.txt"}  # goes into exports, where it is a script that needs no Étude
    assert names == source | report | alone | {"etude/py.typed"}


def test_the_wheel_says_version_license_and_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    inside = {Path(name).name: name for name in archive.namelist() if ".dist-info/" in name}
    metadata = email.message_from_bytes(archive.read(inside["METADATA"]))
    assert (metadata["Name"], metadata["Version"]) == ("etude", etude.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert archive.read(inside["LICENSE"]) == (ROOT / "LICENSE").read_bytes()
    assert "etude = etude.cli:main" in archive.read(inside["entry_points.txt"]).decode()


def test_the_installed_package_asks_for_no_framework() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=!~ \[;]", entry)[0] for entry in project["dependencies"]}
    assert needed.isdisjoint({"torch", "tensorflow", "keras", "jax", "ray", "pyspark", "scikit-learn", "pandas"})


def test_every_extra_that_people_are_told_to_install_is_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pages = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    named = {extra for page in pages for extra in re.findall(r"etude\[([a-z]+)\]", page.read_text(encoding="utf-8"))}
    assert {"energy", "zeus"} <= named <= set(extras)


def test_the_wheel_is_importable_where_the_checkout_is_not(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    asked = "import etude, etude.core.driver, etude.studies.study; print(etude.__file__)"
    # -P keeps the current folder off the path; PYTHONPATH comes before the checkout's own entry.
    done = subprocess.run(
        [sys.executable, "-P", "-c", asked],
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()) == tmp_path / "etude" / "__init__.py"


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## \[?([\d.]+|Unreleased)\]?", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == etude.__version__
