"""Rows and their hashes: equal rows are known again, whatever holds them, and others are not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from etude.data import hashes
from etude.data.hashes import UnknownRowsError, rows_of

X = np.random.default_rng(0).standard_normal((50, 3)).astype("f4")
Y = np.arange(50) % 7
TENSORS = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
WHOLE = rows_of((X, Y)).tolist()


def same(part: Any, rows: Any) -> bool:
    return rows_of(part).tolist() == rows_of((X[rows], Y[rows])).tolist()


def test_a_row_is_the_same_row_in_arrays_tensors_data_sets_and_loaders() -> None:
    first, last = Subset(TENSORS, range(20)), Subset(TENSORS, range(20, 50))
    wholes: list[Any] = [
        (torch.from_numpy(X), torch.from_numpy(Y)),
        [X, Y],
        (np.asfortranarray(X), Y[::1]),
        (X.astype(">f4"), Y.astype(">i8")),
        TENSORS,
        ConcatDataset([last, first]),
        DataLoader(TENSORS, batch_size=7, shuffle=True, drop_last=True),
        DataLoader(TENSORS, batch_sampler=BatchSampler(RandomSampler(TENSORS), 7, drop_last=False)),
        DataLoader(TENSORS, batch_size=None),
    ]
    for part in wholes:
        assert same(part, slice(None)), part
    assert same(first, slice(20))
    assert same(DataLoader(TENSORS, sampler=SubsetRandomSampler(range(20, 50))), slice(20, 50))
    assert same(DataLoader(TENSORS, sampler=SequentialSampler(TENSORS)), slice(None))
    assert same(Subset(Subset(TENSORS, range(10, 40)), [0, 5]), [10, 15])


def test_each_value_each_place_and_each_column_counts() -> None:
    assert len(rows_of((X, Y))) == 50
    for other in ((X + 1, Y), (X, Y + 1), (X[:, ::-1].copy(), Y), (Y, X), X):
        assert not set(WHOLE) & set(rows_of(other).tolist())
    assert rows_of({"x": X, "y": Y}).tolist() == rows_of({"y": Y, "x": X}).tolist()


def test_equal_rows_are_one_row_and_an_empty_part_has_none() -> None:
    assert len(rows_of(np.zeros((9, 4)))) == 1
    assert len(rows_of(np.zeros((0, 4)))) == len(rows_of([])) == 0
    assert len(rows_of(torch.arange(5).to(torch.bfloat16))) == 5


def test_rows_that_are_cut_into_blocks_are_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = np.random.default_rng(1).integers(0, 255, (40, 13)).astype("u1")
    before = rows_of(odd).tolist()
    monkeypatch.setattr(hashes, "BLOCK_B", 48)
    assert rows_of(odd).tolist() == before
    assert len(before) == 40


def test_texts_are_the_same_however_wide_their_array_is() -> None:
    wide = np.array(["a", "b", "a long one"])
    assert rows_of(wide[:2]).tolist() == rows_of(np.array(["a", "b"])).tolist()


def test_tables_are_known_by_their_values_and_not_by_their_index() -> None:
    table = pd.DataFrame({"age": [39, 50, 38], "work": ["State", "Self", "Private"]})
    moved = table.iloc[::-1].set_index(pd.Index([7, 8, 9]))
    moved["work"] = moved["work"].astype("category")
    assert rows_of(moved).tolist() == rows_of(table).tolist()
    assert set(rows_of(table[:1]).tolist()) < set(rows_of(table).tolist())
    assert len(rows_of((table[["age"]], table["work"]))) == 3
    with pytest.raises(UnknownRowsError, match="what cannot be hashed"):
        rows_of(pd.DataFrame({"a": [[1], [2]]}))


def test_lists_are_lists_of_rows() -> None:
    rows = [("a", 1, torch.ones(2)), {"text": "b", "label": None}, ["c", [1.5, b"x"]], np.float32(3)]
    assert len(rows_of(rows)) == 4
    assert rows_of(rows[:1])[0] in rows_of(rows)
    assert len(rows_of([1, 1.0, True, "1"])) == 4
    assert rows_of(np.array([*rows[:2], None], dtype=object)).tolist() == rows_of([*rows[:2], None]).tolist()


class Pictures(Dataset[Any]):
    """As those of torchvision: what it gives is changed each time, and what it has is not."""

    def __init__(self, targets: Any) -> None:
        self.data = X
        self.targets = targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, n: int) -> Any:
        return self.data[n] + np.random.standard_normal(3), self.targets[n]


class Changing(Dataset[Any]):
    """A data set that does not say what it is made of."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, n: int) -> Any:
        return torch.rand(2)


