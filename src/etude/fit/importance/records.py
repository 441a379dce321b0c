"""What the criterion saw of each example, by its id, epoch after epoch; that of several ranks put together.

A rank writes down what it saw as it came: ids and values, 8 bytes for each example and aspect. Only when examples are
assigned anew, the ranks exchange these (``packed``), and only then there is a table with a row for each example
(``merged``). So a rank holds the examples that it trained, and not the whole data set.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from etude.core.errors import ResultError
from etude.frameworks.aspects import CORRECT, EL2N, LOSS, PROBABILITY

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.integer]

HARDEST: Final = {LOSS: np.inf, EL2N: np.inf, CORRECT: 0.0, PROBABILITY: 0.0}
"""What stands for a NaN."""


@dataclass(frozen=True)
class Records:
    """What was seen of N examples in E epochs.

    Each table has the shape ``(N, E)``, a row for each id and the epochs in order. An entry is NaN where the example
    was not seen in that epoch. A table that was not recorded is None.

    Attributes:
        losses: Its loss; infinite where that was NaN.
        correct: 1 if the true class had the highest score, else 0. Of several predictions, the share that was right.
        probabilities: What the model gave the true class; 0 where that was NaN.
        el2n: The norm of the error (``EL2N``); infinite where that was NaN.
        nan: Which examples gave a NaN, shape ``(N,)``.
    """

    nan: Bools
    losses: Floats | None = None
    correct: Floats | None = None
    probabilities: Floats | None = None
    el2n: Floats | None = None

    @property
    def n(self) -> int:
        """How many examples there are."""
        return len(self.nan)

    @property
    def empty(self) -> bool:
        """Whether nothing was recorded at all."""
        return all(getattr(self, table) is None for table in FIELDS.values())


FIELDS: Final = {LOSS: "losses", CORRECT: "correct", PROBABILITY: "probabilities", EL2N: "el2n"}
"""Aspect -> its table."""


class Book:
    """What one rank saw, in the order in which it saw it.

    Args:
        n: How many examples the data set has; ids are below it.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._pages: dict[int, list[tuple[Ids, dict[str, Floats]]]] = {}

    def write(self, epoch: int, ids: npt.ArrayLike, values: Mapping[str, npt.ArrayLike]) -> None:
        """Add what was seen in an epoch.

        Args:
            epoch: Which.
            ids: Of the examples, in the order in which they were seen. If one is there twice, its last value counts.
            values: Aspect -> a number for each of them; NaN where the criterion gave that.

        Raises:
            ResultError: An id is none of the data set's, or there are not as many values as ids.
        """
        rows = np.asarray(ids)
        if rows.size == 0:
            return
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= self._n:
            raise ResultError(
                f"Ids of examples are whole numbers from 0 to {self._n - 1}; given were {rows.min()} to "
                f"{rows.max()}. The id of an example is its index in the data set."
            )
        rows = rows.astype(np.int32 if self._n <= np.iinfo(np.int32).max else np.int64)
        columns = {name: np.array(value, dtype=np.float32) for name, value in values.items()}
        for name, column in columns.items():
            if column.shape != rows.shape:
                raise ResultError(
                    f"{name!r} has the shape {column.shape}, and there are {rows.size} ids. Give a number for each."
                )
        self._pages.setdefault(epoch, []).append((rows, columns))

    def forget(self, *, before: int) -> None:
        """Drop what was seen before an epoch."""
        self._pages = {epoch: pages for epoch, pages in self._pages.items() if epoch >= before}

    def packed(self, epochs: Iterable[int] | None = None) -> bytes:
        """Return what was seen in some epochs, or in all, as bytes for other ranks and for a checkpoint."""
        wanted = self._pages.keys() if epochs is None else [epoch for epoch in epochs if epoch in self._pages]
        arrays: dict[str, npt.NDArray[np.generic]] = {}
        for epoch in wanted:
            pages = self._pages[epoch]
            arrays[f"{epoch}/ids"] = np.concatenate([rows for rows, _ in pages])
            for name in pages[0][1]:
                arrays[f"{epoch}/{name}"] = np.concatenate([columns[name] for _, columns in pages])
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **arrays)
        return file.getvalue()

    def unpack(self, packed: bytes) -> None:
        """Add what ``packed`` returned, as when a run goes on from a checkpoint."""
        for epoch, (rows, columns) in _read(packed).items():
            self.write(epoch, rows, columns)


def merged(packs: Sequence[bytes], *, n: int, epochs: Sequence[int]) -> Records:
    """Return what all ranks saw together.

    Args:
        packs: What the ranks packed, rank 0's first. If two saw the same example in the same epoch, the later counts.
        n: How many examples there are.
        epochs: The columns.
    """
    tables: dict[str, Floats] = {}
    nan = np.zeros(n, dtype=bool)
    column = {epoch: nth for nth, epoch in enumerate(epochs)}
    for pack in packs:
        for epoch, (rows, columns) in _read(pack).items():
            if epoch not in column:
                continue
            for name, values in columns.items():
                # By epochs first in memory, and so for each column in one run.
                if name not in tables:
                    tables[name] = np.full((len(epochs), n), np.nan, dtype=np.float32)
                bad = np.isnan(values)
                nan[rows[bad]] = True
                tables[name][column[epoch], rows] = np.where(bad, np.float32(HARDEST[name]), values)
    return Records(nan=nan, **{FIELDS[name]: table.T for name, table in tables.items()})


def _read(packed: bytes) -> dict[int, tuple[Ids, dict[str, Floats]]]:
    found: dict[int, tuple[Ids, dict[str, Floats]]] = {}
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        for key in arrays.files:
            epoch, _, name = key.partition("/")
            if name == "ids":
                found[int(epoch)] = (arrays[key], {})
        for key in arrays.files:
            epoch, _, name = key.partition("/")
            if name != "ids":
                found[int(epoch)][1][name] = arrays[key]
    return found
