"""Which meter is best here, and why not a better one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from etude.system.energy import STRENGTH, Energy, Label, total
from etude.system.meters.meter import Meter
from etude.system.meters.modelled import Modelled
from etude.system.meters.nvml import Nvml
from etude.system.meters.power_meter import PowerMeter
from etude.system.meters.rapl import Rapl
from etude.system.meters.zeus import Zeus


@final
class Together:
    """Several meters of different parts of a machine, as one: their figures are added."""

    def __init__(self, meters: Sequence[Meter]) -> None:
        assert meters, "no meter is none that could be asked"
        self._meters = tuple(meters)

    @property
    def label(self) -> Label:
        """The weakest of theirs."""
        return max((meter.label for meter in self._meters), key=STRENGTH.index)

    @property
    def source(self) -> str:
        """What they read."""
        return " + ".join(meter.source for meter in self._meters)

    def lacks(self) -> str:
        """Return why one of them gives no figures here."""
        return next((why for meter in self._meters if (why := meter.lacks())), "")

    def begin(self) -> None:
        """Begin a stretch."""
        for meter in self._meters:
            meter.begin()

    def end(self) -> Energy:
        """End the stretch, and return what it took."""
        return total([meter.end() for meter in self._meters])


@final
class NoMeter:
    """Stands where nothing tells the energy.

    Args:
        why: What it says then.
    """

    label = Label.UNAVAILABLE
    source = "no meter"

    def __init__(self, why: str) -> None:
        self._why = why

    def lacks(self) -> str:
        """Return why there is none."""
        return self._why

    def begin(self) -> None:
        """Do nothing."""

    def end(self) -> Energy:
        """Return that nobody knows."""
        return Energy.unavailable(self._why)


@dataclass(frozen=True)
class BestMeter:
    """The one that was taken.

    Attributes:
        meter: It.
        passed_over: Better ones, and why each gives no figures here.
    """

    meter: Meter
    passed_over: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return which it is and why not a better one, a line each."""
        lines = [f"energy is {self.meter.label}: {self.meter.source}"]
        return "\n".join([*lines, *(f"not {name}: {why}" for name, why in self.passed_over)])


def first_that_measures(meters: Iterable[Meter]) -> BestMeter:
    """Return the first that lacks nothing; if each lacks something, one that says of all of them what."""
    passed_over: list[tuple[str, str]] = []
    for meter in meters:
        if not (why := meter.lacks()):
            return BestMeter(meter, tuple(passed_over))
        passed_over.append((meter.source, why))
    said = "; ".join(f"{name}: {why}" for name, why in passed_over) or "there is no meter"
    return BestMeter(NoMeter(said), tuple(passed_over))


def best_meter(*, url: str = "", gpus: Sequence[str] = (), watts: float | None = None) -> BestMeter:
    """Return the best meter here: a power meter, the counters of processor and GPUs, what zeus finds, or a model.

    With GPUs, a meter has to see them: a figure of the processor alone would be none of the training.

    Args:
        url: Where a power meter is asked; empty if there is none.
        gpus: Those in use, as ``CUDA_VISIBLE_DEVICES`` names them.
        watts: What a busy core takes, where only a model is left.

    Raises:
        ConfigError: The address or the watts cannot be.
    """
    return first_that_measures(_by_merit(url, gpus, watts))


def _by_merit(url: str, gpus: Sequence[str], watts: float | None) -> Iterator[Meter]:
    """Yield meters, the best first; each is made, and what it imports is, only where no better one would do."""
    model = Modelled() if watts is None else Modelled(watts)
    if url:
        yield PowerMeter(url)
    on_gpus = [Nvml(gpus)] if gpus else []
    yield Together([Rapl(), *on_gpus])
    yield Zeus(needs_gpus=bool(gpus))
    yield Together([model, *on_gpus])
