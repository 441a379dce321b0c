"""How many proposals to have in hand: what a sampler's thinking costs, measured against how fast trials end.

A proposal that waits in hand spares a worker the wait, and knows less than one that is made when it is needed. With one
worker none is made ahead: each proposal knows all results, and a search hangs on no clock. With several, one is, and
more where trials end while the sampler thinks.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import Final

SELDOM: Final = 0.05
"""So often a trial may end while the next proposal is being thought up, before one more is kept in hand."""

RECENT: Final = 5
"""Thinking takes what it took in the middle of so many last times: the first time a process had to start."""


class Pace:
    """What was seen of both.

    Args:
        workers: How many trials run at once.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._asked: dict[int, float] = {}
        self._answered_at = -math.inf
        self._thought_s: deque[float] = deque(maxlen=RECENT)
        self._ends: deque[float] = deque(maxlen=max(workers, RECENT) + 1)

    def asked(self, k: int, at: float) -> None:
        """Note that proposal ``k`` was asked for."""
        self._asked[k] = at

    def answered(self, k: int, at: float, *, thought: bool = True) -> None:
        """Note that proposal ``k`` is there, and whether it was thought up, one at a time, or made on the spot."""
        asked = self._asked.pop(k, None)
        if not thought:
            return
        if asked is not None:
            self._thought_s.append(at - max(asked, self._answered_at))
        self._answered_at = at

    def ended(self, at: float) -> None:
        """Note that a trial freed its worker."""
        self._ends.append(at)

    @property
    def in_hand(self) -> int:
        """How many proposals there should be beyond what idle workers can take."""
        if self._workers == 1:
            return 0
        seen = len(self._ends) - 1
        between_s = (self._ends[-1] - self._ends[0]) / seen if seen >= self._workers else 0.0
        if between_s <= 0.0 or not self._thought_s:  # too little was seen
            return 1
        meanwhile = statistics.median(self._thought_s) / between_s
        return min(self._workers, 1 + math.ceil(max(0.0, meanwhile - SELDOM)))
