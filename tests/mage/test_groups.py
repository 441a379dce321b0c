"""Control groups hold what all processes of a sandbox take, where one may be made; elsewhere all is as before."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiers import permitted

from etude.mage.probe.reading import facts_of
from etude.mage.sandbox import groups
from etude.mage.sandbox.groups import OURS, OWN, Tree, make, most_tasks
from etude.mage.sandbox.protocol import Job, Limits, Ran, Sandbox, Tier

LIMITS = Limits(tasks=30, memory_mb=512)
FILES = {
    "pids": ("cgroup.procs", "pids.max", "pids.events"),
    "memory": ("cgroup.procs", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"),
    "unified": (
        *("cgroup.procs", "cgroup.subtree_control", "pids.max", "pids.events", "memory.max", "memory.swap.max"),
        "memory.events",
    ),
}


def a_group(folder: Path, kind: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES[kind]:
        (folder / name).write_text("")


def tree_of(place: Path, said: str, kind: Callable[[Path], str]) -> Tree:
    """Return a tree without a kernel, in which we are in groups that ``/proc`` says."""
    (place / "proc" / "self").mkdir(parents=True)
    (place / "proc" / "self" / "cgroup").write_text(said)
    (place / "proc" / str(os.getpid())).mkdir()
    return Tree(place / "proc", place / "groups", make=lambda one: a_group(one, kind(one)), remove=shutil.rmtree)


@pytest.fixture
def one(tmp_path: Path) -> Tree:
    """Give groups of version 1."""
    tmp_path = tmp_path / "one"
    for kind in ("pids", "memory"):
        a_group(tmp_path / "groups" / kind / "jobs" / "7", kind)
    said = "9:name=systemd:/\n8:pids:/jobs/7\n4:cpu,memory:/jobs/7/not-seen-from-here\n0::/\n"
    return tree_of(tmp_path, said, lambda folder: folder.relative_to(tmp_path / "groups").parts[0])


@pytest.fixture
def two(tmp_path: Path) -> Tree:
    """Give groups of version 2, as in the session of a user: ours is a scope in a slice that hands controllers on."""
    tmp_path = tmp_path / "two"
    for path in (".", "user.slice", "user.slice/app.slice", "user.slice/app.slice/run-7.scope"):
        a_group(tmp_path / "groups" / path, "unified")
    (tmp_path / "groups" / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "groups" / "user.slice" / "app.slice" / "cgroup.subtree_control").write_text("memory pids\n")
    for name in ("pids.max", "memory.max"):
        (tmp_path / "groups" / "user.slice" / "app.slice" / "run-7.scope" / name).write_text("max\n")
    return tree_of(tmp_path, "0::/user.slice/app.slice/run-7.scope\n", lambda _: "unified")


def test_in_version_1_each_controller_has_a_group_below_ours(one: Tree) -> None:
    group = make(LIMITS, one)
    assert group is not None
    assert group.held == ("processes", "memory")
    group.take(4711)
    (pids,) = (one.groups / "pids" / "jobs" / "7").glob(f"{OURS}*")
    (memory,) = (one.groups / "memory" / "jobs" / "7").glob(f"{OURS}*")
    said = [(pids / name).read_text() for name in ("pids.max", "cgroup.procs")]
    assert said == [str(30 + OWN), "4711"]
    said = [(memory / f"memory.{name}limit_in_bytes").read_text() for name in ("", "memsw.")]
    assert said == [str(512 << 20)] * 2
    assert (memory / "cgroup.procs").read_text() == "4711"
    for folder in (pids, memory):
        (folder / "cgroup.procs").write_text("")  # it has ended
    group.end()
    assert not pids.exists()
    assert not memory.exists()


def test_in_version_2_one_group_beside_ours_holds_both(two: Tree) -> None:
    group = make(LIMITS, two)
    assert group is not None
    assert group.held == ("processes", "memory")
    (folder,) = (two.groups / "user.slice" / "app.slice").glob(f"{OURS}*")
    said = {name: (folder / name).read_text() for name in ("pids.max", "memory.max", "memory.swap.max")}
    assert said == {"pids.max": str(30 + OWN), "memory.max": str(512 << 20), "memory.swap.max": "0"}
    group.end()
    assert not folder.exists()


def test_who_is_limited_is_not_let_out_of_that(two: Tree) -> None:
    home = two.groups / "user.slice" / "app.slice" / "run-7.scope"
    for name, said in (("memory.max", "1000000\n"), ("cpu.max", "50000 100000\n"), ("cpuset.cpus", "0-3\n")):
        before = (home / name).read_text() if (home / name).exists() else ""
        (home / name).write_text(said)
        assert make(LIMITS, two) is None
        (home / name).write_text(before)
    assert make(LIMITS, two) is not None


def test_what_is_not_handed_on_or_may_not_be_made_is_not_held(two: Tree, one: Tree) -> None:
    (two.groups / "user.slice" / "app.slice" / "cgroup.subtree_control").write_text("pids\n")
    group = make(LIMITS, two)
    assert group is not None
    assert group.held == ("processes",)
    (two.groups / "user.slice" / "app.slice" / "cgroup.subtree_control").write_text("")
    assert make(LIMITS, two) is None
    (one.proc / "self" / "cgroup").unlink()
    assert make(LIMITS, one) is None


def test_a_machine_that_lets_us_make_none_or_move_nobody_is_left_as_it_is(one: Tree) -> None:
    def forbidden(_: Path) -> None:
        raise PermissionError

    before = sorted(one.groups.rglob("*"))
    assert make(LIMITS, Tree(one.proc, one.groups, make=forbidden)) is None
    group = make(LIMITS, one)
    assert group is not None
    for folder in group.folders.values():
        (folder / "cgroup.procs").unlink()
        (folder / "cgroup.procs").mkdir()
    group.take(4711)
    assert group.held == ()
    assert group.refused() == ""
    assert sorted(one.groups.rglob("*")) == before


def test_without_limits_there_is_no_group(one: Tree) -> None:
    assert make(Limits(processes=None), one) is None
    assert most_tasks(Limits(processes=None)) is None
    assert most_tasks(Limits(processes=10)) == 10 * (2 * (os.cpu_count() or 1) + 8)
    assert most_tasks(Limits(processes=10, tasks=12)) == 12


def test_groups_of_those_who_were_killed_are_swept(one: Tree) -> None:
    left, alive = (one.groups / "pids" / "jobs" / "7" / f"{OURS}{pid}-aa" for pid in (2**22 + 1, os.getpid()))
    for folder in (left, alive):
        a_group(folder, "pids")
    assert make(LIMITS, one) is not None
    assert not left.exists()
    assert alive.exists()


def test_what_the_kernel_had_to_hold_is_told(one: Tree) -> None:
    group = make(LIMITS, one)
    assert group is not None
    (group.folders["pids"] / "pids.events").write_text("max 0\n")
    (group.folders["memory"] / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    assert group.refused() == ""
    (group.folders["pids"] / "pids.events").write_text("max 3\n")
    assert group.refused() == "more than 30 processes and threads"
    (group.folders["memory"] / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert group.refused() == "more than 512 MB of memory in all"


def test_facts_tell_what_the_kernel_had_to_hold(tmp_path: Path) -> None:
    memory, tasks = "more than 512 MB of memory in all", "more than 30 processes and threads"
    killed = facts_of(Ran(code=None, signal=9, refused=memory), tmp_path / "none", None, tmp_path, {})
    assert killed.ended.why == f"killed by signal 9 ({memory})"
    failed = facts_of(Ran(code=1, refused=tasks), tmp_path / "none", None, tmp_path, {})
    assert failed.ended.why == f"exit code 1 ({tasks})"
    assert facts_of(Ran(code=0, refused=tasks), tmp_path / "none", None, tmp_path, {}).ended.why == "finished"


# --- a real kernel --------------------------------------------------------------------------------


@pytest.fixture(params=[tier for tier in Tier if tier is not Tier.OUTER])
def limited(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox of each tier that has limits."""
    return permitted(request.param)


