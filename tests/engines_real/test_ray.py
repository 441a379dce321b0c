"""Studies on Ray: each is a script in a process of its own, on a cluster of several machines that are all this one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from apart import END_S, LIMIT_S, Started, above, command, from_others, started, started_command, wait_for
from own_disk import check_that_all_comes_home, only_for_root
from support import table, write_script

import etude
from etude.worker import processes

if sys.platform != "linux":
    pytest.skip("machines are told apart by what /proc says", allow_module_level=True)
pytest.importorskip("ray", reason="Ray is not installed: pip install 'etude[ray]'")

SCRIPT = """
    import json, os, secrets, sys, time
    from pathlib import Path
    import etude
    from helper import score

    def train(lr: float, run):
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        told = {"trial": run.trial, "pid": os.getpid(), "cwd": os.getcwd(), "gpus": gpus}
        starts = Path(PROJECT, "starts")
        aside = starts / f".{secrets.token_hex(4)}"
        aside.write_text(json.dumps(told))
        aside.rename(starts / f"{run.trial}-{aside.name[1:]}")
        (run.folder / "weights.bin").write_bytes(b"w" * 600_000)
        while HOLD and not (Path(PROJECT) / f"go-{run.trial}").exists():
            time.sleep(0.01)
        for epoch in run.epochs(3):
            run.report(score=score(lr))
        return score(lr)

    PROJECT, HOLD = os.getcwd(), "hold" in sys.argv
    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        if "--keys" in sys.argv:
            import etude.studies.nodes
            make_keys = etude.studies.nodes.make_keys
            def known():
                keys = make_keys()
                told = json.dumps([keys.token, keys.certificate, keys.key])
                Path(sys.argv[sys.argv.index("--keys") + 1]).write_text(told)
                return keys
            etude.studies.nodes.make_keys = known
        try:
            search = experiment.tune(
                {"lr": etude.uniform(0, 1)}, trials=int(sys.argv[1]), workers=2, sampler="random", stopper="none",
                engine=sys.argv[2], name="study", resources=os.environ.get("RESOURCES"),
            )
        except etude.EtudeError as error:
            sys.exit(f"{type(error).__name__}: {error}")
        print(search.counts(), search.notes)
