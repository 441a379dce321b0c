"""Meters measure a stretch, say what they cannot, hold nobody up, and never say 0 for what they do not know."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.system.turns import Turns

from etude.core.errors import ConfigError
from etude.system.energy import Energy, Label
from etude.system.meters import best, rapl, zeus
from etude.system.meters.best import NoMeter, Together, best_meter, first_that_measures
from etude.system.meters.modelled import Modelled, cpu_seconds
from etude.system.meters.nvml import Nvml, power_limits_w
from etude.system.meters.rapl import Rapl, counted
from etude.system.meters.sampling import Sample, Samples, energy_of
from etude.system.meters.zeus import Zeus


def stretch(meter: Any, turns: Turns, between: Callable[[], None]) -> Energy:
    """Return what a meter says of a stretch in which the thread reads nothing between its ends."""
    meter.begin()
    turns.pause()
    between()
    energy: Energy = meter.end()
    turns.go_on()
    return energy


# --- RAPL -----------------------------------------------------------------------------------------

RANGE_UJ = 262_143_328_850


class Tree:
    """A folder as Linux makes it for RAPL."""

    def __init__(self, root: Path, **names: str) -> None:
        self.root = root
        for place, name in names.items():
            folder = root / place.replace("_", "-", 1).replace("_", ":")
            folder.mkdir(parents=True)
            (folder / "name").write_text(name + "\n")
            (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
            self.stand(folder.name, 0)

    def stand(self, zone: str, uj: int) -> None:
        (self.root / zone / "energy_uj").write_text(f"{uj % RANGE_UJ}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(
        tmp_path / "powercap",
        intel_rapl_0="package-0",
        intel_rapl_0_0="core",
        intel_rapl_0_1="dram",
        intel_rapl_1="package-1",
        intel_rapl_2="psys",
    )


def test_rapl_adds_packages_and_memory_and_counts_nothing_twice(tree: Tree) -> None:
    turns = Turns()

    def work() -> None:
        turns.time_s = 10.0
        for zone, joules in {"0": 3, "1": 4, "0:0": 2, "0:1": 1, "2": 50}.items():
            tree.stand(f"intel-rapl:{zone}", joules * 10**6)

    energy = stretch(Rapl(tree.root, now_s=turns.now_s, wait=turns.wait), turns, work)
    assert energy == Energy.measured(8.0, "RAPL: 2 packages, memory")


def test_rapl_counts_on_where_a_counter_begins_anew(tree: Tree) -> None:
    turns = Turns()
    tree.stand("intel-rapl:0", RANGE_UJ - 1_000_000)

    def work() -> None:
        turns.time_s = 10.0
        for zone in ("0:1", "1"):
            tree.stand(f"intel-rapl:{zone}", 10**6)
        tree.stand("intel-rapl:0", RANGE_UJ + 2_000_000)

    energy = stretch(Rapl(tree.root, now_s=turns.now_s, wait=turns.wait), turns, work)
    assert energy.joules == pytest.approx(3.0 + 1.0 + 1.0)


def test_rapl_reads_on_the_way_so_that_a_long_stretch_hides_no_second_round(tree: Tree) -> None:
    turns = Turns()
    meter = Rapl(tree.root, now_s=turns.now_s, wait=turns.wait)
    meter.begin()
    stood = 0
    for _ in range(5):  # each time more than half a round
        turns.pause()
        turns.time_s += 200.0
        stood += 150_000_000_000
        for zone in ("0", "0:1", "1"):
            tree.stand(f"intel-rapl:{zone}", stood)
        turns.go_on()
    turns.pause()
    energy = meter.end()
    turns.go_on()
    assert energy.joules == pytest.approx(3 * 5 * 150_000)


def test_rapl_that_was_not_read_for_too_long_is_unavailable(tree: Tree) -> None:
    turns = Turns()

    def sleep() -> None:
        turns.time_s = 300.0
        for zone in ("0", "0:1", "1"):
            tree.stand(f"intel-rapl:{zone}", 10**6)

    energy = stretch(Rapl(tree.root, now_s=turns.now_s, wait=turns.wait), turns, sleep)
    assert (
        str(energy) == "energy unavailable: intel-rapl:0 was not read for 300 s, in which it may have come round twice"
    )


def test_a_package_that_does_not_move_is_unavailable_and_not_zero(tree: Tree) -> None:
    turns = Turns()

    def work() -> None:
        turns.time_s = 10.0
        tree.stand("intel-rapl:0", 10**6)

    energy = stretch(Rapl(tree.root, now_s=turns.now_s, wait=turns.wait), turns, work)
    assert str(energy) == "energy unavailable: intel-rapl:1 did not move in 10 s"


def test_memory_that_does_not_move_is_left_out_of_figure_and_source(tree: Tree) -> None:
    turns = Turns()

    def work() -> None:
        turns.time_s = 10.0
        tree.stand("intel-rapl:0", 10**6)
        tree.stand("intel-rapl:1", 10**6)

    energy = stretch(Rapl(tree.root, now_s=turns.now_s, wait=turns.wait), turns, work)
    assert energy == Energy.measured(2.0, "RAPL: 2 packages")


def test_the_thread_of_a_meter_ends_with_the_stretch(tree: Tree) -> None:
    meter = Rapl(tree.root)  # with real pauses, much longer than this test
    meter.begin()
    meter.begin()  # begins anew, and leaves nothing of the first
    for zone in ("0", "0:1", "1"):
        tree.stand(f"intel-rapl:{zone}", 10**6)
    assert meter.end().joules == pytest.approx(3.0)


def test_rapl_that_breaks_on_the_way_is_unavailable(tree: Tree) -> None:
    turns = Turns()
    energy = stretch(
        Rapl(tree.root, now_s=turns.now_s, wait=turns.wait),
        turns,
        (tree.root / "intel-rapl:1" / "energy_uj").unlink,
    )
    assert energy.label is Label.UNAVAILABLE
    assert "RAPL: 2 packages, memory cannot be read any more: " in energy.source


def test_rapl_finds_zones_that_lie_in_one_another(tmp_path: Path) -> None:
    Tree(tmp_path / "intel-rapl", intel_rapl_0="package-0")
    Tree(tmp_path / "intel-rapl" / "intel-rapl:0", intel_rapl_0_0="dram")
    assert Rapl(tmp_path).source == "RAPL: 1 package, memory"


def test_rapl_without_permission_says_what_would_enable_it(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: rapl.Zone) -> float:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rapl.Zone, "read_j", refused)  # root, who may run the tests, is never refused
    meter = Rapl(tree.root)
    assert meter.lacks() == (
        f"{tree.root}/intel-rapl:0/energy_uj: the energy counters may be read by root alone, since they can betray "
        "what others compute (CVE-2020-8694). Where that is no concern, run: "
        "sudo chmod -R a+r /sys/class/powercap/intel-rapl*/"
    )
    meter.begin()
    assert meter.end() == Energy.unavailable(meter.lacks())


def test_a_machine_without_counters_is_told(tmp_path: Path) -> None:
    assert "has no energy counter of a processor" in Rapl(tmp_path / "nowhere").lacks()


@given(st.integers(1, 2**40), st.integers(0, 2**50), st.lists(st.floats(0, 0.999), max_size=20))
def test_a_counter_that_comes_round_loses_nothing(range_j: int, start: int, shares: list[float]) -> None:
    steps = [int(share * range_j) for share in shares]
    stood = list(itertools.accumulate(steps, initial=start))
    assert counted(tuple(value % range_j for value in stood), range_j) == sum(steps)


# --- NVML -----------------------------------------------------------------------------------------


class FakeNvml:
    """Stands for NVIDIA's library: GPUs that have a counter, or only tell their power."""

    class NVMLError(Exception):
        pass

    def __init__(
        self, counters_mj: dict[str, int], power_mw: dict[str, int] | None = None, starts: bool = True
    ) -> None:
        self.counters_mj, self.power_mw, self.starts = counters_mj, power_mw or {}, starts

    def nvmlInit(self) -> None:
        if not self.starts:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.counters_mj | self.power_mw)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        try:
            return sorted(self.counters_mj | self.power_mw)[index]
        except IndexError:
            raise self.NVMLError("Not Found") from None

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return self._of(self.counters_mj, handle)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return self._of(self.power_mw, handle)

    def nvmlDeviceGetPowerManagementLimitConstraints(self, handle: str) -> list[int]:
        return {"a": [100_000, 350_000], "b": [150_000, 300_000]}[handle]

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: str) -> int:
        return {"a": 320_000, "b": 280_000}[handle]

    def _of(self, table: dict[str, int], handle: str) -> int:
        if handle not in table:
            raise self.NVMLError("Not Supported")
        return table[handle]


