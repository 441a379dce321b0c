"""``etude du`` and ``gc``: what is on the disk, and what of it goes."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import etude as library
from etude.results.housekeeping import clear
from etude.store.journal import Journal

if TYPE_CHECKING:
    from .conftest import Etude

LEFT = (
    "00000/attempt-1/checkpoints/0-00001.rest.safetensors",
    "00000/attempt-1/checkpoints/.0-00004.weights.safetensors.part",
    "00009/attempt-1/checkpoints/0-00001.weights.safetensors",
)
"""What a killed study may leave behind."""


def train(run: Any, lr: float) -> float:
    kept = run.keep(total=0.0)
    (run.folder / "notes.txt").write_text("12345")
    for _ in run.epochs(2):
        kept.total += lr
        run.report(score=kept.total)
    print("trained")
    return kept.total


@pytest.fixture
def kept(etude: Etude) -> Path:
    """Give the folder of a study whose two trials keep weights."""
    call = {"trials": 2, "workers": 1, "sampler": "random", "stopper": "none", "name": "kept"}
    search = library.Experiment(train, metric="score", mode="max").tune({"lr": library.uniform(0, 1)}, **call)
    return Path(search.folder)


def leave(folder: Path, size_b: int = 1000) -> None:
    for name in LEFT:
        path = folder / "trials" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size_b))


def there(folder: Path) -> set[str]:
    return {path.relative_to(folder / "trials").as_posix() for path in folder.glob("trials/**/*") if path.is_file()}


def test_what_a_study_takes_is_told_by_what_it_is(etude: Etude, kept: Path) -> None:
    leave(kept)
    [row] = json.loads(etude("du", "kept", "--json").out)["studies"]
    weights = sum(path.stat().st_size for path in kept.glob("trials/*/*/checkpoints/*.weights.safetensors"))
    assert (row["study"], row["files"], row["states"], row["surplus"]) == ("kept", 2 * len("12345"), 0, 3000)
    assert row["logs"] == 2 * len("trained\n") + (kept / "workers.log").stat().st_size
    assert row["weights"] == weights - 1000 > 0
    assert row["journal"] >= (kept / "journal.sqlite").stat().st_size
    assert row["total"] == sum(path.stat().st_size for path in kept.rglob("*") if path.is_file())


def test_all_studies_are_told_together_and_a_damaged_one_hides_no_other(etude: Etude, kept: Path) -> None:
    shutil.copytree(kept, "studies/other")
    Path("studies/broken").mkdir()
    Path("studies/broken/journal.sqlite").write_bytes(b"no database" * 100)
    told = json.loads(etude("du", "--json").out)
    assert [row["study"] for row in told["studies"]] == ["kept", "other"]
    assert told["all"]["total"] == sum(row["total"] for row in told["studies"])
    assert [row["study"] for row in told["unreadable"]] == ["broken"]
    lines = [line.split() for line in etude("du").out.splitlines() if line.split()]
    assert lines[0] == ["study", "journal", "logs", "files", "states", "weights", "surplus", "total"]
    assert [line[0] for line in lines[2:]] == ["kept", "other", "all", "broken"]
    assert lines[2][5:7] == ["10", "B"]


def test_what_a_kill_left_behind_is_named_and_removed(etude: Etude, kept: Path) -> None:
    before = there(kept)
    leave(kept)
    dry = etude("gc", "kept", "--dry-run")
    assert there(kept) == before | set(LEFT)
    names = sorted(LEFT, key=lambda name: (name[:5], name))
    told = [f"trials/{name}  1000 B" for name in names]
    assert dry.out.splitlines() == [*told, "Of study kept 3 files, 2.9 kB, would be removed."]
    done = json.loads(etude("gc", "--json").out)
    assert there(kept) == before
    [study] = done["studies"]
    assert (study["study"], study["bytes"], len(study["files"])) == ("kept", 3000, 3)
    assert etude("gc").out == "Study kept has nothing that is of no use.\n"
    [row] = json.loads(etude("du", "--json").out)["studies"]
    assert row["surplus"] == 0


def test_the_study_goes_on_as_if_nothing_had_been(etude: Etude, kept: Path) -> None:
    leave(kept)
    assert etude("gc").code == 0
    call = {"trials": 3, "workers": 1, "sampler": "random", "stopper": "none", "name": "kept"}
    search = library.Experiment(train, metric="score", mode="max").tune({"lr": library.uniform(0, 1)}, **call)
    assert search.counts() == {"finished": 3}


def test_a_study_at_work_is_left_alone(etude: Etude, kept: Path) -> None:
    leave(kept)
    journal = Journal.write(kept)
    journal.take("somebody")
    try:
        refused = etude("gc", "kept")
        assert (refused.code, refused.out) == (1, "")
        assert "works on study kept: what it does not need any more goes by itself." in refused.err
        assert etude("gc").out == "kept was left alone: it is at work.\n"
        assert etude("gc", "--dry-run", "--json").code == 0
        assert set(LEFT) <= there(kept)
    finally:
        journal.lease.release()
        journal.close()


def test_a_torn_end_is_still_told_to_the_next_driver(kept: Path) -> None:
    mark = kept / "journal.sqlite-mark"
    mark.write_text("00000000000000099999")
    clear(kept)
    assert mark.read_text() == "00000000000000099999"
    with contextlib.closing(Journal.write(kept)) as journal:
        journal.take("next")
        assert "is torn" in journal.lost
        journal.lease.release()


def test_a_mirror_is_refused(etude: Etude) -> None:
    done = etude("du", "memory://studies/kept")
    assert (done.code, done.err) == (
        2,
        "memory://studies/kept is a mirror, and has no checkpoints. Give `etude du` a study's name or its folder.\n",
    )


def test_without_studies_there_is_nothing_to_tell(etude: Etude) -> None:
    for command in "du", "gc":
        assert etude(command).out == "There are no studies in studies.\n"
    assert etude("gc", "nothing").code == 1
