"""What the tests of the command line share: a script, its studies, and ways to call commands."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from etude.cli import app

PATIENCE_S = 60.0

SCRIPT = '''
import etude


def train(run, lr: float, epochs: int = 3):
    for epoch in run.epochs(epochs):
        run.report(score=1 - (lr - 0.3) ** 2 - 1 / (epoch + 1))
    if lr < 0.5:
        print(f"trained with {lr}")


def fails(lr: float):
    if lr > 0.5:
        raise ValueError("too large")
    return lr


def waits(run, folder: str, lr: float = 0.1):
    """Print, then go on for as long as there is no file named go."""
    import pathlib, time

    print("first line")
    (pathlib.Path(folder) / "started").touch()
    while not (pathlib.Path(folder) / "go").exists():
        run.report(score=lr)
        time.sleep(0.01)
    print("last line")
    return lr


def small(lr):
    return "too large" if lr > 0.5 else None


class Stubborn:
    def __init__(self, n=1):
        self.n = n

    def decide(self, report, standing):
        return etude.GO_ON if report.step < self.n else etude.Decision(etude.Act.ENOUGH, "enough of it")


class Middle:
    def __init__(self, lr=0.5):
        self.lr = lr

    def tell(self, told):
        pass

    def suggest(self, request):
        return {"lr": self.lr / (1 + request.k)}


middle = Middle()


experiment = etude.Experiment(train, metric="score", mode="max")
failing = etude.Experiment(fails, metric="score", mode="max")
waiting = etude.Experiment(waits, metric="score", mode="max")

if __name__ == "__main__":
    ruled = {"constraint": small, "stopper": Stubborn()}
    experiment.tune({"lr": etude.uniform(0, 1)}, trials=2, workers=1, name="ruled", **ruled)
'''


class Etude:
    """The command line, called in this process or in one of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str) -> SimpleNamespace:
        """Call a command here; return its exit code, standard output and standard error."""
        result = CliRunner().invoke(app, args)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return SimpleNamespace(code=result.exit_code, out=result.stdout, err=result.stderr)

    def start(self, *args: str, stdin: int | None = None) -> subprocess.Popen[str]:
        """Start a command in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", "from etude.cli import main; main()", *args],
            cwd=self.folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ,
            text=True,
        )

    def wait_for(self, what: Callable[[], object]) -> None:
        """Wait until something is the case; fail if it does not happen."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < give_up_at, "it did not happen in time"
            time.sleep(0.01)


@pytest.fixture(scope="session")
def made_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give what runs a script in a new folder, which keeps its studies, and returns that folder."""

    def run(script: str) -> Path:
        folder = tmp_path_factory.mktemp("made")
        (folder / "made.py").write_text(script)
        env = {**os.environ, "ETUDE_STUDIES": str(folder / "studies")}
        subprocess.run([sys.executable, "made.py"], cwd=folder, env=env, check=True)
        return folder

    return run


@pytest.fixture
def etude(beside_script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Etude:
    """Give the command line, in a folder with a script and without studies."""
    monkeypatch.setenv("COLUMNS", "200")
    return Etude(beside_script(SCRIPT))


@pytest.fixture
def tuned(etude: Etude) -> Etude:
    """Give the command line, with one study of six trials."""
    done = etude("tune", "script.py:experiment", "lr=uniform(0, 1)", "--trials", "6", "--workers", "2", "--name", "one")
    assert done.code == 0, done.err
    return etude