def test_nvml_takes_the_counters_of_energy() -> None:
    library = FakeNvml({"a": 1000, "b": 5000})
    meter = Nvml(library=library)
    meter.begin()
    library.counters_mj = {"a": 3500, "b": 5500}
    assert meter.end() == Energy.measured(3.0, "NVML: 2 GPUs")


def test_nvml_looks_only_at_the_gpus_that_are_ours() -> None:
    library = FakeNvml({"a": 0, "GPU-6b": 0})
    meter = Nvml(["GPU-6b"], library=library)
    meter.begin()
    library.counters_mj = {"a": 9000, "GPU-6b": 1000}
    assert meter.end() == Energy.measured(1.0, "NVML: 1 GPU")


def test_a_gpu_without_counter_is_sampled() -> None:
    turns = Turns()
    library = FakeNvml({"a": 0}, {"b": 100_000})
    meter = Nvml(library=library, now_s=turns.now_s, wait=turns.wait)
    meter.begin()
    turns.let_pass(0.1)
    turns.pause()
    library.counters_mj, library.power_mw = {"a": 2000}, {"b": 300_000}
    turns.time_s += 0.1
    energy = meter.end()
    turns.go_on()
    assert energy.label is Label.MEASURED
    assert energy.joules == pytest.approx(2.0 + 100 * 0.1 + 200 * 0.1)


