"""A Spark session for workers: found or made. Whether it has room for them is seen in ``spark_refusals``."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.resources import Resources
from etude.core.text import brief
from etude.engines.knock import knock
from etude.engines.spark_errors import in_short

TASK_CORES: Final = "spark.task.cpus"
"""The setting that says how many cores each task has; 1 if it is not set."""

LOCAL: Final = re.compile(r"local(?:\[\s*(?P<threads>\d+|\*)\s*(?:,\s*(?P<failures>\d+)\s*)?\])?")
LOOPBACK: Final = "127.0.0.1"
STANDALONE: Final = "spark://"

ATTEMPTS: Final = 2
"""So many a task needs at least, for a lost worker to be replaced."""

QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL"}
"""Of a session that is made: Spark writes a page about each lost task, and the study says what came of it."""

CONNECT: Final = (
    "This is Spark Connect, whose sessions run no tasks of ours. Pass a classic session, made where the driver of "
    "Spark is, or start workers there with: etude worker"
)


def find_or_make(
    session: Any, master: str | None, config: Mapping[str, str], n: int, resources: Resources | None = None
) -> tuple[Any, bool]:
    """Return a SparkContext, and whether it was made.

    Args:
        session: A session or context that is there, or None.
        master: Where to make one; None for threads of this machine.
        config: Further settings of the one that is made.
        n: For how many tasks it has threads then.
        resources: What each of them needs: the cores are a setting of the one that is made.

    Raises:
        ConfigError: There is none that can carry workers, and none can be made.
    """
    pyspark = _imported()
    if session is not None:
        context = _context_of(session)
    else:
        context = _context_of_this_process()
        if context is not None and (master is not None or config):
            raise ConfigError(
                f"This process has a Spark session at {context.master!r}, and cannot have another one. Leave master= "
                "and config= out to take it, or stop it first."
            )
    if context is not None:
        _refuse(context)
        return context, False
    if _is_remote() or (master or "").startswith("sc://"):
        raise ConfigError(CONNECT)
    _refuse_master(master or "")
    _refuse_without_java()
    _refuse_where_nobody_listens(master or "")
    cores = resources.cpus if resources is not None else None
    config = {**({TASK_CORES: f"{cores:g}"} if cores is not None else {}), **config}
    each = str(config.get(TASK_CORES, "1"))
    threads = n * int(each) if each.isdigit() else n  # Spark itself refuses what is no number of cores
    return _made(pyspark, master or f"local[{threads},4]", config), True


def are_tasks_here(session: Any, master: str | None) -> bool:
    """Say whether all tasks will run on this machine, given what ``find_or_make`` is; nothing is made.

    Raises:
        ConfigError: The session is none that can carry workers.
    """
    context = _context_of(session) if session is not None else _context_of_this_process()
    return _is_here(context.master if context is not None else master or "local")


def where_to_listen(context: Any) -> tuple[str, tuple[str, ...]]:
    """Return the address at which executors reach this machine as Spark does, and the names that they know it by."""
    if _is_here(context.master):
        return LOOPBACK, ()
    conf = context.getConf()
    host = str(conf.get("spark.driver.host") or LOOPBACK)
    return str(conf.get("spark.driver.bindAddress") or host), (host,)


def is_stopped(context: Any) -> bool:
    """Say whether a context was stopped, by its user or since Spark is gone."""
    try:
        return bool(context._jsc is None or context._jsc.sc().isStopped())
    except Exception:
        return True


def _context_of(session: Any) -> Any:
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(CONNECT)
    context = getattr(session, "sparkContext", session)
    if not hasattr(context, "setJobGroup"):
        raise ConfigError(f"session={brief(session)} is no SparkSession.")
    return context


def _context_of_this_process() -> Any:
    """Return the SparkContext that this process has, or None."""
    kind = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return kind._active_spark_context if kind is not None else None


def _is_here(master: object) -> bool:
    """Say whether tasks run on this machine: in the threads of one process, or in executors that are beside it."""
    return str(master).startswith("local")


def _refuse(context: Any) -> None:
    if is_stopped(context):
        raise ConfigError("This Spark session was stopped. Pass one that is at work, or none to have one made.")
    _refuse_master(context.master)


def _refuse_master(master: str) -> None:
    found = LOCAL.fullmatch(master)
    if found is not None and int(found["failures"] or 1) < ATTEMPTS:
        threads = found["threads"] or "1"
        raise ConfigError(
            f"master={master!r} ends the job with the first task that is lost, and so with the first lost worker. "
            f"Make the session with master='local[{threads},4]'."
        )


def _refuse_without_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path("java")
    if shutil.which(java) is None:
        where = f"JAVA_HOME={home} has none" if home else "there is none on the PATH"
        raise ConfigError(
            f"Spark needs Java, and {where}. Install Java 17 (apt install openjdk-17-jre-headless, or conda install "
            "openjdk=17), or set JAVA_HOME to where it is."
        )


def _refuse_where_nobody_listens(master: str) -> None:
    """See whether anybody is at a master of Spark's own."""
    if not master.startswith(STANDALONE):
        return
    if fault := knock(master.removeprefix(STANDALONE).split(",")):
        raise ConfigError(
            f"The Spark master at {master!r} cannot be reached: {fault}. Start one with "
            "`sbin/start-master.sh`, pass the address that it says it is at, or leave master= out for threads of this "
            "machine."
        )


def _made(pyspark: Any, master: str, config: Mapping[str, str]) -> Any:
    local = master.startswith("local")
    settings = dict(QUIET)
    if local:
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    try:
        with _told_in_environment(local), _signals_as_they_are():
            conf = pyspark.SparkConf().setMaster(master).setAppName("etude")
            for name, value in {**settings, **config}.items():
                conf.set(name, str(value))
            return pyspark.SparkContext(conf=conf)
    except Exception as error:
        java = " Spark 4 needs Java 17 or later; what Java said stands above." if "JAVA_GATEWAY" in str(error) else ""
        raise ConfigError(f"No Spark session can be made at {master!r}: {in_short(error)}{java}") from error


@contextlib.contextmanager
def _told_in_environment(local: bool) -> Iterator[None]:
    """On this machine have tasks run by this Python, and Spark keep to the loopback, unless something else is said."""
    said = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK} if local else {}
    ours = {name: value for name, value in said.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


@contextlib.contextmanager
def _signals_as_they_are() -> Iterator[None]:
    """Leave Ctrl-C to the study: with Spark's handler it would cancel the tasks of trials that may yet end well."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _is_remote() -> bool:
    try:
        from pyspark.sql.utils import is_remote

        return bool(is_remote())
    except ImportError:
        return "SPARK_REMOTE" in os.environ


def _imported() -> Any:
    try:
        import pyspark
    except ImportError:
        raise ConfigError("engine='spark' needs pyspark. Install it with: pip install 'etude[spark]'") from None
    if not hasattr(pyspark, "SparkContext"):
        raise ConfigError("pyspark-client is Spark Connect alone. Install pyspark: pip install 'etude[spark]'")
    return pyspark
