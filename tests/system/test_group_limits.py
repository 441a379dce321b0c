"""A training gets a control group of its own, with its processes, and leaves none behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.system.made_up_groups import MadeUpGroups

from etude.system import wants
from etude.system.applied.host import HostKnobs
from etude.system.applied.limits import GB, Limits
from etude.system.applied.part import Refused
from etude.system.groups import groups_of
from etude.system.machine import read_machine

BOTH = ("memory_limit", "cpu_share")
DRIVER, SUPERVISOR, ATTEMPT, LOADER = 10, 11, 12, 13
FAMILY = {DRIVER: 1, SUPERVISOR: DRIVER, ATTEMPT: SUPERVISOR, LOADER: ATTEMPT}


def limits(kernel: MadeUpGroups, *names: str, pid: int = ATTEMPT) -> Limits:
    return Limits(names or BOTH, cores=4, pid=pid, kernel=kernel, proc=kernel.proc, groups=kernel.groups)


# --- version 1 ------------------------------------------------------------------------------------


def test_the_process_and_its_descendants_move_and_come_back(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 1, FAMILY)
    part = limits(kernel)
    for name in "cpu", "memory":
        assert kernel.places(name) == {
            **dict.fromkeys([DRIVER, SUPERVISOR], "/job"),
            **dict.fromkeys([ATTEMPT, LOADER], "/job/etude-12"),
        }
    part.close()
    for name in "cpu", "memory":
        assert set(kernel.places(name).values()) == {"/job"}
        assert not list((kernel.groups / name / "job").glob("etude-*"))


def test_limits_are_written_and_taken_away(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 1, FAMILY)
    part = limits(kernel)
    assert part.now == {"memory_limit": None, "cpu_share": 1.0}
    part.put("memory_limit", 1.5)
    part.put("cpu_share", 0.25)
    assert kernel.says("/job/etude-12", "memory.limit_in_bytes") == f"{3 * GB // 2}\n"
    assert kernel.says("/job/etude-12", "cpu.cfs_quota_us") == "100000\n"  # a quarter of four cores is one
    part.put("memory_limit", None)
    part.put("cpu_share", 1.0)
    assert kernel.says("/job/etude-12", "memory.limit_in_bytes") == "-1\n"
    assert kernel.says("/job/etude-12", "cpu.cfs_quota_us") == "-1\n"


def test_only_what_is_wanted_has_a_group(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 1, FAMILY)
    part = limits(kernel, "cpu_share")
    assert set(kernel.places("memory").values()) == {"/job"}
    assert part.now == {"cpu_share": 1.0}
    part.close()


def test_what_is_started_while_others_move_moves_as_well(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 1, FAMILY)
    started: list[int] = []

    def start(pid: int) -> None:
        if pid == LOADER and not started:
            started.append(14)
            kernel.start(14, parent=LOADER)

    kernel.before_move = start
    limits(kernel, "cpu_share")
    assert kernel.places()[14] == "/job/etude-12"


def test_a_process_that_ends_meanwhile_holds_up_nothing(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 1, FAMILY)
    kernel.before_move = lambda pid: kernel.family.pop(LOADER, None) if pid == LOADER else None
    limits(kernel, "cpu_share")
    assert kernel.places()[ATTEMPT] == "/job/etude-12"


def test_a_controller_that_is_not_ours_leaves_all_as_it_was(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 1, FAMILY)
    kernel.forbidden = {"cpu/job"}
    with pytest.raises(Refused) as refused:
        limits(kernel)
    assert str(refused.value) == wants.GROUPS[1]
    assert set(kernel.places("memory").values()) == {"/job"}
    assert not list(kernel.groups.rglob("etude-*"))


def test_groups_of_attempts_that_were_killed_are_removed_by_the_next_and_others_are_not(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 1, FAMILY)
    around = kernel.groups / "cpu" / "job"
    for name in "etude-999", f"etude-{SUPERVISOR}", "etude-else":
        kernel.make(around / name)
    limits(kernel, "cpu_share").close()
    assert sorted(folder.name for folder in around.glob("*/")) == [f"etude-{SUPERVISOR}", "etude-else"]


def test_a_number_that_is_given_again_is_no_obstacle(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 1, FAMILY)
    kernel.make(kernel.groups / "cpu" / "job" / f"etude-{ATTEMPT}")
    limits(kernel, "cpu_share").close()
    assert not list(kernel.groups.rglob("etude-*"))


@pytest.mark.parametrize(("version", "line"), [(1, "total_rss"), (2, "anon")])
def test_less_memory_than_is_held_would_end_the_training_and_is_refused(
    tmp_path: Path, version: int, line: str
) -> None:
    kernel = MadeUpGroups(tmp_path, version, FAMILY)
    said: list[str] = []
    knobs = HostKnobs({BOTH: lambda names: limits(kernel, *names)}, BOTH, say=said.append)
    (stat,) = kernel.groups.rglob("etude-12/memory.stat")
    stat.write_text(f"cache 99\n{line} {3 * GB}\n")
    knobs.apply({"memory_limit": 2.0, "cpu_share": 0.5})
    why = "memory_limit=2.0 cannot be set: the training holds 3.0 GB already, and would be ended by 2 GB."
    assert knobs.lacks == {"memory_limit": why}
    assert said == [f"{why} It is left as it was found."]
    assert knobs.now == {"cpu_share": 1.0}
    knobs.close()
    assert not list(kernel.groups.rglob("etude-12"))


# --- version 2 ------------------------------------------------------------------------------------


def test_in_version_2_the_others_of_a_delegated_group_make_room_first(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 2, FAMILY)
    part = limits(kernel)
    in_rest = dict.fromkeys([DRIVER, SUPERVISOR], "/job/etude-rest")
    assert kernel.places() == {**in_rest, **dict.fromkeys([ATTEMPT, LOADER], "/job/etude-12")}
    part.put("memory_limit", 1.0)
    part.put("cpu_share", 0.5)
    assert kernel.says("/job/etude-12", "memory.max") == f"{GB}\n"
    assert kernel.says("/job/etude-12", "cpu.max") == "200000 100000\n"
    part.put("memory_limit", None)
    part.put("cpu_share", 1.0)
    assert kernel.says("/job/etude-12", "memory.max") == "max\n"
    assert kernel.says("/job/etude-12", "cpu.max") == "max 100000\n"
    part.close()
    assert set(kernel.places().values()) == {"/job/etude-rest"}
    assert [folder.name for folder in (kernel.groups / "job").glob("etude-*")] == ["etude-rest"]


def test_in_version_2_the_next_attempt_finds_room_made(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 2, {**FAMILY, 20: SUPERVISOR})
    first = limits(kernel)
    second = limits(kernel, pid=20)
    assert kernel.places()[20] == "/job/etude-20"
    first.close()
    second.close()
    assert set(kernel.places().values()) == {"/job/etude-rest"}


def test_in_version_2_one_group_has_a_controller_after_the_other(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 2, {**FAMILY, 20: SUPERVISOR})
    first = limits(kernel, "cpu_share")
    second = limits(kernel, "memory_limit", pid=20)
    second.put("memory_limit", 2)
    assert kernel.says("/job/etude-20", "memory.max") == f"{2 * GB}\n"
    first.close()
    second.close()


def test_in_version_2_the_root_has_processes_and_groups(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 2, FAMILY, place="/")
    part = limits(kernel)
    assert kernel.places() == {DRIVER: "/", SUPERVISOR: "/", ATTEMPT: "/etude-12", LOADER: "/etude-12"}
    part.close()
    assert set(kernel.places().values()) == {"/"}


@pytest.mark.parametrize("stranger", [{77: 1}, {77: DRIVER, 78: 1, 79: 78}])
def test_in_version_2_processes_of_others_are_not_moved(tmp_path: Path, stranger: dict[int, int]) -> None:
    kernel = MadeUpGroups(tmp_path, 2, FAMILY | stranger)
    with pytest.raises(Refused) as refused:
        limits(kernel)
    assert str(refused.value) == (
        f"the control group {kernel.groups}/job has other processes than this study's. Start the study in one of its "
        "own: systemd-run --user --scope -p Delegate=yes, or by a service with Delegate=yes."
    )
    assert set(kernel.places().values()) == {"/job"}


def test_in_version_2_a_controller_may_be_missing(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 2, FAMILY, lacks=("memory",))
    with pytest.raises(Refused, match=r"has no controller memory\. Start the study in one of its own"):
        limits(kernel)
    limits(kernel, "cpu_share").close()


def test_in_version_2_a_group_that_is_not_ours_is_told_of(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 2, FAMILY)
    kernel.forbidden = {"job"}
    with pytest.raises(Refused) as refused:
        limits(kernel)
    assert str(refused.value) == wants.GROUPS[2]
    assert set(kernel.places().values()) == {"/job"}


def test_in_version_2_room_that_was_made_for_nothing_is_given_back(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 2, FAMILY)
    kernel.hands_on = False
    with pytest.raises(Refused):
        limits(kernel)
    assert set(kernel.places().values()) == {"/job"}
    assert not list(kernel.groups.rglob("etude-*"))


def test_in_version_2_another_attempt_may_make_room_at_the_same_time(tmp_path: Path) -> None:
    kernel = MadeUpGroups(tmp_path, 2, FAMILY)
    rest = kernel.groups / "job" / "etude-rest"
    first_try = iter([True])

    class Slow:
        """Another attempt moves everything when this one has just found that it has to."""

        make, remove = kernel.make, kernel.remove

        def write(self, file: Path, said: str) -> None:
            if file.name == "cgroup.subtree_control" and next(first_try, False):
                try:
                    kernel.write(file, said)
                finally:
                    kernel.make(rest)
                    for pid in FAMILY:
                        kernel.write(rest / "cgroup.procs", str(pid))
            kernel.write(file, said)

    part = Limits(BOTH, cores=4, pid=ATTEMPT, kernel=Slow(), proc=kernel.proc, groups=kernel.groups)
    assert kernel.places()[ATTEMPT] == "/job/etude-12"
    part.close()
    assert set(kernel.places().values()) == {"/job/etude-rest"}


# --- for real -------------------------------------------------------------------------------------

REALLY = """
import json, os, subprocess, sys
from etude.system.applied.limits import Limits