def test_a_gpu_counter_that_does_not_go_up_is_unavailable() -> None:
    library = FakeNvml({"a": 1000, "b": 1000})
    meter = Nvml(library=library)
    meter.begin()
    library.counters_mj = {"a": 2000, "b": 1000}
    assert str(meter.end()) == "energy unavailable: NVML: 2 GPUs, where a counter did not go up"


def test_a_gpu_that_is_lost_on_the_way_is_unavailable() -> None:
    library = FakeNvml({"a": 1000})
    meter = Nvml(library=library)
    meter.begin()
    library.counters_mj = {}
    assert str(meter.end()) == "energy unavailable: NVML: 1 GPU cannot be read any more: Not Supported"


@pytest.mark.parametrize(
    ("meter", "said"),
    [
        (lambda: Nvml(library=FakeNvml({}, starts=False)), "NVML does not start: Driver Not Loaded"),
        (lambda: Nvml(library=FakeNvml({})), "NVML finds no GPU."),
        (lambda: Nvml(["MIG-1"], library=FakeNvml({"a": 0})), "Of parts of a GPU (MIG) it tells none."),
        (lambda: Nvml(["7"], library=FakeNvml({"a": 0})), "NVML tells no energy of GPUs 7: Not Found"),
    ],
)
def test_nvml_says_what_it_lacks(meter: Callable[[], Nvml], said: str) -> None:
    made = meter()
    assert said in made.lacks()
    made.begin()
    assert made.end() == Energy.unavailable(made.lacks())


def test_power_limits_are_those_that_all_gpus_take() -> None:
    assert power_limits_w(library=FakeNvml({"a": 0, "b": 0})) == (150.0, 300.0, 280.0)
    assert power_limits_w(library=FakeNvml({}, starts=False)) is None
    assert power_limits_w(library=FakeNvml({})) is None


# --- a model, and zeus ----------------------------------------------------------------------------


def test_a_model_says_both_of_its_factors() -> None:
    readings = iter([10.0, 12.0])
    meter = Modelled(20, cpu_s=lambda: next(readings))
    meter.begin()
    assert str(meter.end()) == "about 40 J modelled (24 to 56), CPU seconds x 20 W"


def test_a_model_without_cpu_seconds_is_unavailable() -> None:
    meter = Modelled(cpu_s=lambda: 3.0)
    meter.begin()
    assert str(meter.end()) == "energy unavailable: CPU seconds x 15 W, where no CPU seconds were counted"
    with pytest.raises(ConfigError, match="watts=0"):
        Modelled(0)


def test_a_stretch_shorter_than_a_tick_of_the_kernel_counts() -> None:
    meter = Modelled()
    meter.begin()
    sum(range(20_000))
    assert meter.end().joules


