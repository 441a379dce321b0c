"""The power limit of GPUs, through NVML. It is that of the whole GPU, whoever uses it, and only root may set it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

from etude.system.applied.hold import Found, Hold
from etude.system.applied.part import Refused
from etude.system.knobs import Value
from etude.system.nvml import MILLI, handles_of, listed, loaded

LOCK: Final = "etude-gpu-"
PLAIN: Final = re.compile(r"[\w-]+")


@final
class PowerLimit:
    """The power limit of the GPUs in use, in watts.

    Args:
        gpus: Which, as ``handles_of`` takes them.
        locks: Where each of them is locked, so that one study at a time sets it.
        library: What stands for NVIDIA's.

    Attributes:
        mended: See ``Hold``.

    Raises:
        Refused: Another study holds one of them, or NVML does not tell the limit.
    """

    def __init__(self, gpus: Sequence[str], locks: Path, *, library: Any = None) -> None:
        self._nvml, lacks = loaded(library)
        if lacks:
            raise Refused(lacks)
        self._holds: list[Hold] = []
        self._found_mw: dict[str, int] = {}
        try:
            for handle in handles_of(self._nvml, gpus):
                self._take(handle, locks)
        except (self._nvml.NVMLError, Refused, OSError) as error:
            self._release()
            told = f"of GPUs {listed(gpus)} NVML tells no power limit: {error}"
            raise error if isinstance(error, Refused) else Refused(told) from None
        if not self._found_mw:
            raise Refused("no GPU is in use.")
        self._is_changed = False
        self.mended = " ".join(hold.mended for hold in self._holds if hold.mended)

    @property
    def now(self) -> Mapping[str, Value]:
        """The lowest limit of the GPUs, as it was found."""
        return {"gpu_power_limit": min(self._found_mw.values()) * MILLI}

    def put(self, name: str, value: Value) -> None:
        """Set it for all of the GPUs; if one refuses, for none."""
        as_found = value == self.now[name]
        self._is_changed = True
        before_mw: dict[str, int] = {}
        try:
            for uuid, found_mw in self._found_mw.items():
                handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
                before_mw[uuid] = self._nvml.nvmlDeviceGetPowerManagementLimit(handle)
                limit_mw = found_mw if as_found else round(float(value or 0) / MILLI)
                self._nvml.nvmlDeviceSetPowerManagementLimit(handle, limit_mw)
        except self._nvml.NVMLError as error:
            for uuid, limit_mw in before_mw.items():
                with contextlib.suppress(self._nvml.NVMLError):
                    _set(self._nvml, uuid, limit_mw)
            raise Refused(f"NVML refuses {value} W: {error}. Only root may set it.") from None

    def close(self) -> None:
        """Bring back what was found, and let others set it."""
        try:
            if self._is_changed:
                put_back({uuid: str(limit_mw) for uuid, limit_mw in self._found_mw.items()}, library=self._nvml)
        except OSError:
            for hold in self._holds:
                hold.abandon()
            raise
        self._release()

    def _take(self, handle: Any, locks: Path) -> None:
        uuid = str(self._nvml.nvmlDeviceGetUUID(handle))
        if not PLAIN.fullmatch(uuid):
            raise Refused(f"a GPU calls itself {uuid!r}.")
        hold = Hold.take(locks / f"{LOCK}{uuid}", put_back=lambda found: put_back(found, library=self._nvml))
        self._holds.append(hold)
        limit_mw = int(self._nvml.nvmlDeviceGetPowerManagementLimit(handle))
        hold.remember({uuid: str(limit_mw)})
        self._found_mw[uuid] = limit_mw

    def _release(self) -> None:
        for hold in self._holds:
            hold.release()


def put_back(found: Found, *, library: Any = None) -> None:
    """Give each GPU the limit that it had, all of them even if one refuses.

    Args:
        found: Their UUIDs, and limits in thousandths of a watt.
        library: What stands for NVIDIA's.

    Raises:
        OSError: One refused, or NVML cannot be had.
    """
    nvml, lacks = loaded(library)
    if lacks:
        raise OSError(lacks)
    wrong = ""
    for uuid, limit_mw in found.items():
        try:
            _set(nvml, uuid, int(limit_mw))
        except nvml.NVMLError as error:
            wrong = f"GPU {uuid} does not take its power limit back: {error}"
    if wrong:
        raise OSError(wrong)


def _set(nvml: Any, uuid: str, limit_mw: int) -> None:
    nvml.nvmlDeviceSetPowerManagementLimit(nvml.nvmlDeviceGetHandleByUUID(uuid), limit_mw)
