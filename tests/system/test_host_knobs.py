"""Knobs that a whole machine shares: one study at a time sets them, and they come back whatever becomes of it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from etude.system.applied import clock
from etude.system.applied.clock import Clock
from etude.system.applied.host import HostKnobs, Places, host_knobs
from etude.system.applied.part import Refused
from etude.system.applied.power import PowerLimit
from etude.system.applied.restoring import Restored, restore
from etude.system.machine import Machine

GOVERNORS = ("powersave", "performance")
CLOCKS = {0: "3600000", 1: "3600000", 2: "2400000"}
"""Core -> its highest frequency in kHz: the last one is a small core."""


class Cores:
    """A folder of cores whose kernel takes only what it knows."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.broken: set[str] = set()
        for core, khz in CLOCKS.items():
            folder = root / f"cpu{core}" / "cpufreq"
            folder.mkdir(parents=True)
            (folder / "scaling_governor").write_text("powersave\n")
            (folder / "scaling_max_freq").write_text(f"{khz}\n")
        (root / "cpufreq").mkdir()  # it lies among the cores, and is none

    def write(self, file: Path, said: str) -> None:
        if file.parent.parent.name in self.broken or (file.name == "scaling_governor" and said not in GOVERNORS):
            raise OSError(errno.EINVAL, "Invalid argument", str(file))
        file.write_text(f"{said}\n")

    def stand(self, file: str) -> list[str]:
        return [(self.root / f"cpu{core}" / "cpufreq" / file).read_text().strip() for core in CLOCKS]

    @property
    def governors(self) -> list[str]:
        return self.stand("scaling_governor")

    @property
    def highest_khz(self) -> list[str]:
        return self.stand("scaling_max_freq")


@pytest.fixture
def cores(tmp_path: Path) -> Cores:
    return Cores(tmp_path / "cpu")


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


AS_FOUND = ["powersave"] * 3, list(CLOCKS.values())


def standing(cores: Cores) -> tuple[list[str], list[str]]:
    return cores.governors, cores.highest_khz


# --- the clock ------------------------------------------------------------------------------------


def test_the_clock_is_set_for_all_cores_and_each_gets_back_what_it_had(cores: Cores, locks: Path) -> None:
    part = Clock(cores.root, locks, write=cores.write)
    assert part.now == {"cpu_governor": "powersave", "cpu_frequency": 3600}
    part.put("cpu_governor", "performance")
    part.put("cpu_frequency", 1800)
    assert standing(cores) == (["performance"] * 3, ["1800000"] * 3)
    part.put("cpu_frequency", 3600)  # what was found, which is less for the small core
    assert cores.highest_khz == AS_FOUND[1]
    part.put("cpu_frequency", 900)
    part.close()
    assert standing(cores) == AS_FOUND


def test_what_one_core_refuses_no_core_gets(cores: Cores, locks: Path) -> None:
    part = Clock(cores.root, locks, write=cores.write)
    part.put("cpu_frequency", 1800)
    cores.broken = {"cpu1"}
    with pytest.raises(OSError, match="Invalid argument"):
        part.put("cpu_frequency", 900)
    assert cores.highest_khz == ["1800000"] * 3
    cores.broken = set()
    part.close()
    assert standing(cores) == AS_FOUND


def test_without_a_clock_nothing_is_held(tmp_path: Path, locks: Path) -> None:
    with pytest.raises(Refused, match="does not show the clock"):
        Clock(tmp_path / "none", locks)
    assert not locks.exists()


def test_one_study_at_a_time_sets_the_clock(cores: Cores, locks: Path) -> None:
    first = Clock(cores.root, locks)
    with pytest.raises(Refused) as refused:
        Clock(cores.root, locks)
    told = f"another study on this machine has it: process {os.getpid()}. It is free when that ends."
    assert str(refused.value) == told
    assert restore(Places(cpus=cores.root, locks=locks)) == [Restored("clock of the cores", told)]
    first.close()
    Clock(cores.root, locks).close()


