"""Labels of axes, and which of them stand for the same positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

Axis: TypeAlias = tuple[tuple[int, int], ...]
"""What an axis consists of: labels with sizes, the outermost first."""


class Sameness:
    """Labels that are given out one after the other; of some it is found later that they are the same."""

    def __init__(self) -> None:
        self._same: list[int] = []
        self._whole: dict[tuple[int, int], int] = {}

    def new(self) -> int:
        """Return a label that nothing has yet."""
        self._same.append(len(self._same))
        return len(self._same) - 1

    def fresh(self, size: int) -> Axis:
        """Return an axis of a new label."""
        return ((self.new(), size),)

    def unknown(self, shape: Sequence[int]) -> tuple[Axis, ...]:
        """Return axes of new labels for a shape of which nothing is known."""
        return tuple(self.fresh(size) for size in shape)

    def root(self, label: int) -> int:
        """Return the label that stands for all that are the same as this one."""
        while self._same[label] != label:
            self._same[label] = label = self._same[self._same[label]]
        return label

    def roots(self, axis: Axis) -> tuple[int, ...]:
        """Return what stands for each of an axis's labels."""
        return tuple(self.root(label) for label, _ in axis)

    def unite(self, one: Axis, two: Axis) -> None:
        """Take two axes for the same positions, if they consist of labels of the same sizes."""
        if len(one) == len(two) and all(a[1] == b[1] for a, b in zip(one, two, strict=True)):
            for (a, _), (b, _) in zip(one, two, strict=True):
                self._same[self.root(b)] = self.root(a)

    def split(self, label: int) -> tuple[int, int]:
        """Return labels of the outer and the inner part of what is taken apart."""
        outer, inner = self.new(), self.new()
        self._whole[outer, inner] = label
        return outer, inner

    def joined(self, axis: Axis) -> Axis:
        """Return an axis in which what was taken apart, and stands together again, is one."""
        found: list[tuple[int, int]] = []
        for atom in axis:
            found.append(atom)
            while len(found) > 1 and (whole := self._whole.get((found[-2][0], found[-1][0]))) is not None:
                size = found[-2][1] * found[-1][1]
                found[-2:] = [(whole, size)]
        return tuple(found)

    def resized(self, axis: Axis, size: int) -> Axis:
        """Return the same positions, another number of them; new ones if an axis consists of several labels."""
        if size_of(axis) == size:
            return axis
        return ((axis[0][0], size),) if len(axis) == 1 else self.fresh(size)


def size_of(axis: Axis) -> int:
    """Return how many positions an axis has."""
    return math.prod(size for _, size in axis)
