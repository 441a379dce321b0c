"""Studies on real Spark: sessions of threads and of executors, with what may befall them."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import etude
from etude.worker import processes

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed; see the extra etude[spark]")

LIMIT_S = 300.0
"""Seconds that anything here may take, on a machine that does much else."""

MARK = "ETUDE_SPARK_TEST"

SCRIPT = """
    import os, sys, threading, time
    import etude, etude.nodes
    from helper import score

    def train(lr: float, run):
        (run.folder / "weights.bin").write_bytes(b"w" * 300_000)
        print("gpus:", os.environ.get("CUDA_VISIBLE_DEVICES"))
        for epoch in run.epochs(3):
            run.report(score=score(lr))
            time.sleep(float(os.environ.get("EPOCH_S", "0")))
            while os.path.exists(os.environ.get("HOLD", "")):
                time.sleep(0.01)
        return score(lr)

    experiment = etude.Experiment(train, metric="score", mode="max")

    def study(trials, engine):
        search = experiment.tune(
            {"lr": etude.uniform(0, 1)}, trials=trials, workers=2, sampler="random", stopper="none", retries=50,
            engine=engine, name="study", resources=os.environ.get("RESOURCES"),
        )
        print(search.counts(), search.notes, flush=True)

    def finished():
        try:
            return etude.open("studies/study").counts().get("finished", 0)
        except etude.NotAStudyError:
            return 0

    def tell_secrets_to(path):
        make = etude.nodes.make_keys
        def made():
            keys = make()
            with open(path, "w") as file:
                file.write("\\n".join([keys.token, keys.certificate.splitlines()[3], keys.key.splitlines()[1]]))
            return keys
        etude.nodes.make_keys = made

    if __name__ == "__main__":
        if "SECRETS" in os.environ:
            tell_secrets_to(os.environ["SECRETS"])
        engine = sys.argv[2]
        if engine == "given":
            from pyspark import SparkContext
            from pyspark.sql import SparkSession
            session = SparkSession.builder.master("local[3,4]").getOrCreate()
            def small_job():
                while not finished():
                    time.sleep(0.05)
                print("meanwhile:", session.sparkContext.parallelize(range(10), 1).sum(), flush=True)
            (helping := threading.Thread(target=small_job)).start()
            study(int(sys.argv[1]), etude.Spark(session=session))
            helping.join()
            print("afterwards:", session.sparkContext.parallelize(range(11), 1).sum())
            print("groups:", session.sparkContext.getLocalProperty("spark.jobGroup.id"))
            session.stop()
        else:
            study(int(sys.argv[1]), engine)
            if engine.startswith("spark"):
                from pyspark import SparkContext
                assert SparkContext._active_spark_context is None
