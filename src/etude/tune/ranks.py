"""Numbers in order, many of them: to add one, or to ask how many are smaller, takes hardly longer with a million."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from typing import Final

BLOCK: Final = 512
"""Numbers that lie together in a sorted array. Adding one moves half of them; a long array would be all moving."""


class Ranks:
    """A multiset of floats, none of them NaN, in sorted blocks of eight bytes for each.

    Example:
        >>> found = Ranks()
        >>> for value in (3.0, 1.0, 2.0, 2.0):
        ...     found.add(value)
        >>> len(found), found.below(2.0), found[2]
        (4, 1, 2.0)
    """

    def __init__(self) -> None:
        self._blocks: list[array[float]] = []
        self._lasts = array("d")  # of each block
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int) -> float:
        """Return the number at a place, from 0 for the smallest."""
        for block in self._blocks:
            if place < len(block):
                return block[place]
            place -= len(block)
        raise IndexError(place)

    def add(self, value: float) -> None:
        """Add a number."""
        self._size += 1
        if not self._blocks:
            self._blocks.append(array("d", [value]))
            self._lasts.append(value)
            return
        nth = min(bisect_left(self._lasts, value), len(self._blocks) - 1)
        block = self._blocks[nth]
        insort(block, value)
        if len(block) > 2 * BLOCK:
            self._blocks.insert(nth + 1, block[BLOCK:])
            del block[BLOCK:]
            self._lasts.insert(nth, block[-1])
        self._lasts[nth] = block[-1]
        self._lasts[-1] = self._blocks[-1][-1]

    def remove(self, value: float) -> None:
        """Take one number of this value away, which is there."""
        nth = bisect_left(self._lasts, value)
        block = self._blocks[nth]
        del block[bisect_left(block, value)]
        self._size -= 1
        if block:
            self._lasts[nth] = block[-1]
        else:
            del self._blocks[nth], self._lasts[nth]

    def below(self, value: float) -> int:
        """Return how many are smaller."""
        nth = bisect_left(self._lasts, value)
        before = sum(map(len, self._blocks[:nth]))
        return before + (bisect_left(self._blocks[nth], value) if nth < len(self._blocks) else 0)

    def copy(self) -> Ranks:
        """Return another one with the same numbers."""
        made = Ranks()
        made._blocks = [block[:] for block in self._blocks]
        made._lasts = self._lasts[:]
        made._size = self._size
        return made
