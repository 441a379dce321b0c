"""Whether a Spark session has room for a study's workers: what can never fit is refused, with the way out."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterable
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.resources import Resources
from etude.core.text import count
from etude.core.version import VERSION
from etude.engines.awaited import awaited, fewer
from etude.engines.spark_errors import in_short
from etude.engines.spark_session import LOCAL, TASK_CORES, is_stopped

SHARES: Final = {"cpus": (TASK_CORES, "1"), "gpus": ("spark.task.resource.gpu.amount", "0")}
"""What ``resources=`` calls it -> the setting that says how much of it each task has, and what that is if not set."""

LEAVE_S: Final = 2.0
"""Seconds that a job which was cancelled has to end."""


def refuse_other_shares(context: Any, resources: Resources | None) -> None:
    """See whether tasks have what a trial needs, which Spark fixes when a session is made.

    Raises:
        ConfigError: They have more or less.
    """
    conf = context.getConf()
    for name, (setting, usual) in SHARES.items():
        wanted, has = getattr(resources, name, None), float(conf.get(setting) or usual)
        if wanted is not None and wanted != has:
            raise ConfigError(
                f"resources='{resources}' says {name}={wanted:g}, and each task of this Spark session has {has:g}, "
                f"which is fixed when a session is made. Make it with {setting}={wanted:g}, or pass {name}={has:g}."
            )


def refuse_too_few_threads(context: Any, least: int, ranks: int = 1) -> None:
    """See whether so many tasks can run at a time, where that will not change: in the threads of one process.

    Args:
        context: The SparkContext.
        least: How many.
        ranks: How many of them train each trial together.

    Raises:
        ConfigError: They cannot.
    """
    found = LOCAL.fullmatch(context.master)
    if found is None:
        return  # executors may come
    each = int(float(context.getConf().get(TASK_CORES) or 1))
    threads = os.cpu_count() or 1 if found["threads"] == "*" else int(found["threads"] or 1)
    room = threads // each
    if room < least:
        mend = f"Pass {fewer(room, ranks)}" if ranks > 1 and room else "Wait for fewer"
        raise ConfigError(
            f"{awaited(least, ranks)}, and Spark at {context.master!r} runs {count(room, 'task')} at a time: it has "
            f"{count(threads, 'thread')}, and each task takes {each} ({TASK_CORES}). {mend}, or make the session with "
            f"master='local[{least * each},4]'."
        )


def refuse_without_slot(context: Any, *, wait_s: float) -> None:
    """Run a small task, and see whether it finds what a worker needs.

    Raises:
        ConfigError: None was run within ``wait_s`` seconds, or Étude is not there, or another version of it; or the
            session has ended.
    """
    _refuse_ended(context)
    group, found = f"etude-{secrets.token_hex(4)}", []

    def look() -> None:
        try:
            context.setJobGroup(group, "Étude: is there a slot?", interruptOnCancel=True)
            found.extend(context.parallelize([0], 1).mapPartitions(look_around).collect())
        except Exception as error:
            found.append(error)

    looking = threading.Thread(target=look, name=group, daemon=True)
    looking.start()
    looking.join(wait_s)
    _refuse_ended(context)
    if looking.is_alive():
        has = _slots_of(context)
        context.cancelJobGroup(group)
        looking.join(LEAVE_S)
        raise ConfigError(
            f"Spark at {context.master!r} had no slot for a worker within {wait_s:g} s: it has {has}. Wait until one "
            "is free, add an executor, or pass a longer wait_s=."
        )
    [answer] = found
    if isinstance(answer, Exception):
        raise ConfigError(
            f"A task on Spark at {context.master!r} cannot be a worker: {in_short(answer)} Executors need the same "
            "Python as the driver (PYSPARK_PYTHON says which), with etude installed."
        ) from answer
    if answer != VERSION:
        raise ConfigError(f"The driver runs Étude {VERSION}, and Spark's executors {answer}. Install the same on both.")


def look_around(_: Iterable[Any]) -> list[str]:
    """Be a task that says which version of Étude it finds, with all that a node needs."""
    import etude.engines.node  # noqa: F401 - whether it can be imported is the question

    return [VERSION]


def _refuse_ended(context: Any) -> None:
    if is_stopped(context):
        raise ConfigError(
            f"The Spark session at {context.master!r} ended before it ran a task, as it does where a master does not "
            "answer or turns the application away. See whether that master is at work. Spark logs why; "
            "config={'spark.log.level': 'WARN'} shows that of a session that is made."
        )


def _slots_of(context: Any) -> str:
    spark = context._jsc.sc()
    executors = spark.getExecutorMemoryStatus().size()
    if LOCAL.fullmatch(context.master) is None:
        executors -= 1  # the driver is counted as one
    running = sum(info.numRunningTasks() for info in spark.statusTracker().getExecutorInfos())
    return f"{count(executors, 'executor')}, and {count(running, 'task')} at work"
