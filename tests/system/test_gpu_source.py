"""GPUs, as a fake of NVIDIA's management library tells of them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from etude.core.clock import VirtualClock
from etude.system.sources.gpu import GPU_SAMPLES, Gpus, gpus
from etude.system.sources.source import Missing


class FakeNvml:
    """The library, with some GPUs; what is in ``lacks`` they do not tell."""

    class NVMLError(Exception):
        pass

    def __init__(self, count: int = 2, *lacks: str) -> None:
        self.count = count
        self.lacks = lacks
        self.open = 0
        self.busy = {"gpu": 50, "memory": 20}
        self.samples: list[tuple[int, int]] = []
        self.joules = 0.0

    def _check(self, name: str) -> None:
        if name in self.lacks:
            raise self.NVMLError("Not Supported")

    def nvmlInit(self) -> None:
        self._check("driver")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index >= self.count:
            raise self.NVMLError("Invalid Argument")
        return f"handle {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return f"handle {uuid}"

    def nvmlDeviceGetSamples(self, _: str, kind: int, seen: int) -> tuple[int, list[Any]]:
        self._check("samples")
        factor = 1 if kind == GPU_SAMPLES else 0
        return 1, [
            SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=value * factor))
            for at, value in self.samples
            if at > seen
        ]

    def nvmlDeviceGetUtilizationRates(self, _: str) -> Any:
        self._check("busy")
        return SimpleNamespace(**self.busy)

    def nvmlDeviceGetMemoryInfo(self, _: str) -> Any:
        return SimpleNamespace(used=2**31)

    def nvmlDeviceGetClockInfo(self, _: str, kind: int) -> int:
        return 1500 if kind == 1 else 0

    def nvmlDeviceGetTotalEnergyConsumption(self, _: str) -> int:
        self._check("energy")
        return int(1000 * self.joules)


def opened(nvml: FakeNvml, clock: VirtualClock, ids: list[str] | None = None) -> Gpus:
    found = gpus(ids, nvml, clock)
    assert isinstance(found, Gpus), found
    return found


def test_levels_count_by_time_and_energy_as_it_is() -> None:
    nvml, clock = FakeNvml(2, "samples"), VirtualClock()
    source = opened(nvml, clock)
    source.read()
    nvml.joules = 70
    clock.advance(10)
    assert source.read() == pytest.approx(
        {"GPUs busy": 10.0, "GPU memories busy": 4.0, "GPU memory GB": 40.0, "GPU clock GHz": 30.0, "GPU J": 140.0}
    )


def test_a_gpu_that_keeps_samples_is_asked_for_all_since_the_last_time() -> None:
    nvml, clock = FakeNvml(1), VirtualClock()
    source = opened(nvml, clock)
    nvml.samples = [(1, 100), (2, 100)]
    source.read()
    nvml.samples += [(3, 0), (4, 100)]  # the older two no longer count: 0.5 since
    clock.advance(8)
    assert source.read()["GPUs busy"] == pytest.approx(8 * (1.0 + 0.5) / 2)


def test_what_gpus_do_not_tell_is_left_out() -> None:
    said = opened(FakeNvml(2, "samples", "busy", "energy"), VirtualClock()).read()
    assert set(said) == {"GPU memory GB", "GPU clock GHz"}


def test_only_gpus_of_this_process_count() -> None:
    nvml, clock = FakeNvml(4), VirtualClock()
    source = opened(nvml, clock, ["1", "GPU-6b"])
    source.read()
    clock.advance(1)
    assert source.read()["GPU memory GB"] == pytest.approx(4.0)


def test_the_library_is_let_go_once() -> None:
    nvml = FakeNvml()
    source = opened(nvml, VirtualClock())
    assert nvml.open == 1
    source.close()
    source.close()
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("nvml", "ids", "why"),
    [
        (
            FakeNvml(2, "driver"),
            None,
            "NVML does not start: Not Supported. It comes with the driver of an NVIDIA GPU.",
        ),
        (FakeNvml(0), None, "this process uses no GPU"),
        (FakeNvml(2), [], "this process uses no GPU"),
        (FakeNvml(2), ["5"], "the driver says Invalid Argument of GPUs 5"),
    ],
)
def test_without_gpus_it_is_said_why(nvml: FakeNvml, ids: list[str] | None, why: str) -> None:
    assert gpus(ids, nvml) == Missing("GPU counters", why)
    assert nvml.open == 0


def test_without_the_package_it_is_said_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert str(gpus()) == (
        "no GPU counters: the package nvidia-ml-py is missing. Install it: pip install 'etude[energy]'."
    )
