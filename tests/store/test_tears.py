"""Tears are where they are said to be: after the last commit, or in it; and the journal's mark tells of the latter."""

import os
import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from etude.core.events import Joined, Reported
from etude.store.journal import FILE, MARK, Journal
from etude.testing import tears


def left_by_a_killed_driver(place: Path, commits: int) -> Path:
    """Return the folder of a journal with some commits in its log, as a kill leaves it."""
    with closing(Journal.create(place / "live", {})) as journal:
        journal.take("driver")
        journal.lease.release()  # so that nobody waits for it: it lives on, in the place of one that was killed
        journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        for n in range(commits):
            facts = [Reported(at=1.0, trial=0, attempt=1, step=k, metrics={f"m{n}": 0.5}) for k in range(n)]
            journal.append([*facts, Joined(at=1.0, worker=f"w{n}")])
        shutil.copytree(place / "live", place / "left")
    return place / "left"


def facts_in(folder: Path) -> int:
    with closing(Journal.read(folder)) as journal:
        return len(list(journal.facts()))


@pytest.mark.parametrize("seed", range(12))
def test_a_torn_tail_costs_nothing(tmp_path: Path, seed: int) -> None:
    folder = left_by_a_killed_driver(tmp_path, 4)
    log, before = tears.read_log(folder), facts_in(folder)
    assert log is not None
    assert len(log.commits) >= 4
    assert tears.tear_tail(folder, random.Random(seed)) in ("garbage", "half a frame", "a frame with a torn page")
    assert log.path.stat().st_size > log.commits[-1]
    assert tears.read_log(folder) == log
    assert facts_in(folder) == before
    with closing(Journal.write(folder)) as journal:
        journal.take("next")
        assert journal.lost == ""


def test_a_torn_commit_is_named_once_and_the_journal_goes_on(tmp_path: Path) -> None:
    folder = left_by_a_killed_driver(tmp_path, 4)
    before = facts_in(folder)
    assert tears.tear_commit(folder) == 1
    after = facts_in(folder)
    assert after < before
    with closing(Journal.write(folder)) as journal:
        journal.take("next")
        assert journal.lost == (
            f"The end of the journal {folder / FILE} is torn: it had {before} facts, and {after} can be read. What the "
            "others said is lost; an attempt whose end was among them is run again, unless its outcome is in the spool."
        )
        journal.lease.release()
        journal.append([Joined(at=2.0, worker="w")])
        assert int((folder / MARK).read_text()) == after + 1
    assert not (folder / MARK).exists()
    with closing(Journal.write(folder)) as journal:
        journal.take("the one after")
        assert journal.lost == ""


def test_a_mark_of_whoever_took_over_is_left_alone(tmp_path: Path) -> None:
    with closing(Journal.create(tmp_path, {})) as older:
        older.take("older")
        with closing(Journal.write(tmp_path)) as newer:
            older.lease.release()
            newer.take("newer")
            older.close()
            assert (tmp_path / MARK).exists()
        assert not (tmp_path / MARK).exists()


def test_without_a_log_there_is_nothing_to_tear(tmp_path: Path) -> None:
    Journal.create(tmp_path, {}).close()
    assert tears.read_log(tmp_path) is None
    assert tears.tear_tail(tmp_path, random.Random(0)) == ""
    assert tears.tear_commit(tmp_path) == 0


def test_each_spool_is_left_with_half_an_outcome(tmp_path: Path) -> None:
    from etude.wire import spool

    (tmp_path / "spool").mkdir()
    for _ in range(2):
        os.close(spool.open_spool(str(tmp_path / "spool"))[0])
    assert tears.tear_spool(tmp_path, random.Random(0)) == 2
    assert spool.read_all(tmp_path / "spool") == []
