"""``etude components``: the same listing as ``experiment.components()``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from etude.cli import app

SCRIPT = """
import etude
from torch import nn
import torch
from torch.utils.data import DataLoader, TensorDataset

def model(width: int = 4):
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))

def data():
    return DataLoader(TensorDataset(torch.ones(8, 3), torch.zeros(8)), 4)

def train(model, data, lr: float = 0.1):
    return 0.0

experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"script_{tmp_path.name}.py"  # a module is imported once in a process
    path.write_text(SCRIPT)
    return path


def test_it_prints_what_could_be_taken_away(script: Path) -> None:
    done = CliRunner().invoke(app, ["components", f"{script}:experiment", "--at", "width=6"])
    assert done.exit_code == 0, done.output
    assert "layers (38 parameters)" in done.output
    assert "2  Linear  14 parameters, 2 units, output" in done.output
    assert "lr = 0.1" in done.output
    assert "width = 6" in done.output


@pytest.mark.parametrize("told", [["width=6", "lr=0.2"], ["width=6", "--at", "lr=0.2"], ["--at", "width=6 lr=0.2"]])
def test_the_configuration_is_told_as_in_other_commands(script: Path, told: list[str]) -> None:
    done = CliRunner().invoke(app, ["components", f"{script}:experiment", *told])
    assert done.exit_code == 0, done.output
    assert "lr = 0.2" in done.output
    assert "width = 6" in done.output


@pytest.mark.parametrize(
    ("told", "said"),
    [(["width"], "'width' is no configuration"), (["width=6", "--at", "width=4"], "gives width twice")],
)
def test_what_is_no_configuration_is_a_usage_error(script: Path, told: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["components", f"{script}:experiment", *told])
    assert done.exit_code == 2
    assert said in done.output
    assert "--start" not in done.output


def test_as_json_it_is_one_document(script: Path) -> None:
    done = CliRunner().invoke(app, ["components", f"{script}:experiment", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [layer["path"] for layer in found["layers"]] == ["0", "1", "2"]
    assert found["layers"][0]["units"] == 4


@pytest.mark.parametrize(("told", "more"), [([], ""), (["width=6"], "width=6 ")])
def test_a_value_that_is_missing_is_asked_for_as_the_command_takes_it(script: Path, told: list[str], more: str) -> None:
    script.write_text(SCRIPT.replace("lr: float = 0.1", "lr: float"))
    done = CliRunner().invoke(app, ["components", f"{script}:experiment", *told])
    assert done.exit_code == 2
    assert done.output == (
        "train() needs 'lr', and nothing gives it: it has no default and no value. Give it a value (lr=...), a "
        f"default, or a place in the space. Here: etude components {script}:experiment {more}lr=0.1\n"
    )
    assert CliRunner().invoke(app, ["components", f"{script}:experiment", *told, "lr=0.1"]).exit_code == 0


def test_a_configuration_that_cannot_be_is_a_usage_error(script: Path) -> None:
    done = CliRunner().invoke(app, ["components", f"{script}:experiment", "--at", "depth=6"])
    assert done.exit_code == 2
    assert "depth" in done.output
