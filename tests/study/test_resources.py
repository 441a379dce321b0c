"""What a trial needs, in whole studies: each sees its own GPUs, and no more run at a time than there is room for.

The GPUs are ids in CUDA_VISIBLE_DEVICES and no more: what attempts see is all that these tests can tell.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support import processes, run_script, wait_for, write_script

import etude
from etude.core.errors import ConfigError
from etude.engines.local import WORKER_MARK, close_warm_workers
from etude.worker.machine import memory_gb

LR = {"lr": etude.uniform(0, 1)}
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.fixture(autouse=True)
def _workers_of_its_own() -> None:
    """A warm worker has the environment of the test that started it."""
    close_warm_workers()


def see(gpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)


def looking(folder: Path, *, together: int = 1) -> etude.Experiment:
    """Return an experiment whose trials tell which GPUs they see, and from when to when.

    Args:
        folder: Where they meet.
        together: The first so many go on when all of them are there.
    """

    def train(lr: float, run):
        began = time.monotonic()
        (folder / f"here-{run.trial}").touch()
        wait_for(lambda: run.trial >= together or len(list(folder.glob("here-*"))) >= together)
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        who = {"pid": os.getpid(), "worker": os.environ[WORKER_MARK]}
        return {"score": lr, "gpus": seen, "times": [began, time.monotonic()], **who}

    return etude.Experiment(train, metric="score", mode="max")


def seen_in(search: etude.Search) -> list[str]:
    return sorted(trial.metrics["gpus"] for trial in search.trials)


def most_at_once(search: etude.Search) -> dict[str, int]:
    """Return how many trials had each GPU at the same time, at most."""
    tables = [trial.metrics for trial in search.trials]
    most: dict[str, int] = {}
    for one in tables:
        for gpu in one["gpus"].split(","):
            at_that_time = [
                other
                for other in tables
                if gpu in other["gpus"].split(",") and other["times"][0] <= one["times"][0] < other["times"][1]
            ]
            most[gpu] = max(most.get(gpu, 0), len(at_that_time))
    return most


@pytest.mark.parametrize(
    ("gpus", "workers", "first", "sharing"),
    [
        (1, 4, ["0", "1", "2", "3"], 1),
        (2, 2, ["0,1", "2,3"], 1),
        (0.5, 8, ["0", "0", "1", "1", "2", "2", "3", "3"], 2),
    ],
)
def test_trials_that_run_at_the_same_time_see_gpus_of_their_own(
    gpus: float, workers: int, first: list[str], sharing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    see("0,1,2,3", monkeypatch)
    search = looking(tmp_path, together=workers).tune(
        LR, trials=2 * workers, workers=workers, resources=etude.Resources(gpus=gpus), sampler="random"
    )
    assert search.counts() == {"finished": 2 * workers}
    assert sorted(trial.metrics["gpus"] for trial in search.trials[:workers]) == first
    assert most_at_once(search) == dict.fromkeys("0123", sharing)


def test_with_room_for_all_nobody_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    see("GPU-a,GPU-b", monkeypatch)
    search = looking(tmp_path, together=2).tune(LR, trials=2, workers=2, resources="gpus=0.5", sampler="random")
    assert seen_in(search) == ["GPU-a", "GPU-b"]


@pytest.mark.skipif(sys.platform != "linux", reason="a trial finds its worker in /proc")
def test_the_gpus_of_a_worker_that_was_killed_go_to_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    see("0,1,2", monkeypatch)

    def train(lr: float, run):
        seen = os.environ["CUDA_VISIBLE_DEVICES"]
        killed, again = tmp_path / "killed", tmp_path / "again"
        (tmp_path / f"here-{run.trial}").touch()
        wait_for(lambda: len(list(tmp_path.glob("here-*"))) == 3)
        if run.trial == 1 and not killed.exists():
            killed.write_text(seen)
            warm = processes.parent(os.getppid())
            os.kill(processes.parent(warm), signal.SIGKILL)
            signal.pause()  # until it is taken along
        elif run.trial == 1:
            again.touch()
        wait_for(again.exists)  # so the others are busy until the first one runs again
        return {"score": lr, "gpus": seen}

    search = etude.Experiment(train, metric="score", mode="max").tune(
        LR, trials=3, workers=3, resources="gpus=1", sampler="random"
    )
    assert search.trials[1].attempts == 2
    assert search.trials[1].metrics["gpus"] == (tmp_path / "killed").read_text()
    assert seen_in(search) == ["0", "1", "2"]


MODULE = """
    import os
    {first}
    SEEN, PID = os.environ.get("CUDA_VISIBLE_DEVICES"), os.getpid()
