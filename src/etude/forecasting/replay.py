"""One study in virtual time and in memory: the same driver, plan, sampler and stopper as in any study, and no folder.

A forecast needs hundreds of simulated studies, of each of which a few numbers are kept; nobody goes on with one, or
looks at its journal. What is left of a shell without one is this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etude.core.events import Opened
from etude.core.lifecycle import State
from etude.core.limits import Limits
from etude.engines.curves import CurveSource
from etude.engines.simulated import Simulated
from etude.studies.desk import wanted_workers
from etude.studies.virtual_run import VirtualRun
from etude.tune.question import Question

DRIVER: Final = "forecast"


@dataclass(frozen=True)
class Replayed:
    """What came of a study that was only replayed.

    Attributes:
        time_s: From its beginning to its end, the start of the workers included.
        worker_s: Seconds that its workers were there, all of them together, whether they had work or not.
        trials: How many trials it had.
        stopped: The numbers of those that were stopped early.
        failed: How many of them failed for good.
    """

    time_s: float
    worker_s: float
    trials: int
    stopped: frozenset[int] = frozenset()
    failed: int = 0


def replay(
    question: Question,
    engine: Simulated,
    curves: CurveSource,
    *,
    workers: int,
    grace_s: float,
    timeout_s: float | None = None,
) -> Replayed:
    """Run a study in virtual time.

    Args:
        question: What it is to find out.
        engine: How its workers are; their number is ``workers``.
        curves: What its trials report, and when.
        workers: How many trials run at a time.
        grace_s: Seconds that a trial has to see a stop.
        timeout_s: Seconds after which an attempt is ended; None for no limit.

    Raises:
        Exception: Whatever ends the study before its plan is carried out, such as a stopper that raises.
    """
    run = VirtualRun(question, Limits(workers=workers), fail=_raise)
    there = wanted_workers(run.history, trials=question.trials, workers=workers)
    run.hire(engine, curves, workers=workers, defaults={}, grace_s=grace_s, timeout_s=timeout_s)
    run.open(Opened(at=0.0, driver=DRIVER, epoch=1))
    while not run.over:
        run.go_on()
        run.take_facts()  # nobody writes them down
    now, trials = run.clock.now_s(), run.history.trials
    return Replayed(
        time_s=now,
        worker_s=there * max(0.0, now - engine.startup_s),
        trials=len(trials),
        stopped=frozenset(trial.number for trial in trials if trial.state is State.STOPPED),
        failed=run.history.failed,
    )


def _raise(error: BaseException) -> None:
    raise error
