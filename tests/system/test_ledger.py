"""The ledger of a machine: shared by real processes, swept of dead ones, and never in a study's way."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from somebody_else import as_somebody_else

from etude.core.clock import VirtualClock
from etude.system import ledger_file
from etude.system.budget import NOTHING, Amount, Want, total
from etude.system.ledger import PATIENCE_S, Ledger
from etude.system.ledger_file import KEPT, open_ledger, started, this_process
from etude.system.sqlite_file import transaction
from etude.system.tenants import SILENT_S, Process

FOUR = Amount.of(cores=4, memory_gb=8)
ONE = Amount.of(cores=1)
ALL = Want.of_trials(ONE, most=4)
WHOLE = Want(FOUR, FOUR)
ALONE = "It was not touched. This study goes on alone, and may use cores and memory that others use as well."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def joined(path: Path | None, name: str = "a study", want: Want = ALL, **others: Any) -> Ledger:
    ledger = Ledger.open(FOUR, path, **others)
    ledger.join(name, want)
    return ledger


# --- two studies ----------------------------------------------------------------------------------


def test_a_study_that_is_alone_may_hold_all_that_it_wants(path: Path) -> None:
    with joined(path) as ledger:
        assert (ledger.share.granted.cores, ledger.share.ahead, ledger.trouble) == (4, None, "")
        assert [ledger.hold(nth, ONE) for nth in range(5)] == [True] * 4 + [False]
        ledger.release(0)
        assert ledger.hold(4, ONE)


def test_when_another_comes_what_is_given_back_goes_to_it(path: Path) -> None:
    with joined(path, "first") as first:
        assert all(first.hold(nth, ONE) for nth in range(4))
        with joined(path, "second") as second:
            assert second.share.granted.cores == 2
            assert not second.hold("trial", ONE), "nobody is robbed"
            for nth in range(2):
                first.release(nth)
                assert not first.hold("next", ONE), "its share has become smaller"
                assert second.hold(nth, ONE)
            assert (first.tick().held.cores, second.tick().held.cores) == (2, 2)
        assert first.tick().granted.cores == 4
        assert first.hold("next", ONE)


def test_a_trial_that_settles_on_fewer_cores_gives_the_rest_back_and_one_that_wants_more_asks(path: Path) -> None:
    with joined(path, want=Want(Amount(2), Amount(4), Amount(2))) as ledger:
        assert ledger.hold(1, Amount(2))
        assert ledger.hold(2, Amount(2))
        assert not ledger.hold(1, Amount(3))
        assert ledger.hold(2, ONE)
        assert ledger.hold(1, Amount(3))
        assert ledger.share.held.cores == 4


def test_what_a_study_no_longer_wants_goes_to_another(path: Path) -> None:
    with joined(path, "first") as first, joined(path, "second") as second:
        assert (first.tick().granted.cores, second.tick().granted.cores) == (2, 2)
        first.want(Want(ONE, ONE))
        assert second.tick().granted.cores == 3


def test_studies_that_need_the_whole_machine_run_one_after_the_other(path: Path) -> None:
    clock = VirtualClock(100.0)
    ledgers = [joined(path, name, WHOLE, clock=clock) for name in ("first", "second", "third")]
    for nth, ledger in enumerate(ledgers):
        assert [one.tick().ahead for one in ledgers[nth:]] == [None, *range(len(ledgers) - nth - 1)]
        assert ledger.hold("all", FOUR)
        assert not any(later.hold("all", FOUR) for later in ledgers[nth + 1 :])
        clock.advance(10.0)
        ledger.close()
    with Ledger.open(FOUR, path) as ledger:
        found = ledger.response_times()
    assert [(one.name, one.response_s, one.waited_s) for one in found] == [
        *(("first", 10.0, 0.0), ("second", 20.0, 10.0), ("third", 30.0, 20.0)),
    ]


def test_who_needs_more_than_the_machine_has_gets_all_of_it(path: Path) -> None:
    with joined(path, want=Want(Amount(64, 2**20), Amount(64, 2**20))) as ledger:
        assert ledger.hold("trial", Amount(64, 2**20))
        assert ledger.share.held == FOUR


def test_memory_that_nobody_counts_is_in_nobodys_way(path: Path) -> None:
    with Ledger.open(Amount.of(cores=2, memory_gb=None), path) as ledger:
        ledger.join("a study", Want.of_trials(Amount.of(cores=1, memory_gb=64), most=2))
        assert ledger.hold("trial", Amount.of(cores=1, memory_gb=64))


def test_what_the_first_one_says_of_the_machine_holds_until_nobody_is_there(path: Path) -> None:
    with joined(path) as first, Ledger.open(Amount(64), path) as second:
        second.join("second", ALL)
        assert second.budget == FOUR
        first.close()
        second.tick()
        assert second.budget == FOUR
        second.close()
        with Ledger.open(Amount(64), path) as third:
            third.join("third", ALL)
            assert third.budget == Amount(64)


def test_people_can_see_who_is_at_work(path: Path) -> None:
    with joined(path, "first") as first, Ledger.open(FOUR, path) as looking:
        first.hold(1, ONE)
        (one,) = looking.tenants()
        assert (one.name, one.held, one.process.pid) == ("first", ONE, os.getpid())


def test_no_more_responses_are_kept_than_anybody_reads(path: Path) -> None:
    with joined(path) as ledger:
        (one,), found = ledger.tenants(), open_ledger(path)
        with closing(found.connection), transaction(found.connection):
            for nth in range(KEPT + 5):
                found.remove(replace(one, id=-1, name=str(nth)), now_s=1.0, died=False)
        names = [one.name for one in ledger.response_times()]
    assert names == [str(nth) for nth in range(5, KEPT + 5)]


# --- real processes -------------------------------------------------------------------------------

WORKS = """
import random, sys
from pathlib import Path
from etude.system.budget import Amount, Want
from etude.system.ledger import Ledger

