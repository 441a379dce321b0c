"""A study for TensorBoard: each trial is a run with its curves, and a session of the HParams plugin.

The files are written as TensorBoard's own writers would, which need no TensorFlow. A trial has one file, and the same
trial always gives the same bytes: what an earlier export wrote is the beginning of what there is now, and only the rest
is appended, so that a TensorBoard that is open sees a running study grow.

No definition of the experiment is written (``hparams_config``): TensorBoard takes one per folder, and finds out by
itself what the sessions have in common. So several studies can lie in one folder.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.lifecycle import State
from etude.exports.names import fitted, renamed
from etude.exports.targets import is_url, taken_by_another
from etude.exports.told import Exported, Study, Trial, ended_with, words_of

FILE: Final = "events.out.tfevents.0.etude"
"""TensorBoard reads files with ``tfevents`` in their names; a fixed name is what makes an export repeatable."""

MARK: Final = "etude-study"
"""Says of which study a folder is."""

WHOLE: Final = 2**53
"""Numbers of TensorBoard's are floats: larger whole numbers are written as texts."""


def write(study: Study, into: str | os.PathLike[str], *, name: str) -> Exported:
    """Write a study below a folder that TensorBoard looks at, each trial into a folder of its own.

    Trials that wait to be run are left out until they have begun.

    Raises:
        ConfigError: It is no place for files, or another study is there.
    """
    if is_url(into):
        raise ConfigError(
            f"into={os.fspath(into)!r} is a URL, and TensorBoard's files are written to folders. Pass a folder, such "
            "as 'runs'."
        )
    root, place = Path(into), Path(into) / name
    if Path(name).name != name or name == "..":
        raise ConfigError(f"name={name!r} is no name of a folder. Pass one without slashes.")
    tags, notes = _tags(study)
    begun = [trial for trial in study.trials if trial.state is not State.QUEUED]
    try:
        place.mkdir(parents=True, exist_ok=True)
        _claim(place, study.identity, name)
        hparams = _hparams(study)
        for trial in begun:
            folder = place / f"trial-{trial.number:05d}"
            folder.mkdir(exist_ok=True)
            _update(folder / FILE, _records(_events(trial, f"{name}/{trial.number}", hparams[trial.number], tags)))
    except OSError as error:
        raise ConfigError(f"{place} cannot be written: {error.strerror}. Pass another folder, into=....") from error
    return Exported("tensorboard", str(place), name, len(begun), f"tensorboard --logdir {root}", tuple(notes))


def _claim(place: Path, identity: str, name: str) -> None:
    """Say whose folder this is, unless somebody else has."""
    mark = place / MARK
    if not mark.exists() and not any(place.iterdir()):
        mark.write_text(identity)
    elif not mark.exists() or mark.read_text() != identity:
        raise taken_by_another(name, str(place.parent), what="a folder")


def _tags(study: Study) -> tuple[dict[str, str], list[str]]:
    """Return what each metric is called, and what is to be told of it: a tag without letters shows as nothing."""
    tags = fitted(study.reported, lambda metric: metric if metric.strip() else "unnamed")
    return tags, renamed(tags, "metric", target="TensorBoard")


def _hparams(study: Study) -> dict[int, dict[str, bool | float | str]]:
    """Return the hyperparameters of each trial as the plugin takes them: each of one kind in all trials.

    Beside the parameters there are the arm and the seed, where trials differ in them.
    """
    rows = {trial.number: {name: _plain(value) for name, value in trial.params.items()} for trial in study.trials}
    parameters = study.parameters
    kinds: dict[str, set[type]] = {name: set() for name in parameters}
    for row in rows.values():
        for name, value in row.items():
            kinds[name].add(float if type(value) is int else type(value))
    for row in rows.values():
        row |= {name: str(value) for name, value in row.items() if len(kinds[name]) > 1}
    arms = {trial.number: trial.facts.get("arm", "") for trial in study.trials}
    seeds = {trial.number: trial.seed for trial in study.trials}
    for name, column in (("arm", arms), ("seed", seeds)):
        if len(set(column.values())) > 1:
            for number, value in column.items():
                rows[number][f"etude.{name}" if name in parameters else name] = _plain(value)
    return rows


