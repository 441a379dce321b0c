"""NVIDIA's own library of what its GPUs take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from etude.core.text import count
from etude.system.energy import Energy, Label, total
from etude.system.meters.meter import NOT_BEGUN
from etude.system.meters.sampling import Sampling, Unread, Wait, energy_of
from etude.system.nvml import MILLI, handles_of, listed, loaded

EVERY_S: Final = 0.1
LONGEST_S: Final = 5.0


@final
class Nvml:
    """GPUs of this machine, whoever uses them: by their counters of energy, or else by readings of their power.

    Args:
        gpus: Which, as ``handles_of`` takes them; None for all.
        library: What stands for NVIDIA's; None for the real one, imported here and not before.
        now_s: A clock.
        wait: How the time between two readings of power goes by.
    """

    label: Final = Label.MEASURED

    def __init__(
        self,
        gpus: Sequence[str] | None = None,
        *,
        library: Any = None,
        now_s: Callable[[], float] = time.monotonic,
        wait: Wait = threading.Event.wait,
    ) -> None:
        self._now_s, self._wait = now_s, wait
        self._counting: list[Any] = []
        self._telling_power: list[Any] = []
        self._library, self._lacks = loaded(library)
        if not self._lacks:
            self._lacks = self._look(gpus)
        self._before_j: list[float] | str | None = None
        self._sampling: Sampling[float] | None = None

    @property
    def source(self) -> str:
        """What it reads."""
        gpus = len(self._counting) + len(self._telling_power)
        return f"NVML: {count(gpus, 'GPU')}" if gpus else "NVML"

    def lacks(self) -> str:
        """Return why it gives no figures here."""
        return self._lacks

    def begin(self) -> None:
        """Begin a stretch."""
        self.end()
        if self._lacks:
            return
        self._before_j = self._counters()
        if self._telling_power:
            self._sampling = Sampling(self._power_w, every_s=EVERY_S, now_s=self._now_s, wait=self._wait, is_quick=True)

    def end(self) -> Energy:
        """End the stretch, and return what it took."""
        before, self._before_j = self._before_j, None
        sampling, self._sampling = self._sampling, None
        if before is None:
            return Energy.unavailable(self._lacks or NOT_BEGUN)
        parts = []
        if self._counting:
            parts.append(self._moved(before, self._counters()))
        if sampling is not None:
            parts.append(energy_of(sampling.end(), self.source, longest_s=LONGEST_S))
        return total(parts)

    def _look(self, gpus: Sequence[str] | None) -> str:
        """Find the GPUs, and what each can tell; return why one tells nothing."""
        try:
            for handle in handles_of(self._library, gpus):
                try:
                    self._library.nvmlDeviceGetTotalEnergyConsumption(handle)
                    self._counting.append(handle)
                except self._library.NVMLError:  # before Volta
                    self._library.nvmlDeviceGetPowerUsage(handle)
                    self._telling_power.append(handle)
        except self._library.NVMLError as error:
            return f"NVML tells no energy of GPUs {listed(gpus)}: {error}. Of parts of a GPU (MIG) it tells none."
        return "" if self._counting or self._telling_power else "NVML finds no GPU."

    def _counters(self) -> list[float] | str:
        """Return what the counters stand at, in joules; or why they cannot be read."""
        try:
            return [self._library.nvmlDeviceGetTotalEnergyConsumption(gpu) * MILLI for gpu in self._counting]
        except self._library.NVMLError as error:
            return f"{self.source} cannot be read any more: {error}"

    def _power_w(self) -> float:
        try:
            return float(sum(self._library.nvmlDeviceGetPowerUsage(gpu) for gpu in self._telling_power)) * MILLI
        except self._library.NVMLError as error:
            raise Unread(f"{self.source} cannot be read any more: {error}") from error

    def _moved(self, before: list[float] | str, after: list[float] | str) -> Energy:
        if isinstance(before, str) or isinstance(after, str):
            return Energy.unavailable(before if isinstance(before, str) else str(after))
        moved = [now - then for then, now in zip(before, after, strict=True)]
        if min(moved) <= 0:  # the driver was loaded anew, or the stretch was shorter than a tick of the counter
            return Energy.unavailable(f"{self.source}, where a counter did not go up")
        return Energy.measured(sum(moved), self.source)


def power_limits_w(gpus: Sequence[str] | None = None, *, library: Any = None) -> tuple[float, float, float] | None:
    """Return the lowest and the highest power limit that all GPUs take, and the lowest of their usual ones, in watts.

    None if there are none, or NVML does not tell.
    """
    nvml, lacks = loaded(library)
    if lacks:
        return None
    try:
        handles = handles_of(nvml, gpus)
        bounds = [nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle) for handle in handles]
        usual = [nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) for handle in handles]
    except nvml.NVMLError:
        return None
    if not handles:
        return None
    return max(b[0] for b in bounds) * MILLI, min(b[1] for b in bounds) * MILLI, min(usual) * MILLI