path, log, seed = sys.argv[1:4]
draw = random.Random(int(seed))
ledger = Ledger.open(Amount(4), Path(path))
ledger.join(f"study {seed}", Want.of_trials(Amount(1), most=draw.randint(1, 4)))
held, done = {}, 0
with open(log, "a") as out:
    while done < 30:
        ledger.tick()
        key = draw.randrange(4)
        if key in held:
            del held[key]
            ledger.release(key)
            done += 1
        elif ledger.hold(key, Amount(1)):
            held[key] = 1
            most = sum(one.held.cores for one in ledger.tenants())
            out.write(f"{most} {ledger.trouble}\\n")
    ledger.close()
"""

HURRIES = """
import sys
from pathlib import Path
from etude.system.budget import Amount, Want
from etude.system.ledger import Ledger

ledger = Ledger.open(Amount(4), Path(sys.argv[1]))
ledger.join("to be killed", Want.of_trials(Amount(1), most=4))
while True:
    if ledger.hold(0, Amount(1)):
        print(ledger.trouble or "held", flush=True)
        ledger.release(0)
"""

HOLDS = """
import sys
from pathlib import Path
from etude.system.budget import Amount, Want
from etude.system.ledger import Ledger

ledger = Ledger.open(Amount(4), Path(sys.argv[1]))
ledger.join("to be killed", Want.of_trials(Amount(1), most=4))
assert all(ledger.hold(nth, Amount(1)) for nth in range(4))
print("holds", flush=True)
sys.stdin.readline()
"""


def python(script: str, *args: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *map(str, args)], text=True, **options)


@contextmanager
def a_holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Have a process that holds everything, until it is killed or told to go."""
    with python(HOLDS, path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("processes", [2, 10])
def test_processes_never_hold_more_than_there_is_and_all_of_them_get_through(
    path: Path, tmp_path: Path, processes: int
) -> None:
    log = tmp_path / "log"
    running = [python(WORKS, path, log, seed) for seed in range(processes)]
    assert [process.wait(timeout=120) for process in running] == [0] * processes
    lines = log.read_text().splitlines()
    assert len(lines) >= 30 * processes
    assert {line.strip() for line in lines} <= {"1", "2", "3", "4"}, "and nobody was in trouble"
    with Ledger.open(Amount(4), path) as ledger:
        assert ledger.tenants() == []
        assert sorted(one.name for one in ledger.response_times()) == sorted(f"study {nth}" for nth in range(processes))
        assert not any(one.died for one in ledger.response_times())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_a_killed_study_held_is_free_for_the_next_who_looks(path: Path) -> None:
    with a_holder(path) as process, joined(path) as ledger:
        assert (ledger.share.granted.cores, ledger.share.room.cores) == (2, 0)
        process.kill()
        process.wait()
        assert ledger.tick().room.cores == 4
        (dead,) = ledger.response_times()
        assert (dead.name, dead.died) == ("to be killed", True)


def test_studies_that_are_killed_at_any_moment_leave_a_ledger_that_is_whole_and_free(path: Path) -> None:
    hurrying = [python(HURRIES, path, stdout=subprocess.PIPE) for _ in range(4)]
    try:
        for nth, process in enumerate(hurrying):
            assert process.stdout is not None
            assert {process.stdout.readline() for _ in range(20 + 7 * nth)} == {"held\n"}
            process.kill()
    finally:
        for process in hurrying:
            process.kill()
            process.communicate()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with joined(path) as ledger:
        assert (ledger.trouble, ledger.share.room.cores) == ("", 4)
        assert [one.died for one in ledger.response_times()] == [True] * 4


def test_a_killed_study_that_nobody_has_reaped_is_dead(path: Path) -> None:
    with a_holder(path) as process, joined(path) as ledger:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert started(process.pid) is None
        assert ledger.tick().room.cores == 4


def test_a_process_with_the_number_of_a_dead_one_is_not_taken_for_it(path: Path) -> None:
    earlier = replace(this_process(), started="1")
    dead = joined(path, "dead", process=earlier)
    assert dead.hold("trial", Amount(4))
    with joined(path) as ledger:
        assert ledger.share.room.cores == 4
        assert [one.name for one in ledger.tenants()] == ["a study"]
    dead.close()


def test_a_study_of_another_container_is_there_as_long_as_it_gives_signs_of_life(path: Path) -> None:
    clock = VirtualClock(1000.0)
    elsewhere = Process("another namespace of process ids", 1, "1")
    with joined(path, "there", clock=clock, process=elsewhere) as there, joined(path, clock=clock) as here:
        assert there.hold("trial", Amount(2))
        for _ in range(10):
            clock.advance(SILENT_S / 2)
            there.tick()
            assert here.tick().granted.cores == 2
        clock.advance(SILENT_S + 1)
        assert here.tick().granted.cores == 4
        there.tick()  # it was only asleep, and comes back with what it holds
        assert [(one.name, one.held.cores) for one in here.tenants()] == [("a study", 0), ("there", 2)]


def test_studies_of_an_earlier_start_of_the_machine_count_for_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "machine", lambda: "before")
    before = joined(path, "before")
    assert before.hold("trial", Amount(4))
    monkeypatch.setattr(ledger_file, "machine", lambda: "now")
    with joined(path) as ledger:
        assert (ledger.share.room.cores, len(ledger.tenants())) == (4, 1)
    before.close()