"""


class Driver:
    """A user's script in a process of its own, and all processes that come of it."""

    def __init__(self, folder: Path, *args: str, **environment: str) -> None:
        self.token = secrets.token_hex(6)
        self.study = folder / "studies" / "study"
        self.scratch = folder / "tmp"
        self.scratch.mkdir(exist_ok=True)
        env = {
            **os.environ,
            "ETUDE_STUDIES": "studies",
            "ETUDE_PROGRESS": "0",
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(self.scratch),
            MARK: self.token,
            **environment,
        }
        self.process = subprocess.Popen(
            [sys.executable, "script.py", *args],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> str:
        """Wait until it has ended well; return what it said."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == 0, err[-8_000:]
        wait_for(lambda: not self.processes(), "nothing of it is left")
        assert not list(self.scratch.glob("etude-*")), "no folder of a node is left"
        return out

    def processes(self) -> list[int]:
        """Return all processes that it started, at any remove."""
        return [pid for pid in processes.marked(MARK, self.token) if pid != self.process.pid and not is_zombie(pid)]

    def nodes(self) -> list[int]:
        """Return Spark's Python workers that carry a worker of ours."""
        supervisors = [pid for pid in self.processes() if "etude.worker.supervisor" in command(pid)]
        parents = {processes.parent(pid) for pid in supervisors}
        return [pid for pid in parents if pid is not None and "pyspark.daemon" in command(pid)]

    def executors(self) -> list[int]:
        """Return the executors' JVMs."""
        return [pid for pid in self.processes() if "CoarseGrainedExecutorBackend" in command(pid)]

    def finished(self) -> int:
        """Return how many trials are finished."""
        with contextlib.suppress(etude.NotAStudyError):
            return etude.open(self.study).counts().get("finished", 0)
        return 0

    def begun(self) -> int:
        """Return how many attempts were begun."""
        with contextlib.suppress(etude.NotAStudyError):
            return sum(t.attempts for t in etude.open(self.study).trials)
        return 0

    def wait_for(self, what: Callable[[], object], text: str) -> None:
        """Wait until something is the case while it works."""
        wait_for(lambda: self.process.poll() is not None or what(), text)
        assert self.process.poll() is None, self.process.communicate()[1][-8_000:]

    def lose(self, pid: int) -> None:
        """Kill a process, and wait until it is gone."""
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{pid}").exists() or is_zombie(pid), "it is gone")


def wait_for(what: Callable[[], object], text: str) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < give_up_at, f"it did not happen in time: {text}"
        time.sleep(0.02)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def above(pid: int) -> list[int]:
    """Return the processes above another one."""
    parent = processes.parent(pid)
    return [parent, *above(parent)] if parent else []


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "helper.py").write_text("def score(lr):\n    return -((lr - 0.3) ** 2)\n")
    (place / "script.py").write_text(textwrap.dedent(SCRIPT))
    return place


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Driver]]:
    """Give what starts drivers; end them and all that is theirs when the test has ended."""
    drivers: list[Driver] = []

    def started(*args: str, **environment: str) -> Driver:
        drivers.append(Driver(folder, *args, **environment))
        return drivers[-1]

    yield started
    for driver in drivers:
        driver.process.kill()
        for pid in driver.processes():
            processes.kill(pid)
        driver.process.communicate()


def table(folder: Path) -> list[tuple[object, ...]]:
    return [(t.number, t.params, t.state, t.value, list(t.curve)) for t in etude.open(folder).trials]


def test_a_study_goes_from_here_to_spark_and_back_with_the_table_of_one_that_stayed(
    start: Callable[..., Driver], folder: Path
) -> None:
    for trials, engine in (("3", "local"), ("6", "spark"), ("9", "local")):
        assert f"{{'finished': {trials}}}" in start(trials, engine).end()
    search = etude.open(folder / "studies" / "study")
    assert {t.attempts for t in search.trials} == {1}
    assert {(t.folder / "weights.bin").stat().st_size for t in search.trials} == {300_000}
    there = table(folder / "studies" / "study")
    start("9", "local", ETUDE_STUDIES="others").end()
    assert table(folder / "others" / "study") == there


def test_python_workers_that_are_killed_more_often_than_spark_allows_cost_nothing_but_time(
    start: Callable[..., Driver], tmp_path: Path
) -> None:
    (hold := tmp_path / "hold").touch()
    driver = start("8", "spark(master='local[2,2]')", HOLD=str(hold))
    for begun in (2, 4, 6):
        driver.wait_for(lambda begun=begun: driver.begun() >= begun, "both workers are at work")
        for pid in driver.nodes():
            driver.lose(pid)
    driver.wait_for(lambda: len(driver.nodes()) == 2, "who is lost last has a successor, which sweeps up")
    hold.unlink()
    assert "{'finished': 8}" in driver.end()
    assert sum(t.attempts for t in etude.open(driver.study).trials) > 8


def test_an_executor_and_a_python_worker_that_are_killed_cost_nothing_but_time(
    start: Callable[..., Driver], tmp_path: Path
) -> None:
    master = "local-cluster[2,1,1024]"
    (hold := tmp_path / "hold").touch()
    driver = start("6", f"spark(master='{master}')", SECRETS=str(tmp_path / "secrets"), HOLD=str(hold))
    driver.wait_for(lambda: driver.begun() >= 2, "both workers are at work")
    texts = [line.encode() for line in (tmp_path / "secrets").read_text().splitlines()]
    assert len(texts) == 3
    for pid in driver.processes():
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                content = Path("/proc", str(pid), name).read_bytes()
                assert not [text for text in texts if text in content], f"{pid}/{name}"
    driver.lose(driver.nodes()[0])
    driver.wait_for(lambda: driver.begun() >= 3 and len(driver.nodes()) == 2, "there are two workers again")
    executor = driver.executors()[0]
    its = {node for node in driver.nodes() if executor in above(node)}
    driver.lose(executor)
    driver.wait_for(lambda: its.isdisjoint(driver.nodes()), "its worker is gone as well")
    driver.wait_for(lambda: len(driver.nodes()) == 2, "and there are two again")
    hold.unlink()
    out = driver.end()
    assert "{'finished': 6}" in out
    search = etude.open(driver.study)
    assert max(t.attempts for t in search.trials) > 1
    for path in driver.study.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [text for text in texts if text in content], path
    assert not [text for text in texts if text.decode() in out]


