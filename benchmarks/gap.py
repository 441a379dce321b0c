"""How long a worker is idle between two trials, with TPE or a Gaussian process and many trials behind it."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import DROP, LR, OPT, UNITS, Benchmark, Cell, Quantity, Result, Target, has_torch, space

WORKERS = 2


def make_train(log: str, sleep_s: float) -> Callable[..., float]:
    """Return a training function that sleeps a while, and notes who ran it from when to when."""

    def train(lr: float, drop: float, units: int, opt: str) -> float:
        begun = time.time()
        time.sleep(sleep_s * random.uniform(0.75, 1.25))  # by no parameter, or the sampler would change it
        value = abs(lr - 0.01) + drop + units / 1000 + len(opt) / 100
        # The supervisor is our parent's grandparent; its mark is in the environment that we got from it.
        worker = os.environ["ETUDE_WORKER"].encode()
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, b"%s %.6f %.6f\n" % (worker, begun, time.time()))
        os.close(fd)
        return value

    return train


def cells(small: bool) -> Sequence[Cell]:
    more = {"more": 8, "sleep_s": 0.05} if small else {"more": 60, "sleep_s": 0.4}
    sizes = (30, 60) if small else (1000, 3000)
    gp = {"finished": 12, "more": 6, "sleep_s": 0.5} if small else {"finished": 300, "more": 24, "sleep_s": 2.0}
    return [
        *(Cell(f"étude, {n:,} trials", {"finished": n, **more}) for n in sizes),
        *([Cell(f"étude, GP, {gp['finished']} trials", {"sampler": "gp", **gp})] if has_torch() else []),
        *(Cell(f"optuna, {n:,} trials", {"finished": n, "peer": True, **more}) for n in sizes),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    if args.get("peer"):
        return peer(args["finished"])
    import etude

    log = place / "log"
    experiment = etude.Experiment(make_train(str(log), args["sleep_s"]), metric="y", mode="min")
    wide = etude.Space.of(space())

    def tune(trials: int) -> etude.Search:
        return experiment.tune(
            wide, trials=trials, workers=WORKERS, sampler=args.get("sampler", "tpe"), stopper="none", name="gap"
        )

    folder = tune(1).folder
    pretend(folder, wide, trials=args["finished"])
    log.unlink()
    search = tune(args["finished"] + args["more"])
    assert search.counts() == {"finished": args["finished"] + args["more"]}, search.counts()
    gaps_ms = [1e3 * gap for gap in trial_gaps(log)]
    return {
        "gap_ms": statistics.median(gaps_ms),
        "p90_ms": statistics.quantiles(gaps_ms, n=10)[-1],
        "waited_percent": 100 * share_that_waited(folder, after=args["finished"]),
    }


def pretend(folder: Path, wide: Any, *, trials: int) -> None:
    """Let a study's driver believe that ``trials`` random configurations finished, and journal it."""
    from etude.core.driver import Driver
    from etude.core.events import AnyEvent, Assign, Ended, How, Joined, Opened, Outcome, Persist, Suggest, Suggested
    from etude.core.history import History
    from etude.core.metrics import Metrics
    from etude.store.journal import Journal
    from etude.tune.plan import SearchPlan
    from etude.tune.sampler import Request
    from etude.tune.samplers import Random
    from etude.tune.stop import NeverStop

    journal = Journal.write(folder)
    history = History(Metrics({"y": "min"}))
    for fact in journal.facts():
        history.apply(fact)
    driver = Driver(SearchPlan(trials, 0, NeverStop()), history)
    draw = Random()
    at = time.time()
    epoch = journal.lease.take("pretender")
    events: deque[AnyEvent] = deque([Opened(at=at, driver="pretender", epoch=epoch), Joined(at=at, worker="pretender")])
    facts = []
    while events:
        for command in driver.handle(events.popleft()):
            at += 1e-6
            match command:
                case Persist(fact=fact):
                    facts.append(fact)
                case Suggest(k=k, redraw=redraw):
                    events.append(
                        Suggested(at=at, k=k, redraw=redraw, params=draw.suggest(Request(k, redraw, wide, 1)))
                    )
                case Assign(worker=worker, trial=trial, attempt=attempt, params=params):
                    value = abs(params["lr"] - 0.01) + params["drop"]  # type: ignore[operator]
                    outcome = Outcome(How.FINISHED, value=value)
                    events.append(Ended(at=at, worker=worker, trial=trial, attempt=attempt, outcome=outcome))
    assert driver.over
    assert len(history.finished) == trials
    journal.append(facts)
    journal.lease.release()
    journal.close()


