"""Measures a workload: searches, trains from each start with each seed, and returns all that was reported.

What is returned is plain (``judged`` says what it means), so that it can be written down, and rules that choose between
the starts can be tried on it without training anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import etude
from benchmarks.live.training import experiment
from benchmarks.live.workload import PART, Workload

TRIALS: Final = 10
WORKERS: Final = 2
SEARCH_SEED: Final = 1000
"""All trials of a search have it, and no final run."""

RANDOM: Final = "random"
STARTS: Final = (RANDOM, "best", "early", "shrunk", "soup")
"""Random weights; the winner's after its best epoch; after an early one; the former, shrunk and perturbed; and the mean
of the best ones of the three best trials."""

OFFERED: Final = ("best", "shrunk", "soup")
"""What ``weights="auto"`` chooses from, as it does where nobody says what; and random weights."""


def measure(
    workload: Workload,
    *,
    seeds: Sequence[int],
    search_seed: int = SEARCH_SEED,
    trials: int = TRIALS,
    looks: bool = False,
) -> dict[str, Any]:
    """Return what was reported by the trials of a search, and by the final runs from each start.

    Args:
        workload: What is trained.
        seeds: Those of the final runs.
        search_seed: Of the search and its trials.
        trials: Of the search.
        looks: Whether the final runs are looked at within their first epoch.
    """
    trained = experiment(workload)
    search = trained.tune(
        {**workload.space, **workload.fixed, "epochs": workload.search_epochs, "part": PART},
        trials=trials,
        workers=WORKERS,
        sampler="random",
        stopper="none",
        seed=search_seed,
        keep=etude.Keep(trials=3, epochs=("last", "best", workload.early)),
    )
    starts = starts_of(search, early=workload.early)
    at = {**search.best.params, "epochs": workload.epochs, "part": 1.0, "looks": looks}
    comparison = etude.compare_starts(
        trained,
        at=at,
        starts=list(starts.values()),
        seeds=seeds,
        target=workload.target,
        share=PART,
        validated=1 - PART,
        steps_per_epoch=float(workload.steps_per_epoch),
        workers=WORKERS,
    )
    runs = comparison.fit.trials
    found = {}
    for nth, (name, arm) in enumerate(zip([RANDOM, *starts], comparison.arms, strict=True)):
        of_it = runs[nth * len(seeds) : (nth + 1) * len(seeds)]
        cost = arm.charges.inherited
        found[name] = {
            "weights": arm.name,
            "inherited": {"epochs": cost.epochs, "steps": cost.steps},
            "runs": [
                {"seed": seed, **_reported(run), "seconds": _seconds(curve)}
                for seed, run, curve in zip(seeds, of_it, arm.curves, strict=True)
            ],
        }
    return {
        "workload": workload.name,
        "target": workload.target,
        "steps_per_epoch": workload.steps_per_epoch,
        "epochs": workload.epochs,
        "seeds": list(seeds),
        "params": search.best.params,
        "search": {
            "seed": search_seed,
            "best": search.best.number,
            "trials": [{"params": trial.params, **_reported(trial)} for trial in search.trials],
        },
        "starts": found,
        "auto": [] if looks else _chosen(trained, at, starts, found, seeds),
    }


def _chosen(
    trained: etude.Experiment,
    at: Mapping[str, Any],
    starts: Mapping[str, etude.Weights],
    found: Mapping[str, Any],
    seeds: Sequence[int],
) -> list[dict[str, Any]]:
    """Return, for each seed, which start ``weights="auto"`` took, and what its probes cost; it trains from there.

    Raises:
        RuntimeError: That was another run than the one from the same start with the same seed.
    """
    offered = {name: weights for name, weights in starts.items() if name in OFFERED}
    chosen = []
    for nth, seed in enumerate(seeds):
        fit = trained.fit(at=at, weights=etude.Auto(list(offered.values())), seed=seed, workers=WORKERS)
        names = [RANDOM, *offered]
        taken = names[[probe.start for probe in fit.probes].index(fit.best.start)]
        if _reported(fit.best) != {k: v for k, v in found[taken]["runs"][nth].items() if k not in ("seed", "seconds")}:
            raise RuntimeError(f"From {taken} with seed {seed}, auto trained otherwise than the run that began there.")
        told = [probe.probe for probe in fit.probes if probe.probe is not None]
        chosen.append(
            {
                "seed": seed,
                "start": taken,
                "why": fit.chosen,
                "portions": [probe["portion"] for probe in told],
                "probes": {name: probe["reported"] for name, probe in zip(names, told, strict=True)},
            }
        )
    return chosen


def starts_of(search: etude.Search, *, early: int) -> Mapping[str, etude.Weights]:
    """Return the weights to begin with, random ones aside; of those that are the same, the first."""
    best = search.best.weights
    found: dict[str, etude.Weights] = {"best": best}
    if best.epoch != early:
        found["early"] = best.at(early)
    return {**found, "shrunk": best.shrunk(), "soup": etude.soup(search.top(3))}


def _seconds(curve: Any) -> list[float] | None:
    """Return when each epoch of a run was over; None if that is not known."""
    passed = [round(spent.seconds, 3) for spent in curve.spent]
    return None if any(map(math.isnan, passed)) else passed


def _reported(trial: etude.TrialResult) -> dict[str, Any]:
    """Return what a trial's last attempt reported: a value of each metric for each epoch, and each look by itself."""
    epochs: dict[str, list[float]] = {"accuracy": [], "loss": [], "test": [], "train_loss": []}
    looks = []
    for report in trial.reports:
        if report.attempt != trial.attempts:
            continue
        if "look" in report.metrics:
            looks.append({name: round(value, 6) for name, value in report.metrics.items() if not math.isnan(value)})
        else:
            for name, values in epochs.items():
                values.append(round(report.metrics[name], 6))
    return {**epochs, **({"looks": looks} if looks else {})}
