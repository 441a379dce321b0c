"""Exports to TensorBoard, read back by its own reader and through its server."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from everything import TRIALS, noted, written
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.util import tensor_util

from etude.core.errors import ConfigError
from etude.results.search import Search
from etude.testing.written import BEGAN_AT, Written

PATIENCE_S = 60.0
STATUSES = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]


def read(folder: str) -> EventAccumulator:
    """Return what TensorBoard's reader finds in a run."""
    found = EventAccumulator(folder, size_guidance={"tensors": 0})
    found.Reload()
    return found


def curve(run: EventAccumulator, tag: str) -> list[tuple[int, float, float]]:
    """Return step, time and value of a scalar."""
    return [(one.step, one.wall_time, tensor_util.make_ndarray(one.tensor_proto).item()) for one in run.Tensors(tag)]


@contextmanager
def served(folder: str, *options: str) -> Iterator[Any]:
    """Give what asks a TensorBoard that runs in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", str(port), "--host", "127.0.0.1"]
    with subprocess.Popen([*command, "--reload_interval", "1", *options], stderr=subprocess.DEVNULL) as server:

        def ask(path: str, body: Any = None) -> Any:
            content = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(f"http://127.0.0.1:{port}/data/{path}", content)
            request.add_header("Content-Type", "application/json")
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        def wait_for(path: str, enough: Any) -> Any:
            give_up_at = time.monotonic() + PATIENCE_S
            while True:
                try:
                    if enough(found := ask(path)):
                        return found
                except OSError:  # it has not begun to listen
                    pass
                assert time.monotonic() < give_up_at, "TensorBoard did not read it in time"
                assert server.poll() is None, "TensorBoard has ended"
                time.sleep(0.05)

        ask.wait_for = wait_for  # type: ignore[attr-defined]
        try:
            yield ask
        finally:
            server.terminate()


def sessions(ask: Any) -> dict[str, Any]:
    """Return the session groups of the HParams plugin, by name."""
    asked = {"experimentName": "", "allowedStatuses": STATUSES, "colParams": [], "startIndex": 0, "sliceSize": 100}
    return {group["name"]: group for group in ask("plugin/hparams/session_groups", asked)["sessionGroups"]}


def test_curves_have_our_steps_and_times(study: Search) -> None:
    study.export("tensorboard", into="runs")
    run = read("runs/digits/trial-00000")
    began = BEGAN_AT + 1
    assert curve(run, "accuracy") == [
        (1, pytest.approx(began + 10 / 3), 0.25),
        (2, pytest.approx(began + 20 / 3), 0.5),
        (2, began + 10, 0.75),  # what it came to, which is more than its last report
    ]
    assert curve(run, "loss") == [(2, began + 10, 1.5)]
    assert curve(read("runs/digits/trial-00001"), "accuracy")[-1][0::2] == (2, 0.875)
    assert len(curve(read("runs/digits/trial-00001"), "accuracy")) == 2  # it came to its last report
    ((_, _, first), (_, _, second)) = curve(read("runs/digits/trial-00003"), "accuracy")
    assert (first, math.isnan(second)) == (math.inf, True)


def test_sessions_are_read_by_the_plugin(study: Search) -> None:
    study.export("tensorboard", into="runs")
    run = read("runs/digits/trial-00000").SummaryMetadata
    start = metadata.parse_session_start_info_plugin_data(run(metadata.SESSION_START_INFO_TAG).plugin_data.content)
    hparams = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    assert hparams == {**study.trials[0].params, "shape": "(8, 8)", "seed": 0.0}
    assert start.start_time_secs == BEGAN_AT + 1
    end = metadata.parse_session_end_info_plugin_data(run(metadata.SESSION_END_INFO_TAG).plugin_data.content)
    assert end.end_time_secs == BEGAN_AT + 11


@pytest.mark.parametrize("options", [(), ("--load_fast", "false")], ids=["default", "python"])
def test_the_server_shows_curves_and_sessions(study: Search, options: tuple[str, ...]) -> None:
    study.export("tensorboard", into="runs")
    with served("runs", *options) as ask:
        tags = ask.wait_for("plugin/scalars/tags", lambda found: len(found) == 6)
        points = ask("plugin/scalars/scalars?tag=accuracy&run=digits/trial-00001")
        experiment = ask("plugin/hparams/experiment", {"experimentName": ""})
        groups = sessions(ask)
        (text,) = ask("plugin/text/text?tag=trial&run=digits/trial-00004")
    assert set(tags["digits/trial-00000"]) == {"accuracy", "loss"}
    assert [(step, value) for _, step, value in points] == [(1, 0.5), (2, 0.875)]
    assert {info["name"] for info in experiment["hparamInfos"]} == {*study.trials[0].params, "seed"}
    assert {info["name"]["tag"] for info in experiment["metricInfos"]} == {"accuracy", "loss"}
    assert {name: group["sessions"][0]["status"] for name, group in groups.items()} == {
        "digits/0": "STATUS_SUCCESS",
        "digits/1": "STATUS_SUCCESS",
        "digits/2": "STATUS_UNKNOWN",
        "digits/3": "STATUS_FAILURE",
        "digits/4": "STATUS_FAILURE",
        "digits/5": "STATUS_SUCCESS",
        "digits/6": "STATUS_UNKNOWN",  # the plugin knows of no end
    }
    best = groups["digits/1"]
    assert best["hparams"] == {
        "lr": 0.01,
        "layers": 1.0,
        "optimizer": "adam",
        "shape": "None",
        "fixed": "so",
        "seed": 3.0,
    }
    assert [(one["name"]["tag"], one["value"], one["trainingStep"]) for one in best["metricValues"]] == [
        ("accuracy", 0.875, 2)
    ]
    assert "heads must divide width" in text["text"]


def test_a_server_that_is_open_sees_a_running_study_grow(study: Search, tmp_path: Path) -> None:
    study.export("tensorboard", into="runs")
    before = {path: path.stat().st_ino for path in Path("runs").rglob("*tfevents*")}
    contents = {path: path.read_bytes() for path in before}
    with served("runs") as ask:
        ask.wait_for("plugin/scalars/tags", lambda found: len(found) == 6)
        (tmp_path / "digits").rename(tmp_path / "older")
        # What a trial has reported stays where it was later: 10 / 3 s apart, of 10 s or 13 1/3 s.
        longer = Written(TRIALS[6].params, value=1.0, curve=[0.25, 0.375, 1.0], took_s=40 / 3)
        later = written(tmp_path / "digits", [*TRIALS[:6], longer, TRIALS[7]])
        later.export("tensorboard", into="runs")
        ask.wait_for("plugin/scalars/scalars?tag=accuracy&run=digits/trial-00006", lambda found: len(found) == 3)
        assert sessions(ask)["digits/6"]["sessions"][0]["status"] == "STATUS_SUCCESS"
    for path, inode in before.items():
        assert path.stat().st_ino == inode
        assert path.read_bytes().startswith(contents[path])
    unchanged = [path for path in before if path.read_bytes() == contents[path]]
    assert len(unchanged) == len(before) - 1


def test_a_trial_that_started_over_is_written_anew(study: Search, tmp_path: Path) -> None:
    study.export("tensorboard", into="runs")
    (tmp_path / "digits").rename(tmp_path / "older")
    written(tmp_path / "digits", [*TRIALS[:6], Written(TRIALS[6].params, curve=[0.0], state="running")]).export(
        "tensorboard", into="runs"
    )
    assert [value for _, _, value in curve(read("runs/digits/trial-00006"), "accuracy")] == [0.0]
    assert [path.name for path in Path("runs/digits/trial-00006").iterdir()] == ["events.out.tfevents.0.etude"]


def test_values_of_several_kinds_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trials = [
        Written({"a": 1, "b": True, "seed": 2, "c": 2**60}, value=0.5, arm="whole", seed=1),
        Written({"a": 0.5, "b": None, "seed": 2, "c": 3}, value=0.5, arm="without x", seed=2),
    ]
    study = written(tmp_path / "kinds", trials, question={}, complete=True, verb="ablate")
    study.export("tensorboard", into="runs")
    found = []
    for number in range(2):
        run = read(f"runs/kinds/trial-0000{number}").SummaryMetadata(metadata.SESSION_START_INFO_TAG)
        start = metadata.parse_session_start_info_plugin_data(run.plugin_data.content)
        found.append({name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()})
    assert found == [
        {"a": 1.0, "b": "True", "seed": 2.0, "c": str(2**60), "arm": "whole", "etude.seed": 1.0},
        {"a": 0.5, "b": "None", "seed": 2.0, "c": "3", "arm": "without x", "etude.seed": 2.0},
    ]


def test_a_metric_without_letters_is_renamed_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = written(tmp_path / "odd", [Written({"a": 1}, value=0.5, metrics={" ": 2.0})], question={}, complete=True)
    with noted() as notes:
        study.export("tensorboard", into="runs")
    assert notes == ["TensorBoard does not take the name of every metric, so there it is: ' ' as 'unnamed'."]
    assert curve(read("runs/odd/trial-00000"), "unnamed")[0][2] == 2.0


def test_a_folder_that_holds_something_else_is_not_touched(study: Search, tmp_path: Path) -> None:
    Path("runs/digits").mkdir(parents=True)
    Path("runs/digits/theirs").touch()
    with pytest.raises(ConfigError) as refused:
        study.export("tensorboard", into="runs")
    assert str(refused.value) == (
        "runs has a folder called 'digits' already, which did not come of this study. "
        "Pass another name for this one, name=..., or another place."
    )
    assert os.listdir("runs/digits") == ["theirs"]
    study.export("tensorboard", into="runs", name="mine")
    other = written(tmp_path / "other", meta={"code": "another"})
    with pytest.raises(ConfigError, match="'mine' already"):
        other.export("tensorboard", into="runs", name="mine")


@pytest.mark.parametrize(
    ("into", "name", "said"),
    [
        (
            "s3://bucket/runs",
            None,
            "into='s3://bucket/runs' is a URL, and TensorBoard's files are written to folders. Pass a folder, such as "
            "'runs'.",
        ),
        ("file", None, "file/digits cannot be written: Not a directory. Pass another folder, into=...."),
        ("runs", "a/b", "name='a/b' is no name of a folder. Pass one without slashes."),
        (None, None, "An export to 'tensorboard' has to know where. Pass into=: the folder that TensorBoard looks at, "
        "such as 'runs'."),
    ],
)  # fmt: skip
def test_a_place_that_is_none_is_refused(study: Search, into: str | None, name: str | None, said: str) -> None:
    Path("file").touch()
    with pytest.raises(ConfigError) as refused:
        study.export("tensorboard", into=into, name=name)
    assert str(refused.value) == said
