"""What people install: a wheel with our code, its types, its license and its command, and nothing else.

And the archive of sources, from which the same wheel is made and whose tests find their files.
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import etude

ROOT = Path(__file__).parent.parent


NO_CODE = (".css", ".js", ".txt", ".typed")
"""What is in the package beside Python: a page's looks and scripts, a script for exports, and the mark of types."""


def built(kind: str, folder: Path, *, of: Path = ROOT) -> Path:
    """Return the file that hatchling makes of a checkout: a ``wheel`` or an ``sdist``."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)],
        cwd=of,
        check=True,
        capture_output=True,
    )
    (made,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of sources, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("sdist", folder)) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"etude-{etude.__version__}"


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = [p for p in (ROOT / "src" / "etude").rglob("*") if p.suffix in {".py", *NO_CODE}]
    assert names == {path.relative_to(ROOT / "src").as_posix() for path in package}
    beside = {name.removeprefix("etude/") for name in names if name.endswith(NO_CODE)}
    # By name, too: a file that somebody deletes is missed in the checkout as well.
    assert {
        "py.typed",
        "mage/handover/run_alone.txt",
        "analyse/report/assets/page.js",
        "view/assets/view.css",
    } <= beside


def test_the_archive_of_sources_holds_what_git_has_but_what_is_of_the_workplace(unpacked: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("there is no git here, or this is no clone, so nothing says what belongs to it")
    there = {p.relative_to(unpacked).as_posix() for p in unpacked.rglob("*") if p.is_file()}
    ours = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    assert ours - there == {".ci/run"}
    assert there - ours == {"PKG-INFO"}


def test_the_archive_of_sources_gives_the_same_wheel(unpacked: Path, wheel: Path, tmp_path: Path) -> None:
    again = zipfile.ZipFile(built("wheel", tmp_path, of=unpacked))
    first = zipfile.ZipFile(wheel)
    assert {n: again.read(n) for n in again.namelist()} == {n: first.read(n) for n in first.namelist()}


def test_the_wheel_says_version_license_and_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    inside = {Path(name).name: name for name in archive.namelist() if ".dist-info/" in name}
    metadata = email.message_from_bytes(archive.read(inside["METADATA"]))
    assert (metadata["Name"], metadata["Version"]) == ("etude", etude.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert archive.read(inside["LICENSE"]) == (ROOT / "LICENSE").read_bytes()
    assert "etude = etude.cli:main" in archive.read(inside["entry_points.txt"]).decode()


def test_the_installed_package_asks_for_no_framework() -> None:
    needed = {re.split(r"[<>=!~ \[;]", entry)[0] for entry in project()["dependencies"]}
    assert needed.isdisjoint({"torch", "tensorflow", "keras", "jax", "ray", "pyspark", "scikit-learn", "pandas"})


def test_every_extra_that_people_are_told_to_install_is_there() -> None:
    extras = project()["optional-dependencies"]
    pages = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    named = {
        extra
        for page in pages
        for listed in re.findall(r"etude\[([a-z,]+)\]", page.read_text(encoding="utf-8"))
        for extra in listed.split(",")
    }
    assert {"energy", "zeus"} <= named <= set(extras)


def test_all_is_each_extra_once() -> None:
    extras = project()["optional-dependencies"]
    (named,) = extras.pop("all")
    assert named == f"etude[{','.join(sorted(extras))}]"


def test_an_extra_and_the_development_environment_want_the_same_versions() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    asked = {re.split(r"[<>=]", entry)[0]: entry for entry in groups["dev"]}
    extras = [entry for name, listed in project()["optional-dependencies"].items() if name != "all" for entry in listed]
    differ = {entry: asked[name] for entry in extras if asked.get(name := re.split(r"[<>=]", entry)[0], entry) != entry}
    assert differ == {}


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
