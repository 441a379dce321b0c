"""The wheel in clean environments: as it is, and with each extra alone, each doing what it is there for.

Environments are made of what lies on this machine: wheels that pip is told of, and what uv has kept. An extra of which
something is not there is skipped, and says so; ``ETUDE_PACKAGES=registry`` has uv ask the registry for it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = [
    *("torch", "keras", "tensorflow", "jax", "ray", "pyspark", "optuna", "scipy", "sklearn", "pandas", "matplotlib"),
    *("anthropic", "openai", "starlette"),
]
ONLINE = os.environ.get("ETUDE_PACKAGES") == "registry"

AT_WORK = {
    "cluster": "from etude.wire.credentials import make_keys; assert 'BEGIN CERTIFICATE' in make_keys().certificate",
    "cmaes": "assert proposes(etude.CMAES(startup=0))",
    "energy": "from etude.system.nvml import INSTALL, loaded; assert loaded()[1] != INSTALL",
    "gp": "assert proposes(etude.GP(startup=2))",
    "mage": "from etude.mage.backends.naming import backend_of\n"
    "for name in ('anthropic:m', 'openai:m'): backend_of(name, environment=KEYS).ready()",
    "mlflow": "assert tune().export('mlflow', into='mlflow.db').trials == 2\n"
    "import mlflow; client = mlflow.MlflowClient('sqlite:///mlflow.db')\n"
    "runs = client.search_runs([one.experiment_id for one in client.search_experiments()])\n"
    "assert [run.info.status for run in runs] == ['FINISHED'] * 2",
    "qmc": "assert proposes(etude.QMC())",
    "ray": "from etude.engines.ray import _imported; _imported().init; import etude.wire.credentials, cryptography",
    "report": "from etude.analyse.report.writer import painter\n"
    'drawn = painter()(\'<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"></svg>\')\n'
    "assert drawn.startswith(b'\\x89PNG')",
    "spark": "from etude.engines.spark_session import _imported; _imported().SparkContext; import cryptography",
    "stats": "from etude.analyse.libraries import scipy_stats; scipy_stats(); import sklearn.ensemble",
    "tensorboard": "from pathlib import Path\n"
    "from tensorboard.backend.event_processing.event_file_loader import EventFileLoader\n"
    "assert tune().export('tensorboard', into='runs').trials == 2\n"
    "files = sorted(Path('runs').rglob('*tfevents*'))\n"
    "assert [bool(list(EventFileLoader(str(file)).Load())) for file in files] == [True, True]",
    "torch": "import torch, etude.frameworks.torch; assert etude.remove",
    "view": "import etude.view.server",
    "zeus": "from etude.system.meters.zeus import INSTALL, Zeus; assert Zeus().lacks() != INSTALL",
}
"""Extra -> what works once it is installed, where it is alone."""

SEARCH = """
import etude

def train(run, *, x: float):
    run.report(score=x)
    return x

experiment = etude.Experiment(train, metric="score", mode="max")
if __name__ == "__main__":
    search = experiment.tune({"x": etude.uniform(0, 1)}, trials=2, workers=2, name="one")
    assert [trial.state for trial in search.trials] == ["finished", "finished"]
