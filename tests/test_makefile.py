"""What make would do, in folders of each kind that people have: asked with ``make -n``, so nothing is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DEMO, ALL = "-e . torch scikit-learn", "-e . --group dev"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout, as far as make looks at one, before anything was installed."""
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    for name in ("Makefile", "pyproject.toml", "constraints-dev.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
        os.utime(tmp_path / name, (1_000, 1_000))
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    return tmp_path


def planned(folder: Path, target: str) -> str:
    """Return the commands that make would carry out."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "-n", target], cwd=folder, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def have(folder: Path, name: str, at: int = 2_000) -> None:
    (folder / ".venv" / name).touch()
    os.utime(folder / ".venv" / name, (at, at))


def test_a_newcomers_demo_installs_what_it_needs_and_no_more(folder: Path) -> None:
    would = planned(folder, "demo")
    assert DEMO in would
    assert ALL not in would
    assert "-c constraints-dev.txt" in would
    assert "/^nvidia-/" in would, "a GPU build of torch is noticed here, too"
    assert would.index("-m venv") < would.index(DEMO) < would.index("etude demo")


def test_a_second_demo_and_one_after_setup_install_nothing(folder: Path) -> None:
    have(folder, "bin/uv")
    for stamp in (".demo-done", ".setup-done"):
        have(folder, stamp)
        assert planned(folder, "demo").strip() == ".venv/bin/etude demo"
        (folder / ".venv" / stamp).unlink()


def test_setup_after_the_demo_adds_the_rest_to_the_same_environment(folder: Path) -> None:
    have(folder, "bin/uv")
    have(folder, ".demo-done")
    would = planned(folder, "setup")
    assert ALL in would
    assert "--python .venv/bin/python" in would
    assert "-m venv" not in would


def test_an_environment_that_is_out_of_date_is_brought_up_to_date_as_what_it_was(folder: Path) -> None:
    have(folder, "bin/uv")
    have(folder, ".setup-done", at=500)
    assert ALL in planned(folder, "demo")
    (folder / ".venv" / ".setup-done").unlink()
    have(folder, ".demo-done", at=500)
    assert DEMO in planned(folder, "demo")


def test_other_pythons_are_tested_without_torch(folder: Path) -> None:
    have(folder, "bin/uv")
    would = planned(folder, "test-pythons")
    assert "3.11 3.12 3.13" in would
    assert "-e '.[cluster,cmaes,qmc]' pytest hypothesis psutil" in would
    assert "torch scikit-learn" not in would
