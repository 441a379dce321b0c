"""The engine for Spark with a Spark that is none: jobs that are lost, refusals, and what tasks see."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from etude.core.errors import ConfigError
from etude.core.resources import Resources
from etude.core.version import VERSION
from etude.engines import node, spark, spark_session
from etude.engines.named import read_engine
from etude.engines.spark import Place, Spark, carry_until_hung_up, gpus_visible
from etude.engines.spark_errors import in_short
from etude.engines.spark_refusals import refuse_without_slot
from etude.engines.spark_session import find_or_make, where_to_listen
from etude.launching.call import Call
from etude.wire.credentials import Invitation


class FakeContext:
    """A SparkContext whose jobs do what a test says; a job that waits ends when its group is cancelled."""

    def __init__(self, *jobs: Callable[[FakeContext], list[str]], master: str = "local[2,4]", **conf: str) -> None:
        self.master = master
        self.jobs = list(jobs)
        self.conf = conf
        self.ran = 0
        self.stopped = False
        self.cancelled = threading.Event()
        self._jsc = self

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        self.group = group

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.set()

    def parallelize(self, data: Iterable[int], parts: int) -> FakeContext:
        return self

    def mapPartitions(self, task: Callable[[Any], list[str]]) -> FakeContext:
        return self

    def collect(self) -> list[str]:
        self.ran += 1
        return self.jobs.pop(0)(self) if self.jobs else self.wait()

    def wait(self) -> list[str]:
        assert self.cancelled.wait(60.0)
        raise RuntimeError("the job was cancelled")

    def statusTracker(self) -> FakeContext:
        return self

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return []

    def getExecutorInfos(self) -> list[Any]:
        return [types.SimpleNamespace(numRunningTasks=lambda: 3)]

    def getExecutorMemoryStatus(self) -> Any:
        return types.SimpleNamespace(size=lambda: 3)

    def sc(self) -> FakeContext:
        return self

    def isStopped(self) -> bool:
        return self.stopped

    def getConf(self) -> dict[str, str]:
        return self.conf

    def stop(self) -> None:
        self.stopped = True


class FakeDoor:
    """A door that nobody comes through."""

    folder = Path("study")

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.failed: list[BaseException] = []
        self.has_failed = threading.Event()
        self.told: list[str] = []
        self.has_told = threading.Event()

    def connect(self, name: str, sock: Any) -> None:
        raise AssertionError

    def invite(self, bind: str, port: int = 0, advertise: Iterable[str] = ()) -> Invitation:
        self.asked.append((bind, port, tuple(advertise)))
        return Invitation(("127.0.0.1",), 1, "a certificate", "a token")

    def tell(self, text: str) -> None:
        self.told.append(text)
        self.has_told.set()

    def fail(self, error: BaseException) -> None:
        self.failed.append(error)
        self.has_failed.set()


def lost(context: FakeContext) -> list[str]:
    raise RuntimeError("Task 0 in stage 1.0 failed 4 times")


def found_everything(context: FakeContext) -> list[str]:
    return [VERSION]


@pytest.fixture
def pyspark(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A pyspark without a session, and without Java."""
    module = types.ModuleType("pyspark")
    module.SparkContext = types.SimpleNamespace(_active_spark_context=None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", module)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)  # type: ignore[arg-type]
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    return module


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "AGAIN_S", (0.0, 0.0, 0.0))


def test_a_job_that_is_lost_is_run_again_and_a_job_without_a_slot_is_cancelled_at_the_end(pyspark: object) -> None:
    context, door = FakeContext(found_everything, lost, lambda _: [""], lost), FakeDoor()
    again = threading.Event()
    context.jobs.append(lambda context: again.set() or context.wait())  # type: ignore[func-returns-value]
    engine = Spark(session=context)
    engine.prepare(1)
    engine.start(1, door)
    assert again.wait(60.0)
    engine.stop()
    assert context.cancelled.is_set()
    assert context.ran == 5
    assert door.failed == []
    assert not context.stopped, "it is its owner's"