"""


class Place:
    """An environment with the wheel in it, and an empty folder to work in."""

    def __init__(self, folder: Path, wheel: Path, extra: str | None) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.bin = folder / "venv" / "bin"
        uv = [sys.executable, "-m", "uv"]
        made = _run([*uv, "venv", "--quiet", "--python", sys.executable, str(self.bin.parent)])
        assert made.returncode == 0, made.stderr
        wanted = f"etude[{extra}] @ {wheel.as_uri()}" if extra else f"etude @ {wheel.as_uri()}"
        places = [part for place in _places() for part in ("--find-links", place)]
        options = [] if ONLINE else ["--offline"]
        done = _run(
            [
                *(*uv, "pip", "install", "--quiet", "--python", str(self.bin / "python"), *options, *places),
                *("-c", str(ROOT / "constraints-dev.txt"), wanted),
            ]
        )
        if done.returncode:
            assert not ONLINE, done.stderr
            pytest.skip(f"not all of it is on this machine: {' '.join(done.stderr.split())[:300]}")

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        return _run([str(self.bin / "python"), "-W", "error::SyntaxWarning", "-c", code], self.folder)

    def etude(self, *words: str) -> subprocess.CompletedProcess[str]:
        return _run([str(self.bin / "etude"), *words], self.folder)


def _run(command: list[str], folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV", "KERAS_BACKEND"}}
    kept |= {"ETUDE_STUDIES": "studies", "COLUMNS": "200"}
    if "uv" in command:  # what it has kept lies where it always does, not where a test keeps things
        kept.pop("XDG_CACHE_HOME", None)
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=600)


def _places() -> list[str]:
    """Return where wheels lie on this machine, as pip is told and as the Makefile asks."""
    told = _run([sys.executable, "-m", "pip", "config", "get", "global.find-links"])
    return [*told.stdout.split(), *os.environ.get("PIP_FIND_LINKS", "").split()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if _run([sys.executable, "-m", "uv", "--version"]).returncode:
        pytest.skip("uv is not installed here, which makes the environments; `make setup` installs it")
    folder = tmp_path_factory.mktemp("wheel")
    made = _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)])
    assert made.returncode == 0, made.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("core"), wheel, None)


def check_it_is_light(place: Place) -> None:
    done = place.python(f"import etude, sys; print(etude.__file__, *[m for m in {HEAVY} if m in sys.modules])")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(next(place.bin.parent.glob("lib/*/site-packages/etude/__init__.py")))]
    said = place.etude("--version")
    assert (said.returncode, said.stdout.split()[-1]) == (0, version())


def version() -> str:
    import etude

    return etude.__version__


def test_each_extra_has_something_that_it_is_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(AT_WORK) == set(extras) - {"all"}


def test_the_core_alone_searches_shows_and_reports(core: Place) -> None:
    check_it_is_light(core)
    (core.folder / "script.py").write_text(SEARCH)
    ran = _run([str(core.bin / "python"), "script.py"], core.folder)
    assert ran.returncode == 0, ran.stderr
    assert "one" in core.etude("ls").stdout
    assert "2 trials (2 finished)" in core.etude("show", "one").stdout
    told = core.etude("report", "one", "--into", "page")
    assert told.returncode == 0, told.stderr
    page = (core.folder / "page" / "index.html").read_text()
    assert "<style>" in page
    assert "<script" in page


LACKING = {
    "cluster": "from etude.wire.credentials import make_keys; make_keys()",
    "cmaes": "tune(sampler='cmaes')",
    "energy": "from etude.system.nvml import loaded; print(loaded()[1])",
    "gp": "tune(sampler='gp')",
    "mage": "from etude.mage.backends.naming import backend_of; backend_of('openai:m', environment=KEYS).ready()",
    "qmc": "tune(sampler='qmc')",
    "ray": "tune(engine='ray')",
    "report": "from etude.analyse.report.writer import painter; painter()",
    "spark": "tune(engine='spark')",
    "stats": "from etude.analyse.libraries import scipy_stats; scipy_stats()",
    "view": "import sys; from etude.cli import main; sys.argv[1:] = ['view']; main()",
    "zeus": "from etude.system.meters.zeus import Zeus; print(Zeus().lacks())",
}
"""Extra -> what asks for it; not those for programs of others, nor torch, which a user's own script imports."""


def spelt(code: str) -> str:
    """Return what runs a line of the tables above."""
    return (
        "import etude\nKEYS = {'ANTHROPIC_API_KEY': 'none', 'OPENAI_API_KEY': 'none'}\n"
        "def train(*, x: float): return x\n"
        "def tune(**how):\n"
        "    experiment = etude.Experiment(train, metric='score', mode='max')\n"
        "    return experiment.tune({'x': etude.uniform(0, 1)}, **{'trials': 2, **how})\n"
        "def proposes(sampler):\n"
        "    return [t.state for t in tune(trials=4, sampler=sampler).trials] == ['finished'] * 4\n" + code
    )


@pytest.mark.thorough
@pytest.mark.parametrize("extra", LACKING)
def test_what_is_missing_is_told_with_what_installs_it(core: Place, extra: str) -> None:
    done = core.python(spelt(LACKING[extra]))
    assert f"pip install 'etude[{extra}]'" in done.stdout + done.stderr
    assert not list(core.folder.glob("studies/study-*")), "nothing is begun that cannot go on"


@pytest.mark.thorough
@pytest.mark.parametrize("extra", AT_WORK)
def test_each_extra_alone_does_what_it_is_for(wheel: Path, extra: str, tmp_path: Path) -> None:
    place = Place(tmp_path, wheel, extra)
    check_it_is_light(place)
    done = place.python(spelt(AT_WORK[extra]))
    assert done.returncode == 0, done.stderr
    shutil.rmtree(place.bin.parent)  # some are large, and pytest keeps folders


def test_names_in_these_tables_are_extras() -> None:
    named = {name for line in AT_WORK.values() for name in re.findall(r"etude\[(\w+)\]", line)}
    assert set(LACKING) | named <= set(AT_WORK)