def _plain(value: Any) -> bool | float | str:
    """Return a value as the plugin takes it: what is neither a number nor True or False is a text."""
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < WHOLE):
        return value
    return str(value)


# --- what is written of a trial -------------------------------------------------------------------


def _events(trial: Trial, group: str, hparams: Mapping[str, Any], tags: Mapping[str, str]) -> Iterator[Any]:
    """Yield the events of a trial, in an order in which later exports only add to them."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    began = trial.begins_at
    yield Event(wall_time=began, file_version="brain.Event:2")
    session = hparams_pb(dict(hparams), trial_id=group, start_time_secs=began)
    yield Event(wall_time=began, summary=session)
    for point in trial.points:
        yield Event(wall_time=point.at, step=point.step, summary=_scalars(point.metrics, tags))
    status = _status(trial.state)
    if status is None:
        return
    ended = trial.ended_at if trial.ended_at is not None else began
    if (rest := ended_with(trial)) and trial.state is State.FINISHED:
        yield Event(wall_time=ended, step=trial.last_step, summary=_scalars(rest, tags))
    yield Event(wall_time=ended, step=trial.last_step, summary=_text("trial", _said(trial)))
    yield Event(wall_time=ended, summary=_session_end(status, ended))


def _status(state: State) -> Any:
    """Return how a session ended, None if it goes on; one that was stopped early was no success, and no failure."""
    from tensorboard.plugins.hparams import api_pb2

    ends = {
        State.FINISHED: api_pb2.STATUS_SUCCESS,
        State.STOPPED: api_pb2.STATUS_UNKNOWN,
        State.FAILED: api_pb2.STATUS_FAILURE,
        State.INVALID: api_pb2.STATUS_FAILURE,
    }
    return ends.get(state)


def _session_end(status: Any, ended: float) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo

    info = HParamsPluginData(session_end_info=SessionEndInfo(status=status, end_time_secs=ended))
    summary = Summary()
    summary.value.add(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(info),
        tensor=metadata.NULL_TENSOR,
    )
    return summary


def _scalars(metrics: Mapping[str, float], tags: Mapping[str, str]) -> Any:
    """Return values as scalars. They are of single precision: TensorBoard's default server shows no doubles."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_FLOAT
    from tensorboard.plugins.scalar import metadata

    summary = Summary()
    for name, value in metrics.items():
        summary.value.add(
            tag=tags[name],
            metadata=metadata.create_summary_metadata(display_name="", description=""),
            tensor=TensorProto(dtype=DT_FLOAT, tensor_shape={}, float_val=[value]),
        )
    return summary


def _text(tag: str, text: str) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.plugins.text import metadata

    summary = Summary()
    summary.value.add(
        tag=tag,
        metadata=metadata.create_summary_metadata(display_name="", description=""),
        tensor=TensorProto(dtype=DT_STRING, tensor_shape={}, string_val=[text.encode()]),
    )
    return summary


def _said(trial: Trial) -> str:
    """Return what else there is to say of a trial, as a table in Markdown."""
    rows = {"state": trial.state.value, "seed": trial.seed, **trial.facts, **words_of(trial)}
    told = (f"| {name} | {_cell(value)} |" for name, value in rows.items())
    return "\n".join(["| | |", "|---|---|", *told])


def _cell(value: Any) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


# --- files ----------------------------------------------------------------------------------------


def _records(events: Iterator[Any]) -> bytes:
    from tensorboard.summary.writer.record_writer import RecordWriter

    content = io.BytesIO()
    writer = RecordWriter(content)
    for event in events:
        writer.write(event.SerializeToString(deterministic=True))
    return content.getvalue()


def _update(path: Path, content: bytes) -> None:
    """Bring a file up to date: by appending, if it holds the beginning, since whoever reads it keeps it open."""
    before = path.read_bytes() if path.exists() else b""
    if before == content:
        return
    if before and content.startswith(before):
        with path.open("ab") as file:
            file.write(content[len(before) :])
        return
    aside = path.with_name(f".{path.name.replace('tfevents', 'aside')}")
    aside.write_bytes(content)
    aside.replace(path)
