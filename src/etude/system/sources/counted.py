"""What a training counts itself: its steps, and how long it waited for data."""

from __future__ import annotations

from typing import Final

from etude.system.sources.source import Rung

STEPS: Final = "steps"
"""The total that tells how often a training stepped; by it, rates per second become rates per step."""

STEP_S: Final = "step s"
SQUARED: Final = "step s squared"
WAIT_S: Final = "loader wait s"

STEP: Final = (STEPS, STEP_S, SQUARED, WAIT_S)
"""What ``Counted.step`` adds to."""


class Counted:
    """A source that is fed by calls.

    Args:
        names: What will be counted, from 0. What is added to besides is told from the next epoch on. Leave out what
            nobody will count: it would be told as 0. No names of models and of data, since profiles are kept.

    Example:
        >>> counted = Counted()
        >>> counted.step(0.5, waited_s=0.25)
        >>> counted.read()
        {'steps': 1.0, 'step s': 0.5, 'step s squared': 0.25, 'loader wait s': 0.25}
    """

    name = "own counts"
    rung = Rung.NONE

    def __init__(self, *names: str) -> None:
        self._totals = dict.fromkeys(names or STEP, 0.0)

    def add(self, name: str, amount: float) -> None:
        """Add to a total.

        Args:
            name: What is counted, such as ``copied GB``.
            amount: By how much it grew, at least 0.
        """
        self._totals[name] = self._totals.get(name, 0.0) + amount

    def step(self, seconds: float, *, waited_s: float) -> None:
        """Note one training step.

        Squares are added up as well: from them, from the sum and from the number of steps comes how far steps spread.

        Args:
            seconds: How long it took, with its wait.
            waited_s: How long of that it waited for data.
        """
        totals = self._totals  # no loop: a step may take less than a millisecond
        totals[STEPS] = totals.get(STEPS, 0.0) + 1.0
        totals[STEP_S] = totals.get(STEP_S, 0.0) + seconds
        totals[SQUARED] = totals.get(SQUARED, 0.0) + seconds * seconds
        totals[WAIT_S] = totals.get(WAIT_S, 0.0) + waited_s

    def read(self) -> dict[str, float]:
        """Return what has been added up."""
        return dict(self._totals)

    def close(self) -> None:
        """Do nothing: nothing is open."""
