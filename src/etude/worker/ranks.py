"""What the ranks of an attempt can do together, as their framework lets them (``frameworks.torch_together``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Ranks(Protocol):
    """The processes of an attempt, seen from one of them. All of them call the same methods in the same order."""

    rank: int
    ranks: int

    def mean(self, values: Mapping[str, float], *, stop: bool) -> Any:
        """Begin to make one report of those of all ranks; it has ``wait()``, which returns ``values`` and ``stop``."""
        ...

    def agree(self, at: str, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether any rank has it set, at a place that all come to."""
        ...

    def reduce(self, at: str, values: Mapping[str, float]) -> Mapping[str, float]:
        """Return metrics as they are for all ranks, at a place that all come to."""
        ...

    def broadcast(self, thing: Any) -> Any:
        """Return what rank 0 gives."""
        ...

    def gather(self, thing: Any, what: str) -> Sequence[Any]:
        """Return what each rank gives, by rank; in words what that is, for those who wait in vain."""
        ...

    def shard(self, data: Any) -> Any:
        """Divide the batches of loaders over the ranks."""
        ...

    def attach(self, model: Any) -> Any:
        """Have the gradients of a model averaged over the ranks."""
        ...

    def watch(self, needs: frozenset[str], wants: frozenset[str]) -> Any:
        """Return what remembers so much of what criteria see."""
        ...

    def criterion(self, loss: Any, watch: Any, **settings: Any) -> Any:
        """Return a loss that is watched."""
        ...

    def examples(self, data: Any, watch: Any) -> Examples:
        """Return the training examples of the data, as they are divided by now."""
        ...

    def stand_back(self, who: str) -> None:
        """Leave the ranks to a library that sees to them itself."""
        ...

    def check(self) -> None:
        """Make sure that all ranks have the same parameters."""
        ...

    def remember(self) -> None:
        """Take what models have beside parameters for the same on all ranks: a state was brought back."""
        ...

    def leave(self) -> None:
        """Part with the others."""
        ...


class Examples(Protocol):
    """The training examples of a run (``frameworks.torch_examples``)."""

    @property
    def n(self) -> int:
        """How many there are."""
        ...

    @property
    def example_b(self) -> int | None:
        """How many bytes one has; None if that cannot be told."""
        ...

    @property
    def called(self) -> bool:
        """Whether a criterion has been watched."""
        ...

    @property
    def labels(self) -> Any:
        """The class of each, by its index; None if the data set does not say."""
        ...

    def record(self, wanted: bool) -> None:
        """Say whether what the criterion sees is wanted from now on."""
        ...

    def take(self) -> Any:
        """Return what it saw since the last time."""
        ...

    def assign(self, parts: Any) -> None:
        """Let each rank draw from a part of its own, from the next pass on."""
        ...
