"""The demo and the examples, run as a reader would run them, only smaller."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import etude
from etude.cli import app

REPOSITORY = Path(__file__).parent.parent
EXAMPLES = REPOSITORY / "examples"
CIFAR = REPOSITORY / "../shared/data/cifar10"
FASHION = Path(os.environ.get("ETUDE_DATA") or REPOSITORY / "../shared/data/fashion-mnist")


def run(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_demo_finds_a_good_network_and_shows_it_again_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    from etude import demo

    accuracy = demo.main(trials=5, epochs=6, progress=False)
    out = capsys.readouterr().out
    assert accuracy >= 0.95
    assert "validation accuracy is the same as in the search" in out
    assert "etude show digits-demo" in out
    first = etude.open("digits-demo")
    assert len(first.trials) == 5
    assert first.complete
    assert demo.main(trials=5, epochs=6, progress=False) == accuracy
    again = etude.open("digits-demo")
    assert [t.attempts for t in again.trials] == [t.attempts for t in first.trials]
    assert capsys.readouterr().out == out
    monkeypatch.setattr(demo, "tune", functools.partial(demo.tune, trials=5, epochs=6, progress=False))
    told = json.loads(CliRunner().invoke(app, ["demo", "--json"]).stdout)
    assert (told["study"], told["best"][0]["accuracy"]) == ("digits-demo", first.best.value)


def test_the_demo_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError('no torch', name='torch')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
    )
    for command in (["-m", "etude.demo"], ["-c", "from etude.cli import main; main()", "demo"]):
        done = subprocess.run(
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr == (
            "The demo needs PyTorch and scikit-learn, and 'torch' is not installed. "
            "Run: pip install torch scikit-learn\n"
        )


@pytest.mark.parametrize("name", ["sklearn_table", "conditional"])
def test_an_example_without_torch_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    text = (EXAMPLES / f"{name}.py").read_text()
    text = re.sub(r"seeds=\d+", "seeds=2, force=True", re.sub(r"trials=\d+", "trials=4", text))
    (tmp_path / f"{name}.py").write_text(text)
    done = run(f"{name}.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^Study {name}-[0-9a-f]{{8}}: 4 trials \(", done.stdout)
    assert "failed" not in done.stdout
    assert "Best accuracy: 0." in done.stdout


def test_fashion_mnist_runs_on_a_part_of_the_real_images(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not FASHION.is_dir():
        pytest.skip("Fashion-MNIST is not here: set ETUDE_DATA to the folder with its four files")
    script = EXAMPLES / "fashion_mnist.py"
    done = run(script, "--data", FASHION, "--images", "1200", "--trials", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = re.search(r"'test_accuracy': ([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) > 0.4


def test_examples_are_assigned_to_ranks_by_importance(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not CIFAR.is_dir():
        pytest.skip("CIFAR-10 is not here: ../shared/data/cifar10")
    done = run(EXAMPLES / "importance_partitions.py", "--data", CIFAR, "--images", "128", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = re.findall(
        r"^([a-z ]+): accuracy 0\.\d+ after 6 epochs(?:, (\d+) examples moved)?$", done.stdout, re.MULTILINE
    )
    assert [name for name, _ in told] == ["vanilla", "stripes", "blocks", "sticky stripes"]
    moved = {name: int(n or 0) for name, n in told}
    assert moved["vanilla"] == 0
    assert 0 < moved["sticky stripes"] < moved["stripes"]


def test_fashion_mnist_names_the_files_that_are_missing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "t10k-labels-idx1-ubyte.gz").touch()
    done = run(EXAMPLES / "fashion_mnist.py", "--data", tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    assert " ".join(done.stderr.split()).endswith(
        f"error: {tmp_path} has no train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz. "
        "Get the four files from https://github.com/zalandoresearch/fashion-mnist and pass their folder: --data FOLDER."
    )
