"""What this machine lets be tuned, read from its folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

CONTROLLERS: Final = ("cpu", "memory")


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
    at_work = _text(clock / "scaling_governor").split()[:1]
    return tuple(dict.fromkeys([*at_work, *_text(clock / "scaling_available_governors").split()]))


def _frequencies_mhz(clock: Path) -> tuple[int, ...]:
    ends = (_text(clock / "cpuinfo_min_freq"), _text(clock / "cpuinfo_max_freq"))
    return tuple(int(khz) // 1000 for khz in ends) if all(khz.isdigit() for khz in ends) else ()


def _groups(proc: Path, groups: Path) -> tuple[int, tuple[str, ...]]:
    """Return the version of the control groups, and the controllers under which we may make groups of our own."""
    version = 2 if (groups / "cgroup.controllers").exists() else 1 if (groups / "cpu").exists() else 0
    if version == 0:
        return 0, ()
    places: dict[str, PurePosixPath] = {}  # controllers, none in version 2 -> where we are
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, names, group = line.split(":", 2)
        places |= dict.fromkeys(names.split(","), PurePosixPath("/", group))
    found = []
    for name in CONTROLLERS:
        place = places.get(name if version == 1 else "")
        root = groups / name if version == 1 else groups
        folder = _nearest(root, place) if place is not None else None
        if folder is not None and os.access(folder, os.W_OK) and (version == 1 or name in _controllers(folder)):
            found.append(name)
    return version, tuple(found)


def _nearest(root: Path, place: PurePosixPath) -> Path | None:
    """Return the folder of a group, or of the nearest around it: a container may see its own as the root."""
    around = (Path(f"{root}{group}") for group in (place, *place.parents))
    return next((folder for folder in around if folder.is_dir()), None)


def _controllers(folder: Path) -> list[str]:
    return _text(folder / "cgroup.controllers").split()


def _text(file: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return file.read_text().strip()
    return ""
