"""The partition that a call asks for, as a function of a trial's parameters: what travels to its ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from etude.core.errors import ConfigError
from etude.fit.importance.assigning import check_partition, wanted_by
from etude.fit.importance.balance import imbalance
from etude.fit.importance.partitions import Partition
from etude.fit.importance.tracker import Exchange, Tracker


@dataclass(frozen=True)
class Asked:
    """A partition for one trial.

    Attributes:
        partition: It; None if examples are shuffled over all ranks.
        judged: Whether the finished model is to be looked at class by class, and the classes of each rank as well.
    """

    partition: Partition | None
    judged: bool = False

    @property
    def needs(self) -> frozenset[str]:
        """What must be recorded of examples."""
        measure = wanted_by(self.partition) if self.partition is not None else None
        return measure.needs if measure is not None else frozenset()

    @property
    def wants(self) -> frozenset[str]:
        """What is recorded where the loss is one of classes."""
        measure = wanted_by(self.partition) if self.partition is not None else None
        return measure.wants if measure is not None else frozenset()

    def imbalance(self, parts: Sequence[npt.ArrayLike], labels: npt.ArrayLike) -> float:
        """Return how far the classes of a rank are from those of all examples, of the rank where they are farthest."""
        return imbalance(parts, labels)

    def tracker(self, *, n: int, ranks: int, exchange: Exchange, seed: int, epochs: int) -> Tracker:
        """Return what puts it together on one rank."""
        return Tracker(self.partition, n=n, ranks=ranks, exchange=exchange, seed=seed, epochs=epochs)


def as_function(given: Any) -> Callable[..., Asked | None]:
    """Return a function of parameters that gives the partition of a trial; None for none.

    Args:
        given: A partition; or a function of hyperparameters that returns one, or None.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(given, Partition) and not isinstance(given, type):
        checked = check_partition(given)
        return lambda: Asked(checked)
    if not callable(given) or isinstance(given, type):
        check_partition(given)  # which says what is wrong

    @functools.wraps(given)
    def asked(**params: Any) -> Asked | None:
        found = given(**params)
        try:
            return found if found is None or isinstance(found, Asked) else Asked(check_partition(found))
        except ConfigError as error:
            raise ConfigError(f"The partition function returned what is none. {error}") from error

    return asked
