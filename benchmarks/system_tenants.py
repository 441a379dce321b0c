"""How long people wait for their tuning jobs on a machine that many share: PipeTune beside tuning without it."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target
from benchmarks.pipetune import tables
from benchmarks.tenants import jobs, queue
from benchmarks.tenants.jobs import Job
from benchmarks.tenants.made_up import made_up

MIXES: Final = {"type I": ("I",), "type II": ("II",), "types I and II": ("I", "II"), "type III": ("III",)}
"""Half of the jobs are of each type of a mix, and its workloads take turns, as in section 7.4 of the paper."""
PAPER: Final = {"type I": 30, "type II": 30, "types I and II": 30, "type III": 65}
"""By so many per cent PipeTune's response time is less than that of both others, at most (figures 13 and 14)."""
UNSEEN: Final = 0.2
LOADS: Final = (80, 50, 95)
"""How busy V1 would keep the machine, in per cent: the paper does not say. The first one is the one that is judged."""
NAMES: Final = ("v1", "v2", "pipetune", "best")


def cells(small: bool, seeds: int, trace: int, most: int, file: str) -> Sequence[Cell]:
    if not small and not (there := Path(file) if file else tables.FILE).is_file():
        raise SystemExit(f"There is no {there}. Measure it: python -m benchmarks.system_tables --into {tables.FILE}")
    size = {"seeds": 3, "trace": 10, "most": 9, "file": ""} if small else {"seeds": seeds, "trace": trace, "most": most}
    told = {"file": str(Path(file).resolve()) if file else str(tables.FILE), **size}
    mark = ", made up" if small else ""
    return [Cell(f"étude, {mix}{mark}", {"mix": mix, **told}, limit_s=3600.0) for mix in MIXES]


def work(args: Mapping[str, Any], place: Path) -> Result:
    all_tables = tables.read(Path(args["file"])) if args["file"] else made_up()
    seeds = [one_seed(all_tables, args["mix"], seed, args["trace"], args["most"]) for seed in range(args["seeds"])]
    judged = f"{LOADS[0]} %"
    found: dict[str, Any] = {f"{name}_s": statistics.fmean(one[judged][name] for one in seeds) for name in NAMES}
    by_load = {}
    for load in ("tuning", *(f"{load} %" for load in LOADS)):
        by_load[load] = {other: saved([one[load] for one in seeds], "pipetune", other) for other in ("v1", "v2")}
    for other, (share, low, high) in by_load[judged].items():
        found |= {f"less_than_{other}": share, f"less_than_{other}_low": low, f"less_than_{other}_high": high}
    found |= {
        "tuning_less_than_v1": by_load["tuning"]["v1"][0],
        "possible": saved([one[judged] for one in seeds], "best", "v1")[0],
        "probes": 100 * statistics.fmean(one["went"]["probes"] for one in seeds),
        "reused": 100 * statistics.fmean(one["went"]["reused"] for one in seeds),
        "mistaken": 100 * statistics.fmean(one["went"]["mistaken"] for one in seeds),
    }
    workloads = {one.name: one for one in all_tables if one.kind in MIXES[args["mix"]]}
    gains = {name: round(table.gain, 3) for name, table in workloads.items()}
    return {**found, "details": {"less": by_load, "throughput of the best setting over the default's": gains}}


def one_seed(all_tables: Sequence[tables.Table], mix: str, seed: int, n: int, most: int) -> dict[str, dict[str, float]]:
    """Return the mean response time with each approach at each load, and how long jobs took; all meet the same jobs."""
    draw = random.Random(f"{seed} {mix}")
    known = [Job(-1, table, jobs.workload_rates(draw), digest(draw), "") for table in all_tables]
    trace = jobs_of(known, MIXES[mix], n, draw, seed=f"{seed} {mix}")
    pipetune = jobs.PipeTune(jobs.campaign(known, draw), most=12)
    went = {
        name: [approach.run(job, most) for job in trace]
        for name, approach in zip(NAMES, (jobs.V1(), jobs.V2(), pipetune, jobs.Best()), strict=True)
    }
    lasts = {name: [one.seconds for one in found] for name, found in went.items()}
    found = {"tuning": {name: statistics.fmean(seconds) for name, seconds in lasts.items()}}
    for load in LOADS:
        mean_s = found["tuning"]["v1"] / (load / 100)
        arrive_s = queue.arrivals(n, mean_s=mean_s, draw=random.Random(f"{seed} arrivals"))
        responses = {name: queue.serve(arrive_s, seconds.__getitem__) for name, seconds in lasts.items()}
        found[f"{load} %"] = {name: statistics.fmean(r.response_s for r in all_) for name, all_ in responses.items()}
    seen = {job.digest for job in known}
    pairs = list(zip(went["pipetune"], trace, strict=True))
    reused = {
        is_known: [one.reused for one, job in pairs if (job.digest in seen) is is_known] for is_known in (True, False)
    }
    found["went"] = {
        "probes": sum(one.probes for one in went["pipetune"]) / sum(one.epochs for one in went["pipetune"]),
        "reused": statistics.fmean(reused[True]),
        "mistaken": statistics.fmean(reused[False]),
    }
    return found


