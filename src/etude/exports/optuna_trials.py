"""Trials as Optuna has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from optuna.trial import FrozenTrial, TrialState

from etude.core.lifecycle import State
from etude.core.text import count
from etude.exports.optuna_space import LONGEST, Configurations
from etude.exports.told import Study, Trial

OURS: Final = "etude."
"""What the names of our user attributes begin with."""

TRIAL: Final = "etude.trial"

STATES: Final[Mapping[State, TrialState]] = {
    State.QUEUED: TrialState.WAITING,
    State.RUNNING: TrialState.RUNNING,
    State.STOPPING: TrialState.RUNNING,
    State.PAUSED: TrialState.RUNNING,
    State.FINISHED: TrialState.COMPLETE,
    State.STOPPED: TrialState.PRUNED,
    State.FAILED: TrialState.FAIL,
    State.INVALID: TrialState.FAIL,
}
"""What a state is called there; a trial that finished with NaN has failed there, since it may have no such value."""


def trials_of(study: Study) -> tuple[list[FrozenTrial], tuple[str, ...]]:
    """Return the trials of a study as Optuna has them, and what is to be told of that."""
    configurations = Configurations(study)
    found = [_trial(trial, study, configurations) for trial in study.trials]
    lost = sum(
        trial.state is State.FINISHED and one.state is TrialState.FAIL
        for trial, one in zip(study.trials, found, strict=True)
    )
    told = (
        (f"{count(lost, 'trial')} came to NaN, which no trial of Optuna's can: there they have failed.",)
        if lost
        else ()
    )
    return found, (*configurations.notes, *told)


def _trial(trial: Trial, study: Study, configurations: Configurations) -> FrozenTrial:
    params, distributions = configurations.of(trial.number)
    curve = {point.step: value for point in trial.points if (value := point.metrics.get(study.watched)) is not None}
    values, state = _values(trial, study, curve), STATES[trial.state]
    if state is TrialState.COMPLETE and values is None:
        state = TrialState.FAIL
    waits = state is TrialState.WAITING
    ended = trial.ended_at if trial.ended_at is not None else trial.begins_at
    return FrozenTrial(
        number=trial.number,
        trial_id=-1,  # the storage gives it one
        state=state,
        value=None,
        values=values,
        datetime_start=None if waits else datetime.fromtimestamp(trial.begins_at),  # its times are local
        datetime_complete=datetime.fromtimestamp(ended) if state.is_finished() else None,
        params=params,
        distributions=distributions,
        user_attrs=_attributes(trial, study),
        system_attrs={},
        intermediate_values=curve,
    )


def _values(trial: Trial, study: Study, curve: Mapping[int, float]) -> list[float] | None:
    """Return what a trial came to; what was stopped early has its last report, as with Optuna's own rules."""
    if trial.state is State.FINISHED:
        values = [trial.values[name] for name in study.modes]
        return None if any(map(math.isnan, values)) else values
    if trial.state is State.STOPPED and curve and list(study.modes) == [study.watched]:
        last = curve[max(curve)]
        return None if math.isnan(last) else [last]
    return None


def _attributes(trial: Trial, study: Study) -> dict[str, Any]:
    """Return what Optuna has no place for otherwise, as user attributes."""
    others: dict[str, list[list[Any]]] = {}
    for point in trial.points:
        for name, value in point.metrics.items():
            if name != study.watched:
                others.setdefault(name, []).append([point.step, plain(value)])
    failed = {"value": plain(list(trial.values.values()))} if any(map(math.isnan, trial.values.values())) else {}
    told = {
        "trial": trial.number,
        "state": trial.state.value,
        "seed": trial.seed,
        **trial.facts,
        **failed,
        **{f"returned.{name}": plain(value) for name, value in trial.returned.items()},
        **{f"reports.{name}": rows for name, rows in others.items()},
    }
    return {f"{OURS}{name}"[:LONGEST]: value for name, value in told.items()}


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it, also for browsers.

    Example:
        >>> plain({"a": (1, float("nan"))})
        {'a': [1, 'nan']}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
