"""States on disk: never more ahead of the journal than one, read again only if they are what was written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from etude.core.errors import StateError
from etude.core.events import Checkpoint, Origin
from etude.core.ranks import Rank
from etude.frameworks import state_file
from etude.places.depot import FolderDepot
from etude.places.turns import Turn
from etude.wire.messages import Run, Saved, TakenUp, Warned
from etude.worker import states as states_module
from etude.worker.run import State
from etude.worker.states import States


class Driver:
    """Hears what is said of states, and notes it when a test wants that."""

    def __init__(self) -> None:
        self.said: list[Saved | TakenUp | Warned] = []
        self.heard = threading.Condition()

    def say(self, message: Saved | TakenUp | Warned) -> None:
        with self.heard:
            self.said.append(message)
            self.heard.notify_all()

    def hears(self, n: int) -> None:
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.said) >= n, 30.0)

    @property
    def saved(self) -> list[Checkpoint]:
        return [message.checkpoint for message in self.said if isinstance(message, Saved)]


def state(epoch: int, *, batch: int = 0, **values: Any) -> State:
    rest = {"objects": {}, "values": {"epoch": epoch, **values}, "generators": {}}
    return State(0, epoch, epoch, {"loss": 1.0 / epoch}, {}, rest, batch=batch)


def test_a_newer_state_takes_the_place_of_one_that_waits(tmp_path: Path) -> None:
    driver = Driver()
    states = States(Run(3, 1, {}, 0), FolderDepot(tmp_path), say=driver.say)
    states.save(state(1))
    driver.hears(1)
    for epoch in (2, 3, 4):
        states.save(state(epoch))
    assert [point.epoch for point in driver.saved] == [1], "the driver has not noted the first"
    states.noted((1, 0, 9))
    states.noted((1, 0, 1))
    states.settle()
    assert [point.epoch for point in driver.saved] == [1, 4]
    states.close()
    names = {path.name for path in (tmp_path / "00003" / "attempt-1" / "checkpoints").iterdir()}
    assert names == {f"0-0000{n}.{part}.safetensors" for n in (1, 4) for part in ("weights", "rest")}


def test_the_state_of_an_epoch_that_is_wanted_gives_way_to_none(tmp_path: Path) -> None:
    driver = Driver()
    states = States(Run(3, 1, {}, 0), FolderDepot(tmp_path), say=driver.say, named=(2,))
    states.save(state(1))
    driver.hears(1)
    states.save(state(2))
    training = threading.Thread(target=lambda: [states.save(state(epoch)) for epoch in (3, 4)])
    training.start()
    for n in (1, 2):
        driver.hears(n)
        states.noted(driver.saved[-1].key)
    training.join(30.0)
    assert not training.is_alive()
    states.close()
    assert [point.epoch for point in driver.saved][:2] == [1, 2], "though 3 and 4 came while 1 was not noted"


def test_the_state_after_an_epoch_gives_way_to_none_within_the_next(tmp_path: Path) -> None:
    driver = Driver()
    states = States(Run(3, 1, {}, 0), FolderDepot(tmp_path), say=driver.say, named=(1, 2))
    states.save(state(1, batch=3))
    driver.hears(1)
    for given in (state(1, batch=6), state(1, batch=9), state(2), state(2, batch=3)):
        states.save(given)
    states.noted((1, 0, 1))
    states.noted((1, 0, 1, 3))
    states.settle()
    states.close()
    assert [point.key for point in driver.saved] == [(1, 0, 1, 3), (1, 0, 2)]
    names = {path.name for path in (tmp_path / "00003" / "attempt-1" / "checkpoints").iterdir()}
    assert names == {f"0-0000{n}.{part}.safetensors" for n in ("1-0000003", 2) for part in ("weights", "rest")}


def test_a_damaged_state_within_an_epoch_is_told_of_with_its_place(tmp_path: Path) -> None:
    driver = Driver()
    states = States(Run(0, 1, {}, 0), FolderDepot(tmp_path), say=driver.say)
    for n, given in enumerate((state(1), state(1, batch=200)), start=1):
        states.save(given)
        driver.hears(n)
        states.noted(driver.saved[-1].key)
    states.close()
    points = tuple(reversed(driver.saved))
    following = States(Run(0, 2, {}, 0, points), FolderDepot(tmp_path), say=driver.say)
    assert following.take_up(lambda state: None) == state(1, batch=200)
    (tmp_path / "00000" / points[0].name("rest")).unlink()
    after = States(Run(0, 2, {}, 0, points), FolderDepot(tmp_path), say=driver.say)
    assert after.take_up(lambda state: None) == state(1)
    warned = driver.said[-1]
    assert isinstance(warned, Warned)
    assert warned.text.startswith(
        "Trial 0 could not use what it had saved, so it goes on from epoch 1. epoch 1 and 200 batches: "
    )


def test_an_end_does_not_wait_for_ever_for_a_driver_that_notes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states_module, "NOTED_S", 0.05)
    driver = Driver()
    states = States(Run(0, 1, {}, 0), FolderDepot(tmp_path), say=driver.say)
    states.save(state(1))
    driver.hears(1)
    states.save(state(2))
    states.settle()
    states.close()
    assert [point.epoch for point in driver.saved] == [1]


def saved_twice(folder: Path) -> tuple[Checkpoint, ...]:
    """Save two states, and return the newest first, as the driver names them to the next attempt."""
    driver = Driver()
    states = States(Run(0, 1, {}, 0), FolderDepot(folder), say=driver.say)
    for epoch in (1, 2):
        states.save(state(epoch))
        driver.hears(epoch)
        states.noted((1, 0, epoch))
    states.close()
    return tuple(reversed(driver.saved))


def test_the_newest_state_is_taken_up(tmp_path: Path) -> None:
    points, driver = saved_twice(tmp_path), Driver()
    states = States(Run(0, 2, {}, 0, points), FolderDepot(tmp_path), say=driver.say)
    assert states.take_up(lambda state: None) == state(2)
    assert driver.said == [TakenUp(0, 2, Origin((1, 0, 2), 2, "", {"loss": 0.5}))]


@pytest.mark.parametrize("how", ["cut", "changed", "gone"])
def test_a_damaged_newest_state_is_left_aside_for_the_one_before(how: str, tmp_path: Path) -> None:
    points, driver = saved_twice(tmp_path), Driver()
    path = tmp_path / "00000" / points[0].name("rest")
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if how == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    states = States(Run(0, 2, {}, 0, points), FolderDepot(tmp_path), say=driver.say)
    assert states.take_up(lambda state: None) == state(1)
    told, warned = driver.said
    assert isinstance(told, TakenUp)
    assert (told.origin.key, told.origin.step) == ((1, 0, 1), 1)
    assert isinstance(warned, Warned)
    why = "cannot be read: No such file" if how == "gone" else "is not what was written: it is damaged"
    assert warned.text.startswith("Trial 0 could not use what it had saved, so it goes on from epoch 1. epoch 2: ")
    assert why in warned.text


def test_without_any_that_can_be_read_it_starts_over_and_says_so(tmp_path: Path) -> None:
    points, driver = saved_twice(tmp_path), Driver()
    for point in points:
        (tmp_path / "00000" / point.name("weights")).write_bytes(b"nothing")
    states = States(Run(0, 2, {}, 0, points), FolderDepot(tmp_path), say=driver.say)
    assert states.take_up(lambda state: None) is None
    told, warned = driver.said
    assert isinstance(told, TakenUp)
    assert (told.origin.key, told.origin.step) == (None, 0)
    assert isinstance(warned, Warned)
    assert "so it starts over" in warned.text


def test_a_state_that_cannot_be_written_costs_that_state_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, write = Driver(), state_file.write
    full = True

    def writes(path: Path, *given: Any, **named: Any) -> tuple[str, int]:
        if full and path.name.endswith("rest.safetensors"):
            raise OSError(28, "No space left on device")
        return write(path, *given, **named)

    monkeypatch.setattr(state_file, "write", writes)
    states = States(Run(0, 1, {}, 0), FolderDepot(tmp_path), say=driver.say)
    for epoch in (1, 2):
        states.save(state(epoch))
        states.settle()
    [warned] = driver.said
    assert isinstance(warned, Warned)
    assert warned.text == (
        "The state of trial 0 after epoch 1 could not be saved (No space left on device). Training goes on; if it is "
        "lost, it goes on from the state that was saved before."
    )
    assert list((tmp_path / "00000" / "attempt-1" / "checkpoints").iterdir()) == [], "no half of it stays"
    full = False
    states.save(state(3))
    states.settle()
    states.close()
    assert [point.epoch for point in driver.saved] == [3]


def test_what_only_pickle_could_write_is_refused_where_it_is_kept(tmp_path: Path) -> None:
    states = States(Run(0, 1, {}, 0), FolderDepot(tmp_path), say=Driver().say)
    with pytest.raises(StateError) as refused:
        states.save(state(1, schedule=lambda epoch: 0.1))
    assert str(refused.value).startswith("state.rest.values.schedule is <function ")
    assert str(refused.value).endswith("or give its class state_dict() and load_state_dict().")
    states.close()


class Held(FolderDepot):
    """A depot that writes nothing until it is let."""

    def __init__(self, trials: Path) -> None:
        super().__init__(trials)
        self.begun, self.let = threading.Event(), threading.Event()

    def put(self, trial: int, name: str, write: Callable[[Path], Any]) -> Any:
        self.begun.set()
        assert self.let.wait(30.0)
        return super().put(trial, name, write)


def test_a_state_is_copied_over_one_that_nobody_needs_and_never_over_one_that_is_written(tmp_path: Path) -> None:
    array, driver, depot = np.zeros(1000), Driver(), Held(tmp_path)
    states = States(Run(0, 1, {}, 0), depot, say=driver.say)
    copies = set()

    def save(epoch: int) -> None:
        array[:] = epoch
        states.save(state(epoch, array=array))

    def copied() -> int:
        assert states._next is not None
        [found] = states._next.rest[1].values()
        return id(found)

    save(1)
    assert depot.begun.wait(30.0)
    for epoch in (2, 3, 4):
        save(epoch)
        copies.add(copied())
    assert len(copies) == 1, "each gave its memory to the next"
    depot.let.set()
    driver.hears(1)
    states.noted((1, 0, 1))
    driver.hears(2)
    states.noted((1, 0, 4))
    save(5)
    driver.hears(3)
    states.close()
    assert [point.epoch for point in driver.saved] == [1, 4, 5]
    for point in driver.saved:
        found = state_file.read(tmp_path / "00000" / point.name("rest"))
        assert (found["rest"]["values"]["array"] == point.epoch).all()


def of_rank(rank: int, attempt: int, *points: Checkpoint) -> Run:
    return Run(0, attempt, {}, 0, points, rank=Rank(rank, 2, rank, 2, "127.0.0.1"))


def test_each_rank_writes_its_shard_of_a_state_and_reads_it_again(tmp_path: Path) -> None:
    points = []
    for rank in (0, 1):
        driver = Driver()
        states = States(of_rank(rank, 1), FolderDepot(tmp_path), say=driver.say, in_shards=True)
        states.save(state(1, rank=rank))
        states.settle()
        states.close()
        points += driver.saved
    names = {path.name for path in (tmp_path / "00000" / "attempt-1" / "checkpoints").iterdir()}
    assert names == {f"0-00001{rank}.{part}.safetensors" for rank in ("", ".rank-1") for part in ("weights", "rest")}
    point = msgspec.structs.replace(
        points[0], digests=points[0].digests + points[1].digests, sizes=points[0].sizes + points[1].sizes
    )
    said = []
    for rank in (0, 1):
        driver = Driver()
        states = States(of_rank(rank, 2, point), FolderDepot(tmp_path), say=driver.say, in_shards=True)
        assert states.take_up(lambda state: None) == state(1, rank=rank)
        said.append([type(message) for message in driver.said])
    assert said == [[TakenUp], []], "rank 0 speaks for all"


def test_a_shard_that_is_whole_is_of_no_use_if_that_of_another_rank_is_not(tmp_path: Path) -> None:
    saved, driver = saved_twice(tmp_path), Driver()
    points = [msgspec.structs.replace(p, digests=p.digests * 2, sizes=p.sizes * 2) for p in saved]
    states = States(of_rank(0, 2, *points), FolderDepot(tmp_path), say=driver.say, in_shards=True)
    heard: list[str | None] = []

    def of_all(problem: str | None) -> str | None:
        heard.append(problem)
        return "rank 1: it is damaged" if len(heard) == 1 else None

    assert states.take_up(lambda state: None, of_all) == state(1)
    assert heard == [None, None], "here nothing is wrong"
    _, warned = driver.said
    assert isinstance(warned, Warned)
    assert warned.text == (
        "Trial 0 could not use what it had saved, so it goes on from epoch 1. epoch 2: rank 1: it is damaged"
    )


def test_a_state_that_another_number_of_ranks_saved_is_left_aside(tmp_path: Path) -> None:
    points, driver = saved_twice(tmp_path), Driver()
    states = States(of_rank(0, 2, points[0]), FolderDepot(tmp_path), say=driver.say, in_shards=True)
    assert states.take_up(lambda state: None) is None
    _, warned = driver.said
    assert isinstance(warned, Warned)
    assert warned.text.endswith("so it starts over. epoch 2: 1 rank saved it, and 2 are to go on")


def test_shards_give_way_to_none_and_there_is_room_when_none_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver()
    states = States(of_rank(1, 1), FolderDepot(tmp_path), say=driver.say, in_shards=True)
    assert states.has_room()
    states.save(state(1))
    driver.hears(1)
    assert states.has_room(), "it is written, though other ranks may have to write theirs"
    states.save(state(2))
    with monkeypatch.context() as patched:
        patched.setattr(states_module, "OTHERS_S", 0.05)
        assert not states.has_room(), "the first is not noted"
    states.noted((1, 0, 1))
    assert states.has_room()
    states.save(state(3))
    driver.hears(2)
    states.noted((1, 0, 2))
    states.settle()
    states.close()
    assert [point.epoch for point in driver.saved] == [1, 2, 3]


def test_a_rank_that_cannot_write_its_shard_tells_so_and_others_need_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, write = Driver(), state_file.write

    def writes(path: Path, *given: Any, **named: Any) -> tuple[str, int]:
        if path.name == "0-00001.rank-1.rest.safetensors":
            raise OSError(28, "No space left on device")
        return write(path, *given, **named)

    monkeypatch.setattr(state_file, "write", writes)
    states = States(of_rank(1, 1), FolderDepot(tmp_path), say=driver.say, in_shards=True)
    states.save(state(1))
    driver.hears(2)
    assert [type(message) for message in driver.said] == [Warned, Saved]
    assert driver.saved[0].digests == ("", "")
    assert list((tmp_path / "00000" / "attempt-1" / "checkpoints").iterdir()) == [], "no half of it stays"
    states.noted((1, 0, 1))
    states.save(state(2))
    states.settle()
    states.close()
    assert all(driver.saved[1].digests)


class Watched(Turn):
    """A turn that says whether somebody has it."""

    is_taken = False

    def take(self, *, given_up: Callable[[], bool] = lambda: False) -> None:
        self.is_taken = True

    def end(self) -> None:
        self.is_taken = False


@pytest.mark.parametrize("in_shards", [False, True])
def test_a_rank_that_has_written_its_shard_gives_its_turn_to_the_next(in_shards: bool, tmp_path: Path) -> None:
    """Only two write at a time: others would wait for the state to be noted, which waits for them."""
    driver, depot, turn = Driver(), FolderDepot(tmp_path), Watched(None)
    depot.turn = lambda: turn  # type: ignore[method-assign]
    job = of_rank(0, 1) if in_shards else Run(0, 1, {}, 0)
    states = States(job, depot, say=driver.say, in_shards=in_shards)
    states.save(state(1))
    driver.hears(1)
    states.settle()
    assert turn.is_taken != in_shards
    states.noted((1, 0, 1))
    assert not turn.is_taken
    states.close()