def jobs_of(known: Sequence[Job], kinds: Sequence[str], n: int, draw: random.Random, *, seed: str) -> list[Job]:
    """Return a trace: types take turns, and so do the workloads of each; one in five is like no job before it."""
    unseen = set(draw.sample(range(n), round(UNSEEN * n)))
    of = {kind: [job for job in known if job.table.kind == kind] for kind in kinds}
    found = []
    for nth in range(n):
        kind, turn = kinds[nth % len(kinds)], nth // len(kinds)
        job = of[kind][turn % len(of[kind])]
        rates, of_whom = (jobs.workload_rates(draw), digest(draw)) if nth in unseen else (job.rates, job.digest)
        found.append(Job(nth, job.table, rates, of_whom, f"{seed} {nth}"))
    return found


def digest(draw: random.Random) -> str:
    return f"{draw.getrandbits(128):032x}"


def saved(seeds: Sequence[Mapping[str, float]], one: str, other: str) -> tuple[float, float, float]:
    """Return by how many per cent the time with one approach is less than with another, and the 95 % interval."""
    from etude.analyse.paired import paired

    found = paired([math.log(times[one]) for times in seeds], [math.log(times[other]) for times in seeds])
    less = [100 * (1 - math.exp(end)) for end in (found.difference, found.high, found.low)]
    return less[0], less[1], less[2]


def by_load(results: Mapping[str, Sequence[Result]]) -> Sequence[Sequence[Sequence[str]]]:
    """Return a table of what is saved at each load."""
    head = ("less than V1 (95 % interval)", "tuning alone", *(f"load {load} %" for load in sorted(LOADS)))
    lines = [head]
    for name, found in results.items():
        less = found[-1]["details"]["less"]
        cells = (less[of]["v1"] for of in ("tuning", *(f"{load} %" for load in sorted(LOADS))))
        lines.append((name, *(f"{share:.1f} % ({low:.1f} to {high:.1f})" for share, low, high in cells)))
    return [lines]


BENCHMARK = Benchmark(
    name="system_tenants",
    cells=cells,
    work=work,
    quantities=(
        *(Quantity(f"{name}_s", "s", 1) for name in NAMES),
        *(Quantity(f"less_than_{other}{end}", "%", 1) for other in ("v1", "v2") for end in ("", "_low", "_high")),
        Quantity("tuning_less_than_v1", "%", 1),
        Quantity("possible", "%", 1),
        Quantity("probes", "%", 2),
        Quantity("reused", "%", 1),
        Quantity("mistaken", "%", 1),
    ),
    targets=tuple(
        Target(f"{mix}: less than {other.upper()}", f"étude, {mix}: less_than_{other}", share, "%")
        for mix, share in PAPER.items()
        for other in ("v1", "v2")
    ),
    note=(
        "Mean response times of jobs that arrive at random and run first in, first out; a load of 80 % by V1's jobs.\n"
        "Simulated: epochs take what was measured, jobs are Hyperband's with one trial after the other, and the\n"
        "tuner, what it recalls and the rule of the queue are Étude's own. Profiles and accuracies are made up.\n"
        "V2 has as many trials as V1. less: by how much PipeTune's are less, geometric means over paired seeds with\n"
        "95 % intervals; tuning: the same of how long jobs run; possible: what the best setting from the first epoch\n"
        "on would save; probes: of all epochs; reused: of jobs that are known; mistaken: the same of those that are\n"
        "not. One run is enough."
    ),
    numbers={
        "seeds": (20, "traces of jobs, each with all approaches"),
        "trace": (100, "jobs of a trace"),
        "most": (27, "epochs of the longest trials"),
    },
    texts={"file": f"the measured tables, if they are not in {tables.FILE.name}"},
    tables=by_load,
)

if __name__ == "__main__":
    BENCHMARK.main()
