"""What a search tells of its parameters: how much each matters, what its values come to, the way to its best trial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from etude.analyse.budgets import BudgetCurve, budget_curve
from etude.analyse.columns import Column
from etude.analyse.effects import Effects, effects
from etude.analyse.importance import By, Importances, importance
from etude.analyse.steps import Steps, steps
from etude.core.errors import ConfigError, SpaceError, StudyError
from etude.core.events import Params
from etude.core.history import History, Trial
from etude.core.lifecycle import State
from etude.core.ranking import ranked
from etude.core.text import brief, count
from etude.results.placed import columns_of
from etude.tune.domains import Domain
from etude.tune.spaces import Space

Part = Literal["all", "random"]
PARTS = ("all", "random")


@dataclass(frozen=True)
class Sample:
    """The trials of a search that say something of its parameters.

    Attributes:
        trials: Those that came to a number, with the largest budget, by number.
        drawn: Which of them were drawn at random.
        values: What they came to.
        columns: What was varied.
        says: What should be said of any mean over them.
    """

    trials: list[Trial]
    drawn: Any
    values: Any
    columns: tuple[Column, ...]
    says: tuple[str, ...]


def sample(history: History, meta: Mapping[str, Any], *, part: Part = "all", beside: list[Any] | None = None) -> Sample:
    """Return the trials of a search that came to a number.

    Args:
        history: The search.
        meta: What was recorded about it.
        part: All of them, or those that were drawn at random.
        beside: Further configurations that get rows in the columns, after the trials.

    Raises:
        ConfigError: It is no search, or there is no such part.
    """
    import numpy as np

    question = meta.get("question") or {}
    if question.get("verb", "tune") != "tune":
        raise ConfigError("Importances and effects are of a search; of an ablation, see ablation.verdicts().")
    if part not in PARTS:
        raise ConfigError(f"part={brief(part)} is none. Pass 'all', or 'random' for trials that were drawn at random.")
    given = len(question.get("start") or [])
    known = sorted(ranked(list(history.finished), history.metrics), key=lambda trial: trial.number)
    known = [trial for trial in known if trial.value is not None and math.isfinite(trial.value)]
    by_chance = [trial.upto is None and trial.promotes is None and trial.number >= given for trial in known]
    if part == "random":
        known = [trial for trial, chance in zip(known, by_chance, strict=True) if chance]
        by_chance = [True] * len(known)
    params = [*(dict(trial.params) for trial in known), *(beside or [])]
    return Sample(
        known,
        np.array(by_chance, dtype=bool),
        np.array([trial.value for trial in known], dtype=np.float64),
        columns_of(question, params),
        tuple(_says(history, sum(by_chance), len(known))),
    )


def _says(history: History, drawn: int, known: int) -> list[str]:
    """Return what may be wrong with means over the trials that finished."""
    says = []
    if drawn < known:
        says.append(
            f"No random sample: {known - drawn:,} of {count(known, 'trial')} were proposed for what earlier ones came "
            f"to. part='random' takes the {drawn:,} others alone."
        )
    lost = [
        f"{n:,} {state.value}"
        for state in (State.STOPPED, State.FAILED)
        if (n := sum(trial.state is state and trial.same_as is None for trial in history.trials))
    ]
    if lost:
        says.append(f"Not in it: {' and '.join(lost)}, which may be those of some values (print search.threats()).")
    return says


def importance_of(
    history: History, meta: Mapping[str, Any], *, by: By, part: Part, intervals: bool, seed: int
) -> Importances:
    """Return how much each parameter of a search matters; see ``Search.importance``."""
    found = sample(history, meta, part=part)
    mode = history.metrics.modes[history.metrics.main]
    told = importance(found.columns, found.values, by=by, mode=mode, intervals=intervals, seed=seed)
    says = list(found.says)
    if by == "pedanova" and not bool(found.drawn.all()):
        says.append("PED-ANOVA asks where the best are among all trials, so it also tells where the sampler went.")
    return Importances(list(told), by=by, trials=told.trials, says=says)


def effects_of(
    history: History, meta: Mapping[str, Any], names: tuple[str, ...], *, part: Part, corrected: bool, seed: int
) -> Effects:
    """Return what values of parameters come to; see ``Search.effects``."""
    found = sample(history, meta, part=part)
    metrics = history.metrics
    return effects(
        found.columns,
        found.values,
        names,
        mode=metrics.modes[metrics.main],
        metric=metrics.main,
        drawn=found.drawn,
        corrected=corrected,
        says=found.says,
        seed=seed,
    )


def steps_of(history: History, meta: Mapping[str, Any], start: Mapping[str, Any], *, seed: int) -> Steps:
    """Return the way from a configuration to the best trial; see ``Search.steps``."""
    best = next(iter(ranked(list(history.finished), history.metrics)), None)
    if best is None:
        raise StudyError("No trial has finished, so there is no way to the best one.")
    whole = _where(meta, start, best.params)
    found = sample(history, meta, beside=[whole, dict(best.params)])
    metrics = history.metrics
    told = steps(found.columns, found.values, mode=metrics.modes[metrics.main], metric=metrics.main, seed=seed)
    return Steps(list(told), start=told.start, metric=told.metric, says=[*told.says, *found.says])


def _where(meta: Mapping[str, Any], start: Mapping[str, Any], best: Params) -> Params:
    """Return the configuration that a way starts with: what it leaves out is as in the best trial, if that has it.

    Raises:
        ConfigError: The space does not have it.
    """
    try:
        space = Space.from_dict((meta.get("question") or {})["space"])
    except (KeyError, TypeError, SpaceError):  # of a later version, or no search: whoever asks for its columns says so
        return dict(best)
    given = space.completed({name: value for name, value in start.items() if name in space.names}, best)

    def pick(path: str, domain: Domain) -> Any:
        name = path.rpartition("/")[2]
        if name not in given:
            return domain.grid(1)[0]  # under a value that the best trial has not: it goes with that, and is not shown
        if (fault := domain.why_not(given[name])) is not None:
            raise ConfigError(
                f"The way cannot start with {name}={brief(given[name])}, which {fault}: the space does not have it. "
                f"Pass another start, as in search.steps({{{name!r}: ...}})."
            )
        return given[name]

    return space.build(pick)


def budget_of(history: History, meta: Mapping[str, Any]) -> BudgetCurve:
    """Return what fewer trials would have come to; see ``Search.budget``."""
    found = sample(history, meta)
    metrics = history.metrics
    return budget_curve(found.values, mode=metrics.modes[metrics.main], random=bool(found.drawn.all()))