def test_a_session_that_was_given_stays_its_owners(start: Callable[..., Driver]) -> None:
    out = start("10", "given", EPOCH_S="0.2").end()
    assert "{'finished': 10} []" in out
    assert "meanwhile: 45" in out
    assert "afterwards: 55" in out
    assert "groups: None" in out


def test_gpus_are_those_that_spark_assigns(start: Callable[..., Driver], folder: Path, tmp_path: Path) -> None:
    finder = folder / "gpus.sh"
    finder.write_text('#!/bin/sh\necho \'{"name": "gpu", "addresses": ["5", "7"]}\'\n')
    finder.chmod(0o700)
    config = {
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": str(finder),
        "spark.executor.resource.gpu.amount": "2",
        "spark.executor.resource.gpu.discoveryScript": str(finder),
        "spark.task.resource.gpu.amount": "1",
    }
    (hold := tmp_path / "hold").touch()
    driver = start(
        "2", f"spark(master='local-cluster[1,2,1024]', config={config})", HOLD=str(hold), RESOURCES="cpus=1,gpus=1"
    )
    driver.wait_for(lambda: driver.begun() == 2, "both workers are at work")
    hold.unlink()
    driver.end()
    logs = [(t.folder / "log.txt").read_text() for t in etude.open(folder / "studies" / "study").trials]
    assert {log.splitlines()[0] for log in logs} == {"gpus: 5", "gpus: 7"}


REFUSALS = """
    import os, threading
    import etude
    from pyspark.sql import SparkSession

    def train(lr: float):
        return lr

    experiment = etude.Experiment(train, metric="score", mode="max")

    def refused(engine):
        try:
            experiment.tune({"lr": etude.uniform(0, 1)}, trials=1, engine=engine)
        except etude.ConfigError as error:
            print(error, flush=True)

    if __name__ == "__main__":
        refused("spark(master='local[2]')")
        refused("spark(master='sc://elsewhere')")
        session = SparkSession.builder.master("local[2]").getOrCreate()
        refused(etude.Spark(session=session))
        refused(etude.Spark(master="local[3,4]"))
        session.stop()
        refused(etude.Spark(session=session))
        session = SparkSession.builder.master("local[1,4]").getOrCreate()
        done = session.sparkContext.accumulator(0)
        def hold(_):
            import os, time
            open("held", "w").close()
            while not os.path.exists("let-go"):
                time.sleep(0.05)
        holding = threading.Thread(target=lambda: session.sparkContext.parallelize([0], 1).foreach(hold))
        holding.start()
        while not os.path.exists("held"):
            pass
        refused(etude.Spark(session=session, wait_s=5.0))
        open("let-go", "w").close()
        holding.join()
        session.stop()
"""


def test_what_cannot_carry_workers_is_refused_before_anything_begins(
    start: Callable[..., Driver], folder: Path
) -> None:
    (folder / "script.py").write_text(textwrap.dedent(REFUSALS))
    said = [re.sub(r"\d+ tasks? at work", "TASKS at work", line) for line in start().end().splitlines()]  # counted late
    lost = "ends the job with the first task that is lost, and so with the first lost worker. Make the session with"
    assert said == [
        f"master='local[2]' {lost} master='local[2,4]'.",
        "This is Spark Connect, whose sessions run no tasks of ours. Pass a classic session, made where the driver of "
        "Spark is, or start workers there with: etude worker",
        f"master='local[2]' {lost} master='local[2,4]'.",
        "This process has a Spark session at 'local[2]', and cannot have another one. Leave master= and config= out to "
        "take it, or stop it first.",
        "This Spark session was stopped. Pass one that is at work, or none to have one made.",
        "Spark at 'local[1,4]' had no slot for a worker within 5 s: it has 1 executor, and TASKS at work. Wait until "
        "one is free, add an executor, or pass a longer wait_s=.",
    ]
    assert not (folder / "studies").exists()
