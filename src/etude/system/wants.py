"""What a knob wants of a machine and a framework, and what would enable it where that is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from etude.system.machine import Machine

FRAMEWORKS: Final = {"torch": "PyTorch", "keras": "Keras", "": "a loop of its own"}


@dataclass(frozen=True)
class Want:
    """Something without which a knob cannot be changed.

    Attributes:
        is_there: Says of a machine and a framework whether they have it.
        said: What to say where it is missing.
    """

    is_there: Callable[[Machine, str], bool]
    said: str


TORCH: Final = Want(
    lambda _, framework: framework == "torch",
    "it is one of PyTorch's, and the training function uses {framework}. Load the data with a DataLoader of torch.",
)
COMPILER: Final = Want(
    lambda _, framework: framework == "torch",
    "the training function uses {framework}, which has no compiler that could be asked while it trains. Train with "
    "torch.",
)
PRECISION: Final = Want(
    lambda _, framework: framework == "torch",
    "the training function uses {framework}, whose precision nobody can change while it trains. Train with torch.",
)
CORES: Final = Want(
    lambda machine, _: machine.cores > 1,
    "this process may use one core only. Start it with more, or give a trial more by resources=.",
)
GPU: Final = Want(lambda machine, _: bool(machine.gpus), "no GPU is in use. Let the trial see one.")
GPU_POWER: Final = Want(
    lambda machine, _: bool(machine.gpu_power_w),
    "nobody tells the power limits of the GPUs. Install nvidia-ml-py (pip install 'etude[energy]'); a GPU of which "
    "NVML tells none has none.",
)
GPU_RIGHTS: Final = Want(
    lambda machine, _: machine.may_set_power,
    "power limits of GPUs are set by root alone. Run as root.",
)
GOVERNORS: Final = Want(
    lambda machine, _: len(machine.governors) > 1,
    "the kernel has no other governor for the clock (cpufreq). In a virtual machine the host has it; on others, "
    "load a cpufreq driver.",
)
FREQUENCIES: Final = Want(
    lambda machine, _: bool(machine.frequencies_mhz),
    "the kernel does not show the clock of the cores (cpufreq). In a virtual machine the host has it; on others, "
    "load a cpufreq driver.",
)
CLOCK: Final = Want(
    lambda machine, _: machine.may_set_clock,
    "the clock is set by root alone. Run as root, or make /sys/devices/system/cpu/cpu*/cpufreq/scaling_* writable.",
)
MEMORY: Final = Want(lambda machine, _: machine.memory_gb is not None, "nobody tells how much memory there is.")
MEMORY_GROUP: Final = Want(lambda machine, _: "memory" in machine.controllers, "memory cannot be limited: {group}")
CPU_GROUP: Final = Want(lambda machine, _: "cpu" in machine.controllers, "CPU time cannot be limited: {group}")

GROUPS: Final = {
    0: "there are no control groups. Mount them at /sys/fs/cgroup.",
    1: "the control group (version 1) is not ours. Run as root, or have its folder made ours.",
    2: "the control group (version 2) is not ours, or has no such controller. Run as root, or in a delegated one: "
    "systemd-run --user --scope -p Delegate=yes.",
}
"""Version of the control groups -> why nothing can be limited by them."""


def absent(wants: Iterable[Want], machine: Machine, framework: str) -> str:
    """Return what to say of the first that is missing; empty if all is there."""
    for want in wants:
        if not want.is_there(machine, framework):
            known = FRAMEWORKS.get(framework, framework)
            return want.said.format(framework=known, group=GROUPS[machine.cgroup])
    return ""
