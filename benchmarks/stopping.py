"""Early stopping: how much of the time a rule saves is left when trials are processes; and what the rule risks."""

from __future__ import annotations

import heapq
import itertools
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.common import Benchmark, Cell, Quantity, Result, Target, space
from benchmarks.tickets import tickets

WORKERS = 4
STEP_S = 0.020
RULES = ("median", "median-best", "asha", "hyperband")
PEER_RULES = ("none", "median-best", "asha", "hyperband")
"""Optuna's median rule is the one that compares with the others' values at that step."""
ORDERS = 200

Curves = Sequence[Sequence[float]]


# --- curves ---------------------------------------------------------------------------------------


def rising(trials: int, steps: int, *, seed: int = 11) -> Curves:
    """Return power laws with some noise, always the same ones: like accuracies, more is better."""
    found = []
    for nth in range(trials):
        draw = random.Random(seed * 100_003 + nth)
        top, gap, rate = draw.uniform(0.55, 0.97), draw.uniform(0.3, 0.6), draw.uniform(0.4, 1.2)
        found.append([top - gap * step**-rate + draw.gauss(0, 0.01) for step in range(1, steps + 1)])
    return found


def crossing(trials: int, steps: int, *, seed: int = 12) -> Curves:
    """Return curves of which the better ones rise later: what is ahead early is behind in the end."""
    found = []
    for nth in range(trials):
        draw = random.Random(seed * 100_003 + nth)
        top = draw.uniform(0.55, 0.97)
        rate = 1.6 - 1.5 * (top - 0.55) / 0.42 + draw.uniform(0, 0.2)
        found.append([top - 0.5 * step**-rate + draw.gauss(0, 0.01) for step in range(1, steps + 1)])
    return found


# --- the floor: the same rule in a study without any cost -----------------------------------------


def simulate(stopper: Any, curves: Curves, *, workers: int, late: int = 1) -> Result:
    """Run a study in virtual time, in which nothing but steps takes any.

    Each trial goes to the worker that is free first. A stop takes effect ``late`` reports after the one that it was
    decided on, as it does where a trial learns of it at its next report; with 0 at once.

    Returns:
        ``steps`` of the longest-working worker, ``run`` of all of them, ``stopped``, and the ``best`` final value.
    """
    from etude.core.events import Assigned, How, Joined, Judged, Outcome, Queued, Reported, Settled
    from etude.core.history import History
    from etude.core.lifecycle import State, Turn
    from etude.core.metrics import Metrics
    from etude.core.plan import Act, Report

    history = History(Metrics({"y": "max"}))
    for nth in range(workers):
        history.apply(Joined(at=0.0, worker=str(nth)))
    turns = itertools.count()
    agenda = [(0, next(turns), nth, -1, 0) for nth in range(workers)]  # when, who first, worker, trial, its step
    heapq.heapify(agenda)
    stop_at: dict[int, int] = {}
    steps_run = stopped = waiting = 0
    best = float("-inf")
    end = 0
    while agenda:
        now, _, worker, trial, step = heapq.heappop(agenda)
        if trial >= 0:
            steps_run += 1
            end = max(end, now)
            value = curves[trial][step - 1]
            history.apply(Reported(at=0.0, trial=trial, attempt=1, step=step, metrics={"y": value}))
            if history.trials[trial].state is State.RUNNING:
                decision = stopper.decide(Report(trial, step, value, step * STEP_S), history)
                if decision.act is Act.STOP:
                    turn, reason = Turn.STOP_ASKED, decision.reason
                    history.apply(Judged(at=0.0, trial=trial, attempt=1, turn=turn, reason=reason))
                    stop_at[trial] = step + late
            seen = stop_at.get(trial, len(curves[trial]) + 1) <= step
            if not seen and step < len(curves[trial]):
                heapq.heappush(agenda, (now + 1, next(turns), worker, trial, step + 1))
                continue
            finished = not seen
            stopped += seen
            best = max(best, value) if finished else best
            turn, how = (Turn.FINISHED, How.FINISHED) if finished else (Turn.STOP_SEEN, How.STOPPED)
            history.apply(Settled(at=0.0, trial=trial, turn=turn, attempt=1, outcome=Outcome(how, value=value)))
        if waiting < len(curves):
            history.apply(Queued(at=0.0, trial=waiting, params={"n": waiting}, seed=0))
            history.apply(Assigned(at=0.0, trial=waiting, attempt=1, worker=str(worker)))
            heapq.heappush(agenda, (now + 1, next(turns), worker, waiting, 1))
            waiting += 1
    return {"steps": end, "run": steps_run, "stopped": stopped, "best": best}


def make(rule: str) -> Any:
    """Return a new stopper of that name, as a study of one metric makes it."""
    from etude.core.metrics import Metrics
    from etude.tune.stop import make_stopper

    return make_stopper(rule, Metrics({"y": "max"}))


def floor(rule: str, trials: int, steps: int) -> Result:
    """Return what a study with the rule takes at least, over one without, and what it finds."""
    curves = rising(trials, steps)
    found = simulate(make(rule), curves, workers=WORKERS)
    without = simulate(make("none"), curves, workers=WORKERS)
    return {"floor": found["steps"] / without["steps"], "without_s": without["steps"] * STEP_S, **found}