def trial_gaps(log: Path) -> list[float]:
    """Return, for each two trials in a row on one worker, the seconds from the end of one to the start of the next."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for line in log.read_text().splitlines():
        worker, begun, ended = line.split()
        spans.setdefault(worker, []).append((float(begun), float(ended)))
    gaps = []
    for found in spans.values():
        found.sort()
        gaps += [begun - ended for (_, ended), (begun, _) in itertools.pairwise(found)]
    return gaps


def share_that_waited(folder: Path, *, after: int) -> float:
    """Return how many of the workers that became free had to wait for a proposal: there was none in hand."""
    from etude.core.events import Assigned, Settled
    from etude.store.journal import Journal

    journal = Journal.read(folder)
    held: dict[int, str] = {}
    free_since: dict[str, float] = {}
    waited = []
    for fact in journal.facts():
        if isinstance(fact, Assigned):
            since = free_since.pop(fact.worker, None)
            if since is not None and fact.trial >= after:
                waited.append(fact.at > since)  # what is in hand goes out in the same moment
            held[fact.trial] = fact.worker
        elif isinstance(fact, Settled) and fact.trial in held:
            free_since[held.pop(fact.trial)] = fact.at
    journal.close()
    return statistics.mean(waited)


def peer(finished: int) -> Result:
    """Return what a proposal costs in Optuna, where the worker that waits for it is the one that thinks."""
    import optuna
    from optuna.trial import create_trial

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, Any] = {
        "lr": optuna.distributions.FloatDistribution(*LR, log=True),
        "drop": optuna.distributions.FloatDistribution(*DROP),
        "units": optuna.distributions.IntDistribution(*UNITS),
        "opt": optuna.distributions.CategoricalDistribution(OPT),
    }
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    drawn = [study.ask(distributions).params for _ in range(finished)]
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.add_trials([create_trial(params=p, distributions=distributions, value=p["lr"] + p["drop"]) for p in drawn])
    took = []
    for _ in range(20):
        before = time.thread_time()
        trial = study.ask(distributions)
        study.tell(trial, trial.params["lr"] + trial.params["drop"])
        took.append(1e3 * (time.thread_time() - before))
    return {"ask_tell_cpu_ms": statistics.median(took)}


BENCHMARK = Benchmark(
    name="gap",
    cells=cells,
    work=work,
    quantities=(
        Quantity("gap_ms", "ms"),
        Quantity("p90_ms", "ms"),
        Quantity("waited_percent", "%", 0),
        Quantity("ask_tell_cpu_ms", "ms"),
    ),
    targets=(
        Target("median gap, 1,000 trials behind it", "étude, 1,000 trials: gap_ms", 2, "ms", at_least=False),
        Target("median gap, 3,000 trials behind it", "étude, 3,000 trials: gap_ms", 2, "ms", at_least=False),
        Target("median gap with a Gaussian process", "étude, GP, 300 trials: gap_ms", 5, "ms", at_least=False),
    ),
    note=(
        "gap_ms: median over pairs of trials on one worker, from the end of one function to the start of the next;\n"
        "p90_ms: 90 of 100 are shorter. waited_percent: how many free workers found no proposal in hand.\n"
        "GP: trials of 2 s, since it thinks for tenths of a second.\n"
        "ask_tell_cpu_ms: CPU of a proposal by the peer, during which its worker is idle."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
