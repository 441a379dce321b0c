"""What a search varied, as columns of plain numbers: for each parameter where every trial lies in its domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Column:
    """One parameter.

    Attributes:
        name: What it is called; one that exists under a choice only has the way there before it: "optimizer=sgd/lr".
        places: Where each trial lies: from 0 to 1, so that a random draw lies anywhere with the same chance; of a
            choice the number of its value. NaN of trials that do not have it.
        values: The values themselves; None of trials that do not have it.
        labels: The values of a choice in words; empty of numbers and of ordered values.
        size: How many values there are, each as likely as the others; None if there is no end to them, or they are not.
    """

    name: str
    places: Array
    values: Sequence[Any]
    labels: tuple[str, ...] = ()
    size: int | None = None

    @property
    def is_choice(self) -> bool:
        """Whether its values have no order."""
        return bool(self.labels)

    @property
    def always(self) -> bool:
        """Whether every trial has it."""
        import numpy as np

        return not bool(np.isnan(self.places).any())

    def taken(self, rows: Any) -> Column:
        """Return the same of some trials: those of these indices, or where a mask says so."""
        import numpy as np

        which = np.flatnonzero(rows) if rows.dtype == bool else rows
        return Column(self.name, self.places[rows], [self.values[int(i)] for i in which], self.labels, self.size)


def cells(column: Column, *, most: int = 5) -> tuple[Array, int, Array]:
    """Return in which cell each trial lies, how many cells there are, and the share of random draws in each.

    A choice has a cell for each value, and so has a parameter with at most eight; others have ``most`` of equal width.
    A trial without the parameter is in cell -1.
    """
    import numpy as np

    few = 8
    there = ~np.isnan(column.places)
    if column.is_choice:
        n = len(column.labels)
        return np.where(there, column.places, -1).astype(int), n, np.full(n, 1 / n)
    n = column.size if column.size is not None and column.size <= few else most
    places = np.where(there, column.places, 0.0)
    found = np.clip((places * n).astype(int), 0, n - 1)
    if column.size is None:
        return np.where(there, found, -1), n, np.full(n, 1 / n)
    all_ = np.clip(((np.arange(column.size) + 0.5) / column.size * n).astype(int), 0, n - 1)
    return np.where(there, found, -1), n, np.bincount(all_, minlength=n) / column.size


def cell_names(column: Column, cell: Array, n: int) -> list[str]:
    """Return what each cell is called: a value, or from the least to the largest value that is there."""
    from etude.core.text import show

    if column.is_choice:
        return list(column.labels)
    found = []
    for nth in range(n):
        here = sorted(value for value, c in zip(column.values, cell, strict=True) if c == nth and value is not None)
        if not here:
            found.append("none")
        else:
            found.append(show(here[0]) if here[0] == here[-1] else f"{_short(here[0])} to {_short(here[-1])}")
    return found


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
