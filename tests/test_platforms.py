"""The page on platforms says what is so: versions of Python and libraries, and what each extra is for."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import yaml

import etude

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "platforms.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHOWN = (
    *("torch", "keras", "ray", "pyspark", "lightning", "transformers", "lightgbm", "xgboost-cpu", "cmaes"),
    *("cryptography", "fsspec", "s3fs", "narwhals", "polars", "pyarrow", "starlette", "uvicorn", "tensorboard"),
    *("mlflow-skinny", "optuna-dashboard", "anthropic", "openai", "torchdata", "accelerate", "pyyaml", "pyflakes"),
)
"""Libraries that a user knows or chooses; what these bring along is pinned, and not shown."""


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints-dev.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def asked() -> dict[str, str]:
    """Return what we ask for, as in ``torch>=2.4``, by name."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    listed = chain(project["dependencies"], *project["optional-dependencies"].values(), *groups.values())
    found = {}
    for entry in listed:
        name, wanted = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?([^;]*).*", entry).groups()  # type: ignore[union-attr]
        found.setdefault(name, wanted.strip())
    return found


def table() -> str:
    have, want = pins(), asked()
    return "".join(f"| {name} | {have[name]} | {want.get(name, '')} |\n" for name in sorted(SHOWN))


def test_versions_on_the_page_are_those_that_tests_run_with() -> None:
    there = PAGE.partition("| library | tested with | asked for |\n|---|---|---|\n")[2].partition("\n\n")[0] + "\n"
    assert there == table(), f"put this there:\n{table()}"


def test_every_extra_is_on_the_page() -> None:
    rows = PAGE.partition("| extra | for |\n|---|---|\n")[2]
    named = {name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == set(PROJECT["project"]["optional-dependencies"]) - {"all"}


def test_versions_of_python_are_the_same_wherever_they_are_said() -> None:
    said = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    (tried,) = re.findall(r"^PYTHONS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    rows = re.findall(r"^\| ([\d., ]+) \| (?!no)", PAGE, re.MULTILINE)
    assert said == tried.split() == [version for row in rows for version in row.split(", ")]
    assert PROJECT["project"]["requires-python"] == f">={said[0]}"


def test_the_citation_is_of_this_version_and_has_what_its_format_asks_for() -> None:
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(said)
    assert said["version"] == etude.__version__
    assert said["license"] == PROJECT["project"]["license"]
    assert [author["name"] for author in said["authors"]] == [one["name"] for one in PROJECT["project"]["authors"]]
