"""Many trials into a database of Optuna's at once.

``study.add_trials`` asks the database several times for each value, and waits for the disk after each trial. Here all
are one transaction, through Optuna's own tables. What those look like is known for the versions of its schema that are
named here; in another one ``exports.optuna`` goes the slow way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from optuna.distributions import BaseDistribution, distribution_to_json
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial

from etude.exports.optuna_trials import plain

SCHEMAS: Final = frozenset({"v3.2.0.a"})
"""Versions of the schema that are known, as Optuna calls them."""

Rows = dict[Any, list[dict[str, Any]]]
"""Model of a table -> rows to insert."""


def is_known(storage: RDBStorage) -> bool:
    """Say whether the tables of a storage are those that are known here."""
    return storage.get_current_version() in SCHEMAS


def without(storage: RDBStorage, study: int, attribute: str) -> int | None:
    """Return the first trial of a study that lacks a user attribute, without reading all trials; None if none does."""
    from optuna.storages._rdb import models
    from sqlalchemy import func, select

    trials, attributes = models.TrialModel, models.TrialUserAttributeModel
    has = select(attributes.trial_id).where(attributes.key == attribute)
    lacking = select(func.min(trials.number)).where(trials.study_id == study, trials.trial_id.not_in(has))
    with storage.engine.connect() as connection:
        found: int | None = connection.execute(lacking).scalar()
    return found


def put(storage: RDBStorage, study: int, trials: Sequence[FrozenTrial], *, ours: str) -> None:
    """Have the trials of a study be these, in one transaction.

    A trial with a number that is there already keeps its row, and those user attributes that are not ours.

    Args:
        storage: The database.
        study: The study's number in it.
        trials: Its trials.
        ours: What the names of our user attributes begin with.
    """
    from optuna.storages._rdb import models
    from sqlalchemy import delete, insert, select
    from sqlalchemy.orm import Session

    with Session(storage.engine) as session, session.begin():
        there: dict[int, Any] = dict(_numbered(session.query(models.TrialModel).filter_by(study_id=study)))
        known = select(models.TrialModel.trial_id).where(models.TrialModel.study_id == study)
        for model in _children(models) if there else ():
            session.execute(delete(model).where(model.trial_id.in_(known)).execution_options(synchronize_session=False))
        if there:
            attributes = models.TrialUserAttributeModel
            mine = attributes.trial_id.in_(known) & attributes.key.startswith(ours, autoescape=True)
            session.execute(delete(attributes).where(mine).execution_options(synchronize_session=False))
        for trial in trials:
            row = there.get(trial.number)
            if row is None:
                row = there[trial.number] = models.TrialModel(study_id=study, number=trial.number)
                session.add(row)
            row.state, row.datetime_start = trial.state, trial.datetime_start
            row.datetime_complete = trial.datetime_complete
        session.flush()
        ids = {number: row.trial_id for number, row in there.items()}
        for model, rows in _rows(models, trials, ids).items():
            session.connection().execute(insert(model.__table__), rows)


def _numbered(rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    return ((row.number, row) for row in rows)


def _children(models: Any) -> tuple[Any, ...]:
    return (models.TrialParamModel, models.TrialValueModel, models.TrialIntermediateValueModel)


def _rows(models: Any, trials: Sequence[FrozenTrial], ids: dict[int, int]) -> Rows:
    """Return the rows of all tables but that of the trials themselves."""
    as_json = _once(distribution_to_json)
    found: Rows = {}
    for trial in trials:
        for model, row in _of_trial(models, trial, as_json):
            found.setdefault(model, []).append({"trial_id": ids[trial.number], **row})
    return found


def _of_trial(
    models: Any, trial: FrozenTrial, as_json: Callable[[BaseDistribution], str]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    for name, value in trial.params.items():
        distribution = trial.distributions[name]
        told = {"param_value": distribution.to_internal_repr(value), "distribution_json": as_json(distribution)}
        yield models.TrialParamModel, {"param_name": name, **told}
    for nth, value in enumerate(trial.values or ()):
        stored, kind = models.TrialValueModel.value_to_stored_repr(value)
        yield models.TrialValueModel, {"objective": nth, "value": stored, "value_type": kind}
    for step, value in trial.intermediate_values.items():
        stored, kind = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr(value)
        told = {"intermediate_value": stored, "intermediate_value_type": kind}
        yield models.TrialIntermediateValueModel, {"step": step, **told}
    for key, value in trial.user_attrs.items():
        yield models.TrialUserAttributeModel, {"key": key, "value_json": json.dumps(plain(value))}


def _once(told: Callable[[BaseDistribution], str]) -> Callable[[BaseDistribution], str]:
    """Return the same function, asked once for each object: many trials share one distribution."""
    known: dict[int, str] = {}

    def of(distribution: BaseDistribution) -> str:
        found = known.get(id(distribution))
        if found is None:
            found = known[id(distribution)] = told(distribution)
        return found

    return of
