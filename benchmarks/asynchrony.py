"""Where the time of a search goes: synchronous waves against asynchronous trials, each with and without early stopping.

Simulated with the curves of 265 networks; live on this machine with trials that sleep; and ASHA with up to 500 workers,
some of them slow, some of their attempts lost.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

from benchmarks import paper2_curves, recorded, shares, waves
from benchmarks.common import Benchmark, Cell, Quantity, Result

WORKERS: Final = (4, 8, 16, 32)
LIVE_WORKERS: Final = (2, 4)
ASHA_WORKERS: Final = (1, 25, 100, 500)
SEEDS: Final = 20
ASHA_SEEDS: Final = 5
ASHA_TRIALS: Final = 2_000

STEPS_LIVE: Final = 10
"""A live trial reports so often: the 40 epochs of a curve are taken four at a time."""

STRAGGLERS: Final = 0.1
SLOWDOWN: Final = (2.0, 10.0)
FAILURES: Final = 0.05

Course = Sequence[tuple[float, float]]
"""The seconds of each step, and what is reported after it."""


def cells(small: bool) -> Sequence[Cell]:
    if small:  # on the curves of this repository, since those of the 265 networks are no part of it
        return [
            Cell("étude 4 workers", {"workers": 4, "trials": 12, "seeds": 2, "small": True}),
            Cell("étude live, 2 workers", {"workers": 2, "live": 4, "mean_s": 0.02, "small": True}),
            Cell("étude ASHA, 4 workers", {"workers": 4, "asha": 20, "seeds": 2, "small": True}),
        ]
    size = {"trials": 100, "seeds": SEEDS}
    return [
        *(Cell(f"étude {n} workers", {**size, "workers": n}, limit_s=3600.0) for n in WORKERS),
        *(Cell(f"étude live, {n} workers", {"workers": n, "live": 32, "mean_s": 0.4}) for n in LIVE_WORKERS),
        *(
            Cell(f"étude ASHA, {n} workers", {"workers": n, "asha": ASHA_TRIALS, "seeds": ASHA_SEEDS}, limit_s=3600.0)
            for n in ASHA_WORKERS
        ),
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    curves = Curves(small=args.get("small", False))
    if "live" in args:
        return live(curves, workers=args["workers"], trials=args["live"], mean_s=args["mean_s"])
    if "asha" in args:
        return asha(curves, workers=args["workers"], trials=args["asha"], seeds=args["seeds"])
    return simulated(curves, workers=args["workers"], trials=args["trials"], seeds=args["seeds"])


class Curves:
    """The recorded runs that all of this goes along, and what is searched."""

    def __init__(self, *, small: bool) -> None:
        source: Any = paper2_curves if small else recorded
        self.records = source.records()
        self.space = source.space()
        self.metric = source.METRIC
        self.mode: Literal["max", "min"] = "max" if small else "min"

    def experiment(self, train: Callable[..., Any]) -> Any:
        """Return an experiment that measures what they do."""
        import etude

        return etude.Experiment(train, metric=self.metric, mode=self.mode)


def nothing(**params: Any) -> float:
    raise AssertionError("nothing is trained: the curves are there")


# --- simulated ------------------------------------------------------------------------------------


def simulated(curves: Curves, *, workers: int, trials: int, seeds: int) -> Result:
    """Return what asynchrony and early stopping take of the time of simulated searches."""
    import etude

    engine = etude.Simulated(curves=etude.RecordedCurves(curves.records), workers=workers)
    experiment = curves.experiment(nothing)
    studies = []
    for seed in range(seeds):

        def run(*, name: str, seed: int = seed, **form: Any) -> Any:
            return waves.tune(
                experiment,
                curves.space,
                trials=trials,
                workers=workers,
                engine=engine,
                seed=seed,
                name=f"{name}-{seed}",
                **form,
            )

        studies.append(waves.four(run))
    return shares.decomposed(studies, larger_is_better=curves.mode == "max")


# --- live -----------------------------------------------------------------------------------------


def courses(curves: Curves, *, trials: int, mean_s: float) -> list[Course]:
    """Return courses of trials drawn from the curves, always the same ones, so short that they last ``mean_s``."""
    drawn = random.Random(46).sample(curves.records, trials)
    each = max(1, len(drawn[0]["seconds"]) // STEPS_LIVE)
    scale = mean_s / fmean(sum(record["seconds"]) for record in drawn)
    found: list[Course] = []
    for record in drawn:
        seconds, values = record["seconds"], record["metrics"][curves.metric]
        steps = range(0, len(seconds), each)
        found.append([(scale * sum(seconds[at : at + each]), values[at : at + each][-1]) for at in steps])
    return found


def make_train(metric: str, along: Sequence[Course]) -> Callable[..., None]:
    """Return a training function that sleeps through the course of trial ``k``."""

    def train(run: Any, k: int) -> None:
        for seconds, value in along[k]:
            time.sleep(seconds)
            run.report(**{metric: value})

    return train


def make_curve(metric: str, along: Sequence[Course]) -> Callable[..., Any]:
    """Return the same as a curve."""

    def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
        for seconds, value in along[params["k"]]:
            yield seconds, {metric: value}

    return curve


def live(curves: Curves, *, workers: int, trials: int, mean_s: float) -> Result:
    """Return the same of one study with real processes, and what a simulation of it says."""
    import etude

    along = courses(curves, trials=trials, mean_s=mean_s)
    engine = etude.Simulated(curves=make_curve(curves.metric, along), workers=workers)

    def forms(kind: str, **how: Any) -> dict[str, waves.Went]:
        def run(*, name: str, **form: Any) -> Any:
            return waves.tune(
                curves.experiment(make_train(curves.metric, along)),
                {"k": list(range(trials))},
                trials=trials,
                start=[{"k": k} for k in range(trials)],
                workers=workers,
                name=f"{kind}-{name}",
                **form,
                **how,
            )

        return waves.four(run)

    found: Result = {}
    for kind, went in (("live", forms("live")), ("simulated", forms("simulated", engine=engine))):
        times = {form: each.makespan_s for form, each in went.items()}
        found |= {f"{kind}_{form}_s": time for form, time in times.items()}
        found[f"{kind}_asynchrony"] = times["async"] / times["waves"]
        found[f"{kind}_stopping"] = times["waves_median"] / times["waves"]
        found[f"{kind}_both"] = times["async_median"] / times["waves"]
        found[f"{kind}_share_of_asynchrony"] = shares.share_of_asynchrony(times)
        found[f"{kind}_stopped"] = went["async_median"].stopped
    return found


# --- ASHA -----------------------------------------------------------------------------------------

ASHA: Final = (
    ("makespan_s", "s", 0),
    ("speed_up", "x", 1),
    ("speed_up_95", "x", 1),
    ("utilisation", "", 3),
    ("best", "", 4),
)
"""What is told of it: name, unit, digits."""


def asha(curves: Curves, *, workers: int, trials: int, seeds: int) -> Result:
    """Return how far more workers help ASHA, some of which are slow, and some of whose attempts are lost.

    One worker alone is none of the slow ones: else the speed-up would tell how slow it happens to be.
    """
    import etude

    experiment = curves.experiment(nothing)
    source = etude.RecordedCurves(curves.records)
    values: dict[str, list[float]] = {name: [] for name in ("lost", *(name for name, _, _ in ASHA))}
    for seed in range(seeds):

        def run(many: int, name: str, seed: int = seed) -> Any:
            slow: dict[str, Any] = {"stragglers": STRAGGLERS, "slowdown": SLOWDOWN} if many > 1 else {}
            engine = etude.Simulated(curves=source, workers=many, failures=FAILURES, seed=seed, **slow)
            return waves.tune(
                experiment, curves.space, trials=trials, workers=many, stopper="asha", engine=engine, seed=seed,
                name=f"{name}-{seed}",
            )  # fmt: skip

        alone = run(1, "alone")
        study = run(workers, "together") if workers > 1 else alone
        busy_s, lost = at_work(study)
        values["makespan_s"].append(study.makespan_s)
        values["speed_up"].append(alone.makespan_s / study.makespan_s)
        values["speed_up_95"].append(most_s(alone) / most_s(study))
        values["utilisation"].append(busy_s / (workers * study.makespan_s))
        values["best"].append(study.best.value)
        values["lost"].append(lost)
    found: Result = {}
    for name, each in values.items():
        found[f"asha_{name}"] = fmean(each)
        if name != "lost":
            found[f"asha_{name}_low"], found[f"asha_{name}_high"] = shares.interval(each)
    return {**found, "details": {"seeds": seeds, "trials": trials, **values}}


def most_s(study: Any, share: float = 0.95) -> float:
    """Return when so many of a study's trials had ended."""
    ends = sorted(trial.ended_at for trial in study.trials)
    return float(ends[math.ceil(share * len(ends)) - 1])