name, value = sys.argv[1], float(sys.argv[2])

def places():
    lines = open(f"/proc/{child.pid}/cgroup").read(), open("/proc/self/cgroup").read()
    return [sorted(line.partition(":")[2] for line in text.splitlines()) for text in lines]

with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
    before = places()
    limits = Limits([name], cores=2)
    (group,) = limits._groups.values()
    within = places()
    limits.put(name, value)
    files = ("cpu.cfs_quota_us", "memory.limit_in_bytes", "cpu.max", "memory.max")
    said = {file: (group / file).read_text().strip() for file in files if (group / file).exists()}
    limits.close()
    print(json.dumps([before, within, places(), said, str(group), group.exists()]))
    child.communicate(b"\\n")
"""


def why_not(controller: str) -> str:
    """Return why groups cannot be made here; a test stays out of a group that somebody else has made for us."""
    if controller not in read_machine().controllers:
        return f"no group can be made for {controller} here"
    at = groups_of().folders[controller]
    is_root = at in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup", controller))
    if not is_root and "ETUDE_TEST_GROUPS" not in os.environ:
        return f"{at} was made by others; ETUDE_TEST_GROUPS=1 has the test make one in it"
    return ""


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("cpu_share", 0.5, ("100000", "100000 100000")), ("memory_limit", 1.0, (str(GB), str(GB)))],
)
def test_the_kernel_does_what_the_made_up_one_does(name: str, value: float, told: tuple[str, str]) -> None:
    if why := why_not({"cpu_share": "cpu", "memory_limit": "memory"}[name]):
        pytest.skip(why)
    done = subprocess.run([sys.executable, "-c", REALLY, name, str(value)], capture_output=True, text=True, check=True)
    found: Any = json.loads(done.stdout)
    before, within, after, said, group, is_left = found
    assert after == before or all("etude-rest" in "".join(lines) for lines in after)
    own = f"/{Path(group).name}"
    assert all(any(line.endswith(own) for line in lines) for lines in within)
    assert said[next(file for file in said if file.endswith(("quota_us", "in_bytes", "max")))] in told
    assert not is_left
    assert not Path(group).exists()
