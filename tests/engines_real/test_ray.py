"""Studies on Ray: each is a script in a process of its own, on a cluster of several machines that are all this one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import processes, running, wait_for, write_script

import etude

if sys.platform != "linux":
    pytest.skip("machines are told apart by what /proc says", allow_module_level=True)
pytest.importorskip("ray", reason="Ray is not installed: pip install 'etude[ray]'")

LIMIT_S = 180.0
"""No study here takes longer, however busy this machine is: Ray alone may need half a minute to start."""

MARK = "ETUDE_RAY_TESTS"

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
            import etude.nodes
            make_keys = etude.nodes.make_keys
            def known():
                keys = make_keys()
                told = json.dumps([keys.token, keys.certificate, keys.key])
                Path(sys.argv[sys.argv.index("--keys") + 1]).write_text(told)
                return keys
            etude.nodes.make_keys = known
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

    process: subprocess.Popen[str]
    address: str
    folder: Path
    environment: dict[str, str]
    raylets: dict[str, int] = field(default_factory=dict)

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
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        return answer_of(self.process)

    def engine(self, **options: Any) -> str:
        told = {"address": self.address, "custom": {"slot": 1}, **options}
        return f"ray({', '.join(f'{name}={option!r}' for name, option in told.items())})"

    def of(self, pid: int) -> str:
        """Return the machine that a process runs on."""
        names = {raylet: name for name, raylet in self.raylets.items()}
        above: int | None = pid
        while above and above not in names:
            above = processes.parent(above)
        assert above, "no machine of this cluster"
        return names[above]

    def carriers(self) -> list[int]:
        """Return the processes on any machine that are of a study."""
        return [pid for pid in processes.marked(MARK, self.environment[MARK]) if is_of_a_study(pid)]


def answer_of(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the cluster's keeper has ended"
    return json.loads(line)


def is_of_a_study(pid: int) -> bool:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"etude.worker" in command or b"Carrier" in command
    return False


@pytest.fixture(scope="module")
def short() -> Iterator[Path]:
    """Give a folder with a short name: Ray has sockets below it."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def around_ray(short: Path) -> dict[str, str]:
    """Return variables that keep a Ray apart from others on this machine."""
    (short / "tmp").mkdir()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    own = {"RAY_TMPDIR": str(short), "TMPDIR": str(short / "tmp"), "RAY_USAGE_STATS_ENABLED": "0", **token}
    return {**own, MARK: secrets.token_hex(8), "RAY_ADDRESS": ""}


@pytest.fixture(scope="module")
def cluster(short: Path, around_ray: dict[str, str]) -> Iterator[Machines]:
    """Give a cluster whose head has no room for workers."""
    log = (short / "keeper.log").open("w")
    keeper = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("ray_cluster.py"))],
        env={**os.environ, **around_ray},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    with log, ended_at_last(keeper, around_ray):
        yield Machines(keeper, answer_of(keeper), short, around_ray)


@contextlib.contextmanager
def ended_at_last(keeper: subprocess.Popen[str], around_ray: dict[str, str]) -> Iterator[None]:
    try:
        yield
    finally:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        keeper.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.wait(60)
        processes.sweep(MARK, around_ray[MARK])
        keeper.wait()
        keeper.stdout.close()


@pytest.fixture
def machines(cluster: Machines) -> Iterator[Machines]:
    """Give the cluster with two machines, A and B, that hold one worker each."""
    cluster.add("A")
    cluster.add("B")
    try:
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


@contextlib.contextmanager
def study(script: Path, around_ray: dict[str, str], *args: str) -> Iterator[subprocess.Popen[str]]:
    """Run the script; what it started is ended with the block."""
    # A mark of its own: a cluster that it starts is the study's to end, too.
    mark = secrets.token_hex(8)
    environment = {"ETUDE_STUDIES": str(script.parent / "studies"), "ETUDE_PROGRESS": "0", **around_ray, MARK: mark}
    out, err = (script.parent / "out").open("w"), (script.parent / "err").open("w")
    with out, err:
        process = subprocess.Popen(
            [sys.executable, script.name, *args],
            cwd=script.parent,
            env={name: value for name, value in {**os.environ, **environment}.items() if value},
            stdout=out,
            stderr=err,
            text=True,
        )
        try:
            with running(process):
                yield process
        finally:
            left = processes.sweep(MARK, mark) if process.returncode != 0 else 0
            wait_for(lambda: not processes.marked(MARK, mark))
            assert not left or process.returncode


def finish(process: subprocess.Popen[str], script: Path) -> str:
    """Wait for the end of a study, which is a good one; return what it said."""
    assert process.wait(LIMIT_S) == 0, said(script)
    return (script.parent / "out").read_text()


def said(script: Path) -> str:
    return (script.parent / "out").read_text() + (script.parent / "err").read_text()


def await_(what: Callable[[], object], process: subprocess.Popen[str], script: Path) -> None:
    """Wait until something is the case while a study runs."""

    def look() -> object:
        found = what()
        assert found or process.poll() is None, said(script)
        return found

    wait_for(look, patience_s=LIMIT_S)


