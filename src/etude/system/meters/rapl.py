"""The energy counters of processors (RAPL), as Linux shows them in a folder."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from etude.core.text import count
from etude.system.energy import Energy, Label
from etude.system.meters.meter import NOT_BEGUN
from etude.system.meters.sampling import Samples, Sampling, Unread, Wait

POWERCAP: Final = "/sys/class/powercap"
PLACES: Final = ("intel-rapl:*", "*/intel-rapl:*", "*/*/intel-rapl:*")
"""Zones lie in one row there, and one in the other where the folder of the device is shown to a container."""
EVERY_S: Final = 30.0
MOST_W: Final = 1000.0
"""No package takes more, so for a while after a reading a counter cannot have come round twice."""
MICRO: Final = 1e-6

ROOT_ONLY: Final = (
    "the energy counters may be read by root alone, since they can betray what others compute (CVE-2020-8694). "
    "Where that is no concern, run: sudo chmod -R a+r /sys/class/powercap/intel-rapl*/"
)


@dataclass(frozen=True)
class Zone:
    """One counter.

    Attributes:
        folder: Where it lies.
        kind: ``package`` or ``dram``. Cores and graphics are in a package already, and packages in a platform.
        range_j: How far it counts until it begins anew, in joules.
    """

    folder: Path
    kind: str
    range_j: float

    def read_j(self) -> float:
        """Return what it stands at, in joules."""
        return int((self.folder / "energy_uj").read_text()) * MICRO


def counted(readings_j: tuple[float, ...], range_j: float) -> float:
    """Return how far a counter went, which may have begun anew between two readings, but once at most.

    Example:
        >>> counted((90.0, 95.0, 10.0), range_j=100.0)
        20.0
    """
    steps = (after - before for before, after in itertools.pairwise(readings_j))
    return sum(step + range_j if step < 0 else step for step in steps)


@final
class Rapl:
    """Packages and memory of this machine, whoever uses them: what other processes take is in the figure.

    Args:
        root: The folder with the counters.
        now_s: A clock.
        wait: How the time between two readings goes by; they are so many that no counter comes round unseen.
    """

    label: Final = Label.MEASURED

    def __init__(
        self,
        root: str | Path = POWERCAP,
        *,
        now_s: Callable[[], float] = time.monotonic,
        wait: Wait = threading.Event.wait,
    ) -> None:
        self._root, self._now_s, self._wait = Path(root), now_s, wait
        self._zones, self._lacks = _zones(self._root)
        self._sampling: Sampling[tuple[float, ...]] | None = None

    @property
    def source(self) -> str:
        """What it reads."""
        return _said(self._zones)

    def lacks(self) -> str:
        """Return why it gives no figures here."""
        return self._lacks

    def begin(self) -> None:
        """Begin a stretch."""
        self.end()
        if not self._lacks:
            self._sampling = Sampling(self._read, every_s=EVERY_S, now_s=self._now_s, wait=self._wait, is_quick=True)

    def end(self) -> Energy:
        """End the stretch, and return what it took."""
        sampling, self._sampling = self._sampling, None
        if sampling is None:
            return Energy.unavailable(self._lacks or NOT_BEGUN)
        return self._energy(sampling.end())

    def _read(self) -> tuple[float, ...]:
        try:
            return tuple(zone.read_j() for zone in self._zones)
        except (OSError, ValueError) as error:
            raise Unread(f"{self.source} cannot be read any more: {error}") from error

    def _energy(self, read: Samples[tuple[float, ...]]) -> Energy:
        if read.missed or len(read.taken) < 2:  # noqa: PLR2004
            return Energy.unavailable(read.missed[-1] if read.missed else f"{self.source} was read only once")
        joules: dict[Zone, float] = {}
        longest_s = max(after.at_s - before.at_s for before, after in itertools.pairwise(read.taken))
        for index, zone in enumerate(self._zones):
            if longest_s * MOST_W > zone.range_j:
                return Energy.unavailable(
                    f"{zone.folder.name} was not read for {longest_s:.3g} s, in which it may have come round twice"
                )
            joules[zone] = counted(tuple(sample.value[index] for sample in read.taken), zone.range_j)
        still = [zone for zone, moved in joules.items() if moved == 0]
        if stuck := [zone.folder.name for zone in still if zone.kind == "package"]:
            return Energy.unavailable(f"{stuck[0]} did not move in {read.ended_s - read.began_s:.3g} s")
        return Energy.measured(sum(joules.values()), _said(z for z in self._zones if z not in still))


def _said(zones: Iterable[Zone]) -> str:
    kinds = [zone.kind for zone in zones]
    if not kinds:
        return "RAPL"
    return f"RAPL: {count(kinds.count('package'), 'package')}{', memory' if 'dram' in kinds else ''}"


def _zones(root: Path) -> tuple[tuple[Zone, ...], str]:
    """Return the counters below a folder, and why they cannot be used."""
    zones: dict[str, Zone] = {}
    for folder in (folder for place in PLACES for folder in sorted(root.glob(place))):
        try:
            kind = (folder / "name").read_text().strip().partition("-")[0]
            if kind in ("package", "dram") and folder.name not in zones:
                zone = Zone(folder, kind, int((folder / "max_energy_range_uj").read_text()) * MICRO)
                zone.read_j()
                zones[folder.name] = zone
        except PermissionError:
            return (), f"{folder / 'energy_uj'}: {ROOT_ONLY}"
        except (OSError, ValueError):  # a zone without a counter
            continue
    if not any(zone.kind == "package" for zone in zones.values()):
        return (), (
            f"{root} has no energy counter of a processor. Virtual machines have none; on others, load the module "
            "intel_rapl_msr (it serves AMD, too)."
        )
    return tuple(zones.values()), ""
