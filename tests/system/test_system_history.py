"""The history file: remembered for the next process, told where it cannot be used, and never in the way."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import HERE, entry
from somebody_else import as_somebody_else

from etude.core.errors import ConfigError
from etude.system.entries import Entry, Hardware, Probed
from etude.system.history import History
from etude.system.knobs import key

ELSEWHERE = Hardware("another processor", 2)
KEPT = "It was not touched, and what is learned is kept in memory only."


def known(path: Path | None, machine: Hardware = HERE, objective: str = "time") -> list[Entry]:
    """Return what a file holds for a machine, as a process sees it that opens it now."""
    with History.open(path) as history:
        assert history.trouble == ""
        return history.entries(machine=machine.digest, objective=objective)


def check_it_works_without_file(path: Path, trouble: str) -> None:
    """Open a file that cannot be used: it says why, works all the same, and leaves the file as it was."""
    before = path.read_bytes() if path.is_file() else None
    with History.open(path) as history:
        assert history.trouble == trouble
        history.add(entry({"a": 1.0}))
        assert history.entries(machine=HERE.digest, objective="time") == [entry({"a": 1.0})]
        assert history.digest("a workload") == history.digest("a workload")
        assert history.trouble == trouble
        for change in (history.forget, lambda: history.import_from(path)):
            with pytest.raises(ConfigError):
                change()
    assert (path.read_bytes() if path.is_file() else None) == before
    assert not [one.name for one in path.parent.glob(f"{path.name}?*")] if path.parent.is_dir() else True


# --- what is remembered ---------------------------------------------------------------------------


def test_entries_are_there_for_the_next_process_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "system.sqlite"
    setting = {"threads": 4, "cache": True, "share": 0.5, "cpu_governor": "performance", "limit": None}
    whole = entry({"a": 1.5, "b": 0.0}, best=setting, costs=(Probed({}, 3.0), Probed(setting, 2.0)))
    with History.open(path) as history:
        history.add(whole)
    assert known(path) == [whole]


rates = st.dictionaries(st.text(max_size=9), st.floats(allow_nan=False, allow_infinity=False), max_size=4)
values = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | st.text(max_size=9)


@settings(max_examples=25, deadline=None)
@given(rates, st.dictionaries(st.text(max_size=5), values, max_size=3))
def test_whatever_an_entry_holds_comes_back(rates: dict[str, float], best: dict[str, str | float]) -> None:
    one = entry(rates, best=best)
    with tempfile.TemporaryDirectory() as folder:
        with History.open(Path(folder, "h")) as history:
            history.add(one)
        (back,) = known(Path(folder, "h"))
    assert back == one
    assert key(back.best) == key(one.best)  # True is no 1, and 1.0 is no 1


def test_other_machines_and_other_objectives_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "system.sqlite"
    mine, theirs = entry({"a": 1.0}), entry({"a": 2.0}, hardware=ELSEWHERE)
    saving = entry({"a": 3.0}, objective="energy")
    with History.open(path) as history:
        for one in (mine, theirs, saving):
            history.add(one)
    assert (known(path), known(path, ELSEWHERE), known(path, objective="energy")) == ([mine], [theirs], [saving])
    digests = {HERE.digest, ELSEWHERE.digest, replace(HERE, gpus=()).digest, replace(HERE, cores=4).digest}
    assert len(digests) == 4


def test_entries_come_oldest_first_and_the_newest_ones_if_there_are_too_many(tmp_path: Path) -> None:
    with History.open(tmp_path / "h") as history:
        for at_s in (3.0, 1.0, 2.0):
            history.add(entry({"a": at_s}, at_s=at_s))
        assert [one.at_s for one in history.entries(machine=HERE.digest, objective="time")] == [1.0, 2.0, 3.0]
        newest = history.entries(machine=HERE.digest, objective="time", newest=2)
        assert [one.at_s for one in newest] == [2.0, 3.0]


def test_workloads_are_known_by_a_digest_that_only_this_file_makes(tmp_path: Path) -> None:
    with History.open(tmp_path / "one") as one, History.open(tmp_path / "two") as two:
        digest = one.digest("resnet on cifar")
        assert digest not in (one.digest("resnet on mnist"), two.digest("resnet on cifar"))
        one.add(entry({"a": 1.0}, digest))
    with History.open(tmp_path / "one") as again:
        assert again.digest("resnet on cifar") == digest
        again.export_to(tmp_path / "out")
    for file in ("one", "out"):
        assert b"resnet" not in (tmp_path / file).read_bytes()


def test_without_a_path_it_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with History.open() as history:
        assert history.path == tmp_path / "data" / "etude" / "system.sqlite"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with History.open() as history:
        assert (history.path, history.trouble) == (tmp_path / "home/.local/share/etude/system.sqlite", "")
        assert history.path.exists()


def test_the_hardware_of_this_machine_is_always_the_same() -> None:
    assert Hardware.here().digest == Hardware.here().digest
    assert Hardware.here(("a GPU",)).digest != Hardware.here().digest


def test_a_setting_that_cannot_be_written_is_refused_and_blocks_nothing(tmp_path: Path) -> None:
    with History.open(tmp_path / "h") as history:
        with pytest.raises(TypeError):
            history.add(entry({"a": 1.0}, best={"threads": object()}))  # type: ignore[dict-item]
        history.add(entry({"a": 2.0}))
    assert known(tmp_path / "h") == [entry({"a": 2.0})]


# --- several processes ----------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from made_up_runs import entry
from etude.system.history import History

print("ready", flush=True)
sys.stdin.readline()
with History.open(Path(sys.argv[1])) as history:
    for n in range(30):
        history.add(entry({"a": float(n)}, history.digest(sys.argv[2])))
print(history.trouble)
"""


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "system.sqlite"
    there = [str(Path(__file__).parent), *sys.path]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(there)},
        )
        for name in ("one", "two")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"  # both make the file, and write, from here on
    said = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        said.append(writer.communicate()[0])
    assert said == ["\n", "\n"]
    found = known(path)
    assert len(found) == 60
    with History.open(path) as history:
        mine = [one.rates["a"] for one in found if one.workload == history.digest("one")]
    assert mine == [float(n) for n in range(30)]