def test_a_place_that_is_given_up_costs_those_at_work_nothing(pyspark: object) -> None:
    context, door = FakeContext(found_everything, *[lost] * 7), FakeDoor()  # one of the two has four in a row
    engine = Spark(session=context)
    engine.prepare(2)
    engine.start(2, door)
    assert door.has_told.wait(60.0)
    engine.stop()
    assert door.failed == []
    assert door.told == [
        "Spark has no worker for the study: 4 jobs in a row ended soon. Task 0 in stage 1.0 failed 4 times. Those that "
        "are at work go on."
    ]


def test_jobs_that_all_end_soon_end_the_study_with_the_reason(pyspark: object) -> None:
    context, door = (
        FakeContext(found_everything, lost, lost, lost, lambda _: ["The driver cannot be reached."]),
        FakeDoor(),
    )
    engine = Spark(session=context)
    engine.prepare(1)
    engine.start(1, door)
    assert door.has_failed.wait(60.0)
    engine.stop()
    assert [str(error) for error in door.failed] == [
        "Spark has no worker for the study: 4 jobs in a row ended soon. The driver cannot be reached."
    ]


def test_a_session_that_is_stopped_ends_the_study_and_says_so() -> None:
    def stop(context: FakeContext) -> list[str]:
        context.stop()
        raise RuntimeError("Cannot call methods on a stopped SparkContext")

    door = FakeDoor()
    Place(FakeContext(stop), lambda _: [""], door.fail).run()
    assert [str(error) for error in door.failed] == [
        "The Spark session was stopped while the study ran. Call it again to go on."
    ]


@pytest.mark.parametrize(
    ("context", "asked"),
    [
        (FakeContext(found_everything), ("127.0.0.1", 7, ())),
        (FakeContext(found_everything, master="local-cluster[2,1,1024]"), ("127.0.0.1", 7, ())),
        (
            FakeContext(
                found_everything, master="k8s://x", **{"spark.driver.host": "head", "spark.driver.bindAddress": "::"}
            ),
            ("::", 7, ("head",)),
        ),
        (
            FakeContext(found_everything, master="yarn", **{"spark.driver.host": "10.0.0.1"}),
            ("10.0.0.1", 7, ("10.0.0.1",)),
        ),
    ],
)
def test_workers_come_to_where_executors_reach_the_driver(
    pyspark: object, context: FakeContext, asked: tuple[Any, ...]
) -> None:
    door, engine = FakeDoor(), Spark(session=context, port=7)
    engine.prepare(1)
    engine.start(1, door)
    engine.stop()
    assert door.asked == [asked]


# --- refusals -------------------------------------------------------------------------------------


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as refused:
        call()
    return str(refused.value)


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)  # type: ignore[arg-type]
    assert refusal(lambda: Spark().prepare(1)) == (
        "engine='spark' needs pyspark. Install it with: pip install 'etude[spark]'"
    )