SETS_AND_WAITS = """
import sys
from pathlib import Path
from etude.system.applied.clock import Clock

part = Clock(Path(sys.argv[1]), Path(sys.argv[2]))
part.put("cpu_frequency", 1000)
print("set", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def killed(cores: Cores, locks: Path) -> int:
    """Give the number of a process that set the clock and was killed."""
    call = [sys.executable, "-c", SETS_AND_WAITS, str(cores.root), str(locks)]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "set\n"
        process.send_signal(signal.SIGKILL)
    assert cores.highest_khz == ["1000000"] * 3
    return process.pid


def test_the_clock_of_a_study_that_was_killed_is_put_back_by_the_next(cores: Cores, locks: Path, killed: int) -> None:
    said: list[str] = []
    parts = {("cpu_frequency",): lambda _: Clock(cores.root, locks)}
    knobs = HostKnobs(parts, ["cpu_frequency"], say=said.append)
    assert said == [f"What process {killed} had left when it was killed was put back."]
    assert knobs.now == {"cpu_frequency": 3600}
    assert standing(cores) == AS_FOUND
    knobs.close()


def test_the_clock_of_a_study_that_was_killed_is_put_back_on_request(cores: Cores, locks: Path, killed: int) -> None:
    places = Places(cpus=cores.root, locks=locks)
    assert restore(places) == [
        Restored("clock of the cores", f"What process {killed} had left when it was killed was put back.")
    ]
    assert standing(cores) == AS_FOUND
    assert restore(places) == [Restored("clock of the cores", "it is as it was found.")]


def test_what_cannot_be_put_back_now_is_still_there_for_the_next(cores: Cores, locks: Path, killed: int) -> None:
    cores.broken = {"cpu1"}
    with pytest.raises(OSError, match="Invalid argument"):
        Clock(cores.root, locks, write=cores.write)
    assert cores.highest_khz == [CLOCKS[0], "1000000", CLOCKS[2]]
    cores.broken = set()
    Clock(cores.root, locks, write=cores.write).close()
    assert standing(cores) == AS_FOUND


@pytest.mark.parametrize(
    "change",
    [
        {"boot": "another start of the machine"},
        {"found": {"cpu0/../../locks/etude-clock": "x", "cpu0/scaling_max_freq": "1;2", "../x": "1"}},
        {"found": 3},
    ],
)
def test_a_record_that_speaks_of_something_else_changes_nothing(
    cores: Cores, locks: Path, killed: int, change: dict[str, Any]
) -> None:
    record = json.loads((locks / clock.LOCK).read_text())
    assert record["pid"] == killed
    (locks / clock.LOCK).write_text(json.dumps(record | change))
    restore(Places(cpus=cores.root, locks=locks))
    assert cores.highest_khz == ["1000000"] * 3


def test_a_torn_record_is_from_before_the_first_change(cores: Cores, locks: Path, killed: int) -> None:
    file = locks / clock.LOCK
    file.write_text(file.read_text()[:-9])
    part = Clock(cores.root, locks)
    assert (part.mended, part.now["cpu_frequency"]) == ("", 1000)
    part.close()


def test_a_lock_of_another_user_is_not_believed(
    cores: Cores, locks: Path, killed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        os.chown(locks / clock.LOCK, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(Refused, match=r"is another user's\. Remove it\."):
        Clock(cores.root, locks)
    assert cores.highest_khz == ["1000000"] * 3


def test_a_lock_is_no_link_to_elsewhere(tmp_path: Path, cores: Cores, locks: Path) -> None:
    locks.mkdir()
    (tmp_path / "precious").write_text("kept")
    (locks / clock.LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(Refused, match="cannot be opened"):
        Clock(cores.root, locks)
    assert (tmp_path / "precious").read_text() == "kept"


# --- the power of GPUs ----------------------------------------------------------------------------


class FakeNvml:
    """Stands for NVIDIA's library: GPUs a and b, by index and UUID."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.limits_mw = {"GPU-a": 300_000, "GPU-b": 280_000}
        self.refuses: set[str] = set()

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.nvmlDeviceGetHandleByUUID(dict(enumerate(self.limits_mw)).get(index, "none"))

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.limits_mw:
            raise self.NVMLError("Not Found")
        return f"handle of {uuid}"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle.removeprefix("handle of ")

    def nvmlDeviceGetPowerManagementLimit(self, handle: str) -> int:
        return self.limits_mw[self.nvmlDeviceGetUUID(handle)]

    def nvmlDeviceSetPowerManagementLimit(self, handle: str, limit_mw: int) -> None:
        uuid = self.nvmlDeviceGetUUID(handle)
        if uuid in self.refuses:
            raise self.NVMLError("Insufficient Permissions")
        self.limits_mw[uuid] = limit_mw


def test_the_power_limit_is_set_for_the_gpus_in_use_and_brought_back(locks: Path) -> None:
    nvml = FakeNvml()
    part = PowerLimit(["0", "GPU-b"], locks, library=nvml)
    assert part.now == {"gpu_power_limit": 280.0}
    part.put("gpu_power_limit", 200)
    assert nvml.limits_mw == {"GPU-a": 200_000, "GPU-b": 200_000}
    part.put("gpu_power_limit", 280.0)
    assert nvml.limits_mw == {"GPU-a": 300_000, "GPU-b": 280_000}
    part.put("gpu_power_limit", 150)
    part.close()
    assert nvml.limits_mw == {"GPU-a": 300_000, "GPU-b": 280_000}


def test_a_limit_that_one_gpu_refuses_no_gpu_gets(locks: Path) -> None:
    nvml = FakeNvml()
    part = PowerLimit(["0", "1"], locks, library=nvml)
    nvml.refuses = {"GPU-b"}
    with pytest.raises(Refused, match=r"NVML refuses 200 W: Insufficient Permissions. Only root may set it\."):
        part.put("gpu_power_limit", 200)
    assert nvml.limits_mw == {"GPU-a": 300_000, "GPU-b": 280_000}
    nvml.refuses = set()
    part.close()