# --- trouble --------------------------------------------------------------------------------------


def check_it_goes_on_alone(path: Path, trouble: str) -> None:
    """Open a file that cannot be used: the study is alone, it is told why, and the file is as it was."""
    before = path.read_bytes() if path.is_file() else None
    with joined(path) as ledger:
        assert ledger.trouble == trouble
        assert [ledger.hold(nth, ONE) for nth in range(5)] == [True] * 4 + [False]
        ledger.release(0)
        assert ledger.tick().held.cores == 3
        assert ledger.trouble == trouble
    assert (path.read_bytes() if path.is_file() else None) == before


MOVE = "Move it away, or remove it: nothing in it is needed when no study runs."


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_bytes(b"no database at all" * 99)
    said = "is damaged, or another kind of file: file is not a database"
    check_it_goes_on_alone(path, f"The ledger {path} {said}. {ALONE} {MOVE}")


def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    said = f"is an SQLite file of another program. {ALONE} Name another file."
    check_it_goes_on_alone(path, f"The ledger {path} {said}")


def test_a_ledger_of_a_later_version_is_left_alone(path: Path) -> None:
    joined(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9")
    said = f"has version 9 by a later Étude, and this one knows versions up to 1. {ALONE} Upgrade: pip install"
    check_it_goes_on_alone(path, f"The ledger {path} {said} --upgrade etude.")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with joined(tmp_path / "file" / "ledger.sqlite") as ledger:
        assert ledger.hold(1, ONE)
        assert "cannot be used" in ledger.trouble


def test_a_folder_that_is_read_only_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "shut"
    folder.mkdir()
    folder.chmod(0o555)
    with as_somebody_else(), joined(folder / "ledger.sqlite") as ledger:
        assert ledger.hold(1, ONE)
        assert "cannot be used" in ledger.trouble


def test_a_file_that_is_damaged_while_a_study_runs_leaves_it_alone_with_what_it_holds(path: Path) -> None:
    with joined(path) as ledger:
        assert ledger.hold(1, ONE)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE tenants SET body = 'torn'")
        assert ledger.tick().held == ONE
        assert ledger.trouble.startswith(f"The ledger {path} is damaged: what is in it cannot be read")
        assert ledger.hold(2, Amount(3))
        assert not ledger.hold(3, ONE)


def test_a_file_that_is_torn_to_pieces_leaves_the_study_alone(path: Path) -> None:
    with joined(path) as ledger:
        assert ledger.hold(1, ONE)
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.write(b"\xff" * size)
        assert ledger.tick().held == ONE
        assert "is damaged, or another kind of file" in ledger.trouble


def test_a_locked_file_is_waited_for_and_then_the_study_goes_on_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "WAIT_S", 0.01)
    clock = VirtualClock(100.0)
    with joined(path, clock=clock) as ledger, closing(sqlite3.connect(path, isolation_level=None)) as other:
        assert ledger.hold(1, ONE)
        other.execute("BEGIN EXCLUSIVE")
        assert not ledger.hold(2, ONE)
        assert ledger.trouble.startswith(f"The ledger {path} cannot be used: database is locked")
        ledger.release(1)
        other.execute("COMMIT")
        assert ledger.tick().held == NOTHING, "what could not be written is written later"
        assert ledger.trouble == ""

        other.execute("BEGIN EXCLUSIVE")
        assert not ledger.hold(2, ONE)
        clock.advance(PATIENCE_S)
        assert ledger.hold(2, ONE)
        assert "database is locked" in ledger.trouble


