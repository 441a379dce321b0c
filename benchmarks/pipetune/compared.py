"""The comparison of the paper, live: the same search four times, and the final training with what it found.

    v1        hyperparameters alone
    v2        threads and loader workers as hyperparameters, and accuracy over the seconds of an epoch for the metric
    fair v2   the same hyperparameters, by accuracy; of trials as good as the best, the quickest one is taken
    pipetune  hyperparameters alone, on a machine that is tuned meanwhile (``system=True``)

Searches are Hyperband's, with one trial at a time on the whole machine.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import etude
from benchmarks.pipetune.workloads import Workload

APPROACHES: Final = ("v1", "v2", "fair v2", "pipetune")
WATTS: Final = 15.0
"""Of a busy core: the same model for all, since only PipeTune's trials are metered."""
NEAR: Final = 0.005
"""Trials whose accuracy is less than the best by no more are as good."""


@dataclass(frozen=True)
class Came:
    """What came of a search, and of the final training.

    Attributes:
        tuning_s: Seconds of the search, from its first hand-out to its last end.
        accuracy: Of its best trial.
        epochs: Of all its trials.
        probes: How many of them tried a setting.
        epoch_s: Seconds of an epoch of the final training, without the first.
        final_accuracy: Of that.
        joules: Of the search, modelled.
        setting: Of the final training.
        path: Each trial of the search that was better than all before, by what it goes by: when it reported, in seconds
            of the search; its accuracy; seconds of its epochs.
    """

    tuning_s: float
    accuracy: float
    epochs: int
    probes: int
    epoch_s: float
    final_accuracy: float
    joules: float
    setting: Mapping[str, Any]
    path: Sequence[tuple[float, float, float]]


class Scored:
    """A run that reports the accuracy over the seconds of an epoch as well, and the seconds."""

    def __init__(self, run: Any) -> None:
        self._run, self._began_s, self._epochs = run, time.perf_counter(), 0

    def report(self, *, accuracy: float) -> None:
        """Report the accuracy, and the two others."""
        self._epochs += 1
        epoch_s = (time.perf_counter() - self._began_s) / self._epochs
        self._run.report(accuracy=accuracy, score=accuracy / epoch_s, epoch_s=epoch_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def scored(train: Callable[..., Any]) -> Callable[..., Any]:
    """Return a training function that reports these as well."""

    @functools.wraps(train)
    def with_scores(*args: Any, run: Any, **given: Any) -> Any:
        return train(*args, run=Scored(run), **given)

    return with_scores


def compare(
    workload: Workload,
    approach: str,
    *,
    most: int,
    seed: int,
    final_epochs: int,
    meanwhile: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> Came:
    """Search with an approach, and train with what it found.

    Args:
        workload: What is trained.
        approach: One of ``APPROACHES``.
        most: Epochs of the longest trials.
        seed: Of the search.
        final_epochs: Of the final training.
        meanwhile: What goes on beside the search, and is over before the final training.
    """
    metric = "score" if approach == "v2" else "accuracy"
    experiment = etude.Experiment(
        scored(workload.train), model=workload.model, data=workload.data, metric=metric, mode="max"
    )
    space = {**workload.space, **dict(workload.fixed), **(system_space(workload) if "v2" in approach else {})}
    named = f"{approach.replace(' ', '-')}-{seed}"
    system = etude.System(history=False, ledger=False) if approach == "pipetune" else None
    with meanwhile():
        search = experiment.tune(
            space,
            sampler="random",
            stopper="hyperband",
            fidelity="epochs",
            budget=(1, most),
            seed=seed,
            workers=1,
            name=f"search-{named}",
            system=system,
            progress=False,
        )
    best = chosen(search, fair=approach == "fair v2")
    at: Any = best
    if approach != "pipetune":
        at = {**best.params, "epochs": final_epochs}
    final = experiment.fit(at=at, name=f"final-{named}", workers=1, progress=False)
    (trained,) = final.trials
    cpu_s = sum(trial.usage.cpu_s for trial in search.trials if trial.usage is not None)
    return Came(
        search.makespan_s or 0.0,
        accuracy_of(best),
        sum(len(trial.curve) for trial in search.trials),
        sum(use.probes for use in search.machines.uses),
        epoch_seconds(trained),
        accuracy_of(trained),
        WATTS * cpu_s,
        best.system
        if approach == "pipetune"
        else {name: best.params[name] for name in system_space(workload) if name in best.params},
        path_of([report for trial in search.trials for report in trial.reports], metric),
    )


def path_of(reports: Sequence[Any], metric: str) -> list[tuple[float, float, float]]:
    """Return what was better than all before, of the reports of a search; see ``Came``."""
    ordered = sorted(reports, key=lambda report: report.at)
    found, best = [], float("-inf")
    began_s = min((report.at - report.metrics["epoch_s"] for report in ordered if report.step == 1), default=0.0)
    for report in ordered:
        told = report.metrics
        if told[metric] > best:
            best = told[metric]
            found.append((report.at - began_s, told["accuracy"], told["epoch_s"]))
    return found


def system_space(workload: Workload) -> dict[str, object]:
    """Return the system parameters of V2, as hyperparameters."""
    from etude.worker.processes import available_cores

    cores = available_cores()
    found: dict[str, object] = {"threads": list(range(1, cores + 1))}
    if workload.data is not None:
        found["loader_workers"] = [0, *range(1, cores + 1)]
    return found


def chosen(search: Any, *, fair: bool) -> Any:
    """Return the best trial; if it is to be fair, the quickest of those that are as good by accuracy."""
    best = search.best
    if not fair:
        return best
    longest = max(len(trial.curve) for trial in search.trials if trial.state == "finished")
    near = [
        trial
        for trial in search.trials
        if trial.state == "finished" and len(trial.curve) == longest and trial.value >= best.value - NEAR
    ]
    return min(near, key=lambda trial: trial.reports[-1].metrics["epoch_s"], default=best)


def accuracy_of(trial: Any) -> float:
    """Return the accuracy of a trial, whatever its study goes by."""
    return float(trial.reports[-1].metrics["accuracy"])


def epoch_seconds(trial: Any) -> float:
    """Return the seconds of an epoch of a trial, without its first one."""
    at = [report.at for report in trial.reports]
    return float(at[-1] - at[0]) / (len(at) - 1)
