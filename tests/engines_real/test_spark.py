"""Studies on real Spark: sessions of threads and of executors, with what may befall them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from apart import Started, above, command, from_others, started, started_command, wait_for
from own_disk import check_that_all_comes_home, only_for_root
from support import table, write_script

import etude
from etude.worker import processes

if sys.platform != "linux":
    pytest.skip("what is left of a script is told by what /proc says", allow_module_level=True)
pytest.importorskip("pyspark", reason="pyspark is not installed; see the extra etude[spark]")

SCRIPT = """
    import os, sys, threading, time
    import etude, etude.studies.nodes
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

    WORKERS = tuple(map(int, os.environ["WORKERS"].split("-"))) if "WORKERS" in os.environ else 2

    def study(trials, engine):
        search = experiment.tune(
            {"lr": etude.uniform(0, 1)}, trials=trials, workers=WORKERS, sampler="random", stopper="none", retries=50,
            engine=engine, name="study", resources=os.environ.get("RESOURCES"),
        )
        print(search.counts(), search.notes, flush=True)

    def finished():
        try:
            return etude.open("studies/study").counts().get("finished", 0)
        except etude.NotAStudyError:
            return 0

    def tell_secrets_to(path):
        make = etude.studies.nodes.make_keys
        def made():
            keys = make()
            with open(path, "w") as file:
                file.write("\\n".join([keys.token, keys.certificate.splitlines()[3], keys.key.splitlines()[1]]))
            return keys
        etude.studies.nodes.make_keys = made

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


def nodes(driver: Started) -> list[int]:
    """Return Spark's Python workers that carry a worker of ours."""
    supervisors = [pid for pid in driver.processes() if "etude.worker.supervisor" in command(pid)]
    parents = {processes.parent(pid) for pid in supervisors}
    return [pid for pid in parents if pid is not None and "pyspark.daemon" in command(pid)]


def executors(driver: Started) -> list[int]:
    """Return the executors' JVMs."""
    return [pid for pid in driver.processes() if "CoarseGrainedExecutorBackend" in command(pid)]


