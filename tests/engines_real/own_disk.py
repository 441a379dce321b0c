"""A driver whose disk no worker sees: what trials elsewhere write, print and keep comes home over the line alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from apart import Started, above, command, started, started_command
from support import table, write_script

import etude
from etude.core.errors import StudyError
from etude.core.events import Checkpointed, Resumed
from etude.store.journal import Journal
from etude.worker import processes

SCRIPT = """
    import os, sys, time
    from pathlib import Path
    import etude

    def train(lr: float, run):
        kept = run.keep(total=0.0)
        (run.folder / "sub").mkdir()
        (run.folder / "sub" / "weights.bin").write_bytes(b"w" * 300_000)
        print("printed by", run.trial, "who sees", os.listdir(Path(PROJECT, "studies")))
        for epoch in run.epochs(5):
            kept.total += lr
            run.report(score=kept.total)
            if epoch == 2 and run.trial == 0 and HOLD and run.folder.name == "attempt-1":
                Path(PROJECT, f"held-{os.getpid()}").touch()
                while True:
                    time.sleep(0.01)
        return kept.total

    PROJECT, HOLD = os.getcwd(), "hold" in sys.argv
    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        search = experiment.tune(
            {"lr": etude.uniform(0, 1)}, trials=4, workers=2, sampler="random", stopper="none", engine=sys.argv[1],
            name="study",
        )
        print(search.counts(), search.notes)
"""

only_for_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide the driver's disk from workers")


def check_that_all_comes_home(folder: Path, engine: str, *, node: str, environment: dict[str, str]) -> None:
    """Run a study whose folder its workers cannot see, kill a node in the middle, and compare with one of this machine.

    Args:
        folder: An empty one, for the script.
        engine: What starts the workers, out of sight of the driver's disk.
        node: What stands in the command of a process that is a node.
        environment: Variables for the script.
    """
    script = write_script(folder, SCRIPT)
    with _started_on_a_disk_of_its_own(script, engine, "hold", environment=environment) as driver:
        study = Path(f"/proc/{driver.process.pid}/root{driver.study}")  # as the driver sees it
        driver.wait_for(lambda: list(folder.glob("held-*")) and _is_home(study), "a state is home, and known to be")
        [held] = folder.glob("held-*")
        pid = int(held.name.removeprefix("held-"))
        processes.kill(next(found for found in above(pid) if node in command(found)))
        assert "{'finished': 4}" in driver.end()
    home = folder / "home" / "study"
    for trial in etude.open(home).trials:
        assert (trial.folder / "sub" / "weights.bin").stat().st_size == 300_000
        assert f"printed by {trial.number} who sees []\n" in (trial.folder / "log.txt").read_text()
    with contextlib.closing(Journal.read(home)) as journal:
        [resumed] = [fact for fact in journal.facts() if isinstance(fact, Resumed)]
    assert (resumed.trial, resumed.attempt) == (0, 2)
    assert resumed.origin.key is not None, "from a state, and not from the start"
    assert resumed.origin.step > 0
    with started(script, "local", environment={**environment, "ETUDE_STUDIES": str(folder / "others")}) as driver:
        driver.end()
    assert table(home) == table(folder / "others" / "study")


def _is_home(study: Path) -> bool:
    """Say whether the journal has a state of the trial that is held, by a copy: SQLite reads none on another's disk."""
    with tempfile.TemporaryDirectory() as copy, contextlib.suppress(StudyError, OSError):  # torn: see again
        for file in study.glob("journal.sqlite*"):
            shutil.copy(file, copy)
        with contextlib.closing(Journal.read(Path(copy))) as journal:
            return any(isinstance(fact, Checkpointed) and fact.trial == 0 for fact in journal.facts())
    return False


@contextlib.contextmanager
def _started_on_a_disk_of_its_own(script: Path, *args: str, environment: dict[str, str]) -> Iterator[Started]:
    """Run a script whose studies are on a disk that others do not have; in the end they are in ``home``."""
    folder = script.parent
    (folder / "studies").mkdir()
    run = 'mount -t tmpfs none studies && "$@"; code=$?; cp -r studies home; exit $code'
    program = ["unshare", "--mount", "sh", "-c", run, "-", sys.executable, script.name, *args]
    with started_command(program, folder=folder, environment=environment) as driver:
        yield driver
        assert os.listdir(folder / "studies") == [], "nobody else saw anything of it"