def holding(what: str) -> None:
    """Skip a test where no group can be made that holds something."""
    group = make(Limits(tasks=100, memory_mb=512))
    held = group.held if group is not None else ()
    if group is not None:
        group.end()
    if what not in held:
        pytest.skip(f"no control group can be made here that limits {what}, by who runs this")


def left() -> list[Path]:
    tree = Tree()
    homes = {home for name in groups.NAMES if (home := tree.ours.folders.get(name)) is not None}
    return [
        group for home in homes for around in (home, home.parent) for group in around.glob(f"{OURS}{os.getpid()}-*")
    ]


def python(sandbox: Sandbox, folder: Path, code: str, limits: Limits) -> Ran:
    reads = [Path(sys.prefix), Path(sys.base_prefix)]
    return sandbox.run(
        Job([sys.executable, "-c", code], folder, reads=reads, environment={"PATH": "/usr/bin:/bin"}, limits=limits)
    )


STARTS = (
    "import subprocess\n"
    "started = []\n"
    "try:\n"
    "    for _ in range(64): started.append(subprocess.Popen(['sleep', '600']))\n"
    "finally: print(len(started))\n"
)


def test_the_kernel_forks_no_more_than_it_was_told_to(limited: Sandbox, tmp_path: Path) -> None:
    holding("processes")
    ran = python(limited, tmp_path, STARTS, Limits(processes=None, tasks=32))
    assert (ran.code, ran.stopped, ran.kernel) == (1, "", ("processes",))
    assert ran.refused == "more than 32 processes and threads"
    assert int(ran.out) in (31, 32)  # the program itself is one; where nothing holds namespaces, there is room for one
    assert b"BlockingIOError" in ran.err
    assert left() == []


def test_where_there_is_no_group_they_are_counted(
    limited: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "make", lambda _: None)
    ran = python(limited, tmp_path, f"{STARTS}\nstarted[0].wait()", Limits(processes=32))
    assert (ran.code, ran.stopped, ran.kernel, ran.refused) == (None, "more than 32 processes", (), "")


def test_the_kernel_gives_all_of_them_no_more_memory_than_it_was_told_to(limited: Sandbox, tmp_path: Path) -> None:
    holding("memory")
    code = (
        "import os, signal, sys\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        taken = b'x' * (100 << 20)\n"  # each of them may
        "        signal.pause()\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "sys.exit(1)\n"
    )
    ran = python(limited, tmp_path, code, Limits(memory_mb=300))
    assert (ran.code, ran.kernel) == (1, ("processes", "memory"))
    assert ran.out == b"-9\n"
    assert ran.refused == "more than 300 MB of memory in all"
    assert left() == []


def test_a_program_within_its_limits_is_refused_nothing(limited: Sandbox, tmp_path: Path) -> None:
    ran = python(limited, tmp_path, "import sys; print(sys.stdin.read() == '')", Limits(memory_mb=512))
    assert (ran.code, ran.out, ran.refused, ran.stopped) == (0, b"True\n", "", "")