def test_a_file_that_somebody_removed_is_made_anew_and_all_come_again(path: Path) -> None:
    with joined(path, "first") as first, joined(path, "second") as second:
        assert first.hold(1, ONE)
        assert second.hold(1, Amount(2))
        path.unlink()
        first.tick()
        second.tick()
        assert [(one.name, one.held.cores) for one in first.tenants()] == [("first", 1), ("second", 2)]
        assert total(one.held for one in second.tenants()).cores == 3
        assert first.trouble == second.trouble == ""


# --- where it is ----------------------------------------------------------------------------------


def test_without_a_path_it_is_in_the_users_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with joined(None) as ledger:
        assert (ledger.path, ledger.trouble) == (tmp_path / "etude" / "ledger.sqlite", "")
        assert ledger.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def no_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if Path(f"/run/user/{os.geteuid()}").is_dir():
        pytest.skip("this machine has a runtime folder for this user")
    return tmp_path / f"etude-{os.geteuid()}"


def test_without_a_runtime_folder_it_is_among_temporary_files_for_this_user_alone(no_runtime_folder: Path) -> None:
    with joined(None) as ledger:
        assert (ledger.path, ledger.trouble) == (no_runtime_folder / "ledger.sqlite", "")
        assert no_runtime_folder.stat().st_mode & 0o777 == 0o700


def opened_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def a_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize("lay", [opened_to_all, a_link])
def test_a_folder_that_others_can_write_to_is_not_used(no_runtime_folder: Path, lay: Callable[[Path], None]) -> None:
    lay(no_runtime_folder)
    with joined(None) as ledger:
        said = f"lies in {no_runtime_folder}, which others can write to. {ALONE} Make that folder yours alone"
        mend = "(chmod 700), or remove it; or name another file."
        assert ledger.trouble == f"The ledger {no_runtime_folder / 'ledger.sqlite'} {said} {mend}"
        assert not (no_runtime_folder / "ledger.sqlite").exists()
