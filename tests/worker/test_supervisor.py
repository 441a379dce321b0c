"""The supervisor: what it does when messages come twice, and when time stands still."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from etude.engines import local
from etude.launching.shipping import packed
from etude.wire.channel import Channel
from etude.wire.messages import Broken, Ended, Message, Ready, Run, Serve, decode_from_worker, encode
from etude.wire.search_path import search_path
from etude.worker import processes
from etude.worker import supervisor as module
from etude.worker.logs import AttemptLog
from etude.worker.supervisor import GAP_S, LARGE_SPOOL, Child, Supervisor


@contextmanager
def worker() -> Iterator[Channel]:
    """Start a worker, and give the driver's end of its channel."""
    started = local.WorkerProcess()
    channel = Channel(started.line())
    channel.sock.settimeout(60.0)
    try:
        yield channel
    finally:
        channel.close()
        started.end()


def serve_of(train: Any, folder: Path) -> Serve:
    for name in ("spool", "trials"):
        (folder / name).mkdir()
    return Serve(
        study="s",
        functions=packed({"train": train}),
        preload=(),
        path=search_path(),
        cwd=str(folder),
        metrics=("score",),
        watched="score",
        spool=str(folder / "spool"),
        trials=str(folder / "trials"),
    )


def hear(channel: Channel, kind: type[Message]) -> Any:
    """Return the next message of a kind."""
    while (content := channel.receive()) is not None:
        if isinstance(message := decode_from_worker(content), kind):
            return message
        assert not isinstance(message, Broken), message.reason
    raise AssertionError("the worker left")


def test_what_is_said_twice_is_done_once(tmp_path: Path) -> None:
    def train(run, x: int):
        with open(tmp_path / f"ran-{run.trial}", "a") as file:
            file.write("once\n")
        return float(x)

    serve, run = serve_of(train, tmp_path), Run(0, 1, {"x": 7}, 0)
    with worker() as channel:
        channel.send(encode(serve))
        channel.send(encode(serve))
        hear(channel, Ready)
        channel.send(encode(run))
        channel.send(encode(run))
        assert hear(channel, Ended).outcome.value == 7.0
        channel.send(encode(run))  # as late as that
        channel.send(encode(Run(1, 1, {"x": 8}, 0)))
        channel.send(encode(serve))
        ended = hear(channel, Ended)
        assert (ended.trial, ended.outcome.value) == (1, 8.0)
    assert [(tmp_path / f"ran-{n}").read_text() for n in (0, 1)] == ["once\n"] * 2


@pytest.fixture
def alone() -> Iterator[Supervisor]:
    """A supervisor in this process, that nobody talks to."""
    ours, its = socket.socketpair()
    supervisor = Supervisor(Channel(its))
    yield supervisor
    supervisor._selector.close()
    ours.close()
    its.close()


def test_a_word_that_an_outcome_is_written_forgets_no_other_one_if_it_comes_twice(
    alone: Supervisor, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(b"x" * (LARGE_SPOOL + 1))
    alone._spool = str(spool)
    alone._unwritten = {(0, 1), (1, 1)}
    alone._forget(0, 1)
    alone._forget(0, 1)
    assert spool.stat().st_size > LARGE_SPOOL
    alone._forget(1, 1)
    assert spool.stat().st_size == 0


def test_time_in_which_a_worker_stood_still_counts_against_no_limit(alone: Supervisor) -> None:
    ours, its = socket.socketpair()
    log = AttemptLog(100)
    child = Child(1, Channel(ours), log, started=0.0, kill_at=10.0)
    alone._children[1] = child
    alone._looked_at = 0.0
    alone._leave_out_gaps(GAP_S)
    assert child.kill_at == 10.0
    alone._leave_out_gaps(GAP_S + 3600.0)
    assert (child.started, child.kill_at) == (3600.0, 3610.0)
    for end in (ours, its, log):
        end.close()
    os.close(log.write_end)


def test_a_process_that_stands_still_is_ended_after_a_silence_and_one_that_is_not_there_is_left_alone(
    alone: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    stopped: set[int] = set()
    monkeypatch.setattr(processes, "is_stopped", stopped.__contains__)
    monkeypatch.setattr(processes, "kill", killed.append)
    alone._still = module.Silence(30.0)
    alone._warm_pid = 11

    def look(first: int, last: int) -> list[int]:
        killed.clear()
        for second in range(first, last):
            alone._end_what_stands_still(float(second))
        return list(killed)

    assert look(0, 100) == []  # there is no template yet
    alone._template_pid = 12
    assert look(100, 200) == []
    stopped.add(12)
    assert look(200, 230) == []
    assert look(230, 232) == [12]
    alone._template_pid = 0
    assert look(232, 400) == []
    stopped.add(11)
    assert look(400, 410) == []
    assert look(4000, 4010) == []  # we stood still as well
    assert look(4010, 4040) == [11]