def folder_of(script: Path) -> Path:
    return script.parent / "studies" / "study"


def starts(script: Path, trial: int | None = None) -> list[dict[str, Any]]:
    """Return what attempts said when they started, the oldest first."""
    pattern = "[0-9]*" if trial is None else f"{trial}-*"
    files = sorted((script.parent / "starts").glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(path.read_text()) for path in files]


def let_go(script: Path, *trials: int) -> None:
    for trial in trials:
        (script.parent / f"go-{trial}").touch()


def has_finished(script: Path, trial: int) -> bool:
    return etude.open(folder_of(script)).trials[trial].state == "finished"


def table(folder: Path) -> list[tuple[object, ...]]:
    return [(t.number, t.params, t.state, t.value, list(t.curve)) for t in etude.open(folder).trials]


def test_actors_give_the_table_of_local_workers_and_leave_nothing_behind(
    script: Path, tmp_path: Path, machines: Machines
) -> None:
    with study(script, machines.environment, "8", machines.engine()) as driver:
        assert "{'finished': 8} []" in finish(driver, script)
    wait_for(lambda: not machines.carriers())
    assert not list((machines.folder / "tmp").glob("etude-*")), "nodes clean up before they leave"
    for trial in etude.open(folder_of(script)).trials:
        assert (trial.folder / "weights.bin").read_bytes() == b"w" * 600_000
    there = table(folder_of(script))
    shutil.move(folder_of(script), tmp_path / "there")
    with study(script, machines.environment, "8", "local") as driver:
        finish(driver, script)
    assert table(folder_of(script)) == there


def test_a_cluster_on_this_machine_is_made_and_ends_with_the_script(script: Path, around_ray: dict[str, str]) -> None:
    with study(script, around_ray, "4", "ray") as driver:  # nothing of it may be left when the block ends
        assert finish(driver, script).endswith("{'finished': 4} []\n")


@pytest.mark.parametrize("victim", ["worker", "actor", "raylet", "machine"])
def test_the_trial_of_what_is_lost_runs_again_elsewhere(victim: str, script: Path, machines: Machines) -> None:
    with study(script, machines.environment, "2", machines.engine(), "hold") as driver:
        await_(lambda: len(starts(script)) == 2, driver, script)
        let_go(script, 1)
        await_(lambda: has_finished(script, 1), driver, script)
        [first] = starts(script, 0)
        machine = machines.of(first["pid"])
        lose = {
            "worker": lambda: processes.kill(above(first["pid"], b"etude.worker.supervisor")),
            "actor": lambda: processes.kill(above(first["pid"], b"Carrier")),
            "raylet": lambda: machines.kill(machine),
            "machine": lambda: machines.remove(machine),
        }[victim]
        lost_at = time.time()
        lose()
        await_(lambda: len(starts(script, 0)) == 2, driver, script)
        again_at = max(path.stat().st_mtime for path in (script.parent / "starts").glob("0-*"))
        print(f"\nrunning again {again_at - lost_at:.2f} s after its {victim} was lost")
        assert machines.of(starts(script, 0)[1]["pid"]) != machine
        let_go(script, 0)
        finish(driver, script)
    assert [t.attempts for t in etude.open(folder_of(script)).trials] == [2, 1]
    assert etude.open(folder_of(script)).counts() == {"finished": 2}


def above(pid: int, what: bytes) -> int:
    """Return the process above another one that has something in its command."""
    found: int | None = pid
    while (found := processes.parent(found)) and what not in Path(f"/proc/{found}/cmdline").read_bytes():
        pass
    assert found, what
    return found


def test_workers_come_when_machines_do_and_come_back_when_they_do(script: Path, machines: Machines) -> None:
    machines.remove("B")
    with study(script, machines.environment, "3", machines.engine(), "hold") as driver:
        await_(lambda: starts(script), driver, script)
        machines.add("B")
        await_(lambda: {machines.of(s["pid"]) for s in starts(script)} == {"A", "B"}, driver, script)
        machines.kill("A")
        killed_at = time.time()
        machines.add("C")
        await_(lambda: len(starts(script)) == 3, driver, script)
        print(f"\na worker is back {time.time() - killed_at:.2f} s after its raylet was killed")
        assert machines.of(starts(script)[2]["pid"]) == "C"
        let_go(script, 0, 1, 2)
        finish(driver, script)
    assert etude.open(folder_of(script)).counts() == {"finished": 3}


def test_a_study_that_began_here_goes_on_on_ray_and_ends_here(script: Path, machines: Machines) -> None:
    for trials, engine in (("2", "local"), ("4", machines.engine()), ("6", "local")):
        with study(script, machines.environment, trials, engine) as driver:
            finish(driver, script)
    search = etude.open(folder_of(script))
    assert search.counts() == {"finished": 6}
    assert {t.attempts for t in search.trials} == {1}