"""

SCRIPT = """
    import etude, os, own, sys

    def train(x: int, run):
        print("trial", run.trial)
        return {"score": 1.0, "seen": [own.SEEN, os.environ["CUDA_VISIBLE_DEVICES"]], "same": own.PID == os.getpid()}

    live = etude.Experiment(train, metric="score", mode="max").tune(
        {"x": etude.integers(0, 1000)}, trials=2, workers=1, resources="gpus=2", sampler="random", wait=False)
    search = live.wait()
    for trial in search.trials:
        print(trial.metrics["seen"], trial.metrics["same"])
    print(live._handle.study.notes)
"""


@pytest.mark.parametrize("how", ["forked", "spawned"])
def test_modules_that_are_imported_before_the_attempt_see_its_gpus_too(how: str, tmp_path: Path) -> None:
    thread = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    write_script(tmp_path, MODULE.format(first=thread if how == "spawned" else ""), "own.py")
    done = run_script(write_script(tmp_path, SCRIPT), CUDA_VISIBLE_DEVICES="4,5,6")
    *told, notes = done.stdout.splitlines()
    assert told == [f"['4,5', '4,5'] {how == 'spawned'}"] * 2, done.stderr
    assert ("Attempts are spawned" in notes) == (how == "spawned")


def test_a_process_that_serves_trial_after_trial_keeps_its_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    see("0,1", monkeypatch)
    search = looking(tmp_path, together=2).tune(
        LR, trials=6, workers=2, resources="gpus=1", reuse_child=True, sampler="random"
    )
    pids = {trial.metrics["pid"]: trial.metrics["gpus"] for trial in search.trials}
    assert len(pids) == 2
    assert {(t.metrics["pid"], t.metrics["gpus"]) for t in search.trials} == set(pids.items())
    assert sorted(pids.values()) == ["0", "1"]


def test_warm_workers_see_what_the_next_study_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    see("0,1,2,3", monkeypatch)

    def seen(resources: str | None) -> tuple[list[str], set[Any]]:
        folder = tmp_path / f"{resources}"
        folder.mkdir()
        search = looking(folder, together=2).tune(
            LR, trials=2, workers=2, resources=resources, sampler="random", name=f"warm-{len(list(tmp_path.iterdir()))}"
        )
        return seen_in(search), {trial.metrics["worker"] for trial in search.trials}

    gpus, workers = seen("gpus=1")
    assert gpus == ["0", "1"]
    for resources, then in (
        ("gpus=2", ["0,1", "2,3"]),
        (None, ["0,1,2,3"] * 2),
        ("cpus=1", ["0,1,2,3"] * 2),
        ("gpus=0", ["", ""]),
        ("gpus=0.5", ["0", "1"]),
    ):
        assert seen(resources) == (then, workers), "the same workers, with what they are told now"


def test_without_resources_nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert seen_in(looking(tmp_path).tune(LR, trials=1, workers=1, sampler="random", name="unset")) == ["all"]


def test_nvidia_smi_is_asked_where_the_environment_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA L4 (UUID: GPU-6b)'\necho 'GPU 1: NVIDIA L4 (UUID: GPU-9d)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    search = looking(tmp_path, together=2).tune(LR, trials=2, resources="gpus=1", sampler="random", workers=2)
    assert seen_in(search) == ["0", "1"]


def test_as_many_trials_run_as_fit_if_nothing_else_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    see("0,1,2", monkeypatch)
    memory = memory_gb()
    assert memory is not None

    def workers(resources: str) -> int:
        search = looking(tmp_path).tune(LR, trials=9, resources=resources, sampler="random", name=resources[:3])
        return int(search.meta["call"]["at_a_time"])

    assert workers("gpus=1,cpus=0.01") == 3
    assert workers("cpus=0.5") == 2 * CORES
    assert workers(f"memory_gb={memory / 2.5:.4f}") == min(2, CORES)


def test_cores_that_a_trial_needs_are_threads_that_it_gets(tmp_path: Path) -> None:
    def train(lr: float):
        return {"score": lr, "threads": os.environ["OMP_NUM_THREADS"]}

    experiment = etude.Experiment(train, metric="score", mode="max")
    for cpus in (0.5, 1, CORES):
        search = experiment.tune(LR, trials=1, workers=1, resources=etude.Resources(cpus=cpus), name=f"cpus-{cpus}")
        assert search.best.metrics["threads"] == str(max(1, int(cpus)))


def test_a_range_of_workers_is_cut_to_what_fits_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    see("0,1", monkeypatch)
    live = looking(tmp_path, together=2).tune(
        LR, trials=4, workers=(1, 16), resources="gpus=1", sampler="random", wait=False
    )
    search = live.wait()
    assert search.notes[0] == (
        "workers=(1, 16) with gpus=1 need 16 GPUs, and this machine has 2 (0, 1). So 2 run at a time."
    )
    assert most_at_once(search) == {"0": 1, "1": 1}


def test_a_study_may_go_on_with_other_resources_and_its_journal_has_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    see("0,1", monkeypatch)
    experiment = looking(tmp_path)
    first = experiment.tune(LR, trials=2, workers=1, resources="gpus=1", sampler="random", name="one")
    assert first.meta["call"]["resources"] == "gpus=1"
    then = experiment.tune(
        LR, trials=4, workers=1, resources=etude.Resources(cpus=1, gpus=0), sampler="random", name="one"
    )
    assert then.counts() == {"finished": 4}
    assert seen_in(then) == ["", "", "0", "0"]
    runs = [json.loads(json.dumps(value)) for key, value in etude.open("one").meta.items() if key.startswith("run ")]
    assert [run["call"]["resources"] for run in runs] == ["gpus=1", "cpus=1,gpus=0"]


def test_before_the_fork_nobody_asks_cuda_anything(tmp_path: Path) -> None:
    """Who asks how many GPUs there are has started the driver's library, which is broken after a fork."""
    pytest.importorskip("torch")
    write_script(
        tmp_path,
        """
        import os, torch

        def asked():
            with open("asked", "a") as file:
                file.write(f"{os.getpid()}\\n")
            return False

        torch.cuda.is_available = asked
        """,
        "asking.py",
    )
    script = write_script(
        tmp_path,
        """
        import asking, etude, os
        def train(x: int, run):
            how = os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"]
            return {"score": 1.0, "pids": [os.getpid(), os.getppid()], "how": how, "patched": asking.__name__}
        search = etude.Experiment(train, metric="score", mode="max").tune(
            {"x": etude.integers(0, 1000)}, trials=2, workers=1, sampler="random")
        print([trial.metrics["pids"] for trial in search.trials], {trial.metrics["how"] for trial in search.trials})
        """,
    )
    done = run_script(script)
    pids = json.loads(done.stdout.partition(" {")[0])
    asked = {int(pid) for pid in (tmp_path / "asked").read_text().split()}
    assert {child for child, _ in pids} <= asked, "an attempt does ask: " + done.stderr
    assert not {template for _, template in pids} & asked
    assert done.stdout.endswith(" {'1'}\n")


