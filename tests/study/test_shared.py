"""Studies on a network file system, as far as a machine without one can show it: a folder that is said to be one."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import etude
from etude.core.events import Assigned
from etude.store import shared
from etude.store.journal import FILE, Journal
from etude.store.shared import home_of, local_place


def trains(run, lr: float):
    run.report(score=lr)
    (run.folder / "weights.txt").write_text("w")
    print("trained")
    return lr


EXPERIMENT = etude.Experiment(trains, metric="score", mode="max")
SPACE = {"lr": etude.uniform(0, 1)}
CALL = {"workers": 2, "sampler": "random", "stopper": "none", "name": "one"}


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder that statfs would say is NFS, with studies in it; this machine's disk is all the rest."""
    folder = tmp_path / "net"
    monkeypatch.setattr(shared, "network_kind", lambda path: "nfs" if path.is_relative_to(folder) else "")
    monkeypatch.setenv("ETUDE_STUDIES", str(folder))
    on_machine(monkeypatch, tmp_path, "a")
    return folder


def on_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))


def test_the_journal_stays_on_the_local_disk_and_is_mirrored_into_the_folder(
    net: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    search = EXPERIMENT.tune(SPACE, trials=3, progress=True, **CALL)
    place = local_place(net / "one")
    said = capfd.readouterr().err
    told = (
        f"{net / 'one'} is on a network file system (nfs), where SQLite is not safe: the journal is kept in "
        f"{place} and mirrored there."
    )
    assert said.count(told) == 1
    assert search.folder == place
    assert search.name == "one"
    assert (place / FILE).exists()
    assert sorted(path.name for path in (net / "one").iterdir()) == ["lease.json", "segments", "trials"]
    assert (net / "one" / "trials/00002/attempt-1/weights.txt").read_text() == "w"
    assert home_of(place) == net / "one"
    for given in ("one", net / "one"):
        again = etude.open(given)
        assert again.complete
        assert again.folder == place
        assert again.trials[1].log.read_text() == "trained\n"


def test_machines_take_turns_and_nothing_is_run_twice(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    EXPERIMENT.tune(SPACE, trials=2, **CALL)
    on_machine(monkeypatch, tmp_path, "b")
    assert etude.open("one").counts() == {"finished": 2}
    EXPERIMENT.tune(SPACE, trials=4, **CALL)
    on_machine(monkeypatch, tmp_path, "a")
    search = EXPERIMENT.tune(SPACE, trials=5, **CALL)
    assert search.counts() == {"finished": 5}
    journal = Journal.read(search.folder)
    runs = Counter(fact.trial for fact in journal.facts() if isinstance(fact, Assigned))
    journal.close()
    assert runs == dict.fromkeys(range(5), 1)


def test_a_journal_that_lies_there_already_stays_there(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as local:
        local.setattr(shared, "network_kind", lambda path: "")
        EXPERIMENT.tune(SPACE, trials=2, **CALL)
    search = EXPERIMENT.tune(SPACE, trials=3, **CALL)
    assert search.folder == net / "one"
    assert not list((net / "one").glob("segments"))


def test_where_home_is_on_the_network_too_another_place_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "network_kind", lambda path: "nfs" if path.is_relative_to(tmp_path / "net") else "")
    monkeypatch.setattr(shared, "SPARE", tmp_path / "disk")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "net"))
    assert local_place(tmp_path / "one").is_relative_to(tmp_path / "disk" / f"etude-{os.getuid()}" / "studies")
    monkeypatch.setattr(shared, "network_kind", lambda path: "nfs")
    assert shared.kind_of_shared(tmp_path / "one") == ""  # as before: in the folder, waiting for the disk
