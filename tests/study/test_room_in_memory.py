"""Trials that run out of memory beside others, and alone: with real processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from support import running_at_once

import etude
from etude.core import packing
from etude.engines.local import close_warm_workers
from etude.frameworks import torch as torch_adapter
from etude.worker.machine import memory_gb


def tune(train: Any, **kwargs: Any) -> Any:
    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {"x": etude.integers(0, 10**6)}
    return experiment.tune(space, sampler="random", stopper="none", **{"trials": 6, "workers": 3, **kwargs})


def test_a_trial_that_ran_out_of_memory_runs_alone_and_is_told_of(tmp_path: Path) -> None:
    def train(run, x: int):
        (tmp_path / f"began-{run.trial}").touch()
        out_of_memory = tmp_path / "out-of-memory"
        if run.trial == 1 and not out_of_memory.exists():
            while len(list(tmp_path.glob("began-*"))) < 3:
                time.sleep(0.001)
            out_of_memory.touch()
            raise MemoryError("no more")
        while not out_of_memory.exists():
            time.sleep(0.001)
        return float(x)

    search = tune(train, on_oom="retry_alone")
    assert search.counts() == {"finished": 6}
    assert search.trials[1].attempts == 2
    assert running_at_once(search.folder, 1, 1) >= {0, 2}
    assert running_at_once(search.folder, 1, 2) == set()
    assert "Out of memory: 1 attempt of trial 1; none failed for good." in search.summary()


def test_a_trial_that_needs_more_than_the_machine_has_fails_with_that_reason() -> None:
    def train(run, x: int):
        if run.trial == 0:
            raise MemoryError("no more")
        return float(x)

    search = tune(train, trials=3, on_oom="retry_alone", retries=5)
    assert search.counts() == {"failed": 1, "finished": 2}
    assert search.trials[0].attempts == 2
    assert search.trials[0].reason == "out of memory with no other trial on its machine: MemoryError: no more"
    assert "Out of memory: 2 attempts of trial 0; 1 failed for good." in search.summary()


def test_what_becomes_of_them_is_one_of_two() -> None:
    with pytest.raises(etude.ConfigError) as refused:
        tune(lambda x: 0.0, on_oom="alone")
    assert str(refused.value) == "on_oom='alone' (str) is not known. Pass one of 'retry', 'retry_alone'."


def rendezvous(place: Path, trial: int) -> float:
    """Take 60 MB, so that it is seen who runs beside whom: trials 2 and 3 wait for each other."""
    taken = bytearray(60 * 2**20)
    taken[:: 2**10] = b"1" * len(taken[:: 2**10])
    (place / str(trial)).touch()
    while trial in (2, 3) and not ((place / "2").exists() and (place / "3").exists()):
        time.sleep(0.001)
    return float(len(taken))


def test_two_trials_show_what_they_take_and_then_as_many_run_as_there_is_room_for(tmp_path: Path) -> None:
    search = tune(lambda run, x: rendezvous(tmp_path, run.trial), resources="auto")
    assert search.counts() == {"finished": 6}
    assert [running_at_once(search.folder, trial, 1) for trial in (0, 1)] == [set(), set()]
    assert search.meta["call"]["resources"] == "memory_gb=auto"
    assert search.meta["call"]["on_oom"] is None, "what was not said is not said later either"


def test_no_two_run_beside_each_other_where_memory_suffices_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = memory_gb()
    assert memory is not None
    monkeypatch.setattr(packing, "ROOM", 100 / (memory * 2**10))  # 100 MB
    (tmp_path / "2").touch()
    (tmp_path / "3").touch()
    search = tune(lambda run, x: rendezvous(tmp_path, run.trial), resources="auto")
    assert search.counts() == {"finished": 6}
    assert all(running_at_once(search.folder, trial, 1) == set() for trial in range(6))


def have_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch, *, memory_mb: int) -> None:
    """Let there be one GPU of that size, as far as nvidia-smi and the environment say."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho 0, GPU-aaaa, {memory_mb}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    close_warm_workers()  # they have the environment of the test that started them


@pytest.mark.parametrize(("memory_mb", "beside"), [(100_000, True), (9_000, False)])
def test_what_trials_take_of_a_gpu_is_learned_as_well(
    memory_mb: int, beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU is made up, and so is what torch says of it."""
    have_a_gpu(tmp_path, monkeypatch, memory_mb=memory_mb)
    if not beside:
        (tmp_path / "2").touch()
        (tmp_path / "3").touch()

    def train(run, x: int):
        torch_adapter.gpu_peak_mb = lambda: 4000.0
        return rendezvous(tmp_path, run.trial)

    search = tune(train, resources="auto")
    close_warm_workers()
    assert search.counts() == {"finished": 6}
    assert {trial.usage.gpu_memory_mb for trial in search.trials} == {4000.0}
    assert any(running_at_once(search.folder, trial, 1) for trial in range(2, 6)) == beside