def risk(rule: str, curves: Curves, *, orders: int) -> Result:
    """Return what the best value found lacks, in how many orders it lacks any, and the share of steps that was run."""
    best = max(curve[-1] for curve in curves)
    regrets, shares = [], []
    for nth in range(orders):
        shuffled = list(curves)
        random.Random(nth).shuffle(shuffled)
        found = simulate(make(rule), shuffled, workers=WORKERS)
        regrets.append(best - found["best"])
        shares.append(found["run"] / (len(curves) * len(curves[0])))
    lost = sum(regret > 0 for regret in regrets) / orders
    return {"regret": sum(regrets) / orders, "lost": lost, "share": sum(shares) / orders}


# --- the real thing -------------------------------------------------------------------------------


def make_train(folder: str, curves: Curves) -> Callable[..., float]:
    """Return a training function whose k-th call, in whichever process, goes along the k-th curve."""
    take_ticket = tickets(folder)

    def train(lr: float, drop: float, units: int, opt: str, run: Any) -> float:
        k = take_ticket()
        log = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, b"%d 0 %.6f\n" % (k, time.time()))
        if k >= len(curves):  # two peers' processes may both take a last one
            return 0.0
        for step, value in enumerate(curves[k], start=1):
            time.sleep(STEP_S)
            os.write(log, b"%d %d %.6f\n" % (k, step, time.time()))
            run.report(y=value)
        os.close(log)
        return curves[k][-1]

    return train


def cells(small: bool) -> Sequence[Cell]:
    size = {"trials": 8, "steps": 4} if small else {"trials": 100, "steps": 30}
    orders = 2 if small else ORDERS
    found = []
    for rule in ("none", *RULES):
        found.append(Cell(f"étude {rule}", {**size, "rule": rule}))
        if rule in PEER_RULES:
            found.append(Cell(f"optuna journal {rule}", {**size, "rule": rule, "peer": "journal"}))
    return [*found, *(Cell(f"étude risk of {rule}", {**size, "rule": rule, "orders": orders}) for rule in RULES)]


def work(args: Mapping[str, Any], place: Path) -> Result:
    trials, steps, rule = args["trials"], args["steps"], args["rule"]
    if "orders" in args:
        plain = risk(rule, rising(trials, steps), orders=args["orders"])
        crossed = risk(rule, crossing(trials, steps), orders=args["orders"])
        return {**plain, **{f"crossing_{what}": value for what, value in crossed.items()}}
    peer = args.get("peer")
    without = measured("none", peer, trials, steps, place)
    found = without if rule == "none" else measured(rule, peer, trials, steps, place)
    least = floor(rule, trials, steps)
    over_none = found["span_s"] / without["span_s"]
    ideal_s = least["without_s"] * least["floor"]
    ours: Result = {"floor": least["floor"], "over_floor": over_none / least["floor"]} if peer is None else {}
    return {**found, **ours, "over_none": over_none, "over_ideal": found["span_s"] / ideal_s}


def measured(rule: str, peer: str | None, trials: int, steps: int, place: Path) -> Result:
    """Run a study, and return from the trials' own clocks how long it took and what it found."""
    place = place / rule
    folder = place / "trials-log"
    folder.mkdir(parents=True)
    curves = rising(trials, steps)
    if peer is not None:
        arguments = (str(folder), curves)
        peers.run(peer, make_train, arguments, trials=trials, workers=WORKERS, work=place, pruner=rule)
    else:
        import etude

        experiment = etude.Experiment(make_train(str(folder), curves), metric="y", mode="max")
        experiment.tune(space(), trials=trials, workers=WORKERS, sampler="random", stopper=rule)
    lines = [line.split() for line in (folder / "log").read_text().splitlines()]
    log = [(int(k), int(step), float(at)) for k, step, at in lines if int(k) < trials]
    finished = {k for k, step, _ in log if step == steps}
    return {
        "span_s": max(at for _, _, at in log) - min(at for _, _, at in log),
        "steps_run": sum(step > 0 for _, step, _ in log),
        "lacks": max(curve[-1] for curve in curves) - max((curves[k][-1] for k in finished), default=0.0),
    }


BENCHMARK = Benchmark(
    name="stopping",
    cells=cells,
    work=work,
    quantities=(
        Quantity("over_none", "", 3),
        Quantity("floor", "", 3),
        Quantity("over_floor", "", 3),
        Quantity("over_ideal", "", 3),
        Quantity("span_s", "s", 2),
        Quantity("steps_run", "", 0),
        Quantity("lacks", "", 4),
        Quantity("regret", "", 4),
        Quantity("lost", "", 3),
        Quantity("share", "", 3),
        Quantity("crossing_regret", "", 4),
        Quantity("crossing_lost", "", 3),
        Quantity("crossing_share", "", 3),
    ),
    targets=tuple(
        target
        for rule in RULES
        for target in (
            Target(f"time with {rule} over its floor", f"étude {rule}: over_floor", 1.04, "", at_least=False),
            Target(f"what {rule} lacks of the best", f"étude {rule}: lacks", 0.0, "", at_least=False),
        )
    ),
    note=(
        "over_none: from the first trial's start to the last report, over the same without a rule, by the same means.\n"
        "floor: the same in virtual time, with the same stopper object, a stop seen at the next report, nothing else "
        "costing any time. over_ideal: the time over that floor's own seconds.\n"
        "lacks: the best final value of all, less the best that was found. steps_run: of all trials.\n"
        "risk rows are simulated, over random orders of the same curves: regret is the mean of what is lacking, lost "
        "the share of orders in which the best was stopped, share that of the steps that were run; crossing: curves of "
        "which the better ones rise later."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
