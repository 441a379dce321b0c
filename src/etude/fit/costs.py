"""What a run that starts from weights has cost, and who pays for it.

A run that starts from the weights of a tuning trial has a lead, and that lead was trained by somebody. Whether it saves
anything depends on what is counted:

``sunk``      the trial had to be run anyway: nothing is paid for its weights. This is how the paper counts.
``marginal``  what was spent beside the search in order to have them: saving, loading, probing.
``charged``   that, and the epochs that made them, as if they had been trained for this run alone.

A run that starts from random weights inherits nothing, so its three clocks agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, get_args

from etude.core.numbers import amount

Unit = Literal["epochs", "steps", "seconds"]
UNITS: Final = get_args(Unit)

VALIDATION_PRICE: Final = 1 / 3
"""What it costs to validate with an example over what it costs to train with one: the forward pass without the backward
one, which takes about twice as long (Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1)."""


class Clock(Enum):
    """Who pays for the weights that a run started from; the module says more."""

    SUNK = "sunk"
    MARGINAL = "marginal"
    CHARGED = "charged"


@dataclass(frozen=True)
class Cost:
    """What was spent, in each unit. NaN stands for what was not measured.

    Attributes:
        epochs: Passes over the training data of the final run.
        steps: Steps of the optimizer in the final run, or as many as would have cost the same.
        seconds: By the wall.

    Raises:
        ConfigError: One of them is negative, or no number.
    """

    epochs: float = 0.0
    steps: float = 0.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for unit in UNITS:
            value = self.of(unit)
            if not isinstance(value, float) or not math.isnan(value):
                amount(unit, value)

    def of(self, unit: Unit) -> float:
        """Return what was spent in one unit."""
        value: float = getattr(self, unit)
        return value

    def times(self, factor: float) -> Cost:
        """Return the cost of so many of these; 0 of what was not measured cost nothing."""
        if factor == 0:
            return NOTHING
        return Cost(*(self.of(unit) * factor for unit in UNITS))

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(self.of(unit) + other.of(unit) for unit in UNITS))


NOTHING: Final = Cost()


@dataclass(frozen=True)
class Charges:
    """What the weights had cost when a run started from them; nothing for random weights.

    Attributes:
        kept: What was spent beside the search in order to have them: saving those of every trial that might have won,
            loading, probing. A search that keeps weights for other reasons has not spent that for this run.
        inherited: What the epochs cost that made them; ``inherited`` works it out where it was not measured.
    """

    kept: Cost = NOTHING
    inherited: Cost = NOTHING

    def on(self, clock: Clock) -> Cost:
        """Return the part of it that stands on a clock when the run starts."""
        match clock:
            case Clock.SUNK:
                return NOTHING
            case Clock.MARGINAL:
                return self.kept
            case Clock.CHARGED:
                return self.kept + self.inherited


RANDOM: Final = Charges()
"""Random weights cost nothing."""


def inherited(
    epochs: float,
    *,
    share: float,
    validated: float,
    validation_price: float = VALIDATION_PRICE,
    epoch: Cost = Cost(epochs=1.0, steps=math.nan, seconds=math.nan),
) -> Cost:
    """Return what the epochs of a trial cost, told in epochs of the final run.

    Args:
        epochs: How many epochs the weights were trained for, at least 0.
        share: The trial's training examples over those of the final run: .8 where the rest was kept for validation.
        validated: Examples that the trial validated with after each epoch, over the final run's training examples.
        validation_price: What validating with an example costs over training with it. From 0, where somebody else
            needed the validation, to 1.
        epoch: What one epoch of the final run costs, without its own validation.

    Returns:
        ``epochs * (share + validated * validation_price)`` of those.

    Raises:
        ConfigError: A number is negative, infinite or none at all.

    Example:
        >>> inherited(30, share=0.8, validated=0.2, validation_price=1.0).epochs
        30.0
    """
    each = amount("share", share) + amount("validated", validated) * amount("validation_price", validation_price)
    return epoch.times(amount("epochs", epochs) * each)
