"""The peer that we run beside ourselves: Optuna, with threads, or with processes over one of its storages."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.common import DROP, LR, OPT, UNITS

STORAGES: Final = ("journal", "sqlite")
KINDS: Final = ("threads", *STORAGES)

Make = Callable[..., Callable[..., float]]
"""Makes a training function out of plain arguments, in whichever process it is wanted."""


def run(
    kind: str,
    make: Make,
    arguments: tuple[Any, ...],
    *,
    trials: int,
    workers: int,
    work: Path,
    pruner: str | None = None,
) -> None:
    """Run ``trials`` random trials of ``make(*arguments)``.

    Args:
        kind: ``"threads"`` (in memory, no isolation), or processes over ``"journal"`` or ``"sqlite"``.
        make: A function of a module, so that a spawned process finds it.
        arguments: What it is called with.
        trials: How many trials.
        workers: How many at a time.
        work: Folder for the storage.
        pruner: A rule that stops trials, by our name: then the function is given a ``run`` to report to, and more is
            better.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(
        study_name="s",
        storage=storage(kind, work),
        sampler=sampler,
        pruner=_pruner(pruner),
        direction="minimize" if pruner is None else "maximize",
    )
    if kind == "threads":
        study.optimize(_objective(make(*arguments), reports=pruner is not None), n_trials=trials, n_jobs=workers)
        return
    spawn = multiprocessing.get_context("spawn")
    processes = [
        spawn.Process(
            target=_worker,
            args=(kind, make, arguments),
            kwargs={"trials": trials, "nth": nth, "work": work, "pruner": pruner},
        )
        for nth in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def storage(kind: str, work: Path) -> Any:
    """Return one of Optuna's storages in a folder; None for the one in memory."""
    import optuna

    if kind == "sqlite":
        return f"sqlite:///{work}/optuna.sqlite3"
    if kind == "journal":
        from optuna.storages.journal import JournalFileBackend

        return optuna.storages.JournalStorage(JournalFileBackend(f"{work}/optuna.log"))
    return None


def _worker(
    kind: str, make: Make, arguments: tuple[Any, ...], *, trials: int, nth: int, work: Path, pruner: str | None
) -> None:
    import optuna
    from optuna.study import MaxTrialsCallback
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(
        study_name="s",
        storage=storage(kind, work),
        sampler=optuna.samplers.RandomSampler(seed=nth),
        pruner=_pruner(pruner),
    )
    enough = MaxTrialsCallback(trials, states=(TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING))
    study.optimize(_objective(make(*arguments), reports=pruner is not None), callbacks=[enough])


def _pruner(rule: str | None) -> Any:
    """Return Optuna's form of one of our rules."""
    from optuna import pruners

    match rule:
        case "median-best":
            return pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=0)
        case "asha":
            return pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
        case "hyperband":
            return pruners.HyperbandPruner(min_resource=1, max_resource=30, reduction_factor=3)
    return pruners.NopPruner()


class _Run:
    """What a function reports to; a stop is raised there."""

    def __init__(self, trial: Any) -> None:
        self._trial = trial
        self._step = 0

    def report(self, *, y: float) -> None:
        from optuna import TrialPruned

        self._step += 1
        self._trial.report(y, self._step)
        if self._trial.should_prune():
            raise TrialPruned


def _objective(train: Callable[..., float], *, reports: bool) -> Callable[[Any], float]:
    def objective(trial: Any) -> float:
        return train(
            lr=trial.suggest_float("lr", *LR, log=True),
            drop=trial.suggest_float("drop", *DROP),
            units=trial.suggest_int("units", *UNITS),
            opt=trial.suggest_categorical("opt", OPT),
            **({"run": _Run(trial)} if reports else {}),
        )

    return objective
