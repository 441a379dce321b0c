"""A study for Optuna, and so for its dashboard: in a database, or in a journal file of Optuna's.

What lies there under the study's name is brought up to date, if an export of this study wrote it. In a database the
trials keep their rows, so that a dashboard that is open sees them change. A journal file only grows, and what is told
in it last is that the study was removed and made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from etude.core.errors import ConfigError, EtudeError
from etude.exports import optuna_database
from etude.exports.optuna_journal import Buffered, opened
from etude.exports.optuna_trials import OURS, TRIAL, trials_of
from etude.exports.targets import is_url, sqlite_url, taken_by_another, without_password
from etude.exports.told import Exported, Study

STUDY: Final = "etude.study"
CONTENT: Final = "etude.content"
DIRECTIONS: Final = {"max": StudyDirection.MAXIMIZE, "min": StudyDirection.MINIMIZE}


def write(study: Study, into: str | os.PathLike[str], *, name: str) -> Exported:
    """Write a study into a storage of Optuna's.

    Raises:
        ConfigError: It cannot be opened or written, or another study has that name there.
    """
    trials, notes = trials_of(study)
    with _quiet():
        url = os.fspath(into) if is_url(into) else sqlite_url(_path(into))
        if url is not None:
            place, shown = _into_database(url, study, trials, name), without_password(url)
        else:
            place = shown = _into_journal(Path(into), study, trials, name)
    return Exported("optuna", place, name, len(trials), f"optuna-dashboard {shown}", notes)


def _path(into: str | os.PathLike[str]) -> Path:
    """Return the path of a file that can be there.

    Raises:
        ConfigError: It is a folder, or its folder cannot be made.
    """
    path = Path(into)
    if path.is_dir():
        raise ConfigError(
            f"into={os.fspath(into)!r} is a folder. Pass a file in it, such as {str(path / 'optuna.db')!r} or "
            f"{str(path / 'optuna.log')!r}."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Pass another place, into=....") from error
    return path


# --- a database -----------------------------------------------------------------------------------


def _into_database(url: str, study: Study, trials: list[FrozenTrial], name: str) -> str:
    from sqlalchemy.exc import SQLAlchemyError

    shown = without_password(url)
    try:
        storage = RDBStorage(url)
        try:
            there = _there(storage, study, name, shown)
            if there is not None and storage.get_study_user_attrs(there).get(CONTENT) == _digest(trials):
                return shown
            if optuna_database.is_known(storage):
                made = there if there is not None else _create(storage, study, name)
                optuna_database.put(storage, made, trials, ours=OURS)
            else:  # of a version of Optuna that keeps trials otherwise
                if there is not None:
                    storage.delete_study(there)
                _create(storage, study, name)
                optuna.load_study(study_name=name, storage=storage).add_trials(trials)
            _describe(storage, study, name, trials)
        finally:
            storage.remove_session()
            storage.engine.dispose()
    except EtudeError:
        raise
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError, ImportError, OSError, RuntimeError) as error:
        why = without_password(str(error.__cause__ or error)).splitlines()[0].rstrip(".")
        raise ConfigError(
            f"{shown} cannot be written as a storage of Optuna's: {why}. Pass the URL of a database that it can use, "
            "such as 'sqlite:///optuna.db', or the path of a journal file."
        ) from error
    return shown


# --- a journal file -------------------------------------------------------------------------------


def _into_journal(path: Path, study: Study, trials: list[FrozenTrial], name: str) -> str:
    backend = Buffered(opened(path), path)
    storage = JournalStorage(backend)
    there = _there(storage, study, name, str(path))
    if there is not None:
        if storage.get_study_user_attrs(there).get(CONTENT) == _digest(trials):
            return str(path)
        storage.delete_study(there)
    _create(storage, study, name)
    optuna.load_study(study_name=name, storage=storage).add_trials(trials)
    _describe(storage, study, name, trials)
    backend.flush()
    return str(path)


# --- what both have -------------------------------------------------------------------------------


def _there(storage: BaseStorage, study: Study, name: str, place: str) -> int | None:
    """Return the number of what an earlier export wrote; None if nothing did.

    Raises:
        ConfigError: Something else has that name, or others have added trials.
    """
    try:
        number = storage.get_study_id_from_name(name)
    except KeyError:
        return None
    if storage.get_study_user_attrs(number).get(STUDY) != study.identity:
        raise taken_by_another(name, place, what="a study")
    foreign = _foreign(storage, number)
    if foreign is not None:
        raise ConfigError(
            f"In {place} trials were added to {name!r} that did not come of this study, trial {foreign} the first. "
            "They would be lost. Pass another name for this export, name=..., or another place."
        )
    return number


def _foreign(storage: BaseStorage, number: int) -> int | None:
    """Return the first trial of a study that no export wrote; None if all were."""
    if isinstance(storage, RDBStorage) and optuna_database.is_known(storage):
        return optuna_database.without(storage, number, TRIAL)
    trials = storage.get_all_trials(number, deepcopy=False)
    return next((trial.number for trial in trials if TRIAL not in trial.user_attrs), None)


def _create(storage: BaseStorage, study: Study, name: str) -> int:
    """Make the study, and say at once whose it is."""
    directions = [DIRECTIONS[mode] for mode in study.modes.values()]
    made = optuna.create_study(storage=storage, study_name=name, directions=directions)
    made.set_user_attr(STUDY, study.identity)
    number: int = made._study_id
    return number


def _describe(storage: BaseStorage, study: Study, name: str, trials: list[FrozenTrial]) -> None:
    """Say what there is to say of a study; its content last, so that it stands there only if all is."""
    made = optuna.load_study(study_name=name, storage=storage)
    made.set_metric_names(list(study.modes))
    for fact, value in study.facts.items():
        made.set_user_attr(f"{OURS}{fact}", value)
    made.set_user_attr(CONTENT, _digest(trials))


def _digest(trials: list[FrozenTrial]) -> str:
    told = [
        {
            **vars(trial),
            "_trial_id": None,
            "_distributions": {name: str(one) for name, one in trial.distributions.items()},
        }
        for trial in trials
    ]
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Have Optuna tell nobody of studies that it makes, nor that metrics with names are new to it."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(level)
