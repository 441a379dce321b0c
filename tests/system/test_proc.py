"""What is read from /proc: of a tree that a test wrote, and of the real one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from etude.core.clock import VirtualClock
from etude.system.sources.proc import PAGE_GB, TICK_S, Memory, Proc, memory, proc
from etude.system.sources.source import Missing


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def stat(*, faults: int = 0, user: int = 0, ended_user: int = 0, pages: int = 0, threads: int = 1) -> str:
    """Return a line as of ``/proc/PID/stat``, of a program with a nasty name."""
    fields = ["0"] * 50
    fields[0] = "R"
    for place, value in {7: faults, 11: user, 13: ended_user, 17: threads, 21: pages}.items():
        fields[place] = str(value)
    return f"12 (a) b (c) {' '.join(fields)}\n"


def io(read: int) -> str:
    return "".join(f"{key}: {read}\n" for key in ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(
        tmp_path,
        {
            "self/stat": stat(faults=5, user=100, pages=1000),
            "self/io": io(7),
            "self/task/12/schedstat": "2000000000 500000000 40\n",
            "self/task/12/children": "",
            "stat": "cpu  10 20 30 40 50 60 70 80 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n",
            "pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n",
        },
    )
    return tmp_path


def opened(root: Path, clock: VirtualClock | None = None) -> Proc:
    found = proc(str(root), clock or VirtualClock())
    assert isinstance(found, Proc), found
    return found


def test_totals_have_their_units(root: Path) -> None:
    said = opened(root).read()
    assert said["user s"] == pytest.approx(100 * TICK_S)
    assert said["minor faults"] == 5
    assert said["read bytes"] == said["bytes to disk"] == 7
    assert (said["on core s"], said["wait for core s"], said["times on core"]) == (2.0, 0.5, 40)
    assert said["machine user s"] == pytest.approx(30 * TICK_S)
    assert said["machine system s"] == pytest.approx(160 * TICK_S)
    assert said["machine idle s"] == pytest.approx(90 * TICK_S)
    assert said["cpu pressure s"] == pytest.approx(2.5)
    assert "io pressure s" not in said  # this kernel does not keep it


def test_memory_counts_by_the_time_for_which_it_is_held(root: Path) -> None:
    clock = VirtualClock()
    source = opened(root, clock)
    clock.advance(10)
    write(root, {"self/stat": stat(pages=3000)})
    assert source.read()["resident GB"] == pytest.approx(10 * 2000 * PAGE_GB)


def test_a_child_counts_while_it_lives_and_once_it_has_ended(root: Path) -> None:
    write(root, {"self/task/12/children": "34 ", "34/stat": stat(user=50), "34/io": io(3)})
    source = opened(root)
    alive = source.read()
    assert alive["user s"] == pytest.approx(150 * TICK_S)
    assert alive["read bytes"] == 10
    shutil.rmtree(root / "34")
    write(root, {"self/task/12/children": "", "self/stat": stat(user=100, ended_user=50), "self/io": io(10)})
    ended = source.read()
    assert ended["user s"] == pytest.approx(150 * TICK_S)
    assert ended["read bytes"] == 10


def test_a_child_that_ends_while_we_look_at_it_does_no_harm(root: Path) -> None:
    write(root, {"self/task/12/children": "34 "})
    assert opened(root).read()["minor faults"] == 5


def test_what_a_thread_took_stays_when_it_has_ended_also_if_another_has_its_number(root: Path) -> None:
    write(root, {"self/task/13/schedstat": "1000000000 0 10\n"})
    source = opened(root)
    assert source.read()["on core s"] == 3.0
    write(root, {"self/task/13/schedstat": "500000000 0 1\n"})
    assert source.read()["on core s"] == 3.5
    shutil.rmtree(root / "self/task/13")
    said = source.read()
    assert said["on core s"] == 3.5
    assert said["times on core"] == 51
    assert source.read() == said


def test_a_kernel_that_tells_little_is_taken_as_it_is(root: Path) -> None:
    for name in ("stat", "self/io", "self/task/12/schedstat", "pressure/cpu"):
        (root / name).unlink()
    said = opened(root).read()
    assert said["user s"] == pytest.approx(100 * TICK_S)
    assert not {"read bytes", "on core s", "machine idle s", "cpu pressure s"} & set(said)


def test_kinds_of_memory_are_told_apart(root: Path) -> None:
    clock = VirtualClock()
    said = f"00-ff ---p 00000000 00:00 0 [rollup]\nRss: 9 kB\nPss: {2**20} kB\nAnonymous: {2**19} kB\n"
    write(root, {"self/smaps_rollup": said})
    source = memory(str(root), clock)
    assert isinstance(source, Memory)
    clock.advance(4)
    assert source.read() == pytest.approx({"own memory GB": 4.0, "anonymous memory GB": 2.0})


def test_without_its_files_a_source_is_missing(tmp_path: Path) -> None:
    for found, file in ((proc(str(tmp_path)), "self/task"), (memory(str(tmp_path)), "self/smaps_rollup")):
        assert isinstance(found, Missing)
        assert found.why == f"{tmp_path}/{file} says No such file or directory"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system has no /proc")
def test_the_real_proc_tells_of_work_that_a_child_did() -> None:
    source = proc()
    assert isinstance(source, Proc)
    before = source.read()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    after = source.read()
    assert after["user s"] + after["system s"] > before["user s"] + before["system s"]
    assert after["minor faults"] > before["minor faults"]
    assert after["resident GB"] > before["resident GB"]


@pytest.mark.parametrize(
    ("file", "text"), [("self/io", "something: else\n"), ("self/stat", "1 (a) S\n"), ("self/task/12/schedstat", "x\n")]
)
def test_a_proc_that_says_something_else_is_missed_and_says_why(root: Path, file: str, text: str) -> None:
    write(root, {file: text})
    found = proc(str(root))
    assert isinstance(found, Missing)
    assert "says something else than Linux" in found.why


def test_without_a_scheduler_that_tells_the_rest_is_told(root: Path) -> None:
    (root / "self/task/12/schedstat").unlink()
    said = opened(root).read()
    assert "on core s" not in said
    assert said["user s"] == pytest.approx(100 * TICK_S)
