"""Who gets which GPUs of a machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

from etude.core.resources import sharers


class Shares:
    """The GPUs of a machine, handed out to its workers and taken back: none is given twice, but in parts.

    Who shares a GPU is spread evenly: with ``gpus=0.5``, two workers on two GPUs have one each, and the third shares.

    Args:
        gpus: Their ids.
        each: How many each worker needs; None if GPUs are no matter of ours.

    Example:
        >>> shares = Shares(("0", "1"), 1)
        >>> shares.take("w1"), shares.take("w2")
        (('0',), ('1',))
        >>> shares.give_back("w1")
        >>> shares.take("w3")
        ('0',)
    """

    def __init__(self, gpus: Sequence[str], each: float | None) -> None:
        self._each = each
        self._sharing = dict.fromkeys(gpus, 0)  # GPU -> workers that have it
        self._held: dict[str, tuple[str, ...]] = {}

    @property
    def has_room(self) -> bool:
        """Whether one more worker can have what it needs."""
        return self._each is None or len(self._free()) >= math.ceil(self._each)

    def take(self, worker: str) -> tuple[str, ...] | None:
        """Return the GPUs of a worker, which has none yet; None if they are no matter of ours."""
        if self._each is None:
            return None
        assert worker not in self._held, "a worker takes its GPUs once"
        assert self.has_room, "who starts workers has counted how many fit"
        taken = tuple(self._free()[: math.ceil(self._each)])
        for gpu in taken:
            self._sharing[gpu] += 1
        self._held[worker] = taken
        return taken

    def give_back(self, worker: str) -> None:
        """Take back what a worker has; fine if that is nothing."""
        for gpu in self._held.pop(worker, ()):
            self._sharing[gpu] -= 1

    def _free(self) -> list[str]:
        """Return the GPUs that one more worker may have, those with fewest workers first."""
        most = sharers(self._each or 0.0)
        return sorted((gpu for gpu, n in self._sharing.items() if n < most), key=self._sharing.__getitem__)