def refusal(**options: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        etude.Experiment(lambda lr: lr, metric="score", mode="max").tune(LR, trials=1, name="refused", **options)
    with pytest.raises(etude.NotAStudyError):
        etude.open("refused")
    return str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"workers": 4, "resources": "gpus=1"},
            "workers=4 with gpus=1 need 4 GPUs, and this machine has 2 (0, 1). Pass workers=2, or gpus=0.5.",
        ),
        ({"resources": "gpus=4"}, "One trial with gpus=4 needs 4 GPUs, and this machine has 2 (0, 1). Pass gpus=2."),
        (
            {"workers": (3, 8), "resources": "gpus=1"},
            "workers=(3, 8) begin with 3 trials, which with gpus=1 need 3 GPUs, and this machine has 2 (0, 1). Pass "
            "workers=(2, 8), or gpus=0.5.",
        ),
        (
            {"resources": f"cpus={CORES + 1}"},
            f"One trial with cpus={CORES + 1} needs {CORES + 1} cores, and this machine has {CORES}. "
            f"Pass cpus={CORES}.",
        ),
        (
            {"resources": {"gpus": 1}},
            "resources={'gpus': 1} (dict) says nothing of resources. Pass etude.Resources(gpus=1), or text as in "
            "'gpus=1,memory_gb=4'.",
        ),
        (
            {"resources": "gpus=1", "engine": etude.Simulated(curves=lambda params, seed: iter(()))},
            "resources='gpus=1' was given for a simulated study, whose workers need nothing. Leave resources= out.",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_launched(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    see("0,1", monkeypatch)
    assert refusal(**options) == message


def test_a_machine_without_gpus_and_one_with_too_little_memory_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    see("", monkeypatch)
    assert refusal(resources="gpus=1", workers=2) == (
        "One trial with gpus=1 needs 1 GPU, and this machine has none. Leave gpus= out, or run it on a machine that "
        "has some."
    )
    assert refusal(resources="memory_gb=900000").startswith(
        "One trial with memory_gb=900000 needs 900000 GB of memory, and this machine has "
    )


class Elsewhere:
    """An engine that says nothing of machines."""

    def start(self, n: int, door: etude.Door) -> None:
        raise AssertionError

    def end(self, worker: str) -> None:
        raise AssertionError

    def stop(self) -> None:
        raise AssertionError


def test_an_engine_that_knows_nothing_of_resources_is_not_asked_for_them() -> None:
    assert refusal(resources="cpus=1", engine=Elsewhere()) == (
        "resources='cpus=1' was given, and engine=Elsewhere(...) does not say where its workers find them. Leave "
        "resources= out, or give the engine the method machine() (docs/extending.md)."
    )
