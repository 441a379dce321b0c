"""States at a URL: they get there whole, come back as they were, and what is surplus goes there, too."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from etude.core.errors import ConfigError
from etude.core.events import Checkpoint
from etude.places import url_depot
from etude.places.depot import FolderDepot
from etude.places.url_depot import UrlDepot, depot_at, try_out
from etude.store.artifacts import Artifacts
from etude.wire.messages import Run, Saved, TakenUp, Warned
from etude.worker.received import pieces_of
from etude.worker.run import State
from etude.worker.states import States

NAME = "attempt-1/checkpoints/0-00005.weights.safetensors"


@pytest.fixture
def url() -> Iterator[str]:
    """Give a place in memory."""
    url = f"memory://{secrets.token_hex(4)}/study"
    yield url
    if (files := fsspec.filesystem("memory")).exists(url):
        files.rm(url, recursive=True)


class Driver:
    """Hears what is said of states."""

    def __init__(self) -> None:
        self.said: list[Saved | TakenUp | Warned] = []
        self._heard = threading.Condition()

    def say(self, message: Saved | TakenUp | Warned) -> None:
        with self._heard:
            self.said.append(message)
            self._heard.notify_all()

    @property
    def saved(self) -> list[Checkpoint]:
        return [message.checkpoint for message in self.said if isinstance(message, Saved)]


def state(epoch: int) -> State:
    return State(0, epoch, epoch, {}, {"net": {"epoch": epoch}}, {"values": {}})


def save(depot: UrlDepot, *epochs: int) -> Driver:
    """Save states of trial 0, each of which the driver notes."""
    driver = Driver()
    states = States(Run(0, 1, {}, 0), depot, say=driver.say)
    for epoch in epochs:
        states.save(state(epoch))
        states.settle()
        states.noted((1, 0, epoch))
    states.close()
    return driver


def names(url: str) -> set[str]:
    """Return what is at a URL."""
    files, root = fsspec.core.url_to_fs(url)
    return {path[len(root) + 1 :] for path in files.find(root)}


def local(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def take_up(depot: UrlDepot, points: tuple[Checkpoint, ...]) -> tuple[State | None, Driver]:
    driver = Driver()
    return States(Run(0, 2, {}, 0, points), depot, say=driver.say).take_up(lambda state: None), driver


def test_a_state_gets_there_and_comes_back_on_another_machine(url: str, tmp_path: Path) -> None:
    saved = save(UrlDepot(url, tmp_path / "here"), 1, 2).saved
    assert names(url) == {
        f"00000/attempt-1/checkpoints/0-0000{n}.{part}.safetensors" for n in (1, 2) for part in ("weights", "rest")
    }
    assert local(tmp_path) == []
    found, driver = take_up(UrlDepot(url, tmp_path / "there"), tuple(reversed(saved)))
    assert found == state(2)
    assert [type(message) for message in driver.said] == [TakenUp]
    assert local(tmp_path) == []


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_damaged_newest_state_is_left_aside_for_the_one_before(how: str, url: str, tmp_path: Path) -> None:
    depot = UrlDepot(url, tmp_path)
    points = tuple(reversed(save(depot, 1, 2).saved))
    files, path = fsspec.filesystem("memory"), f"{url}/00000/{points[0].name('rest')}"
    content = files.cat_file(path)
    files.rm_file(path)
    if how == "cut":
        files.pipe_file(path, content[:-1])
    found, driver = take_up(depot, points)
    assert found == state(1)
    warned = driver.said[1]
    assert isinstance(warned, Warned)
    assert ("is not there" if how == "gone" else "is not what was written") in warned.text


def test_a_place_out_of_reach_costs_the_state_and_is_said_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    depot = UrlDepot(url, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "put_file", lambda *args, **kwargs: unreachable(), raising=False)
        driver = save(depot, 1, 2)
    [warned] = driver.said
    assert isinstance(warned, Warned)
    assert warned.text == (
        "The state of trial 0 after epoch 1 could not be saved (no route to host). Training goes on; if it is lost, it "
        "goes on from the state that was saved before."
    )
    assert local(tmp_path) == []
    assert [point.epoch for point in save(depot, 3).saved] == [3]


def unreachable() -> None:
    raise ConnectionError("no route to host")


def test_a_rest_that_does_not_get_there_leaves_no_half(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = UrlDepot.put

    def puts(self: UrlDepot, trial: int, name: str, write: Any) -> Any:
        return put(self, trial, name, write) if ".weights." in name else unreachable()

    monkeypatch.setattr(UrlDepot, "put", puts)
    assert save(UrlDepot(url, tmp_path), 1).saved == []
    assert names(url) == set()


def test_what_cannot_be_fetched_at_first_is_tried_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url_depot, "AGAIN_S", (0.0, 0.0))
    depot = UrlDepot(url, tmp_path)
    points = tuple(save(depot, 1).saved)
    get, failures = MemoryFileSystem.get_file, [2]

    def gets(self: MemoryFileSystem, *args: Any, **kwargs: Any) -> Any:
        failures[0] -= 1
        return unreachable() if failures[0] >= 0 else get(self, *args, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "get_file", gets)
    assert take_up(depot, points)[0] == state(1)
    failures[0] = 3
    found, driver = take_up(depot, points)
    assert found is None
    assert isinstance(driver.said[1], Warned)
    assert "cannot be fetched (ConnectionError: no route to host)" in driver.said[1].text


def test_what_is_surplus_goes_and_so_does_what_did_not_get_there(url: str, tmp_path: Path) -> None:
    depot = UrlDepot(url, tmp_path)
    save(depot, 1, 2)
    kept = (0, "attempt-1/checkpoints/0-00002.weights.safetensors")
    on_its_way = FolderDepot(tmp_path).path(*kept)  # of a process that was killed while it brought it there
    on_its_way.write_bytes(b"half")
    fsspec.filesystem("memory").pipe_file(f"{url}/00000/attempt-1/mine.txt", b"not ours")
    assert sorted(file.whole for file in depot.files()) == [False, *[True] * 4]
    artifacts = Artifacts(depot, note=print)
    artifacts.discard([(0, "attempt-1/checkpoints/0-00001.rest.safetensors")])
    artifacts.tidy(0, 2, set())
    artifacts.close()
    assert len(names(url)) == 4
    assert on_its_way.exists()
    artifacts = Artifacts(depot, note=print)
    artifacts.tidy(0, 1, {kept[1]})
    artifacts.close()
    assert names(url) == {f"00000/{kept[1]}", "00000/attempt-1/mine.txt"}
    assert local(tmp_path) == []
    artifacts.sweep(set())
    assert names(url) == {"00000/attempt-1/mine.txt"}


def test_where_files_do_not_appear_whole_halves_are_known_and_go(tmp_path: Path) -> None:
    place = tmp_path / "place"
    depot = UrlDepot(place.as_uri(), tmp_path / "trials")
    save(depot, 1)
    half = place / "00000/attempt-1/checkpoints/.0-00002.rest.safetensors.part"
    half.write_bytes(b"half")
    [found] = [file for file in depot.files() if not file.whole]
    assert found.name.endswith(half.name)
    Artifacts(depot, note=print).sweep({(file.trial, file.name) for file in depot.files()})
    assert sorted(path.name for path in local(place)) == [f"0-00001.{part}.safetensors" for part in ("rest", "weights")]


def test_nobody_brings_what_workers_reach_by_themselves(url: str, tmp_path: Path) -> None:
    depot = depot_at(url, tmp_path)
    points = tuple(save(UrlDepot(url, tmp_path), 1).saved)
    assert list(pieces_of(Run(0, 2, {}, 0, points), depot, str(tmp_path))) == []
    beside = depot_at("", tmp_path)
    for part in "weights", "rest":
        beside.put(0, points[0].name(part), lambda path: (path.parent.mkdir(exist_ok=True), path.write_bytes(b"x")))
    assert len(list(pieces_of(Run(0, 2, {}, 0, points), beside, str(tmp_path)))) == 2


def test_a_place_that_can_keep_states_is_left_as_it_was(tmp_path: Path) -> None:
    try_out((tmp_path / "deep" / "place").as_uri(), given="deep")
    assert local(tmp_path) == []


def test_a_place_that_cannot_keep_states_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError) as refused:
        try_out("memory://states/study", given="memory://states")
    assert str(refused.value) == (
        "states='memory://states' is in the memory of this process, where workers cannot reach it. Pass a folder, or a "
        "URL such as s3://bucket/states."
    )
    with pytest.raises(ConfigError, match=r"^states=<URL> holds a password, and the journal would keep it\."):
        try_out("sftp://ada:secret@host/states", given="sftp://ada:secret@host/states")
    with pytest.raises(ConfigError, match="Protocol not known: gopher"):
        try_out("gopher://host/states", given="gopher://host/states")
    with pytest.raises(ConfigError) as refused:
        try_out("/dev/null/states", given="/dev/null")
    assert str(refused.value) == (
        "states='/dev/null' cannot keep states: NotADirectoryError: [Errno 20] Not a directory: '/dev/null/states'. "
        "Look whether the address is right, and whether what it needs (credentials, an endpoint, the right to write "
        "and to remove) is set; or leave states= out, and they lie in the study's folder."
    )


def test_a_place_that_does_not_answer_is_refused_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(url_depot, "TRY_S", 0.05)
    answer = threading.Event()
    monkeypatch.setattr(url_depot.UrlFolder, "put", lambda self, name, content: answer.wait(30.0))
    with pytest.raises(ConfigError, match=r"TimeoutError: no answer within 0.05 s"):
        try_out(tmp_path.as_uri(), given=str(tmp_path))
    answer.set()
