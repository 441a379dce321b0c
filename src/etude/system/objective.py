"""What is made small while a machine is tuned: time, energy, or both in one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etude.core.errors import ConfigError
from etude.core.near import did_you_mean
from etude.core.numbers import amount
from etude.core.text import brief
from etude.system.energy import Energy, Label


@dataclass(frozen=True)
class Cost:
    """What an epoch cost.

    Attributes:
        seconds: How long it took.
        steps: How many steps of training it had, so that epochs of other lengths compare.
        energy: What it took.
    """

    seconds: float
    steps: int
    energy: Energy


@dataclass(frozen=True)
class Weighted:
    """Time and energy of a step, each to the power of its weight, multiplied.

    Units do not matter for which of two settings is better, since they multiply both. Equal weights are the product of
    energy and delay; with ``time=2``, one percent of time counts as much as two of energy.

    Args:
        time: Weight of the seconds that a step takes.
        energy: Weight of the joules.

    Raises:
        ConfigError: A weight is no number from 0, or both are 0.

    Example:
        >>> Weighted(time=1, energy=1).of(Cost(seconds=10.0, steps=5, energy=Energy.measured(20.0, "RAPL")))
        8.0
    """

    time: float = 1.0
    energy: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", amount("time", self.time))
        object.__setattr__(self, "energy", amount("energy", self.energy))
        if not self.time and not self.energy:
            raise ConfigError("Weighted(time=0, energy=0) makes nothing small. Give one of them a weight above 0.")

    def of(self, cost: Cost) -> float | None:
        """Return the number to be made small; None where it is not known: no step was made, or no energy is at hand.

        Args:
            cost: Seconds and joules, and the steps that they were spent on.
        """
        if cost.steps == 0:
            return None
        product: float = (cost.seconds / cost.steps) ** self.time
        if not self.energy:
            return product
        if cost.energy.joules is None:
            return None
        return float(product * (cost.energy.joules / cost.steps) ** self.energy)

    def check(self, label: Label, why: str) -> str:
        """Return what there is to be said of it before anything starts; mostly nothing.

        Args:
            label: How the energy will be known.
            why: What tells it, or why nothing does.

        Raises:
            ConfigError: It needs energy, and that is unavailable.
        """
        if not self.energy or label is Label.MEASURED:
            return ""
        if label is Label.UNAVAILABLE:
            raise ConfigError(
                f"objective={str(self)!r} cannot be made small here, since nothing tells the energy: {why}. "
                "Pass objective='time', or the address of a power meter."
            )
        return (
            f"Energy is only modelled here ({why}), and may be off by 40 % and more: a setting that is said to take "
            "less of it may not."
        )

    def __str__(self) -> str:
        """Return its name, or else the call."""
        named = {value: name for name, value in OBJECTIVES.items()}
        return named.get(self, f"Weighted(time={self.time:g}, energy={self.energy:g})")


OBJECTIVES: Final = {"time": Weighted(time=1, energy=0), "energy": Weighted(time=0, energy=1)}
"""Name -> what it stands for: seconds a step, and joules a step."""


def objective_of(given: object) -> Weighted:
    """Return what a call wants made small.

    Raises:
        ConfigError: It is none.

    Example:
        >>> objective_of("energy")
        Weighted(time=0.0, energy=1.0)
    """
    if isinstance(given, Weighted):
        return given
    if isinstance(given, str) and given in OBJECTIVES:
        return OBJECTIVES[given]
    meant = did_you_mean(given, OBJECTIVES) if isinstance(given, str) else ""
    raise ConfigError(
        f"objective={brief(given)} is not known. {meant}There are: 'time', 'energy', and Weighted(time=, energy=)."
    )