def at_work(study: Any) -> tuple[float, int]:
    """Return the seconds for which all attempts of a study held a worker, and how many attempts were lost."""
    from etude.core.events import Assigned, Settled
    from etude.core.lifecycle import Turn
    from etude.store.journal import Journal

    journal = Journal.read(study.folder)
    try:
        begun: dict[tuple[int, int], float] = {}
        busy_s, lost = 0.0, 0
        for fact in journal.facts():
            if isinstance(fact, Assigned):
                begun[fact.trial, fact.attempt] = fact.at
            elif isinstance(fact, Settled) and fact.attempt is not None:
                busy_s += fact.at - begun.pop((fact.trial, fact.attempt))
                lost += fact.turn in (Turn.LOST, Turn.GIVEN_UP)  # the last of a trial's losses is the latter
    finally:
        journal.close()
    return busy_s, lost


LIVE: Final = ("asynchrony", "stopping", "both", "share_of_asynchrony")
FORM_SECONDS: Final = tuple(f"{form}_s" for form in waves.FORMS)
BENCHMARK = Benchmark(
    name="asynchrony",
    cells=cells,
    work=work,
    quantities=(
        *shares.quantities(),
        *(Quantity(f"{kind}_{name}", "", 3) for name in LIVE for kind in ("live", "simulated")),
        *(Quantity(f"{kind}_{name}", "s", 2) for name in FORM_SECONDS for kind in ("live", "simulated")),
        *(Quantity(f"{kind}_stopped", "", 0) for kind in ("live", "simulated")),
        *(Quantity(f"asha_{name}{end}", unit, digits) for name, unit, digits in ASHA for end in ("", "_low", "_high")),
        Quantity("asha_lost", "", 0),
    ),
    targets=(),
    note=(
        "Times over those of the waves without a rule, of the same configurations. low and high bound the mean over\n"
        "seeds (bootstrap, 95 %). share_of_asynchrony: of the cut in time, on a logarithmic scale, averaged over\n"
        "which of the two comes first; the rest is the median rule's. change: how much better the best value of\n"
        "async_median is than that of waves. How much asynchrony gives is the workload: the run times of these 265\n"
        "networks differ widely, and waves wait for the longest in each. Simulated rows are deterministic.\n"
        "live: 32 trials that sleep, with the curves' run times made short; simulated: the same study in virtual\n"
        "time, at no cost for anything.\n"
        f"ASHA: the form that stops, {ASHA_TRIALS:,} trials, random search, {ASHA_SEEDS} seeds; 10 % of the workers\n"
        "take 2 to 10 times as long; 5 % of the attempts would be lost at some moment of their full length, and most\n"
        "are stopped before: lost says how many were. speed_up is over one worker that is not slow; speed_up_95 until\n"
        "95 % of the trials have ended, many of them early: it leaves out the long ones that are still at work, and\n"
        "so can be above the number of workers."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