def test_an_entry_that_the_file_refuses_waits_and_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etude.system.history_file.BUSY_S", 0.01)
    path = tmp_path / "system.sqlite"
    with History.open(path) as history:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            history.add(entry({"a": 1.0}))
            assert history.trouble.startswith(f"The system history {path} cannot be used: database is locked. {KEPT} ")
            assert history.entries(machine=HERE.digest, objective="time") == [entry({"a": 1.0})]
        history.add(entry({"a": 2.0}))
        assert history.trouble == ""
        assert len(history.entries(machine=HERE.digest, objective="time")) == 2
    assert known(path) == [entry({"a": 1.0}), entry({"a": 2.0})]


# --- files that cannot be used --------------------------------------------------------------------


def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, which nobody should overwrite\n" * 50)
    why = "is damaged, or another kind of file: file is not a database"
    mend = "Move it away, or restore it from a copy."
    check_it_works_without_file(path, f"The system history {path} {why}. {KEPT} {mend}")


def test_a_database_of_another_program_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
    trouble = f"The system history {path} is an SQLite file of another program. {KEPT} Name another file."
    check_it_works_without_file(path, trouble)


def test_a_history_of_a_later_version_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h"
    History.open(path).close()
    with closing(sqlite3.connect(path)) as later:
        later.execute("PRAGMA user_version = 7")
    why = "has version 7 by a later Étude, and this one knows versions up to 1"
    mend = "Upgrade: pip install --upgrade etude."
    check_it_works_without_file(path, f"The system history {path} {why}. {KEPT} {mend}")


