"""What GPUs do, as NVIDIA's management library tells it (package ``nvidia-ml-py``)."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from etude.core.clock import Clock, WallClock
from etude.system.nvml import handles_of, listed, loaded
from etude.system.sources.levels import Levels
from etude.system.sources.source import Missing, Rung

GB: Final = 2**30
SM_CLOCK: Final = 1
GPU_SAMPLES, MEMORY_SAMPLES = 1, 2
"""Kinds of samples, as the library numbers them."""


class Gpus:
    """Adds up what some GPUs do. ``gpus`` opens one.

    Args:
        nvml: The library.
        handles: Its handles of the GPUs.
        clock: Gives the time.
    """

    name = "GPU counters"
    rung = Rung.NONE

    def __init__(self, nvml: Any, handles: Sequence[Any], clock: Clock) -> None:
        self._nvml = nvml
        self._handles = tuple(handles)
        self._levels = Levels(clock)
        self._sampled_at: dict[tuple[int, int], int] = {}
        self._open = True

    def read(self) -> dict[str, float]:
        """Return what all GPUs did together; what one of them cannot tell is left out."""
        nvml = self._nvml
        asked: dict[str, Callable[[int, Any], float]] = {
            "GPUs busy": lambda at, gpu: self._busy(at, gpu, GPU_SAMPLES),
            "GPU memories busy": lambda at, gpu: self._busy(at, gpu, MEMORY_SAMPLES),
            "GPU memory GB": lambda _, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used / GB,
            "GPU clock GHz": lambda _, gpu: nvml.nvmlDeviceGetClockInfo(gpu, SM_CLOCK) / 1000,
        }
        levels = self._told(asked)
        energy = self._told({"GPU J": lambda _, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000})
        return {**self._levels.seen(levels), **energy}

    def _told(self, asked: dict[str, Callable[[int, Any], float]]) -> dict[str, float]:
        said = {}
        for name, ask in asked.items():
            with contextlib.suppress(self._nvml.NVMLError):  # this kind of GPU does not tell it
                said[name] = float(sum(ask(at, gpu) for at, gpu in enumerate(self._handles)))
        return said

    def _busy(self, at: int, gpu: Any, kind: int) -> float:
        """Return the share of time that a GPU was busy since it was last asked; of late, if it keeps no samples."""
        seen = self._sampled_at.get((at, kind), 0)
        try:
            _, samples = self._nvml.nvmlDeviceGetSamples(gpu, kind, seen)
        except self._nvml.NVMLError:
            samples = []
        values = [sample.sampleValue.uiVal for sample in samples if sample.timeStamp > seen]
        if not values:
            now = self._nvml.nvmlDeviceGetUtilizationRates(gpu)
            return float(now.gpu if kind == GPU_SAMPLES else now.memory) / 100
        self._sampled_at[at, kind] = max(sample.timeStamp for sample in samples)
        return statistics.fmean(values) / 100

    def close(self) -> None:
        """Let the library go."""
        if self._open:
            self._open = False
            self._nvml.nvmlShutdown()


def gpus(ids: Sequence[str] | None = None, nvml: Any = None, clock: Clock | None = None) -> Gpus | Missing:
    """Open the counters of GPUs, or say why they cannot be had.

    Args:
        ids: Indices or whole UUIDs of the GPUs that this process uses; all of the machine, if not given.
        nvml: The library; imported, if not given.
        clock: Gives the time.
    """
    nvml, why = loaded(nvml)
    if why:
        return Missing(Gpus.name, why)
    try:
        handles, why = handles_of(nvml, ids), "this process uses no GPU"
    except nvml.NVMLError as error:
        handles, why = [], f"the driver says {error} of GPUs {listed(ids)}"
    if not handles:
        nvml.nvmlShutdown()
        return Missing(Gpus.name, why)
    return Gpus(nvml, handles, clock or WallClock())
