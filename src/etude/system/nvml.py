"""NVIDIA's management library (package ``nvidia-ml-py``): how it is loaded, and how GPUs are found in it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

MILLI: Final = 1e-3
"""It tells joules and watts in thousandths."""
INSTALL: Final = "the package nvidia-ml-py is missing. Install it: pip install 'etude[energy]'."


def loaded(library: Any = None) -> tuple[Any, str]:
    """Return the library, ready for questions, and why it is not; empty if it is.

    Args:
        library: What stands for NVIDIA's; None for the real one, imported here and not before.
    """
    try:
        nvml = importlib.import_module("pynvml") if library is None else library
    except ImportError:
        return None, INSTALL
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return nvml, f"NVML does not start: {error}. It comes with the driver of an NVIDIA GPU."
    return nvml, ""


def handles_of(nvml: Any, gpus: Sequence[str] | None) -> list[Any]:
    """Return the library's handles of GPUs; it raises its own ``NVMLError`` where it does not know one.

    Args:
        nvml: The library, ready for questions.
        gpus: Which, by index or whole UUID, as ``CUDA_VISIBLE_DEVICES`` names them; None for all. NVML counts them by
            their place on the bus, and CUDA does so only with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
    """
    if gpus is None:
        return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return [
        nvml.nvmlDeviceGetHandleByIndex(int(gpu)) if gpu.isdigit() else nvml.nvmlDeviceGetHandleByUUID(gpu)
        for gpu in gpus
    ]


def listed(gpus: Sequence[str] | None) -> str:
    """Return GPUs as messages name them."""
    return "of this machine" if gpus is None else ", ".join(gpus)


def models(gpus: Sequence[str], *, library: Any = None) -> tuple[str, ...]:
    """Return the model of each GPU; "a GPU" of each where nobody tells.

    Args:
        gpus: Which, by index or whole UUID.
        library: What stands for NVIDIA's.
    """
    nvml, why = loaded(library) if gpus else (None, "")
    if nvml is None or why:
        return ("a GPU",) * len(gpus)
    try:
        return tuple(str(nvml.nvmlDeviceGetName(handle)) for handle in handles_of(nvml, gpus))
    except nvml.NVMLError:
        return ("a GPU",) * len(gpus)
