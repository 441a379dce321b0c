"""What this machine has for workers: cores, memory and GPUs, as far as this process may use them."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from etude.core.resources import VISIBLE_GPUS, Machine
from etude.worker.processes import available_cores

if TYPE_CHECKING:
    from etude.system.machine import Machine as Tunable

GB: Final = 2**30
ANSWER_S: Final = 20.0
"""Seconds that nvidia-smi has to answer; where the driver is asleep, it takes some."""
ID: Final = re.compile(r"\d+|(?:GPU|MIG)-.+")
LISTED: Final = re.compile(r"^(?P<indent>\s*)(?:GPU (?P<index>\d+):|MIG ).*?\(UUID: (?P<uuid>[^)]+)\)", re.MULTILINE)
SIZED: Final = re.compile(r"^\s*MIG \d+g\.(?P<gb>\d+)gb.*?\(UUID: (?P<uuid>[^)]+)\)", re.MULTILINE)
"""A part of a GPU has its memory in its name, as in ``MIG 1g.10gb``."""


def this_machine() -> Machine:
    """Return what this machine has for workers that this process starts."""
    return Machine(available_cores(), gpus(), memory_gb())


def tunable(cores: int | None, gpus: Sequence[str]) -> Tunable:
    """Return what this machine lets be tuned of a trial that has some of its cores and GPUs.

    Args:
        cores: How many it may use; None for all that this process may.
        gpus: The ids of its GPUs.
    """
    from etude.system.machine import read_machine
    from etude.system.meters.nvml import power_limits_w

    limits_w = power_limits_w(gpus) if gpus else None
    return read_machine(cores=cores, gpus=gpus, memory_gb=memory_gb(), gpu_power_w=limits_w or ())


def name(proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> str:
    """Return what tells this machine from others: its host's name, which start of it this is, and what limits us there.

    Two jobs of one host that a scheduler gives memory of its own count as two machines.
    """
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        started = ""
    host = f"{socket.gethostname()}/{started}".rstrip("/")
    limit, group = min(_limits(proc, groups), default=(math.inf, ""))
    return f"{host}:{group}" if limit < _all_memory() else host


def gpus() -> tuple[str, ...]:
    """Return the ids of the GPUs: what CUDA_VISIBLE_DEVICES says, or else nvidia-smi; none if neither says anything.

    An id is an index, or a UUID. CUDA reads the variable up to the first that is neither, and so do we.
    """
    said = os.environ.get(VISIBLE_GPUS)
    if said is None:
        return _listed(_asked("-L"))
    found: dict[str, None] = {}
    for part in said.split(","):
        if not ID.fullmatch(part.strip()):
            break
        found[part.strip()] = None
    return tuple(found)


def gpus_of(given: tuple[str, ...] | None, device: str) -> tuple[str, ...]:
    """Return the GPUs of a training: those that it was given; where nobody gave it any, all, if it trains on one.

    Args:
        given: Their ids; None if it sees what there is.
        device: Where it trains by itself.
    """
    if given is not None:
        return given
    return () if device == "cpu" else gpus()


def memory_gb(proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> float | None:
    """Return the main memory in GB: the machine's, or what a control group leaves of it; None if it cannot be told."""
    least = min([_all_memory(), *(limit for limit, _ in _limits(proc, groups))])
    return least / GB if least < math.inf else None


def _all_memory() -> float:
    """Return the bytes of the whole machine; infinite if that cannot be told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return math.inf


def gpu_memory_mb(ids: Sequence[str]) -> dict[str, float]:
    """Return the memory of GPUs in MB, 0 if nvidia-smi does not say it.

    Args:
        ids: Of the GPUs, as ``gpus`` returns them. The beginning of a UUID will do, as it does for CUDA.
    """
    if not ids:
        return {}
    parts = any(gpu.startswith("MIG") for gpu in ids)
    table = _asked("--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits")
    sizes = _sizes_mb(table, _asked("-L") if parts else "")
    return {gpu: next((mb for name, mb in sizes.items() if _is(gpu, name)), 0.0) for gpu in ids}


def _sizes_mb(table: str, listed: str) -> dict[str, float]:
    """Return the memory in MB of GPUs by index and by UUID, and of their instances (MIG) by UUID.

    Example:
        >>> _sizes_mb("0, GPU-6b, 23034", "GPU 0: NVIDIA L4 (UUID: GPU-6b)")
        {'0': 23034.0, 'GPU-6b': 23034.0}
    """
    sizes: dict[str, float] = {}
    for line in table.splitlines():
        index, uuid, size = ([part.strip() for part in line.split(",")] + [""] * 3)[:3]
        if size.isdigit():
            sizes |= {index: float(size), uuid: float(size)}
    return sizes | {line["uuid"]: float(line["gb"]) * 2**10 for line in SIZED.finditer(listed)}


def _is(given: str, name: str) -> bool:
    return given == name if given.isdigit() else name.startswith(given)


def _asked(*options: str) -> str:
    """Return what nvidia-smi answers."""
    if shutil.which("nvidia-smi") is None:
        return ""
    try:
        done = subprocess.run(
            ["nvidia-smi", *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _listed(text: str) -> tuple[str, ...]:
    """Return the ids in a list of nvidia-smi; where a GPU is split into instances (MIG), those instead of it.

    Example:
        >>> _listed("GPU 0: NVIDIA L4 (UUID: GPU-6b)")
        ('0',)
    """
    whole: dict[str, list[str]] = {}  # UUID of a GPU -> those of its instances
    indices = []
    for line in LISTED.finditer(text):
        if line["index"] is not None:
            whole[line["uuid"]] = []
            indices.append(line["index"])
        elif whole:
            next(reversed(whole.values())).append(line["uuid"])
    if not any(whole.values()):
        return tuple(indices)
    return tuple(uuid for gpu, parts in whole.items() for uuid in parts or [gpu])


def _limits(proc: str, groups: str) -> Iterator[tuple[int, str]]:
    """Yield the limits, in bytes, of the control groups that this process is in, and of those around them, by name."""
    try:
        lines = Path(proc, "self", "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if not controllers:  # version 2
            root, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = f"{groups}/memory", "memory.limit_in_bytes"
        else:
            continue
        group = PurePosixPath("/", place)
        for around in (group, *group.parents):  # a container may see its own as the root
            with contextlib.suppress(OSError, ValueError):  # "max" is no limit
                yield int(Path(f"{root}{around}", name).read_text()), str(around)
