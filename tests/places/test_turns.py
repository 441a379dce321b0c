"""Turns to write: as many as there are, given back by whoever dies, and waited for by nobody for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from etude.core.events import Checkpoint
from etude.places import turns
from etude.places.depot import FolderDepot
from etude.places.turns import TURNS, Turn
from etude.wire.messages import Run, Saved
from etude.worker.run import State
from etude.worker.states import States

OTHER = """
import sys
from pathlib import Path
from etude.places.turns import Turn

turn = Turn(Path(sys.argv[1]))
print(turn.taken(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "writing"


@pytest.fixture
def others(path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Start as many processes as there are turns, each of which has taken one."""
    started = []
    for _ in range(TURNS):
        process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
    yield started
    for process in started:
        process.kill()
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def test_who_dies_gives_a_turn_back(path: Path, others: list[subprocess.Popen[str]]) -> None:
    turn = Turn(path)
    assert not turn.taken()
    kill(others[0])
    assert turn.taken()
    turn.end()
    turn.end()


def test_who_waits_may_give_up_and_waits_for_nobody_for_ever(
    path: Path, others: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn(path)
    turn.take(given_up=lambda: True)
    monkeypatch.setattr(turns, "PATIENCE_S", 0.05)
    turn.take()
    assert not turn.taken(), "it went on without one"
    turn.end()


def test_where_there_can_be_no_locks_nobody_waits(tmp_path: Path) -> None:
    assert Turn(None).taken()
    assert Turn(tmp_path / "nowhere" / "writing").taken()


def state(epoch: int) -> State:
    return State(0, epoch, epoch, {}, {}, {"values": {"epoch": epoch}})


class Driver:
    """Hears which states were saved."""

    def __init__(self) -> None:
        self.saved: list[Checkpoint] = []
        self._heard = threading.Condition()

    def say(self, message: Any) -> None:
        with self._heard:
            assert isinstance(message, Saved)
            self.saved.append(message.checkpoint)
            self._heard.notify_all()

    def hears(self, n: int) -> None:
        with self._heard:
            assert self._heard.wait_for(lambda: len(self.saved) >= n, 30.0)


def test_a_state_waits_for_its_turn_and_gives_way_to_a_newer_one(
    tmp_path: Path, path: Path, others: list[subprocess.Popen[str]]
) -> None:
    driver = Driver()
    states = States(Run(0, 1, {}, 0), FolderDepot(tmp_path / "trials", path), say=driver.say)
    for epoch in (1, 2, 3):
        states.save(state(epoch))
    assert not states.settled
    assert not (tmp_path / "trials").exists()
    kill(others[0])
    driver.hears(1)
    assert [point.epoch for point in driver.saved] == [3]
    states.close()


def test_a_turn_lasts_until_the_journal_has_the_state(
    tmp_path: Path, path: Path, others: list[subprocess.Popen[str]]
) -> None:
    kill(others[0])
    driver = Driver()
    states = States(Run(0, 1, {}, 0), FolderDepot(tmp_path / "trials", path), say=driver.say)
    states.save(state(1))
    driver.hears(1)
    states.settle()

    def is_free() -> bool:
        command = [sys.executable, "-c", OTHER, str(path)]
        done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
        return done.stdout == "True\n"

    assert not is_free()
    states.noted((1, 0, 1))
    assert is_free()
    states.save(state(2))
    driver.hears(2)
    states.close()
    assert is_free(), "an attempt that is over has none"


def test_who_is_closed_while_it_waits_writes_nothing(
    tmp_path: Path, path: Path, others: list[subprocess.Popen[str]]
) -> None:
    driver = Driver()
    states = States(Run(0, 1, {}, 0), FolderDepot(tmp_path / "trials", path), say=driver.say)
    states.save(state(1))
    states.close()
    assert driver.saved == []
    assert not (tmp_path / "trials").exists()
