"""The same study with its workers on this machine, on Ray and on Spark: what an engine costs, and when it loses one."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks import handout, stragglers
from benchmarks.common import Benchmark, Cell, Quantity, Result, Target, space

FRAMEWORKS: Final = {"ray": "ray", "spark": "pyspark"}
"""Engine -> what has to be installed for it."""

PEERS: Final = ("one stage", "waves")
"""Ways to do it by hand on Spark: a task for each trial, all at once, or as many as there are workers."""

KILLS: Final = 6
LIMIT_S: Final = 300.0
T = TypeVar("T")

CARRIERS: Final = {"ray": b"Carrier", "spark": b"pyspark.daemon"}
"""Engine -> by what the process that carries a worker is known, in its command."""


def cells(small: bool) -> Sequence[Cell]:
    there = [name for name, module in FRAMEWORKS.items() if importlib.util.find_spec(module) is not None]
    many = {"trials": 12, "pairs": 1} if small else {"trials": 300, "pairs": 7}
    long = {"trials": 8, "mean": 0.05} if small else {"trials": 64, "mean": 0.4}
    kills = 1 if small else KILLS
    found = []
    for engine in ("local", *there):
        found += [_cell(engine, "hand-out", many), _cell(engine, "stragglers", long)]
        victims = ["worker"] if engine == "local" else ["worker", "carrier"]
        found += [_cell(engine, "kill", {"victim": victim, "kills": kills}) for victim in victims]
    for peer in PEERS if "spark" in there else ():
        found += [_cell(peer, "hand-out", many), _cell(peer, "stragglers", long)]
    return found


def _cell(how: str, kind: str, args: Mapping[str, Any]) -> Cell:
    who = f"spark alone, {how}" if how in PEERS else f"étude, {how}"
    what = f"{kind} of a {args['victim']}" if "victim" in args else kind
    return Cell(f"{who}: {what}", {"how": how, "kind": kind, **args}, limit_s=LIMIT_S)


def work(args: Mapping[str, Any], place: Path) -> Result:
    with kept_apart():
        return {"hand-out": hand_out, "stragglers": straggle, "kill": kill}[args["kind"]](args, place)


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """Keep Ray and Spark apart from others on this machine, and what they write out of its folders."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:  # its sockets
        os.environ.pop("RAY_ADDRESS", None)
        os.environ.update({"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})
        os.environ.update({"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable})
        try:
            yield
        finally:
            if "ray" in sys.modules:
                sys.modules["ray"].shutdown()


# --- hand-outs ------------------------------------------------------------------------------------


def hand_out(args: Mapping[str, Any], place: Path) -> Result:
    """Run studies of trials that return at once, each after one on this machine, whose speed changes by the second.

    The first pair does not count: by the second, a cluster has done what it does once.
    """
    if args["how"] in PEERS:
        return {"trials_per_s": rate(args, place, "alone")}
    rates, ratios = [], []
    for nth in range(1 + args["pairs"]):
        local = rate({**args, "how": "local"}, place, f"local-{nth}")
        there = rate(args, place, f"there-{nth}")
        rates.append(there)
        ratios.append(there / local)
    return {"trials_per_s": statistics.median(rates[1:]), "over_local": statistics.median(ratios[1:])}


def rate(args: Mapping[str, Any], place: Path, name: str) -> float:
    """Return how many trials a study began in a second."""
    log = place / f"starts-{name}"
    run(handout.make_train(str(log)), args, workers=handout.WORKERS, name=f"hand-out-{name}")
    starts = sorted(float(line) for line in log.read_text().splitlines())
    assert len(starts) == args["trials"]
    return (len(starts) - 1) / (starts[-1] - starts[0])


def straggle(args: Mapping[str, Any], place: Path) -> Result:
    """Run trials of very different lengths; all workers are there before the first."""
    folder = place / "log-of-trials"
    folder.mkdir()
    lengths = stragglers.durations(args["trials"], mean=args["mean"])
    run(stragglers.make_train(str(folder), lengths), args, workers=stragglers.WORKERS, name="stragglers")
    lines = [line.split() for line in (folder / "log").read_text().splitlines()]
    assert len(lines) == args["trials"]
    span = max(float(end) for _, _, end in lines) - min(float(begun) for _, begun, _ in lines)
    return {"over_bound": span / stragglers.list_schedule(lengths, stragglers.WORKERS)}


def run(train: Callable[..., float], args: Mapping[str, Any], *, workers: int, name: str) -> None:
    if args["how"] in PEERS:
        on_spark_alone(train, args["trials"], workers=workers, in_waves=args["how"] == "waves")
        return
    import etude

    experiment = etude.Experiment(train, metric="y", mode="min")
    search = experiment.tune(
        space(), trials=args["trials"], workers=(workers, workers), sampler="random", stopper="none",
        engine=args["how"], name=name,
    )  # fmt: skip
    assert search.counts() == {"finished": args["trials"]}, search.counts()


def on_spark_alone(train: Callable[..., float], trials: int, *, workers: int, in_waves: bool) -> None:
    """Do it by hand: one task for each trial, in a single stage, or in waves with a barrier after each."""
    from pyspark import SparkConf, SparkContext

    from etude.engines.spark_session import QUIET

    own = {**QUIET, "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    conf = SparkConf().setMaster(f"local[{workers}]").setAll(list(own.items()))
    context = SparkContext(conf=conf)
    params = {"lr": 1e-2, "drop": 0.1, "units": 32, "opt": "sgd"}
    try:
        context.parallelize(range(workers), workers).map(lambda _: None).collect()  # its Python workers are there
        for at in range(0, trials, workers if in_waves else trials):
            wave = range(at, min(at + workers, trials)) if in_waves else range(trials)
            context.parallelize(wave, len(wave)).map(lambda _: train(**params)).collect()
    finally:
        context.stop()


# --- kills ----------------------------------------------------------------------------------------


def kill(args: Mapping[str, Any], place: Path) -> Result:
    """Kill what holds a trial, again and again, each time in a study of two workers, of which the other one is free."""
    engine, waits = args["how"], []
    if engine == "spark":
        from etude.engines.spark_session import find_or_make

        session, _ = find_or_make(None, None, {}, 2)  # one for all studies; Ray's cluster stays anyway
    try:
        for nth in range(args["kills"]):
            waits.append(again_s(engine, args["victim"], place, nth))
    finally:
        if engine == "spark":
            session.stop()
    return {"again_s": statistics.median(waits), "worst_s": max(waits)}


def again_s(engine: str, victim: str, place: Path, nth: int) -> float:
    """Return how many seconds after a kill the trial that ran there runs elsewhere."""
    import etude

    log = str(place / f"starts-{nth}")
    experiment = etude.Experiment(make_hold(log), metric="y", mode="min")
    search = experiment.tune(
        {"lr": etude.uniform(0, 1)}, trials=2, workers=(2, 2), sampler="random", stopper="none", engine=engine,
        name=f"kill-{nth}", wait=False,
    )  # fmt: skip
    ((first, _),) = wait_until(lambda: starts(log), search)
    wait_until(lambda: search.counts().get("finished", 0) == 1, search)
    killed_at = time.time()
    os.kill(holder(first, engine, victim), signal.SIGKILL)
    (_, (_, again_at)) = wait_until(lambda: found if len(found := starts(log)) == 2 else [], search)
    search.wait()
    assert [trial.attempts for trial in search.trials] == [2, 1]
    return again_at - killed_at


def make_hold(log: str) -> Callable[..., float]:
    """Return a training function of which the first attempt of trial 0 never ends."""

    def train(lr: float, run: Any) -> float:
        if run.trial == 0:
            with open(log, "a+") as file:
                file.write(f"{os.getpid()} {time.time():.6f}\n")
                file.flush()
                file.seek(0)
                is_first = len(file.readlines()) == 1
            while is_first:
                time.sleep(60)
        return lr

    return train


def starts(log: str) -> list[tuple[int, float]]:
    with contextlib.suppress(FileNotFoundError):
        lines = [line.split() for line in Path(log).read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(int(pid), float(at)) for pid, at in lines]
    return []


def wait_until(what: Callable[[], T], search: Any) -> T:
    """Return what is found, once something is, while a search goes on."""
    while not (found := what()):
        assert search.running, search.summary()
        time.sleep(0.002)
    return found


def holder(pid: int, engine: str, victim: str) -> int:
    """Return the worker that an attempt belongs to, or the process that carries the worker."""
    from etude.worker import processes

    name = b"etude.worker.supervisor" if victim == "worker" else CARRIERS[engine]
    above = processes.parent(pid)
    while above and name not in Path(f"/proc/{above}/cmdline").read_bytes():
        above = processes.parent(above)
    assert above, f"no {victim} is above the attempt"
    return above


def _target(what: str, engine: str, cell: str, key: str, limit: float, unit: str = "", **more: Any) -> Target:
    return Target(f"{what}, {engine}", f"étude, {engine}: {cell}: {key}", limit, unit, **more)


BENCHMARK = Benchmark(
    name="engines",
    cells=cells,
    work=work,
    quantities=(
        Quantity("trials_per_s", "1/s", 1),
        Quantity("over_local", "", 2),
        Quantity("over_bound", "", 4),
        Quantity("again_s", "s"),
        Quantity("worst_s", "s"),
    ),
    targets=tuple(
        target
        for engine in FRAMEWORKS
        for target in (
            _target(
                "hand-outs, over those on this machine",
                engine,
                "hand-out",
                "over_local",
                0.8,
            ),
            _target("makespan over its bound", engine, "stragglers", "over_bound", 1.03, at_least=False),
            _target(
                "runs again after a kill, the worst",
                engine,
                "kill of a worker",
                "worst_s",
                2.0,
                "s",
                at_least=False,
                worst=True,
            ),
        )
    ),
    note=(
        "All workers are there before the first trial. hand-out: median of seven studies, each right after one on\n"
        "this machine; over_local of the local row, which should be 1, tells how noisy the machine is. kill: of a\n"
        "worker, or of what carries it (an actor, Spark's Python worker), until its trial runs again on the other\n"
        "one, which is free; median and worst of six. spark alone: by hand, without a process for each trial."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