def lose(driver: Started, pid: int) -> None:
    """Kill a process, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    driver.wait_for(lambda: pid not in driver.processes(), "it is gone")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (place := tmp_path / "project").mkdir()
    (place / "helper.py").write_text("def score(lr):\n    return -((lr - 0.3) ** 2)\n")
    return write_script(place, SCRIPT)


@pytest.fixture
def around_spark() -> Iterator[dict[str, str]]:
    """Give variables that keep a Spark apart from others on this machine."""
    with from_others() as environment:
        yield environment


@pytest.fixture
def start(script: Path, around_spark: dict[str, str]) -> Iterator[Callable[..., Started]]:
    """Give what starts the script; all that is its is ended with the test, and no node has left a folder."""
    drivers: list[Started] = []
    with contextlib.ExitStack() as until_the_end:

        def begin(*args: str, **environment: str) -> Started:
            begun = started(script, *args, environment={**around_spark, **environment})
            drivers.append(until_the_end.enter_context(begun))
            return drivers[-1]

        yield begin
        if all(driver.process.poll() == 0 for driver in drivers):  # who is killed cannot clean up
            assert not list(Path(around_spark["TMPDIR"]).glob("etude-*")), "no folder of a node is left"


def test_a_study_goes_from_here_to_spark_and_back_with_the_table_of_one_that_stayed(
    start: Callable[..., Started], script: Path
) -> None:
    for trials, engine in (("3", "local"), ("6", "spark"), ("9", "local")):
        assert f"{{'finished': {trials}}}" in start(trials, engine).end()
    search = etude.open(script.parent / "studies" / "study")
    assert {t.attempts for t in search.trials} == {1}
    assert {(t.folder / "weights.bin").stat().st_size for t in search.trials} == {300_000}
    there = table(script.parent / "studies" / "study")
    start("9", "local", ETUDE_STUDIES="others").end()
    assert table(script.parent / "others" / "study") == there


def test_python_workers_that_are_killed_more_often_than_spark_allows_cost_nothing_but_time(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    (hold := tmp_path / "hold").touch()
    driver = start("8", "spark(master='local[2,2]')", HOLD=str(hold))
    for begun in (2, 4, 6):
        driver.wait_for(lambda begun=begun: driver.begun() >= begun, "both workers are at work")
        for pid in nodes(driver):
            lose(driver, pid)
    driver.wait_for(lambda: len(nodes(driver)) == 2, "who is lost last has a successor, which sweeps up")
    hold.unlink()
    assert "{'finished': 8}" in driver.end()
    assert sum(t.attempts for t in etude.open(driver.study).trials) > 8


def test_an_executor_and_a_python_worker_that_are_killed_cost_nothing_but_time(
    start: Callable[..., Started], tmp_path: Path
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
    lose(driver, nodes(driver)[0])
    driver.wait_for(lambda: driver.begun() >= 3 and len(nodes(driver)) == 2, "there are two workers again")
    executor = executors(driver)[0]
    its = {node for node in nodes(driver) if executor in above(node)}
    lose(driver, executor)
    driver.wait_for(lambda: its.isdisjoint(nodes(driver)), "its worker is gone as well")
    driver.wait_for(lambda: len(nodes(driver)) == 2, "and there are two again")
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


def test_a_session_that_was_given_stays_its_owners(start: Callable[..., Started]) -> None:
    out = start("10", "given", EPOCH_S="0.2").end()
    assert "{'finished': 10} []" in out
    assert "meanwhile: 45" in out
    assert "afterwards: 55" in out
    assert "groups: None" in out


def test_gpus_are_those_that_spark_assigns(start: Callable[..., Started], script: Path, tmp_path: Path) -> None:
    finder = script.parent / "gpus.sh"
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
    logs = [(t.folder / "log.txt").read_text() for t in etude.open(script.parent / "studies" / "study").trials]
    assert {log.splitlines()[0] for log in logs} == {"gpus: 5", "gpus: 7"}


ADDRESS = re.compile(r"Starting Spark master at (spark://\S+)")


def daemon(
    kind: str, *args: str, folder: Path, environment: dict[str, str]
) -> contextlib.AbstractContextManager[Started]:
    """Have a master of Spark, or a worker, which is a machine of its cluster: executors are among its processes."""
    folder.mkdir()
    launcher = str(Path(environment["SPARK_HOME"], "bin", "spark-class"))
    its_class = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    return started_command([launcher, its_class, *where, *args], folder=folder, environment=environment)


def test_a_range_of_workers_begins_with_those_that_are_there_and_takes_in_who_comes_later(
    start: Callable[..., Started], around_spark: dict[str, str], tmp_path: Path
) -> None:
    (hold := tmp_path / "hold").touch()
    environment = {**around_spark, "HOLD": str(hold)}  # trials have that of the machine, and not of the driver
    with contextlib.ExitStack() as until_the_end:

        def add(kind: str, name: str, *args: str) -> Started:
            begun = daemon(kind, *args, folder=tmp_path / name, environment=environment)
            return until_the_end.enter_context(begun)

        master = add("Master", "master", "--port", "0")
        master.wait_for(lambda: ADDRESS.search(master.said()), "it says where it is")
        address = ADDRESS.findall(master.said())[0]
        first = add("Worker", "first", "--cores", "2", "--memory", "2g", address)
        driver = start("9", f"spark(master={address!r})", WORKERS="2-8")
        driver.wait_for(lambda: driver.begun() >= 2, "those that are there are at work")
        assert (driver.begun(), len(nodes(first))) == (2, 2)
        second = add("Worker", "second", "--cores", "1", "--memory", "2g", address)
        driver.wait_for(lambda: driver.begun() >= 3, "who came later is at work")
        assert (driver.begun(), len(nodes(first)), len(nodes(second))) == (3, 2, 1)
        hold.unlink()
        assert "{'finished': 9} []" in driver.end()
        wait_for(lambda: not nodes(first) and not nodes(second), "no node is left on the cluster, which goes on")
    assert {t.attempts for t in etude.open(driver.study).trials} == {1}


@only_for_root
def test_without_a_shared_disk_files_logs_and_states_come_home(around_spark: dict[str, str], tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    with daemon("Master", "--port", "0", folder=tmp_path / "master", environment=around_spark) as master:
        master.wait_for(lambda: ADDRESS.search(master.said()), "it says where it is")
        address = ADDRESS.findall(master.said())[0]
        options = ["--cores", "2", "--memory", "2g", address]
        with daemon("Worker", *options, folder=tmp_path / "worker", environment=around_spark):
            engine = f"spark(master={address!r})"
            check_that_all_comes_home(project, engine, node="pyspark.daemon", environment=around_spark)


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
    start: Callable[..., Started], script: Path
) -> None:
    write_script(script.parent, REFUSALS)
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
    assert not (script.parent / "studies").exists()
