"""What a machine lets be tuned is read from its folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.system import machine
from etude.system.machine import Machine, read_machine


def written(root: Path, files: dict[str, str]) -> Path:
    """Write a tree."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def read(root: Path) -> Machine:
    return read_machine(cores=4, cpus=root / "cpu", proc=root / "proc", groups=root / "groups")


def test_a_machine_without_any_of_it_is_bare(tmp_path: Path) -> None:
    bare = read(tmp_path)
    assert bare == Machine(cores=4, may_set_power=bare.may_set_power)


def test_the_clock_is_read_with_the_governor_at_work_first(tmp_path: Path) -> None:
    clock = "cpu/cpu0/cpufreq"
    root = written(
        tmp_path,
        {
            f"{clock}/scaling_governor": "schedutil\n",
            f"{clock}/scaling_available_governors": "performance powersave schedutil\n",
            f"{clock}/cpuinfo_min_freq": "800000\n",
            f"{clock}/cpuinfo_max_freq": "3600000\n",
            f"{clock}/scaling_max_freq": "3600000\n",
        },
    )
    found = read(root)
    assert found.governors == ("schedutil", "performance", "powersave")
    assert found.frequencies_mhz == (800, 3600)
    assert found.may_set_clock


def test_version_2_gives_the_controllers_that_our_group_has(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {
            "groups/cgroup.controllers": "cpuset cpu io memory\n",
            "groups/user/job/cgroup.controllers": "memory pids\n",
            "proc/self/cgroup": "0::/user/job\n",
        },
    )
    assert (read(root).cgroup, read(root).controllers) == (2, ("memory",))


def test_a_group_that_cannot_be_seen_stands_for_the_nearest_around_it(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {"groups/cgroup.controllers": "cpu memory\n", "proc/self/cgroup": "0::/docker/1234\n"},
    )
    assert read(root).controllers == ("cpu", "memory")


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {
            "groups/cpu/job/cpu.cfs_quota_us": "-1\n",
            "groups/memory/memory.limit_in_bytes": "1\n",
            "proc/self/cgroup": "5:cpu,cpuacct:/job\n4:memory:/elsewhere\n0::/\n",
        },
    )
    assert (read(root).cgroup, read(root).controllers) == (1, ("cpu", "memory"))


def test_what_we_may_not_write_we_may_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = written(
        tmp_path,
        {
            "groups/cgroup.controllers": "cpu memory\n",
            "proc/self/cgroup": "0::/\n",
            "cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "cpu/cpu0/cpufreq/scaling_max_freq": "1\n",
        },
    )
    monkeypatch.setattr(machine.os, "access", lambda *_: False)  # a test may run as root, who may write anything
    monkeypatch.setattr(machine.os, "geteuid", lambda: 1000)
    found = read(root)
    assert (found.controllers, found.may_set_clock, found.may_set_power) == ((), False, False)