def test_cpu_seconds_are_those_of_a_process_and_all_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def process(pid: int, times: str, children: str) -> None:
        (tmp_path / f"{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 {times} 20 0 1 0")
        (tmp_path / f"{pid}/task/{pid}/children").write_text(children)

    process(1, "100 50 30 20", "2 3 99")
    process(2, "200 0 0 0", "4")
    process(3, "0 0 0 0", "")
    process(4, "300 100 0 0", "")
    monkeypatch.setattr("os.getpid", lambda: 1)
    monkeypatch.setattr("os.sysconf", lambda _: 100)
    assert cpu_seconds(tmp_path) == pytest.approx(2.0 + 2.0 + 4.0)


def test_this_process_has_at_least_the_cpu_seconds_that_the_kernel_tells_it() -> None:
    times = os.times()
    a_tick_each = 0.02
    assert cpu_seconds() >= times.user + times.system - a_tick_each


class FakeMonitor:
    """Stands for the monitor of zeus."""

    def __init__(self, gpus: list[float] | None, cpus: list[float] | None, fails: bool = False) -> None:
        self.gpu_indices, self.cpu_indices, self.fails = (
            list(range(len(gpus or []))),
            list(range(len(cpus or []))),
            fails,
        )
        self._gpus, self._cpus = gpus, cpus

    def begin_window(self, key: str, sync_execution: bool = True, restart: bool = False) -> None:
        assert not sync_execution
        assert restart

    def end_window(self, key: str, sync_execution: bool = True) -> SimpleNamespace:
        if self.fails:
            raise RuntimeError("the service is gone")
        cpus = None if self._cpus is None else dict(enumerate(self._cpus))
        return SimpleNamespace(gpu_energy=dict(enumerate(self._gpus or [])), cpu_energy=cpus, dram_energy=None)


def test_zeus_names_what_is_in_its_figure() -> None:
    meter = Zeus(FakeMonitor([1.0, 2.0], [4.0]))
    meter.begin()
    assert meter.end() == Energy.measured(7.0, "zeus: GPUs, processors")


@pytest.mark.parametrize(
    ("monitor", "said"),
    [
        (FakeMonitor([0.0], [4.0]), "zeus: GPUs, processors, where a counter did not go up"),
        (FakeMonitor([1.0], None, fails=True), "zeus failed: the service is gone"),
        (FakeMonitor(None, None), "zeus finds no GPU, and no processor that tells."),
    ],
)
def test_zeus_never_says_zero_and_never_raises(monitor: FakeMonitor, said: str) -> None:
    meter = Zeus(monitor)
    meter.begin()
    assert meter.end() == Energy.unavailable(said)


def test_zeus_is_asked_for_gpus_where_some_are_in_use() -> None:
    assert Zeus(FakeMonitor(None, [4.0])).lacks() == ""
    assert Zeus(FakeMonitor(None, [4.0]), needs_gpus=True).lacks() == "zeus finds no GPU that tells."


# --- power that was sampled -----------------------------------------------------------------------


def samples(*readings: tuple[float, float], until: float, missed: tuple[str, ...] = ()) -> Samples[float]:
    return Samples(0.0, until, 1.0, tuple(Sample(at, watts) for at, watts in readings), missed)


def test_power_is_integrated_by_the_trapezoid_rule() -> None:
    energy = energy_of(samples((0, 10), (1, 20), (2, 40), until=2.5), "a meter", longest_s=10)
    assert energy == Energy.measured(15 + 30 + 20, "a meter")


def test_missing_readings_widen_the_bounds_and_are_told() -> None:
    energy = energy_of(samples((0, 10), (4, 20), until=4, missed=("late",)), "a meter", longest_s=10)
    assert energy.joules == 60
    assert (energy.low, energy.high) == (pytest.approx(0.6 * 10 * 4), pytest.approx(1.4 * 20 * 4))
    assert str(energy) == "60 J measured (24 to 112), a meter, readings missing"


