"""What this machine lets be tuned, read from its folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from etude.system.groups import groups_of, text


@dataclass(frozen=True)
class Machine:
    """What there is to tune, and what we may.

    Attributes:
        cores: How many this process may use.
        memory_gb: Its main memory in GB; None if that cannot be told.
        gpus: The ids of its GPUs, as ``CUDA_VISIBLE_DEVICES`` takes them.
        governors: Those that the kernel has for the clock of the cores, the one at work first.
        frequencies_mhz: The lowest and the highest clock of the cores; empty if that cannot be told.
        may_set_clock: Whether we may set the two.
        gpu_power_w: The lowest and the highest power limit of the GPUs, and the usual one; empty if nobody tells.
        may_set_power: Whether we may set it.
        cgroup: Version of the control groups; 0 if there are none.
        controllers: What we may limit with them: ``cpu``, ``memory``.
    """

    cores: int = 1
    memory_gb: float | None = None
    gpus: tuple[str, ...] = ()
    governors: tuple[str, ...] = ()
    frequencies_mhz: tuple[int, ...] = ()
    may_set_clock: bool = False
    gpu_power_w: tuple[float, ...] = ()
    may_set_power: bool = False
    cgroup: int = 0
    controllers: tuple[str, ...] = ()


def read_machine(
    *,
    cores: int | None = None,
    memory_gb: float | None = None,
    gpus: Sequence[str] = (),
    gpu_power_w: Sequence[float] = (),
    cpus: str | Path = "/sys/devices/system/cpu",
    proc: str | Path = "/proc",
    groups: str | Path = "/sys/fs/cgroup",
) -> Machine:
    """Return what this machine lets be tuned. Nothing is changed, and what cannot be read is not there.

    Args:
        cores: How many this process may use; None to ask the kernel.
        memory_gb: Its main memory.
        gpus: The ids of its GPUs.
        gpu_power_w: Their power limits, as ``meters.nvml.power_limits_w`` returns them.
        cpus: The folder of the cores.
        proc: That of the processes.
        groups: That of the control groups.
    """
    clock = Path(cpus, "cpu0", "cpufreq")
    version, controllers = _groups(Path(proc), Path(groups))
    return Machine(
        cores=_cores() if cores is None else cores,
        memory_gb=memory_gb,
        gpus=tuple(gpus),
        governors=_governors(clock),
        frequencies_mhz=_frequencies_mhz(clock),
        may_set_clock=os.access(clock / "scaling_governor", os.W_OK) and os.access(clock / "scaling_max_freq", os.W_OK),
        gpu_power_w=tuple(gpu_power_w),
        may_set_power=os.geteuid() == 0,
        cgroup=version,
        controllers=controllers,
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _governors(clock: Path) -> tuple[str, ...]:
    at_work = text(clock / "scaling_governor").split()[:1]
    return tuple(dict.fromkeys([*at_work, *text(clock / "scaling_available_governors").split()]))


def _frequencies_mhz(clock: Path) -> tuple[int, ...]:
    ends = (text(clock / "cpuinfo_min_freq"), text(clock / "cpuinfo_max_freq"))
    return tuple(int(khz) // 1000 for khz in ends) if all(khz.isdigit() for khz in ends) else ()


def _groups(proc: Path, groups: Path) -> tuple[int, tuple[str, ...]]:
    """Return the version of the control groups, and the controllers under which we may make groups of our own."""
    ours = groups_of(proc=proc, groups=groups)
    found = []
    for name, folder in ours.folders.items():
        if os.access(folder, os.W_OK) and (ours.version == 1 or name in text(folder / "cgroup.controllers").split()):
            found.append(name)
    return ours.version, tuple(found)