"""

ONE_EACH = {"num_cpus": 2, "resources": {"slot": 1}}
"""A machine with room for one worker that asks for a slot."""


@dataclass
class Machines:
    """The cluster, as tests see it."""

    keeper: Started
    environment: dict[str, str]
    asked: int = 0
    raylets: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.address = self.answer()
        self.folder = Path(self.environment["RAY_TMPDIR"])

    def add(self, name: str, **options: Any) -> None:
        self.raylets[name] = self.ask(f"add {name} {json.dumps(options or ONE_EACH)}")

    def remove(self, name: str) -> None:
        self.raylets.pop(name, None)
        self.ask(f"remove {name}")

    def kill(self, name: str) -> None:
        self.ask(f"kill {name}")

    def alive(self) -> int:
        return self.ask("alive")

    def ask(self, line: str) -> Any:
        assert self.keeper.process.stdin is not None
        print(line, file=self.keeper.process.stdin, flush=True)
        self.asked += 1
        return self.answer()

    def answer(self) -> Any:
        """Return the answer to what was asked last; before that, what the keeper says when it is ready."""
        self.keeper.wait_for(lambda: len(self.answers()) > self.asked, "the cluster's keeper answers")
        return json.loads(self.answers()[self.asked])

    def answers(self) -> list[str]:
        *whole, _ = (self.keeper.folder / "out").read_text().split("\n")
        return whole

    def engine(self, **options: Any) -> str:
        told = {"address": self.address, "custom": {"slot": 1}, **options}
        return f"ray({', '.join(f'{name}={option!r}' for name, option in told.items())})"

    def of(self, pid: int) -> str:
        """Return the machine that a process runs on."""
        names = {raylet: name for name, raylet in self.raylets.items()}
        found = [names[one] for one in (pid, *above(pid)) if one in names]
        assert found, "no machine of this cluster"
        return found[0]

    def carriers(self) -> list[int]:
        """Return the processes on any machine that are of a study."""
        return [pid for pid in self.keeper.processes() if re.search(r"etude\.worker|Carrier", command(pid))]


@pytest.fixture(scope="module")
def around_ray() -> Iterator[dict[str, str]]:
    """Give variables that keep a Ray apart from others on this machine."""
    with from_others() as environment:
        yield environment


@pytest.fixture(scope="module")
def cluster(around_ray: dict[str, str]) -> Iterator[Machines]:
    """Give a cluster whose head has no room for workers."""
    keeping = [sys.executable, str(Path(__file__).with_name("ray_cluster.py"))]
    folder = Path(around_ray["RAY_TMPDIR"])
    with started_command(keeping, folder=folder, environment=around_ray, stdin=subprocess.PIPE) as keeper:
        yield Machines(keeper, around_ray)
        assert keeper.process.stdin is not None
        keeper.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.process.wait(END_S)


@pytest.fixture
def machines(cluster: Machines) -> Iterator[Machines]:
    """Give the cluster with two machines, A and B, that hold one worker each."""
    try:
        cluster.add("A")
        cluster.add("B")
        yield cluster
    finally:
        for name in list(cluster.raylets):
            cluster.remove(name)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "starts").mkdir(parents=True)
    (project / "helper.py").write_text("def score(lr):\n    return -((lr - 0.3) ** 2)\n")
    return write_script(project, SCRIPT)


def starts(script: Path, trial: int | None = None) -> list[dict[str, Any]]:
    """Return what attempts said when they started, the oldest first."""
    pattern = "[0-9]*" if trial is None else f"{trial}-*"
    files = sorted((script.parent / "starts").glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(path.read_text()) for path in files]


def let_go(script: Path, *trials: int) -> None:
    for trial in trials:
        (script.parent / f"go-{trial}").touch()


def test_actors_give_the_table_of_local_workers_and_leave_nothing_behind(
    script: Path, tmp_path: Path, machines: Machines
) -> None:
    with started(script, "8", machines.engine(), environment=machines.environment) as driver:
        assert "{'finished': 8} []" in driver.end()
    wait_for(lambda: not machines.carriers(), "no actor is left")
    assert not list((machines.folder / "tmp").glob("etude-*")), "nodes clean up before they leave"
    for trial in etude.open(driver.study).trials:
        assert (trial.folder / "weights.bin").read_bytes() == b"w" * 600_000
    there = table(driver.study)
    shutil.move(driver.study, tmp_path / "there")
    with started(script, "8", "local", environment=machines.environment) as driver:
        driver.end()
    assert table(driver.study) == there


def test_a_cluster_on_this_machine_is_made_and_ends_with_the_script(script: Path, around_ray: dict[str, str]) -> None:
    with started(script, "4", "ray", environment=around_ray) as driver:  # nothing of it may be left when the block ends
        assert driver.end().endswith("{'finished': 4} []\n")


@pytest.mark.parametrize("victim", ["worker", "actor", "raylet", "machine"])
def test_the_trial_of_what_is_lost_runs_again_elsewhere(victim: str, script: Path, machines: Machines) -> None:
    with started(script, "2", machines.engine(), "hold", environment=machines.environment) as driver:
        driver.wait_for(lambda: len(starts(script)) == 2, "both trials are at work")
        let_go(script, 1)
        driver.wait_for(lambda: 1 in driver.finished(), "trial 1 is finished")
        [first] = starts(script, 0)
        machine = machines.of(first["pid"])
        lose = {
            "worker": lambda: processes.kill(nearest(first["pid"], "etude.worker.supervisor")),
            "actor": lambda: processes.kill(nearest(first["pid"], "Carrier")),
            "raylet": lambda: machines.kill(machine),
            "machine": lambda: machines.remove(machine),
        }[victim]
        lost_at = time.time()
        lose()
        driver.wait_for(lambda: len(starts(script, 0)) == 2, "trial 0 runs again")
        again_at = max(path.stat().st_mtime for path in (script.parent / "starts").glob("0-*"))
        print(f"\nrunning again {again_at - lost_at:.2f} s after its {victim} was lost")
        assert machines.of(starts(script, 0)[1]["pid"]) != machine
        let_go(script, 0)
        driver.end()
    assert [t.attempts for t in etude.open(driver.study).trials] == [2, 1]
    assert etude.open(driver.study).counts() == {"finished": 2}


def nearest(pid: int, what: str) -> int:
    """Return the nearest process above another one that has something in its command."""
    return next(found for found in above(pid) if what in command(found))


def test_workers_come_when_machines_do_and_come_back_when_they_do(script: Path, machines: Machines) -> None:
    machines.remove("B")
    with started(script, "3", machines.engine(), "hold", environment=machines.environment) as driver:
        driver.wait_for(lambda: starts(script), "a trial is at work on A")
        machines.add("B")
        driver.wait_for(lambda: {machines.of(s["pid"]) for s in starts(script)} == {"A", "B"}, "one is at work on B")
        machines.kill("A")
        killed_at = time.time()
        machines.add("C")
        driver.wait_for(lambda: len(starts(script)) == 3, "one is at work on C")
        print(f"\na worker is back {time.time() - killed_at:.2f} s after its raylet was killed")
        assert machines.of(starts(script)[2]["pid"]) == "C"
        let_go(script, 0, 1, 2)
        driver.end()
    assert etude.open(driver.study).counts() == {"finished": 3}


def test_a_study_that_began_here_goes_on_on_ray_and_ends_here(script: Path, machines: Machines) -> None:
    for trials, engine in (("2", "local"), ("4", machines.engine()), ("6", "local")):
        with started(script, trials, engine, environment=machines.environment) as driver:
            driver.end()
    search = etude.open(driver.study)
    assert search.counts() == {"finished": 6}
    assert {t.attempts for t in search.trials} == {1}


def test_no_secret_is_seen_anywhere(script: Path, tmp_path: Path, machines: Machines) -> None:
    known = tmp_path / "keys.json"
    args = ("2", machines.engine(), "hold", "--keys", str(known))
    with started(script, *args, environment=machines.environment) as driver:
        driver.wait_for(lambda: len(starts(script)) == 2, "both trials are at work")
        token, certificate, key = json.loads(known.read_text())
        hidden = [token.encode(), *(pem.splitlines()[2].encode() for pem in (certificate, key))]
        for entry in os.listdir("/proc"):
            for name in ("cmdline", "environ") if entry.isdigit() else ():
                with contextlib.suppress(OSError):
                    content = Path("/proc", entry, name).read_bytes()
                    assert not [s for s in hidden if s in content], f"{entry}/{name}"
        driver.process.send_signal(signal.SIGINT)
        driver.process.wait(LIMIT_S)
    files = [p for folder in (script.parent, machines.folder) for p in folder.rglob("*") if p.is_file()]
    assert any("session_" in str(path) and path.suffix == ".log" for path in files), "Ray's logs are looked into"
    assert [path for path in files for s in hidden if s in path.read_bytes()] == []


def test_when_the_driver_is_killed_its_actors_end(script: Path, machines: Machines) -> None:
    with started(script, "2", machines.engine(), "hold", environment=machines.environment) as driver:
        driver.wait_for(lambda: len(starts(script)) == 2, "both trials are at work")
        driver.process.kill()
        driver.process.wait(END_S)
        wait_for(lambda: not machines.carriers(), "no actor is left")


@only_for_root
def test_without_a_shared_disk_files_logs_and_states_come_home(tmp_path: Path, machines: Machines) -> None:
    check_that_all_comes_home(tmp_path, machines.engine(), node="Carrier", environment=machines.environment)


def test_what_ray_ships_and_assigns_reaches_trials(script: Path, tmp_path: Path, machines: Machines) -> None:
    machines.add("C", num_cpus=2, num_gpus=1, resources={"slot": 1})
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "table.csv").write_text("1,2\n")
    engine = machines.engine(gpus=0.5, custom={}, runtime_env={"working_dir": str(folder)})
    with started(script, "2", engine, "hold", environment=machines.environment) as driver:
        driver.wait_for(lambda: len(starts(script)) == 2, "both trials are at work")
        for start in starts(script):
            assert start["gpus"] == "0"
            assert Path(start["cwd"], "table.csv").read_text() == "1,2\n"
            assert Path(start["cwd"]).is_relative_to(machines.folder)
        let_go(script, 0, 1)
        driver.end()


def test_what_a_trial_needs_is_asked_of_ray_and_actors_see_gpus_of_their_own(script: Path, machines: Machines) -> None:
    machines.add("C", num_cpus=2, num_gpus=2)
    environment = {**machines.environment, "RESOURCES": "cpus=1,gpus=1"}
    with started(script, "2", machines.engine(custom={}), "hold", environment=environment) as driver:
        driver.wait_for(lambda: len(starts(script)) == 2, "both trials are at work")
        assert sorted(start["gpus"] for start in starts(script)) == ["0", "1"]
        assert {machines.of(start["pid"]) for start in starts(script)} == {"C"}
        let_go(script, 0, 1)
        assert "{'finished': 2} []" in driver.end()
    told = refused(script, {**environment, "RESOURCES": "gpus=3"}, machines.engine(custom={}))
    assert told.startswith("ConfigError: No machine of the Ray cluster can hold a worker. Each asks for CPU 1, GPU 3; ")


def refused(script: Path, environment: dict[str, str], engine: str) -> str:
    with started(script, "2", engine, environment=environment) as driver:
        driver.end(code=1)
    return driver.said().strip().splitlines()[-1]


def test_what_never_fits_is_refused_with_the_numbers_before_anything_is_begun(script: Path, machines: Machines) -> None:
    told = refused(script, machines.environment, machines.engine(cpus=64, gpus=1))
    assert re.fullmatch(  # other tests add machines and take them away, which Ray notices late
        r"ConfigError: No machine of the Ray cluster can hold a worker\. Each asks for CPU 64, GPU 1, slot 1; of \d+ "
        r"machines the most that one has is CPU 2, GPU [0-2], slot 1\. Ask for less, add a machine, or pass "
        r"autoscales=True if machines come when they are asked for\.",
        told,
    ), told
    assert not (script.parent / "studies").exists()


def test_a_cluster_that_is_not_there_is_said_so_before_anything_is_begun(
    script: Path, around_ray: dict[str, str]
) -> None:
    assert refused(script, around_ray, "ray(address='127.0.0.1:1')").startswith(
        "ConfigError: The Ray cluster at '127.0.0.1:1' cannot be reached: [Errno 111] Connection refused "
        "(127.0.0.1:1). Start one with "
    )
    assert not (script.parent / "studies").exists()


def test_a_cluster_without_etude_ends_the_study_with_the_reason(
    script: Path, tmp_path: Path, machines: Machines
) -> None:
    (tmp_path / "broken" / "etude").mkdir(parents=True)
    (tmp_path / "broken" / "etude" / "__init__.py").write_text("raise ImportError('no Étude here')\n")
    engine = machines.engine(runtime_env={"env_vars": {"PYTHONPATH": str(tmp_path / "broken")}})
    with started(script, "2", engine, environment=machines.environment) as driver:
        driver.end(code=1)
    assert "StudyError: No worker comes from the Ray cluster any more. The last one ended so: " in driver.said()
    assert "no Étude here" in driver.said()
