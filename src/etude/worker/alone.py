"""What a run does together with the other ranks of its trial where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final


class Alone:
    """The only rank: there is nothing to agree on."""

    number: Final = 0
    ranks: Final = 1
    draws_alike: Final = True

    def begin(self) -> None:
        """Nobody is to be met."""

    def shard(self, data: Any) -> Any:
        """Return the data: all of it is this rank's."""
        return data

    def attach(self, model: Any) -> Any:
        """Return the model: its gradients are what they are."""
        return model

    def stand_back(self, who: str, *, draws_alike: bool = False) -> None:
        """There are no ranks."""

    def remember(self) -> None:
        """There is nobody else."""

    def stream(self, *name: str | int) -> tuple[str | int, ...]:
        """Return the name of a random stream."""
        return name

    def reduce(self, at: str, metrics: Mapping[str, float]) -> Mapping[str, float]:
        """Return metrics: they are those of all."""
        return metrics

    def has_lost(self, error: BaseException) -> bool:
        """There is nobody to lose."""
        return False

    def end(self) -> None:
        """There is nobody to part with."""


ALONE: Final = Alone()
