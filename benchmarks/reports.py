"""Reports: how many a second the journal takes, and what reporting costs the thread that trains."""

from __future__ import annotations

import itertools
import math
import random
import sqlite3
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

WORKERS = 2
AT_ONCE = 200
"""Rows after which the journal is written at the latest, as a study does it."""
SYNC_S = 1.0
UNIT_S = 1e-3


def cells(small: bool) -> Sequence[Cell]:
    size = {"trials": 20, "reports": 50} if small else {"trials": 2000, "reports": 50}
    peer = {**size, "limit_s": 0.5 if small else 10.0}
    cost = {"blocks": 4, "block": 50} if small else {"blocks": 30, "block": 250}  # about 25 s in all
    return [
        Cell("étude", {"what": "journal", "stopper": "none", **size}),
        Cell("étude, median rule", {"what": "journal", "stopper": "median", **size}),
        Cell("étude, live trials", {"what": "live", **size}),
        Cell("sqlite alone", {"what": "floor", **size}),
        Cell("optuna journal", {"what": "optuna", "kind": "journal", **peer}),
        Cell("optuna sqlite", {"what": "optuna", "kind": "sqlite", **peer}),
        Cell("cost, python loop", {"what": "cost", "work": "python", **cost}),
        Cell("cost, numpy loop", {"what": "cost", "work": "numpy", **cost}),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    match args["what"]:
        case "journal":
            return journal(place / "study", args["trials"], args["reports"], args["stopper"])
        case "live":
            return live(args["trials"], args["reports"])
        case "floor":
            return floor(place / "floor.sqlite", args["trials"], args["reports"])
        case "optuna":
            return optuna(args["kind"], place, args["trials"], args["reports"], args["limit_s"])
        case "cost":
            return cost(args["work"], args["blocks"], args["block"])
    raise AssertionError(args)


# --- into the journal -----------------------------------------------------------------------------


def journal(folder: Path, trials: int, reports: int, stopper: str) -> Result:
    """Feed driver and journal as a study feeds them, without processes: bundles in, one commit for each drain."""
    from etude.core.driver import Driver
    from etude.core.events import (
        AnyEvent,
        AnyFact,
        Assign,
        Ended,
        How,
        Joined,
        Opened,
        Outcome,
        Persist,
        Reported,
        Suggest,
        Suggested,
    )
    from etude.core.history import History
    from etude.core.metrics import Metrics
    from etude.store.journal import Journal
    from etude.tune.plan import SearchPlan
    from etude.tune.stop import make_stopper

    store = Journal.create(folder, {"metrics": {"y": "min"}, "watched": "y"})
    history = History(Metrics({"y": "min"}))
    driver = Driver(SearchPlan(trials, 0, make_stopper(stopper, history.metrics)), history)
    epoch = store.lease.take("benchmark")
    stop_syncing = _sync_now_and_then(store.sync)
    draws = random.Random(1)
    facts: list[AnyFact] = []
    assigned: deque[Assign] = deque()

    def drain(events: deque[AnyEvent]) -> None:
        while events:
            for command in driver.handle(events.popleft()):
                kind = type(command)
                if kind is Persist:
                    facts.append(command.fact)  # type: ignore[union-attr]
                elif kind is Suggest:
                    k, redraw = command.k, command.redraw  # type: ignore[union-attr]
                    events.append(Suggested(at=time.time(), k=k, redraw=redraw, params={"x": draws.random()}))
                elif kind is Assign:
                    assigned.append(command)  # type: ignore[arg-type]
            if len(facts) >= AT_ONCE:
                flush()
        flush()

    def flush() -> None:
        store.append(facts)
        facts.clear()

    began, cpu = time.perf_counter(), time.process_time()
    first: deque[AnyEvent] = deque([Opened(at=time.time(), driver="benchmark", epoch=epoch)])
    first.extend(Joined(at=time.time(), worker=f"w{n}") for n in range(WORKERS))
    drain(first)
    while assigned:
        job = assigned.popleft()
        x = float(job.params["x"])  # type: ignore[arg-type]
        at = time.time()
        bundle: deque[AnyEvent] = deque(
            Reported(at=at, trial=job.trial, attempt=job.attempt, step=step, metrics={"y": x + 1 / step})
            for step in range(1, reports + 1)
        )
        bundle.append(
            Ended(at=at, worker=job.worker, trial=job.trial, attempt=job.attempt, outcome=Outcome(How.FINISHED, 1.0))
        )
        drain(bundle)
    stop_syncing()
    store.sync()
    took, used = time.perf_counter() - began, time.process_time() - cpu
    assert driver.over
    store.close()
    size = sum(path.stat().st_size for path in folder.iterdir())
    n = trials * reports
    return {"reports_per_s": n / took, "cpu_us": 1e6 * used / n, "bytes": size / n}


def _sync_now_and_then(sync: Callable[[], None]) -> Callable[[], None]:
    """Call ``sync`` once a second from another thread, as a study does; return what ends that."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(SYNC_S):
            sync()

    thread = threading.Thread(target=work)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()

    return end


def floor(path: Path, trials: int, reports: int) -> Result:
    """Write the same rows with nothing around them: one transaction for each trial."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    columns = "trial INT, step INT, value REAL, at REAL, PRIMARY KEY (trial, step)"
    connection.execute(f"CREATE TABLE r ({columns}) WITHOUT ROWID")
    began, cpu = time.perf_counter(), time.process_time()
    for trial in range(trials):
        connection.execute("BEGIN IMMEDIATE")
        rows = [(trial, step, 1 / (step + 1), time.time()) for step in range(reports)]
        connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
    took, used = time.perf_counter() - began, time.process_time() - cpu
    connection.close()
    n = trials * reports
    return {"reports_per_s": n / took, "cpu_us": 1e6 * used / n, "bytes": path.stat().st_size / n}


def optuna(kind: str, place: Path, trials: int, reports: int, limit_s: float) -> Result:
    """Report to Optuna from one process, for a while."""
    import optuna as peer

    from benchmarks.peers import storage

    peer.logging.set_verbosity(peer.logging.ERROR)
    study = peer.create_study(storage=storage(kind, place), sampler=peer.samplers.RandomSampler(seed=1))
    began, cpu, n = time.perf_counter(), time.process_time(), 0
    for _ in range(trials):
        trial = study.ask()
        x = trial.suggest_float("x", 0, 1)
        for step in range(1, reports + 1):
            trial.report(x + 1 / step, step)
        study.tell(trial, x)
        n += reports
        if time.perf_counter() - began > limit_s:
            break
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return {"reports_per_s": n / took, "cpu_us": 1e6 * used / n}


# --- from live trials -----------------------------------------------------------------------------


def live(trials: int, reports: int) -> Result:
    """Report from trials that do nothing else, as fast as they can."""
    import etude

    def train(x: float, run: etude.Run) -> None:
        for step in range(reports):
            run.report(y=x + 1 / (step + 1))

    experiment = etude.Experiment(train, metric="y", mode="min")
    search = experiment.tune(
        {"x": etude.uniform(0, 1)},
        trials=trials,
        workers=WORKERS,
        sampler="random",
        stopper="none",
        reuse_child=True,
    )
    assert search.counts() == {"finished": trials}, search.counts()
    from etude.store.journal import Journal

    store = Journal.read(search.folder)
    at = [fact.at for fact in store.facts() if type(fact).__name__ == "Reported"]
    store.close()
    assert len(at) == trials * reports
    return {"reports_per_s": len(at) / (max(at) - min(at))}


def cost(kind: str, blocks: int, block: int) -> Result:
    """Compare the CPU time of a training thread with 1,000 reports a second to that without any.

    Three kinds of block take turns inside one attempt, to and fro, each with the same work: one reports nothing, one
    appends its metrics to a list of its own, one reports them. The list is there because a tight loop in Python loses
    some speed to any other statement in between, which is nothing that reporting could mend.
    """
    import etude

    def train(x: float, run: etude.Run) -> dict[str, Any]:
        unit = _unit(kind)
        kept: list[tuple[int, dict[str, float]]] = []
        ticks: dict[str, list[float]] = {"nothing": [], "list": [], "report": []}
        order = list(ticks)
        for nth in range(blocks + 1):
            for what in order if nth % 2 else reversed(order):
                time.sleep(0.03)  # what the block before left to send is gone
                cpu = time.thread_time()
                for step in range(block):
                    unit()
                    if what == "report":
                        run.report(y=x + step)
                    elif what == "list":
                        kept.append((step, {"y": x + step}))
                ticks[what].append(time.thread_time() - cpu)
        calls = []
        for _ in range(blocks):
            time.sleep(0.03)
            cpu = time.thread_time()
            for _ in range(100):
                run.report(y=x)
            calls.append((time.thread_time() - cpu) / 100)
        return {"y": x, "calls": calls, **{what: found[1:] for what, found in ticks.items()}}  # the first warm up

    experiment = etude.Experiment(train, metric="y", mode="min")
    search = experiment.tune({"x": etude.uniform(0, 1)}, trials=1, workers=1, sampler="random", stopper="none")
    found = search.best.metrics
    return {
        "over_nothing_percent": _growth(found["nothing"], found["report"]),
        "over_list_percent": _growth(found["list"], found["report"]),
        "call_us": 1e6 * statistics.median(found["calls"]),
        "work_us": 1e6 * statistics.median(found["nothing"]) / block,
    }


def _growth(before: Sequence[float], after: Sequence[float]) -> float:
    return statistics.median(100 * (b / a - 1) for a, b in zip(before, after, strict=True))


def _unit(kind: str) -> Callable[[], object]:
    """Return a piece of work that takes about a millisecond of CPU here, in Python or in numpy."""
    if kind == "python":

        def unit(n: int) -> object:
            total = 0
            for i in itertools.repeat(3, n):  # small numbers: the allocator's moods are not what is measured
                total = (total + i) & 127
            return total
    else:
        import numpy as np

        a = np.ones((64, 64))

        def unit(n: int) -> object:
            found = a
            for _ in range(n):
                found = a @ a
            return found

    n, took = 4, 0.0
    while took < UNIT_S:
        n = math.ceil(n * 1.5)
        took = min(_cpu_of(unit, n) for _ in range(5))
    n = math.ceil(n * UNIT_S / took)
    return lambda: unit(n)


def _cpu_of(unit: Callable[[int], object], n: int) -> float:
    before = time.thread_time()
    unit(n)
    return time.thread_time() - before


BENCHMARK = Benchmark(
    name="reports",
    cells=cells,
    work=work,
    quantities=(
        Quantity("reports_per_s", "1/s", 0),
        Quantity("cpu_us", "µs", 1),
        Quantity("bytes", "B", 1),
        Quantity("over_nothing_percent", "%", 2),
        Quantity("over_list_percent", "%", 2),
        Quantity("call_us", "µs", 2),
        Quantity("work_us", "µs", 1),
    ),
    targets=(
        Target("into the journal", "étude: reports_per_s", 50_000, "1/s"),
        Target("CPU that reports add, numpy", "cost, numpy loop: over_nothing_percent", 1, "%", at_least=False),
        Target("CPU that reports add, Python", "cost, python loop: over_nothing_percent", 1, "%", at_least=False),
    ),
    note=(
        "étude: driver and journal in one process, fed as a study feeds them. live trials: from two processes,\n"
        "through everything. cpu_us, bytes: CPU of all threads and space on disk, for a report. cost: a training\n"
        "thread that works on and on, with a report each millisecond; how much more CPU that takes than nothing\n"
        "instead, and than an append to a list, by pairs of blocks. call_us: CPU of a report among 100 in a row."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