def test_no_secret_is_seen_anywhere(script: Path, tmp_path: Path, machines: Machines) -> None:
    known = tmp_path / "keys.json"
    with study(script, machines.environment, "2", machines.engine(), "hold", "--keys", str(known)) as driver:
        await_(lambda: len(starts(script)) == 2, driver, script)
        token, certificate, key = json.loads(known.read_text())
        hidden = [token.encode(), *(pem.splitlines()[2].encode() for pem in (certificate, key))]
        for entry in os.listdir("/proc"):
            for name in ("cmdline", "environ") if entry.isdigit() else ():
                with contextlib.suppress(OSError):
                    content = Path("/proc", entry, name).read_bytes()
                    assert not [s for s in hidden if s in content], f"{entry}/{name}"
        driver.send_signal(signal.SIGINT)
        driver.wait(LIMIT_S)
    files = [p for folder in (script.parent, machines.folder) for p in folder.rglob("*") if p.is_file()]
    assert any("session_" in str(path) and path.suffix == ".log" for path in files), "Ray's logs are looked into"
    assert [path for path in files for s in hidden if s in path.read_bytes()] == []


def test_when_the_driver_is_killed_its_actors_end(script: Path, machines: Machines) -> None:
    with study(script, machines.environment, "2", machines.engine(), "hold") as driver:
        await_(lambda: len(starts(script)) == 2, driver, script)
        driver.kill()
        driver.wait()
        wait_for(lambda: not machines.carriers())


def test_what_ray_ships_and_assigns_reaches_trials(script: Path, tmp_path: Path, machines: Machines) -> None:
    machines.add("C", num_cpus=2, num_gpus=1, resources={"slot": 1})
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "table.csv").write_text("1,2\n")
    engine = machines.engine(gpus=0.5, custom={}, runtime_env={"working_dir": str(folder)})
    with study(script, machines.environment, "2", engine, "hold") as driver:
        await_(lambda: len(starts(script)) == 2, driver, script)
        for start in starts(script):
            assert start["gpus"] == "0"
            assert Path(start["cwd"], "table.csv").read_text() == "1,2\n"
            assert Path(start["cwd"]).is_relative_to(machines.folder)
        let_go(script, 0, 1)
        finish(driver, script)


def test_what_a_trial_needs_is_asked_of_ray_and_actors_see_gpus_of_their_own(script: Path, machines: Machines) -> None:
    machines.add("C", num_cpus=2, num_gpus=2)
    environment = {**machines.environment, "RESOURCES": "cpus=1,gpus=1"}
    with study(script, environment, "2", machines.engine(custom={}), "hold") as driver:
        await_(lambda: len(starts(script)) == 2, driver, script)
        assert sorted(start["gpus"] for start in starts(script)) == ["0", "1"]
        assert {machines.of(start["pid"]) for start in starts(script)} == {"C"}
        let_go(script, 0, 1)
        assert "{'finished': 2} []" in finish(driver, script)
    told = refused(script, {**environment, "RESOURCES": "gpus=3"}, machines.engine(custom={}))
    assert told.startswith("ConfigError: No machine of the Ray cluster can hold a worker. Each asks for CPU 1, GPU 3; ")


def refused(script: Path, environment: dict[str, str], engine: str) -> str:
    with study(script, environment, "2", engine) as driver:
        assert driver.wait(LIMIT_S) == 1, said(script)
    return (script.parent / "err").read_text().strip().splitlines()[-1]


def test_what_never_fits_is_refused_with_the_numbers_before_anything_is_begun(script: Path, machines: Machines) -> None:
    told = refused(script, machines.environment, machines.engine(cpus=64, gpus=1))
    assert re.fullmatch(  # other tests add machines and take them away, which Ray notices late
        r"ConfigError: No machine of the Ray cluster can hold a worker\. Each asks for CPU 64, GPU 1, slot 1; of \d+ "
        r"machines the most that one has is CPU 2, GPU [0-2], slot 1\. Ask for less, add a machine, or pass "
        r"autoscales=True if machines come when they are asked for\.",
        told,
    ), told
    assert not folder_of(script).exists()


def test_a_cluster_that_is_not_there_is_said_so_before_anything_is_begun(
    script: Path, around_ray: dict[str, str]
) -> None:
    assert refused(script, around_ray, "ray(address='127.0.0.1:1')").startswith(
        "ConfigError: The Ray cluster at '127.0.0.1:1' cannot be reached: [Errno 111] Connection refused. "
    )
    assert not folder_of(script).exists()


def test_a_cluster_without_etude_ends_the_study_with_the_reason(
    script: Path, tmp_path: Path, machines: Machines
) -> None:
    (tmp_path / "broken" / "etude").mkdir(parents=True)
    (tmp_path / "broken" / "etude" / "__init__.py").write_text("raise ImportError('no Étude here')\n")
    engine = machines.engine(runtime_env={"env_vars": {"PYTHONPATH": str(tmp_path / "broken")}})
    with study(script, machines.environment, "2", engine) as driver:
        assert driver.wait(LIMIT_S) == 1, said(script)
    assert "StudyError: No worker comes from the Ray cluster any more. The last one ended so: " in said(script)
    assert "no Étude here" in said(script)