def test_without_java_it_says_so_and_how(pyspark: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    mend = (
        "Install Java 17 (apt install openjdk-17-jre-headless, or conda install openjdk=17), or set JAVA_HOME to where "
        "it is."
    )
    assert refusal(lambda: Spark().prepare(1)) == f"Spark needs Java, and there is none on the PATH. {mend}"
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert refusal(lambda: Spark().prepare(1)) == f"Spark needs Java, and JAVA_HOME=/nowhere has none. {mend}"


@pytest.mark.parametrize(
    ("master", "instead"),
    [("local", "local[1,4]"), ("local[2]", "local[2,4]"), ("local[*]", "local[*,4]"), ("local[3, 1]", "local[3,4]")],
)
def test_threads_without_failures_allowed_are_refused_with_the_way_out(
    pyspark: object, master: str, instead: str
) -> None:
    said = (
        f"master={master!r} ends the job with the first task that is lost, and so with the first lost worker. Make the "
        f"session with master={instead!r}."
    )
    assert refusal(lambda: Spark(session=FakeContext(master=master)).prepare(1)) == said
    assert refusal(lambda: Spark(master=master).prepare(1)) == said


def test_sessions_of_spark_connect_are_refused_by_name(pyspark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    said = (
        "This is Spark Connect, whose sessions run no tasks of ours. Pass a classic session, made where the driver of "
        "Spark is, or start workers there with: etude worker"
    )
    assert refusal(lambda: Spark(session=session).prepare(1)) == said
    assert refusal(lambda: Spark(master="sc://elsewhere").prepare(1)) == said
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    assert refusal(lambda: Spark().prepare(1)) == said


def test_the_session_of_this_process_is_taken_but_not_for_another(pyspark: types.ModuleType) -> None:
    pyspark.SparkContext._active_spark_context = context = FakeContext()
    assert find_or_make(None, None, {}, 2) == (context, False)
    assert refusal(lambda: Spark(master="yarn").prepare(1)) == (
        "This process has a Spark session at 'local[2,4]', and cannot have another one. Leave master= and config= out "
        "to take it, or stop it first."
    )
    context.stop()
    assert refusal(lambda: Spark().prepare(1)) == (
        "This Spark session was stopped. Pass one that is at work, or none to have one made."
    )


def test_what_is_no_session_is_refused(pyspark: object) -> None:
    assert refusal(lambda: Spark(session="yarn").prepare(1)) == "session='yarn' (str) is no SparkSession."
    assert refusal(lambda: Spark(session=FakeContext(), master="yarn")) == (
        "master= and config= are for a session that is made, and session= is one that you have."
    )
    for wait_s in ("'x'", "-1", "0", "True", "1e400"):
        said = refusal(lambda wait_s=wait_s: read_engine(f"spark(wait_s={wait_s})"))  # type: ignore[misc]
        assert re.sub(r"=.+ \(\w+\) ", "=... ", said) == "wait_s=... cannot be. Pass a number above 0 to 1e+09."
    assert refusal(lambda: read_engine("spark(port=-1)")) == (
        "port=-1 (int) is no port. Pass 1 to 65535, or 0 for any that is free."
    )


def nobody_at() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        return int(nobody.getsockname()[1])


@pytest.fixture
def made(pyspark: object, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """The sessions that were made, by their masters and settings; each is a fake one."""
    found: list[tuple[str, dict[str, str]]] = []

    def make(_: object, master: str, config: dict[str, str]) -> FakeContext:
        found.append((master, dict(config)))
        return FakeContext(found_everything, master=master)

    monkeypatch.setattr(spark_session, "_refuse_without_java", lambda: None)
    monkeypatch.setattr(spark_session, "_made", make)
    return found


def test_where_no_master_listens_no_session_is_made(made: list[tuple[str, dict[str, str]]]) -> None:
    first, second = (f"127.0.0.1:{nobody_at()}" for _ in range(2))
    mend = (
        "Start one with `sbin/start-master.sh`, pass the address that it says it is at, or leave master= out for "
        "threads of this machine."
    )
    for master, told in (
        (f"spark://{first}", f"[Errno 111] Connection refused ({first})"),
        (
            f"spark://{first},{second}",
            f"[Errno 111] Connection refused ({first}); [Errno 111] Connection refused ({second})",
        ),
        (
            "spark://no..host:7077",
            "encoding with 'idna' codec failed (UnicodeError: label empty or too long) (no..host:7077)",
        ),
    ):
        said = refusal(lambda master=master: Spark(master=master).prepare(1))  # type: ignore[misc]
        assert re.sub(r"Errno \d+", "Errno 111", said) == (
            f"The Spark master at {master!r} cannot be reached: {told}. {mend}"
        )
    assert made == []


def test_one_master_of_several_suffices_and_what_is_no_address_is_left_to_spark(
    made: list[tuple[str, dict[str, str]]],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        masters = [
            f"spark://127.0.0.1:{nobody_at()},127.0.0.1:{there.getsockname()[1]}",
            "spark://127.0.0.1",
            "k8s://https://127.0.0.1:1",
        ]
        for master in masters:
            engine = Spark(master=master)
            engine.prepare(1)
            engine.stop()
    assert [master for master, _ in made] == masters


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_session_that_ended_is_not_blamed_on_the_python_of_executors(when: str) -> None:
    def end(context: FakeContext) -> list[str]:
        context.stop()
        raise RuntimeError("SparkContext has been shutdown")

    context = FakeContext(end, master="spark://head:7077")
    context.stopped = when == "before"
    assert refusal(lambda: refuse_without_slot(context, wait_s=60.0)) == (
        "The Spark session at 'spark://head:7077' ended before it ran a task, as it does where a master does not "
        "answer or turns the application away. See whether that master is at work. Spark logs why; "
        "config={'spark.log.level': 'WARN'} shows that of a session that is made."
    )
    assert context.ran == (when == "meanwhile")


def test_a_session_that_cannot_even_be_asked_is_told_of_in_short() -> None:
    context = FakeContext()
    context.setJobGroup = lost  # type: ignore[method-assign, assignment]
    assert refusal(lambda: refuse_without_slot(context, wait_s=60.0)).startswith(
        "A task on Spark at 'local[2,4]' cannot be a worker: "
    )


def test_a_cluster_without_a_slot_is_refused_with_the_numbers() -> None:
    assert refusal(lambda: refuse_without_slot(FakeContext(master="yarn"), wait_s=0.01)) == (
        "Spark at 'yarn' had no slot for a worker within 0.01 s: it has 2 executors, and 3 tasks at work. Wait until "
        "one is free, add an executor, or pass a longer wait_s=."
    )


def test_executors_without_etude_or_with_another_one_are_refused() -> None:
    assert refusal(lambda: refuse_without_slot(FakeContext(lambda _: ["0.0.7"]), wait_s=60.0)) == (
        f"The driver runs Étude {VERSION}, and Spark's executors 0.0.7. Install the same on both."
    )

    def lacks_it(context: FakeContext) -> list[str]:
        raise ModuleNotFoundError("No module named 'etude'")

    assert refusal(lambda: refuse_without_slot(FakeContext(lacks_it), wait_s=60.0)) == (
        "A task on Spark at 'local[2,4]' cannot be a worker: No module named 'etude'. Executors need the same Python "
        "as the driver (PYSPARK_PYTHON says which), with etude installed."
    )


@pytest.mark.parametrize(
    ("conf", "resources", "message"),
    [
        (
            {},
            Resources(cpus=2),
            "resources='cpus=2' says cpus=2, and each task of this Spark session has 1, which is fixed when a session "
            "is made. Make it with spark.task.cpus=2, or pass cpus=1.",
        ),
        (
            {"spark.task.resource.gpu.amount": "1"},
            Resources(cpus=1, gpus=0.5),
            "resources='cpus=1,gpus=0.5' says gpus=0.5, and each task of this Spark session has 1, which is fixed when "
            "a session is made. Make it with spark.task.resource.gpu.amount=0.5, or pass gpus=1.",
        ),
    ],
)
def test_what_a_trial_needs_has_to_be_what_spark_gives_a_task(
    pyspark: object, conf: dict[str, str], resources: Resources, message: str
) -> None:
    assert refusal(lambda: Spark(session=FakeContext(**conf)).prepare(1, resources)) == message


def asked_of(engine: Spark, workers: Any, resources: str | None) -> Call:
    """Return what comes of a call of ``tune``, as far as it says how a study is run."""
    return Call.read(
        workers=workers,
        resources=resources,
        name=None,
        retries=0,
        timeout_s=None,
        grace_s=1.0,
        reuse_child=False,
        engine=engine,
    )


@pytest.mark.parametrize(
    ("workers", "resources", "message"),
    [
        (
            1,
            "cpus=1,memory_gb=4000",
            "One trial with memory_gb=4000 needs 4000 GB of memory, and this machine has 23.4 GB. Pass memory_gb=23.4.",
        ),
        (
            8,
            "cpus=1,memory_gb=4",
            "workers=8 with memory_gb=4 need 32 GB of memory, and this machine has 23.4 GB. Pass workers=5, or "
            "memory_gb=2.9.",
        ),
        (
            (4, 8),
            "memory_gb=10",
            "workers=(4, 8) begin with 4 trials, which with memory_gb=10 need 40 GB of memory, and this machine has "
            "23.4 GB. Pass workers=(2, 8), or memory_gb=5.8.",
        ),
    ],
)
@pytest.mark.parametrize("master", ["local[8,4]", "local-cluster[8,1,1024]"])
def test_more_memory_than_this_machine_has_is_refused_where_tasks_run_here(
    pyspark: types.ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    master: str,
    workers: Any,
    resources: str,
    message: str,
) -> None:
    monkeypatch.setattr(spark, "memory_gb", lambda: 23.456)
    engines = [Spark(session=FakeContext(master=master)), Spark(master=master), Spark()]
    for engine in engines:
        assert refusal(lambda engine=engine: asked_of(engine, workers, resources)) == message  # type: ignore[misc]
    pyspark.SparkContext._active_spark_context = FakeContext(master="spark://head:7077")
    for elsewhere in (Spark(), Spark(session=FakeContext(master="yarn")), Spark(session=FakeContext(master="k8s://h"))):
        assert asked_of(elsewhere, workers, resources).note == ""
    pyspark.SparkContext._active_spark_context = None
    assert asked_of(Spark(master="spark://head:7077"), workers, resources).note == ""


def test_where_tasks_run_here_as_many_work_as_memory_suffices_for(
    pyspark: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "memory_gb", lambda: 23.456)
    monkeypatch.setattr("etude.launching.call.available_cores", lambda: 7)
    call = asked_of(Spark(), (2, 16), "memory_gb=4")
    assert (call.workers, call.least_workers) == (5, 2)
    assert call.note == (
        "workers=(2, 16) with memory_gb=4 need 64 GB of memory, and this machine has 23.4 GB. So 5 run at a time."
    )
    for workers, resources, most in (
        (None, "cpus=1,memory_gb=4", 5),
        (None, "cpus=1,memory_gb=2", 7),  # though memory would suffice for 11
        (5, "memory_gb=4", 5),
        (8, "memory_gb=auto", 8),
        (8, "cpus=4,gpus=1", 8),  # which Spark counts
        (8, None, 8),
    ):
        call = asked_of(Spark(), workers, resources)
        assert (call.workers, call.note, call.gpus) == (most, "", ())


def test_what_is_no_session_is_refused_before_its_memory_is_looked_at(pyspark: object) -> None:
    assert (
        refusal(lambda: asked_of(Spark(session="yarn"), 8, "memory_gb=4")) == "session='yarn' (str) is no SparkSession."
    )


def test_what_spark_gives_a_task_may_be_said(pyspark: object) -> None:
    gives = {"spark.task.cpus": "2", "spark.task.resource.gpu.amount": "0.25"}
    for conf, resources in ((gives, Resources(cpus=2, gpus=0.25, memory_gb=64)), ({}, Resources(gpus=0)), ({}, None)):
        engine = Spark(session=FakeContext(found_everything, **conf))
        engine.prepare(1, resources)
        engine.stop()


# --- small parts ----------------------------------------------------------------------------------

SPARK_4 = (
    "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
    '  File "/somewhere/worker.py", line 4327, in invoke_udf\n    run_process()\n'
    "ModuleNotFoundError: No module named 'nowhere'\n SQLSTATE: 38000"
)
SPARK_3 = (
    "Job aborted due to stage failure: Task 0 in stage 2.0 failed 4 times, most recent failure: Lost task 0.3 in stage "
    "2.0 (TID 8) (localhost executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent call "
    'last):\n  File "/somewhere/worker.py", line 1247, in main\n    process()\n'
    "ModuleNotFoundError: No module named 'nowhere'\n\n\tat org.apache.spark.api.python.Base\n\nDriver stacktrace:"
)
STOPPED = (
    "Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:\n\n"
    "org.apache.spark.api.java.JavaSparkContext.<init>(JavaSparkContext.scala:59)\n"
    "java.base/jdk.internal.reflect.NativeConstructorAccessorImpl.newInstance0(Native Method)\n\n"
    "And it was stopped at:\n\norg.apache.spark.SparkContext.stop(SparkContext.scala:2311)\n\n"
    "The currently active SparkContext was created at:\n\n(No active SparkContext.)\n         "
)
INDENTED = (
    "Job aborted: Lost executor 1: it was killed at 10:02.\nIts disk was full.\n"
    "    at org.apache.spark.Base.run(Base.scala:1)"
)
CAUSED = "Could not bind.\nCaused by: java.net.BindException: Address in use\n\t... 12 more"
PROSE = "It was lost\nat noon, and again\n  at one (a.m.)"
CRASHED = "Job aborted due to stage failure: Task 0 failed 4 times: Python worker exited unexpectedly\n\tat org.apache"


@pytest.mark.parametrize(
    ("message", "short"),
    [
        (SPARK_4, "ModuleNotFoundError: No module named 'nowhere'."),
        (SPARK_3, "ModuleNotFoundError: No module named 'nowhere'."),
        (
            CRASHED,
            "Job aborted due to stage failure: Task 0 failed 4 times: Python worker exited unexpectedly.",
        ),
        (STOPPED, "Cannot call methods on a stopped SparkContext."),
        (INDENTED, "Job aborted: Lost executor 1: it was killed at 10:02.\nIts disk was full."),
        (CAUSED, "Could not bind."),
        (PROSE, f"{PROSE}."),
        ("Traceback (most recent call last): lost", "Traceback (most recent call last): lost."),
        ("It ended.", "It ended."),
    ],
)
def test_errors_of_spark_are_told_in_short(message: str, short: str) -> None:
    error = RuntimeError("with pages of Java")
    error.java_exception = types.SimpleNamespace(getMessage=lambda: message)  # type: ignore[attr-defined]
    assert in_short(error) == short
    assert in_short(RuntimeError(message)) == short


@pytest.mark.parametrize("before", [None, "0,1,2"])
def test_a_worker_sees_the_gpus_of_its_task_and_others_what_they_saw(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if before is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    given = types.SimpleNamespace(resources=lambda: {"gpu": types.SimpleNamespace(addresses=["5", "7"])})
    with contextlib.suppress(KeyError), gpus_visible(given):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "5,7"
        raise KeyError
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == before
    with gpus_visible(types.SimpleNamespace(resources=dict)):
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


def test_a_task_that_spark_hangs_up_on_cleans_up_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []

    async def carry(*_: object, **__: object) -> None:
        with node.folder_of_ours() as folder:
            folders.append(folder)
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.Event().wait()

    monkeypatch.setattr(node, "carry", carry)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(carry_until_hung_up(Invitation(("127.0.0.1",), 1, "token", "certificate"), 1))
    assert [folder.exists() for folder in folders] == [False]
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL, "the next one ends the process"


def test_the_address_is_that_of_spark_itself() -> None:
    assert where_to_listen(FakeContext(master="yarn")) == ("127.0.0.1", ("127.0.0.1",))
    assert spark_session.LOCAL.fullmatch("local-cluster[2,1,1024]") is None


def test_a_study_is_refused_that_waits_for_more_workers_than_there_are_threads(pyspark: object) -> None:
    context = FakeContext(found_everything, master="local[6,4]", **{"spark.task.cpus": "2"})
    assert refusal(lambda: Spark(session=context).prepare(8, None, least=4)) == (
        "The first trial waits for 4 workers, and Spark at 'local[6,4]' runs 3 tasks at a time: it has 6 threads, and "
        "each task takes 2 (spark.task.cpus). Wait for fewer, or make the session with master='local[8,4]'."
    )
    assert refusal(lambda: Spark(session=context).prepare(8, None, least=4, ranks=4)) == (
        "The 4 ranks of a trial start together, and Spark at 'local[6,4]' runs 3 tasks at a time: it has 6 threads, "
        "and each task takes 2 (spark.task.cpus). Pass ranks=3, or make the session with master='local[8,4]'."
    )
    Spark(session=context).prepare(8, None, least=3)
    elsewhere = FakeContext(found_everything, master="spark://head:7077")
    Spark(session=elsewhere).prepare(8, None, least=100)  # executors may come


def test_a_session_that_is_made_has_the_cores_that_a_trial_needs(made: list[tuple[str, dict[str, str]]]) -> None:
    find_or_make(None, None, {}, 3, Resources(cpus=2))
    find_or_make(None, None, {"spark.task.cpus": "4"}, 3, None)
    find_or_make(None, "yarn", {}, 3, Resources(cpus=2))
    assert made == [
        ("local[6,4]", {"spark.task.cpus": "2"}),
        ("local[12,4]", {"spark.task.cpus": "4"}),
        ("yarn", {"spark.task.cpus": "2"}),
    ]