def test_power_that_is_unknown_for_too_long_is_unavailable() -> None:
    energy = energy_of(samples((0, 10), (12, 20), until=12, missed=("late", "refused")), "a meter", longest_s=10)
    assert (
        str(energy) == "energy unavailable: a meter gave no reading for 12 s, longer than 10 s; the last one: refused"
    )
    none = energy_of(samples(until=3, missed=("refused",)), "a meter", longest_s=10)
    assert str(none) == "energy unavailable: a meter gave no reading in 3 s; the last one: refused"


def test_a_meter_that_reads_nothing_is_unavailable() -> None:
    energy = energy_of(samples((0, 0), (1, 0), until=1), "a meter", longest_s=10)
    assert str(energy) == "energy unavailable: a meter reads 0 J in 1 s, which no running machine takes"


@given(
    st.lists(st.tuples(st.floats(0, 60), st.floats(0.1, 1e4)), min_size=1, max_size=20),
    st.floats(60, 100),
)
def test_bounds_hold_what_they_bound(readings: list[tuple[float, float]], until: float) -> None:
    energy = energy_of(samples(*sorted(readings), until=until), "a meter", longest_s=math.inf)
    assert energy.joules is not None
    assert energy.low is not None
    assert energy.high is not None
    watts = [w for _, w in readings]
    assert 0.6 * min(watts) * until * (1 - 1e-9) <= energy.low <= energy.joules <= energy.high
    assert energy.high <= 1.4 * max(watts) * until * (1 + 1e-9)


# --- the best of several --------------------------------------------------------------------------


class Told:
    """A meter that says what a test tells it to."""

    def __init__(self, source: str, energy: Energy, lacks: str = "") -> None:
        self.source, self._energy, self._lacks, self.label = source, energy, lacks, energy.label

    def lacks(self) -> str:
        return self._lacks

    def begin(self) -> None:
        pass

    def end(self) -> Energy:
        return self._energy


def test_the_first_that_measures_is_taken_and_says_why_no_better_one() -> None:
    found = first_that_measures(
        [
            Told("RAPL", Energy.measured(1, "RAPL"), "root only"),
            Told("a model", Energy.modelled(1, "a model")),
            Told("never asked", Energy.measured(1, "-")),
        ]
    )
    assert str(found) == "energy is modelled: a model\nnot RAPL: root only"


def test_without_any_meter_it_is_unavailable_and_says_why() -> None:
    found = first_that_measures([Told("RAPL", Energy.measured(1, "RAPL"), "root only")])
    found.meter.begin()
    assert str(found.meter.end()) == "energy unavailable: RAPL: root only"
    assert found.meter.label is Label.UNAVAILABLE


def test_meters_of_different_parts_are_added() -> None:
    both = Together([Told("CPU", Energy.modelled(10, "CPU")), Told("GPU", Energy.measured(5, "GPU"))])
    both.begin()
    assert both.label is Label.MODELLED
    assert both.end() == Energy.modelled(10, "CPU") + Energy.measured(5, "GPU")
    assert Together([Told("CPU", Energy.modelled(10, "CPU")), NoMeter("none here")]).lacks() == "none here"


@pytest.fixture
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have neither counters nor libraries, whatever this machine has."""
    monkeypatch.setattr(best, "Rapl", lambda: Rapl(tmp_path))
    monkeypatch.setattr(best, "Nvml", lambda gpus: Nvml(gpus, library=FakeNvml({}, starts=False)))
    monkeypatch.setattr(zeus.importlib, "import_module", _missing)


def _missing(name: str) -> None:
    raise ImportError(name)


@pytest.mark.usefixtures("_bare")
def test_a_bare_machine_gets_a_model_and_is_told_of_what_it_lacks() -> None:
    found = best_meter(watts=9)
    assert found.meter.source == "CPU seconds x 9 W"
    assert [name for name, _ in found.passed_over] == ["RAPL", "zeus"]


@pytest.mark.usefixtures("_bare")
def test_with_gpus_that_tell_nothing_no_figure_of_the_processor_stands_for_all() -> None:
    found = best_meter(gpus=["0"])
    assert found.meter.label is Label.UNAVAILABLE
    assert "NVML does not start" in found.meter.lacks()


def test_a_meter_that_was_not_begun_says_so(tree: Tree) -> None:
    for meter in (Rapl(tree.root), Nvml(library=FakeNvml({"a": 1})), Modelled(), Zeus(FakeMonitor([1.0], None))):
        assert str(meter.end()) == "energy unavailable: the meter was not begun"
