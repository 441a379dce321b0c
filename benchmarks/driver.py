"""What an event costs the driver, with 1,000 trials behind it and with 100,000; and what it keeps of each trial."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

WORKERS = 500
REPORTS = 30
AROUND = 500
"""Trials that end before and after a size while the events there are looked at."""


def cells(small: bool) -> Sequence[Cell]:
    sizes = [200, 1_000] if small else [1_000, 10_000, 100_000]
    around, kept = (50, 300) if small else (AROUND, 100_000)
    timed = {"sizes": sizes, "around": around}
    return [
        *(Cell(f"étude {rule}", {**timed, "rule": rule}) for rule in ("none", "median", "asha")),
        *(Cell(f"étude {rule}, state", {"trials": kept, "rule": rule}) for rule in ("none", "median", "asha")),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    if "trials" in args:
        return state(args["rule"], args["trials"])
    return cost(args["rule"], args["sizes"], args["around"])


class Shell:
    """The least that can be around a driver: proposals are made of nothing, workers report in turn.

    Args:
        rule: The stopper.
        trials: How many trials there are.
    """

    def __init__(self, rule: str, trials: int) -> None:
        from etude.core.driver import Driver
        from etude.core.events import Joined, Opened
        from etude.core.history import History
        from etude.core.limits import Limits
        from etude.core.metrics import Metrics
        from etude.tune.plan import SearchPlan
        from etude.tune.stop import make_stopper

        metrics = Metrics({"y": "max"})
        plan = SearchPlan(trials, seed=0, stopper=make_stopper(rule, metrics))
        self.driver = Driver(plan, History(metrics), Limits(workers=WORKERS))
        self.events: deque[Any] = deque([Opened(at=0.0, driver="benchmark", epoch=1)])
        self.events += [Joined(at=0.0, worker=f"w{n}") for n in range(WORKERS)]
        self.turns: deque[list[Any]] = deque()  # worker, trial, attempt, step, stopped
        self.at: dict[int, list[Any]] = {}
        self.now = 0.0

    def next(self) -> Any:
        """Return the next event; None if there is none left."""
        from etude.core.events import Ended, How, Outcome, Reported, Usage

        if self.events:
            return self.events.popleft()
        if not self.turns:
            return None
        self.now += 0.01
        held = self.turns.popleft()
        worker, trial, attempt, step, stopped = held
        if stopped or step == REPORTS:
            del self.at[trial]
            how = How.STOPPED if stopped else How.FINISHED
            value = None if stopped else curve(trial, REPORTS)
            usage = Usage(wall_s=self.now - 1.5, cpu_s=self.now - 2.5, memory_mb=self.now + 90.0)
            outcome = Outcome(how, value, usage=usage)
            return Ended(at=self.now, worker=worker, trial=trial, attempt=attempt, outcome=outcome)
        held[3] += 1
        self.turns.append(held)
        return Reported(at=self.now, trial=trial, attempt=attempt, step=step + 1, metrics={"y": curve(trial, step + 1)})

    def carry_out(self, commands: Sequence[Any]) -> None:
        """Do what the driver wants; facts are dropped."""
        from etude.core.events import Assign, Stop, Suggest, Suggested

        for command in commands:
            match command:
                case Suggest(k=k):
                    params: dict[str, Any] = {"lr": k * 1e-6, "drop": 0.25, "units": k, "opt": "adam"}
                    self.events.append(Suggested(at=self.now, k=k, params=params))
                case Assign(worker=worker, trial=trial, attempt=attempt):
                    self.at[trial] = [worker, trial, attempt, 0, False]
                    self.turns.append(self.at[trial])
                case Stop(trial=trial):
                    self.at[trial][4] = True


def curve(trial: int, step: int) -> float:
    """Return what a trial reports: trials are about equally good, early and late in the study."""
    return (trial * 2654435761 % 2**32) / 2**32 - 1.0 / step


def cost(rule: str, sizes: Sequence[int], around: int) -> Result:
    """Return what events cost around each size, in microseconds of CPU."""
    shell = Shell(rule, max(sizes) + WORKERS + around)
    found: Result = {}
    took: list[int] = []
    sizes = list(sizes)
    clock, handle, ended = time.thread_time_ns, shell.driver.handle, shell.driver.history.ended
    while sizes:
        event = shell.next()
        if event is None:
            raise SystemExit("the study ended early")
        if len(ended) < sizes[0] - around:
            shell.carry_out(handle(event))
            continue
        before = clock()
        commands = handle(event)
        took.append(clock() - before)
        shell.carry_out(commands)
        if len(ended) >= sizes[0] + around:
            size = sizes.pop(0)
            took.sort()
            found[f"mean_us_{size}"] = statistics.fmean(took) / 1e3
            found[f"p99_us_{size}"] = took[len(took) * 99 // 100] / 1e3
            found[f"max_us_{size}"] = took[-1] / 1e3
            took = []
    means = [value for key, value in found.items() if key.startswith("mean")]
    tails = [value for key, value in found.items() if key.startswith("p99")]
    return {
        **found,
        "last_over_first": means[-1] / means[0],
        "p99_last_over_first": tails[-1] / tails[0],
        "p99_ms": max(tails) / 1e3,
    }


def state(rule: str, trials: int) -> Result:
    """Return the bytes that driver, history and stopper hold for each trial that has ended.

    The eight bytes of each report are the user's data, and stand beside it: ``report_bytes_per_trial``.
    """
    shell = Shell(rule, 10**9)
    ended = shell.driver.history.ended

    def run_until(n: int) -> None:
        while len(ended) < n:
            shell.carry_out(shell.driver.handle(shell.next()))

    run_until(trials // 10)  # what there is once
    gc.collect()
    tracemalloc.start()
    n = len(ended)
    run_until(n + trials)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    more = len(ended) - n
    reports = sum(trial.reports for trial in itertools.islice(ended, n, None))
    return {"bytes_per_trial": (held - 8 * reports) / more, "report_bytes_per_trial": 8 * reports / more}


RULES = ("none", "median", "asha")
BENCHMARK = Benchmark(
    name="driver",
    cells=cells,
    work=work,
    quantities=(
        *(Quantity(f"mean_us_{size}", "us", 1) for size in (200, 1_000, 10_000, 100_000)),
        *(Quantity(f"p99_us_{size}", "us", 1) for size in (200, 1_000, 10_000, 100_000)),
        *(Quantity(f"max_us_{size}", "us", 1) for size in (200, 1_000, 10_000, 100_000)),
        Quantity("p99_ms", "ms", 4),
        Quantity("last_over_first", "", 2),
        Quantity("p99_last_over_first", "", 2),
        Quantity("bytes_per_trial", "B", 0),
        Quantity("report_bytes_per_trial", "B", 0),
    ),
    targets=(
        *(Target(f"p99 of an event, {r}", f"étude {r}: p99_ms", 1.0, "ms", at_least=False) for r in RULES),
        *(Target(f"flat, {r}", f"étude {r}: last_over_first", 2.0, "", at_least=False) for r in RULES),
        *(Target(f"flat p99, {r}", f"étude {r}: p99_last_over_first", 2.0, "", at_least=False) for r in RULES),
        *(Target(f"state, {r}", f"étude {r}, state: bytes_per_trial", 1000, "B", at_least=False) for r in RULES),
    ),
    note=(
        f"{WORKERS} workers, {REPORTS} reports a trial unless it is stopped, four parameters, no sampler, no disk.\n"
        "CPU time of the driver's thread in handle(), with history and stopper. state: by tracemalloc, all that is\n"
        "held, less the eight bytes of each report, which stand in a column of their own."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