def test_a_damaged_history_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h"
    with History.open(path) as history:
        for n in range(9):
            history.add(entry({f"rate {m}": float(n) for m in range(300)}))
    content = bytearray(path.read_bytes())
    content[4096 : len(content) // 2] = b"\xa5" * (len(content) // 2 - 4096)
    path.write_bytes(content)
    with History.open(path) as history:
        trouble = history.trouble
    assert trouble.startswith(f"The system history {path} is damaged")
    assert trouble.endswith(f"{KEPT} Move it away, or restore it from a copy.")
    check_it_works_without_file(path, trouble)


@pytest.mark.parametrize("command", ["DROP TABLE meta", "DELETE FROM meta", "DROP TABLE entries"])
def test_a_history_that_lacks_a_part_is_told(tmp_path: Path, command: str) -> None:
    path = tmp_path / "h"
    History.open(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute(command)
        other.commit()
    with History.open(path) as history:
        history.add(entry({"a": 1.0}))
        assert history.entries(machine=HERE.digest, objective="time") == [entry({"a": 1.0})]
        assert "is damaged" in history.trouble


def test_an_entry_that_cannot_be_read_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "h"
    with History.open(path) as history:
        history.add(entry({"a": 1.0}))
        history.add(entry({"a": 2.0}))
        with closing(sqlite3.connect(path)) as other:
            other.execute("UPDATE entries SET body = '{}' WHERE id = 1")
            other.commit()
        assert history.entries(machine=HERE.digest, objective="time") == [entry({"a": 2.0})]
        assert "is damaged: an entry in it cannot be read" in history.trouble


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path: Path) -> None:
    with History.open(tmp_path) as history:
        assert history.trouble.startswith(f"The system history {tmp_path} cannot be used: ")
        history.add(entry({"a": 1.0}))


def test_a_place_where_no_file_can_be_made_is_told() -> None:
    path = Path("/proc/etude/system.sqlite")
    with History.open(path) as history:
        assert history.trouble.startswith(f"The system history {path} cannot be used: ")
        history.add(entry({"a": 1.0}))
        assert len(history.entries(machine=HERE.digest, objective="time")) == 1


def test_a_history_that_can_only_be_read_is_read_and_told() -> None:
    with tempfile.TemporaryDirectory() as folder:  # one that somebody else can reach
        path = Path(folder, "h")
        with History.open(path) as history:
            history.add(entry({"a": 1.0}))
            digest = history.digest("a workload")
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        with as_somebody_else(), History.open(path) as history:
            assert history.trouble == (
                f"The system history {path} can be read, but not written. {KEPT} See to its permissions."
            )
            history.add(entry({"a": 2.0}))
            assert len(history.entries(machine=HERE.digest, objective="time")) == 2
            assert history.digest("a workload") == digest
        assert known(path) == [entry({"a": 1.0})]
        Path(folder).chmod(0o700)


# --- export, import, forget -----------------------------------------------------------------------


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[History]:
    """A history of three entries."""
    with History.open(tmp_path / "filled") as history:
        history.add(entry({"a": 1.0}, at_s=1.0))
        history.add(entry({"a": 2.0}, at_s=2.0))
        history.add(entry({"a": 3.0}, at_s=3.0, hardware=ELSEWHERE))
        yield history


def test_an_export_is_imported_once(filled: History, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert filled.export_to(out) == 3
    assert out.read_text().startswith('{"etude":"system history","version":1}\n')
    with History.open(tmp_path / "new") as new:
        new.add(entry({"a": 1.0}, at_s=1.0))
        assert (new.import_from(out), new.import_from(out)) == (2, 0)
    assert known(tmp_path / "new") == known(tmp_path / "filled")
    assert known(tmp_path / "new", ELSEWHERE) == [entry({"a": 3.0}, at_s=3.0, hardware=ELSEWHERE)]


def test_an_export_overwrites_nothing(filled: History, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(ConfigError) as refused:
        filled.export_to(tmp_path / "there")
    assert str(refused.value) == f"{tmp_path / 'there'} exists, and is not overwritten. Name a new file."
    assert (tmp_path / "there").read_text() == "mine"
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        filled.export_to(tmp_path / "no folder" / "out")


def test_of_a_file_with_a_wrong_line_nothing_is_imported(filled: History, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    filled.export_to(out)
    lines = out.read_text().splitlines()
    with History.open(tmp_path / "new") as new:
        for wrong in ('{"workload": 3}', "not json", lines[1].replace("ab" * 8, "resnet on cifar")):
            out.write_text("\n".join([*lines, wrong]))
            with pytest.raises(ConfigError, match=r"line 5, is no entry: .* Nothing was added\. Remove the line"):
                new.import_from(out)
        assert new.entries(machine=HERE.digest, objective="time") == []
        for no_export in (b"", b"hello\n", b"\xff\xfe", lines[0].replace("1", "2").encode()):
            out.write_bytes(no_export)
            with pytest.raises(ConfigError, match="Name a file that an export has made"):
                new.import_from(out)
        with pytest.raises(ConfigError, match=r"cannot be read: .*No such file"):
            new.import_from(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("forget", "left"),
    [
        (lambda history: history.forget(), []),
        (lambda history: history.forget(before_s=2.0), [2.0, 3.0]),
        (lambda history: history.forget(machine=ELSEWHERE.digest), [1.0, 2.0]),
        (lambda history: history.forget(before_s=2.0, machine=ELSEWHERE.digest), [1.0, 2.0, 3.0]),
    ],
)
def test_what_is_to_be_forgotten_is_gone(filled: History, forget: Callable[[History], int], left: list[float]) -> None:
    assert forget(filled) == 3 - len(left)
    found = [*known(filled.path), *known(filled.path, ELSEWHERE)]
    assert [one.at_s for one in found] == left


def test_nothing_of_what_was_forgotten_stays_in_the_file(tmp_path: Path) -> None:
    with History.open(tmp_path / "h") as history:
        history.add(entry({"a rate of its own": 1.0}))
        assert b"a rate of its own" in (tmp_path / "h").read_bytes()
        history.forget()
    assert b"a rate of its own" not in (tmp_path / "h").read_bytes()