def test_each_gpu_is_held_by_one_study_and_others_are_free(locks: Path) -> None:
    nvml = FakeNvml()
    first = PowerLimit(["1"], locks, library=nvml)
    with pytest.raises(Refused, match="another study on this machine has it"):
        PowerLimit(["0", "1"], locks, library=nvml)
    PowerLimit(["0"], locks, library=nvml).close()  # what was held for nothing was let go
    first.close()


def test_a_power_limit_that_was_left_is_put_back_on_request(tmp_path: Path, locks: Path) -> None:
    nvml = FakeNvml()
    part = PowerLimit(["1"], locks, library=nvml)
    part.put("gpu_power_limit", 200)
    nvml.refuses = {"GPU-b"}
    with pytest.raises(OSError, match="GPU GPU-b does not take its power limit back: Insufficient Permissions"):
        part.close()
    places = Places(cpus=tmp_path, locks=locks)
    (told,) = restore(places, library=nvml)
    assert told.failed
    nvml.refuses = set()
    assert restore(places, library=nvml) == [
        Restored("power limit of GPU-b", f"What process {os.getpid()} had left when it was killed was put back.")
    ]
    assert nvml.limits_mw["GPU-b"] == 280_000


def test_gpus_that_tell_no_limit_are_told_of(locks: Path) -> None:
    with pytest.raises(Refused, match="of GPUs 7 NVML tells no power limit: Not Found"):
        PowerLimit(["7"], locks, library=FakeNvml())
    with pytest.raises(Refused, match="no GPU is in use"):
        PowerLimit([], locks, library=FakeNvml())


# --- whatever goes wrong --------------------------------------------------------------------------


class Broken:
    """A part with two knobs; one raises as soon as it is touched, and the end does as well."""

    mended = ""

    def __init__(self) -> None:
        self.set: list[tuple[str, object]] = []
        self.now = {"good": 1, "bad": 2}

    def put(self, name: str, value: object) -> None:
        if name == "bad":
            raise ZeroDivisionError("deep inside")
        self.set.append((name, value))

    def close(self) -> None:
        self.set.append(("closed", None))
        raise OSError("no way back")


def test_what_cannot_be_set_is_left_alone_and_said_once_and_the_rest_goes_on() -> None:
    said: list[str] = []
    part = Broken()
    knobs = HostKnobs({("good", "bad", "other"): lambda _: part}, ["good", "bad", "threads"], say=said.append)
    for value in (5, 6):
        knobs.apply({"good": value, "bad": value, "threads": 4})
    knobs.apply({})
    assert part.set == [("good", 5), ("good", 6), ("good", 1)]
    assert knobs.now == {"good": 1}
    assert knobs.lacks == {"bad": "bad=5 cannot be set: ZeroDivisionError: deep inside."}
    knobs.close()
    knobs.close()
    assert part.set[3:] == [("closed", None)]
    assert said == [
        "bad=5 cannot be set: ZeroDivisionError: deep inside. It cannot be brought back either: ZeroDivisionError: "
        "deep inside. That is tried again at the end.",
        "The host was not left as it was found: no way back. `etude system restore` may help.",
    ]


def test_what_cannot_be_opened_is_lacking_and_what_a_part_does_not_have_as_well() -> None:
    def refuse(_: object) -> Any:
        raise Refused("another study has it.")

    said: list[str] = []
    parts = {("one", "two"): refuse, ("good", "three"): lambda _: Broken()}
    knobs = HostKnobs(parts, ["one", "three", "good"], say=said.append)
    assert knobs.lacks == {"one": "another study has it.", "three": "the machine does not show it."}
    assert said == ["one cannot be set: another study has it.", "three cannot be set: the machine does not show it."]


def test_a_forked_process_brings_nothing_back(cores: Cores, locks: Path) -> None:
    knobs = host_knobs(
        ["cpu_frequency", "threads"], machine=Machine(), say=print, places=Places(cpus=cores.root, locks=locks)
    )
    knobs.apply({"cpu_frequency": 1800, "threads": 2})
    child = os.fork()
    if child == 0:
        knobs.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert cores.highest_khz == ["1800000"] * 3
    with pytest.raises(Refused):
        Clock(cores.root, locks)
    knobs.close()
    assert standing(cores) == AS_FOUND


def test_on_a_bare_machine_every_knob_of_the_host_is_lacking_and_nothing_is_raised(tmp_path: Path) -> None:
    names = ["cpu_governor", "cpu_frequency", "gpu_power_limit", "memory_limit", "cpu_share"]
    nowhere = Places(tmp_path / "cpu", tmp_path / "proc", tmp_path / "groups", tmp_path / "locks")
    said: list[str] = []
    knobs = host_knobs(names, machine=Machine(), say=said.append, places=nowhere, library=FakeNvml())
    assert list(knobs.lacks) == names
    assert knobs.lacks["cpu_share"] == "there are no control groups. Mount them at /sys/fs/cgroup."
    assert len(said) == len(names)
    knobs.apply(dict.fromkeys(names, 1))
    knobs.close()
