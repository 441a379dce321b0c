"""Batches that are drawn ahead: their losses would be taken for those of other examples.

A training function that draws a batch before the criterion has seen the one before it makes the same calls as one that
skips a batch. The targets tell them apart: they are what an earlier batch holds, and not what the last one holds. A few
calls are looked at, and compared later, when nothing waits for a GPU any more.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

import torch

from etude.core.errors import ResultError
from etude.frameworks.torch import every

LOOKS: Final = 4
"""So many calls are looked at each time."""

BEFORE: Final = 2
"""So many batches before the last one may be what the criterion is given."""

FEWEST: Final = 8
"""Fewer targets than this are equal to others by chance."""

AHEAD: Final = (
    "The criterion is given targets of a batch before the one that the loader gave last, so losses would be taken for "
    "those of other examples: the training function draws batches ahead. Draw a batch when it is trained on; to have "
    "them loaded in the background, use the loader's num_workers, prefetch_factor and pin_memory."
)


class _Look(NamedTuple):
    """Targets that a criterion was given.

    Attributes:
        targets: A copy.
        earlier: What batches before the last one hold that is like them.
        last: What the last one holds that is like them.
    """

    targets: torch.Tensor
    earlier: list[torch.Tensor]
    last: list[torch.Tensor]


class Ahead:
    """Looks whether the batch that was drawn last is the one that the criterion is given.

    Attributes:
        looks: How many more calls are to be looked at; with 0 nothing needs to be told.
    """

    def __init__(self) -> None:
        self.looks = LOOKS
        self._batches: deque[Any] = deque(maxlen=BEFORE + 1)
        self._seen: list[_Look] = []

    def drawn(self, batch: Any) -> None:
        """Take in a batch that the training function is given next."""
        self._batches.append(batch)

    def saw(self, args: tuple[Any, ...]) -> None:
        """Take in what a criterion was called with."""
        self.looks -= 1
        targets = args[1] if len(args) > 1 else None
        if isinstance(targets, torch.Tensor) and targets.numel() >= FEWEST and self._batches:
            *earlier, last = ([one for one in every(torch.Tensor, b) if _is_like(one, targets)] for b in self._batches)
            self._seen.append(_Look(targets.detach().clone(), [one for batch in earlier for one in batch], last))
        if not self.looks:
            self._batches.clear()

    def check(self) -> None:
        """Compare what was seen, and begin anew.

        Raises:
            ResultError: The criterion is given batches before the last one.
        """
        seen, self._seen, self.looks = self._seen, [], LOOKS
        self._batches.clear()
        of_last = sum(_is_among(look.targets, look.last) for look in seen)
        of_earlier = sum(_is_among(look.targets, look.earlier) and _differ(look.targets) for look in seen)
        if of_earlier > 1 and not of_last:
            raise ResultError(AHEAD)


def _is_like(one: torch.Tensor, targets: torch.Tensor) -> bool:
    return one.numel() == targets.numel() and one.dtype == targets.dtype


def _is_among(targets: torch.Tensor, held: list[torch.Tensor]) -> bool:
    flat = targets.flatten().cpu()
    return any(torch.equal(one.detach().flatten().cpu(), flat) for one in held)


def _differ(targets: torch.Tensor) -> bool:
    """Whether there are several values: batches of one class are alike."""
    flat = targets.flatten()
    return bool((flat != flat[0]).any())