class Streaming(IterableDataset[Any]):
    """Rows that come as they come."""

    def __iter__(self) -> Any:
        return iter([1, 2])


class Odd(Sampler[int]):
    """A sampler of somebody's own."""

    def __iter__(self) -> Any:
        return iter([0])


def test_pictures_are_known_before_they_are_transformed() -> None:
    assert same(DataLoader(Pictures(Y.tolist()), shuffle=True), slice(None))
    assert same(Pictures(Y), slice(None))


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Changing(), "Changing is a data set whose rows may be others each time that they are asked for"),
        (Pictures(Y[:9]), "Pictures is a data set whose rows"),
        (DataLoader(Streaming()), "Streaming is a data set whose rows"),
        (DataLoader(TENSORS, sampler=WeightedRandomSampler([1.0] * 50, 5)), "the sampler WeightedRandomSampler, which"),
        (DataLoader(TENSORS, sampler=Odd()), "the sampler Odd, which does not say"),
        ((X, Y[:9]), "its columns differ in length: 50, 9 rows"),
        ((), "it is empty"),
        (np.array(3), "is one value, and no rows"),
        ([object()], "which is in one of its rows"),
        (iter([1]), "nothing is known of the rows of"),
    ],
)
def test_what_cannot_be_told_is_said(part: Any, why: str) -> None:
    with pytest.raises(UnknownRowsError, match=why):
        rows_of(part)


def test_a_part_that_holds_itself_and_one_that_is_too_large_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    endless: dict[str, Any] = {}
    endless["more"] = endless
    with pytest.raises(UnknownRowsError, match="nested too deep"):
        rows_of(endless)
    monkeypatch.setattr(hashes, "MOST_B", 100)
    with pytest.raises(UnknownRowsError, match="too large to be looked through"):
        rows_of(X)


def test_the_hashes_are_those_of_every_machine() -> None:
    """What is pinned here stands in files: other numbers would make rows strangers that were known."""
    assert rows_of(np.arange(6, dtype="<i4").reshape(2, 3)).tolist() == PINNED_ARRAY
    assert rows_of([("a", 1, 0.5, None)]).tolist() == PINNED_LIST
    code = "from etude.data.hashes import rows_of; print(rows_of([('a', 1, 0.5, None)]).tolist())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(PINNED_LIST)


PINNED_ARRAY = [3183176108636299324, 7675167585986524611]
PINNED_LIST = [4221616919984459502]


@given(st.lists(st.integers(0, 2**64 - 1), unique=True, min_size=2, max_size=200))
def test_different_words_have_different_hashes(words: list[int]) -> None:
    assert len(rows_of(np.array(words, dtype="u8"))) == len(words)
    halves = np.array(words, dtype="u8").view("u4").reshape(-1, 2)
    assert len(rows_of(halves)) == len(words)


def test_bits_of_hashes_are_even() -> None:
    """Rows that hardly differ have hashes as good as random: of each bit, half are set."""
    rows = np.zeros((20_000, 5), dtype="u4")
    rows[:, 3] = np.arange(20_000)
    found = rows_of(rows)
    set_bits = [float(((found >> np.uint64(bit)) & np.uint64(1)).mean()) for bit in range(64)]
    assert all(abs(share - 0.5) < 0.02 for share in set_bits)  # 5.6 standard deviations
