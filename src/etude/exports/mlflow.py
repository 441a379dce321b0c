"""A study for MLflow: an experiment, and a run for each trial.

A run says by its tags which trial it is, and how many reports of which attempt it has. So an export that is repeated
adds what is new, and doubles nothing; of a trial that has begun anew the run is removed and made again. Each request
says with what it brings how far it is, so an export that was interrupted goes on where it was.

MLflow counts what it is used for, and sends that to its makers, from a thread of its own. An export is a copy from one
place of the user's to another, and nobody else's business: so it is switched off for as long as one takes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import posixpath
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from etude.core.errors import ConfigError
from etude.core.lifecycle import FINAL, State
from etude.core.text import shortened
from etude.exports.names import fitted, renamed
from etude.exports.targets import is_url, sqlite_url, taken_by_another, without_password
from etude.exports.told import Exported, Study, Trial, ended_with, words_of

SENDS_NOTHING: Final = "MLFLOW_DISABLE_TELEMETRY"
"""Variable of the environment by which MLflow counts and sends nothing."""

STUDY: Final = "etude.study"
TRIAL: Final = "etude.trial"
ATTEMPT: Final = "etude.attempt"
REPORTS: Final = "etude.reports"
STATE: Final = "etude.state"
NAMES: Final = "etude.names"

LONGEST_NAME: Final = 250
LONGEST_VALUE: Final = 6000
LONGEST_TAG: Final = 5000
MOST_METRICS: Final = 800
MOST_OTHERS: Final = 90
"""What MLflow takes, of names, values of parameters, and values of tags; and in one request."""

_ONE_AT_A_TIME: Final = threading.Lock()
"""What MLflow is told by way of the environment and of its loggers holds for a whole process."""

STATUS: Final[Mapping[State, str]] = {
    State.FINISHED: "FINISHED",
    State.STOPPED: "KILLED",
    State.FAILED: "FAILED",
    State.INVALID: "FAILED",
}
"""What a run is called that has ended; others are running, and one that waits is scheduled."""


def write(study: Study, into: str | os.PathLike[str] | None, *, name: str) -> Exported:
    """Write a study where a tracking URI leads, or where MLflow itself would write.

    Raises:
        ConfigError: Nothing can be written there, or another experiment has that name.
    """
    with _ONE_AT_A_TIME, _untold(), _quiet():
        return _write(study, into, name=name)


def _write(study: Study, into: str | os.PathLike[str] | None, *, name: str) -> Exported:
    import mlflow
    from mlflow.exceptions import MlflowException

    uri = _uri(into) if into is not None else mlflow.get_tracking_uri()
    parameters, metrics = fitted(study.parameters, allowed), fitted(study.reported, allowed)
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        experiment = _experiment(client, study, name, uri)
        there = _runs(client, experiment)
        for trial in study.trials:
            _Run(client, experiment, trial, parameters, metrics).update(there.get(trial.number))
        for key, value in _tags(study.facts).items():
            client.set_experiment_tag(experiment, key, value)
        changed = {made: given for found in (parameters, metrics) for given, made in found.items() if made != given}
        if changed:
            client.set_experiment_tag(experiment, NAMES, shortened(json.dumps(changed), LONGEST_TAG))
    except MlflowException as error:
        raise _refused(uri, error) from error
    notes = [
        *renamed(parameters, "parameter", target="MLflow"),
        *renamed(metrics, "metric", target="MLflow"),
        *_cut(study),
    ]
    shown = without_password(uri)
    look = shown if uri.startswith("http") else f"mlflow ui --backend-store-uri {shown}"
    return Exported("mlflow", shown, name, len(study.trials), look, tuple(notes))


def _uri(into: str | os.PathLike[str]) -> str:
    """Return the tracking URI that a place is; the path of a database is one as well."""
    if is_url(into) or ":" in os.fspath(into) or os.fspath(into) in ("databricks", "uc"):
        return os.fspath(into)
    path = Path(into)
    url = sqlite_url(path)
    if url is None:
        return os.fspath(into)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Pass another place, into=....") from error
    return url


def _refused(uri: str, error: Exception) -> ConfigError:
    shown, said = without_password(uri), without_password(str(error)).strip()
    why = said.splitlines()[0].rstrip(".") if said else type(error).__name__
    if "MLFLOW_ALLOW_FILE_STORE" in str(error):
        return ConfigError(
            f"{shown} is no database, and MLflow has ceased to develop its store of files: it writes there only if the "
            "environment has MLFLOW_ALLOW_FILE_STORE=true. Pass a database, such as into='sqlite:///mlflow.db'."
        )
    return ConfigError(
        f"MLflow cannot write to {shown}: {why}. Pass another tracking URI, such as 'sqlite:///mlflow.db'."
    )


def _experiment(client: Any, study: Study, name: str, uri: str) -> str:
    """Return the number of the study's experiment, which is made if there is none.

    Raises:
        ConfigError: There is another one of that name.
    """
    found = client.get_experiment_by_name(name)
    if found is None:
        return str(client.create_experiment(name, tags={STUDY: study.identity}))
    if found.tags.get(STUDY) != study.identity:
        raise taken_by_another(name, without_password(uri), what="an experiment")
    if found.lifecycle_stage != "active":
        raise ConfigError(
            f"The experiment {name!r} in {without_password(uri)} was deleted, and its name is not free before it is "
            "gone for good. Restore it, or pass another name, name=...."
        )
    return str(found.experiment_id)


def _runs(client: Any, experiment: str) -> dict[int, Any]:
    """Return the runs that an earlier export made, by trial."""
    found: dict[int, Any] = {}
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        found |= {int(run.data.tags[TRIAL]): run for run in page if TRIAL in run.data.tags}
        token = page.token
        if not token:
            return found


class _Entry(NamedTuple):
    """A value of a metric to write."""

    name: str
    value: float
    at: float
    step: int


class _Run:
    """The run of a trial."""

    def __init__(
        self, client: Any, experiment: str, trial: Trial, parameters: Mapping[str, str], metrics: Mapping[str, str]
    ) -> None:
        self._client = client
        self._experiment = experiment
        self._trial = trial
        self._parameters = parameters
        self._metrics = metrics

    def update(self, there: Any | None) -> None:
        """Have the run say what the trial has come to; nothing is done if it does."""
        trial = self._trial
        if there is not None:
            tags = there.data.tags
            if tags.get(STATE) == trial.state.value and trial.state in FINAL:
                return
            if tags.get(ATTEMPT) != str(trial.attempt) or int(tags.get(REPORTS, 0)) > len(trial.points):
                self._client.delete_run(there.info.run_id)  # it started over
                there = None
        run_id, known = (there.info.run_id, int(there.data.tags.get(REPORTS, 0))) if there else (self._create(), 0)
        self._log_parameters(run_id)  # to say them again changes nothing
        self._log_reports(run_id, known)
        self._end(run_id)

    def _create(self) -> str:
        trial = self._trial
        tags = {TRIAL: str(trial.number), ATTEMPT: str(trial.attempt), REPORTS: "0", "etude.seed": str(trial.seed)}
        run = self._client.create_run(
            self._experiment, start_time=_ms(trial.begins_at), tags=tags, run_name=f"trial {trial.number}"
        )
        return str(run.info.run_id)

    def _log_parameters(self, run_id: str) -> None:
        from mlflow.entities import Param

        found = [
            Param(self._parameters[name], shortened(str(value), LONGEST_VALUE))
            for name, value in self._trial.params.items()
        ]
        for part in _parts(found, MOST_OTHERS):
            self._client.log_batch(run_id, params=part)

    def _log_reports(self, run_id: str, known: int) -> None:
        """Write the reports that are not there yet; each request says how many there are after it."""
        from mlflow.entities import Metric, RunTag

        batch: list[Any] = []
        points = self._trial.points
        for nth, point in enumerate(points[known:], known + 1):
            entries = [
                _Entry(self._metrics[name], value, point.at, point.step) for name, value in point.metrics.items()
            ]
            batch += [Metric(one.name, one.value, _ms(one.at), one.step) for one in entries]
            if len(batch) >= MOST_METRICS or nth == len(points):
                self._client.log_batch(run_id, metrics=batch, tags=[RunTag(REPORTS, str(nth))])
                batch = []

    def _end(self, run_id: str) -> None:
        """Write what is known of a trial when it has ended, or how it stands; its state last."""
        from mlflow.entities import Metric, RunTag

        trial = self._trial
        ended = _ms(trial.ended_at if trial.ended_at is not None else trial.begins_at)
        last = [Metric(self._metrics[name], value, ended, trial.last_step) for name, value in ended_with(trial).items()]
        returned = {f"returned.{name}": str(value) for name, value in words_of(trial).items()}
        tags = [RunTag(key, value) for key, value in _tags({**trial.facts, **returned}).items()]
        for part in _parts(last, MOST_METRICS):
            self._client.log_batch(run_id, metrics=part)
        for part in _parts(tags, MOST_OTHERS):
            self._client.log_batch(run_id, tags=part)
        if trial.state in FINAL:
            self._client.set_terminated(run_id, STATUS[trial.state], end_time=ended)
        else:
            self._client.update_run(run_id, status="SCHEDULED" if trial.state is State.QUEUED else "RUNNING")
        self._client.set_tag(run_id, STATE, trial.state.value)


# --- what MLflow takes ----------------------------------------------------------------------------


def allowed(name: str) -> str:
    """Return a name as MLflow takes it for parameters and metrics: some characters, and no path that leads elsewhere.

    Example:
        >>> allowed("loss@val"), allowed("a//b"), allowed("optimizer.lr"), allowed("../x")
        ('loss_val', 'a/b', 'optimizer.lr', '_/x')
    """
    made = re.sub(r"[^/\w.\- ]", "_", name)
    made = posixpath.normpath(made).lstrip("/") if made.strip() else "_"
    made = "/".join("_" if part in (".", "..") else part for part in made.split("/")) or "_"
    return made[:LONGEST_NAME].rstrip("/")


def _tags(facts: Mapping[str, Any]) -> dict[str, str]:
    return {allowed(f"etude.{name}"): shortened(str(value), LONGEST_TAG) for name, value in facts.items()}


def _cut(study: Study) -> Iterator[str]:
    """Say which parameters have values that are too long."""
    long = {name for trial in study.trials for name, value in trial.params.items() if len(str(value)) > LONGEST_VALUE}
    if long:
        told = ", ".join(map(repr, sorted(long)))
        yield f"MLflow takes {LONGEST_VALUE:,} letters of a value, so longer ones of {told} are shortened there."


def _ms(at: float) -> int:
    return max(0, round(at * 1000))


def _parts(entries: Sequence[Any], most: int) -> Iterator[list[Any]]:
    rest = iter(entries)
    while part := list(islice(rest, most)):
        yield part


@contextlib.contextmanager
def _untold() -> Iterator[None]:
    """Have MLflow tell its makers nothing, unless the user has said how that is to be.

    It asks the environment when it is imported, where it would also write an identity of this installation below the
    user's home, and again at each call that it counts.
    """
    if SENDS_NOTHING in os.environ:
        yield
        return
    os.environ[SENDS_NOTHING] = "true"
    try:
        yield
    finally:
        os.environ.pop(SENDS_NOTHING, None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Have MLflow say neither that it makes its tables nor what it thinks of its libraries."""
    import mlflow  # noqa: F401 - it sets the levels of its loggers when it is imported

    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
