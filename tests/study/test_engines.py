"""Studies with an engine of the user's own, also one that raises."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

import etude
from etude.core.resources import Machine
from etude.engines import Door
from etude.engines.local import WorkerProcess
from etude.worker import processes
from etude.worker.machine import this_machine


class Own:
    """An engine that raises at one of the calls, if it is told to."""

    def __init__(self, raises: str = "") -> None:
        self.raises = raises
        self.workers: dict[str, WorkerProcess] = {}

    def start(self, n: int, door: Door) -> None:
        self._reach("start again" if self.workers else "start")
        for _ in range(n):
            worker = WorkerProcess()
            self.workers[worker.name] = worker
            door.connect(worker.name, worker.line())

    def end(self, worker: str) -> None:
        self._reach("end")
        self.workers[worker].kill()

    def stop(self) -> None:
        while self.workers:
            self.workers.popitem()[1].end()
        self._reach("stop")

    def _reach(self, call: str) -> None:
        if call == self.raises:
            raise OSError(f"no way to {call}")


class Sharing(Own):
    """An engine whose workers share this machine."""

    def machine(self) -> Machine:
        return this_machine()


def test_workers_of_an_engine_of_ones_own_get_gpus_if_it_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")

    def train(lr: float):
        return {"lr": lr, "gpus": os.environ["CUDA_VISIBLE_DEVICES"]}

    search = etude.Experiment(train, metric="lr", mode="max").tune(
        {"lr": etude.uniform(0, 1)}, trials=1, sampler="random", engine=Sharing(), resources="gpus=2"
    )
    assert search.best.metrics["gpus"] == "2,3"
    assert search.meta["call"]["at_a_time"] == 1


class Scattered(Own):
    """Says that each worker finds room where it is, and starts them here all the same."""

    def machine(self) -> None:
        pass


def test_an_engine_whose_workers_here_find_no_gpus_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        etude.ConfigError, match=r"engine=Scattered\(\.\.\.\) started worker .* Return .*this_machine\(\)"
    ):
        etude.Experiment(lambda lr: lr, metric="lr", mode="max").tune(
            {"lr": etude.uniform(0, 1)}, trials=1, sampler="random", engine=Scattered(), resources="gpus=1"
        )


@pytest.mark.skipif(sys.platform != "linux", reason="a trial finds its worker in /proc")
@pytest.mark.parametrize("raises", ["start", "start again", "end", "stop"])
def test_an_engine_that_raises_ends_the_study_and_nothing_finished_is_lost(raises: str, tmp_path: Path) -> None:
    def train(run, lr: float):
        (tmp_path / f"{run.trial}").open("a").write("once ")
        if run.trial == 2 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            warm = processes.parent(os.getppid())
            os.kill(processes.parent(warm), signal.SIGKILL)
            signal.pause()  # until it is taken along
        return lr

    def tune(engine: Own) -> etude.Search:
        return etude.Experiment(train, metric="lr", mode="max").tune(
            {"lr": etude.uniform(0, 1)}, trials=4, workers=1, sampler="random", name="own", engine=engine
        )

    with pytest.raises(OSError, match=f"no way to {raises}$"):
        tune(Own(raises))
    ended = etude.open("own").counts().get("finished", 0)
    assert ended == {"start": 0, "start again": 2, "end": 2, "stop": 4}[raises]
    search = tune(Own())
    assert search.counts() == {"finished": 4}
    ran = [(tmp_path / f"{nth}").read_text().split() for nth in range(4)]
    assert ran == [["once"], ["once"], ["once", "once"], ["once"]]  # the third took its worker along
