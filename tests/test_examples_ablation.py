"""The examples of ablations, run as a reader would run them, with a few rows and images that are made up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import autoablation_inception, autoablation_mnist, autoablation_titanic
from benchmarks.golden import tables

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, args)]
    shown = {**os.environ, "ETUDE_PROGRESS": "1"}  # as a reader has it
    return subprocess.run(command, cwd=cwd, env=shown, capture_output=True, text=True, timeout=300, check=False)


def told(done: subprocess.CompletedProcess[str]) -> set[str]:
    """Return the arms for which an accuracy and an effect were told."""
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"^(\S.*?) +accuracy [01]\.\d{3}, effect [+-][01]\.\d{3}", done.stdout, re.MULTILINE))


def test_features_of_the_titanic_are_left_out_in_turn(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = autoablation_titanic.made_up(tmp_path)
    done = run("titanic_features.py", file, "--seeds", "2", "--force", cwd=tmp_path)
    assert told(done) == {"base", *(f"feature:{name}" for name in ("Pclass", "Fare", "SibSp", "Sex", "Parch", "Age"))}


def test_layers_of_a_cnn_are_taken_out_in_turn(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    autoablation_mnist.made_up(tmp_path, 24)
    done = run("mnist_layers.py", tmp_path, "--seeds", "1", "--epochs", "1", "--force", cwd=tmp_path)
    assert told(done) == {
        "base",
        "layer:second_conv with=second_relu",
        "layer:dense_layer with=dense_relu",
        "layer:first_dropout",
        "layer:second_dropout",
    }
    assert "second_relu after it removed; pool kept" in done.stderr
    assert "output rebuilt 128->576 inputs; 69,376 fewer parameters" in done.stderr


def test_modules_of_inception_are_taken_out_in_turn(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("keras")
    autoablation_inception.made_up(tmp_path, 4)
    done = run("inception_modules.py", tmp_path, "--images", "4", "--modules", "1", cwd=tmp_path)
    assert told(done) == {"base", "between:max_pooling2d_1..mixed0"}
    assert "conv2d_15 rebuilt 256->192 inputs" in done.stderr
    assert re.search(r"^2 trials in \d+ s with 2 workers$", done.stdout, re.MULTILINE)


def test_everything_of_a_transformer_for_tables_is_tried_and_its_switches_are_judged(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    files = {"adult": "adult/adult.data.gz", "california-housing": "california-housing/housing.csv.gz"}
    tables.made_up(tmp_path, 60, files)
    options = ("--table", "california-housing", "--trials", "12", "--seeds", "2", "--force")
    done = run("tablator.py", tmp_path, *options, "--rows", "24", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^optimizer +trials +mean score", done.stdout, re.MULTILINE)
    assert "Nothing can be decided: with 2 pairs" in done.stdout
    assert "6 components beside 'base': sign flips, corrected by Holm" in done.stdout, "all arms are pairs"
    judged = re.findall(r"^(\S+) +[+-][\d.]+ .* undecided", done.stdout, re.MULTILINE)
    assert judged == ["residual", "norm_first", "attention=random", "gated", "class_token", "token_bias"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "titanic_features.py",
            "nowhere is not there. Get train.csv from https://www.kaggle.com/c/titanic/data.",
        ),
        (
            "mnist_layers.py",
            "nowhere has no train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
            "t10k-labels-idx1-ubyte.gz.",
        ),
        ("inception_modules.py", "nowhere has no test.npz."),
        ("tablator.py", "nowhere has no covertype/covtype-kaggle-train.csv.gz."),
    ],
)
def test_what_is_missing_is_told_in_a_line(name: str, says: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run(name, "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"{name}: error: {says}"
