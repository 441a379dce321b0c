"""Fingerprints of data: the same for the same rows, whatever their order, and cheap where there are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset

import etude
from etude.data import prints
from etude.data.prints import prints_of

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
Y = np.arange(60)


def test_the_order_of_rows_and_how_they_are_batched_is_nothing() -> None:
    order = np.random.default_rng(1).permutation(60)
    rows = TensorDataset(torch.as_tensor(X), torch.as_tensor(Y))
    ways: list[Any] = [
        (X, Y),
        (X[order], Y[order]),
        rows,
        DataLoader(rows, batch_size=7, shuffle=True),
        DataLoader(Subset(rows, order.tolist())),
    ]
    assert len({str(prints_of(etude.Data(way))) for way in ways}) == 1
    assert prints_of(etude.Data((X, Y)))["train"][::2] == [60, True]


def test_other_values_and_other_rows_are_other_prints() -> None:
    changed = X.copy()
    changed[3, 1] += 1
    twice = np.concatenate([X, X[:1]])
    assert len({str(prints_of(etude.Data(one))) for one in (X, changed, twice, X[1:])}) == 4


def test_parts_add_up_to_the_same_however_rows_are_split() -> None:
    from etude.analyse.threats.data import Alike, compared

    half, other = (prints_of(etude.Data(X[at], X[~at])) for at in (Y < 40, Y >= 20))
    assert compared(half, half) is Alike.SAME
    assert compared(half, other) is Alike.SPLIT
    assert compared(half, prints_of(etude.Data(X[:40], X[41:]))) is Alike.OTHER
    assert compared(half, prints_of(etude.Data(X))) is Alike.UNKNOWN
    assert compared({}, {}) is Alike.UNKNOWN


def test_of_a_large_part_rows_are_looked_at_that_are_spread_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prints, "MOST_B", 16 * 10)
    looked: list[Any] = []
    monkeypatch.setattr(prints, "hashes_of", lambda part: looked.append(part) or np.zeros(1, np.uint64))
    for part in (X, torch.as_tensor(X), TensorDataset(torch.as_tensor(X)), DataLoader(Subset(X, range(60)))):  # type: ignore[arg-type]
        assert prints_of(etude.Data(part))["train"][::2] == [60, False]
    rows = [np.asarray(part[0] if isinstance(part, tuple) else part) for part in looked]
    assert [len(one) for one in rows] == [10] * 4
    assert all((one == X[np.linspace(0, 59, 10).astype(int)]).all() for one in rows)
    assert prints_of(etude.Data(ConcatDataset([TensorDataset(torch.as_tensor(X))] * 2))) == {}


def test_a_small_subset_is_no_reason_to_look_through_all_of_a_large_set(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    whole = prints.hashes_of
    monkeypatch.setattr(prints, "hashes_of", lambda part: looked.append(len(part[0])) or whole(part))
    prints_of(etude.Data(Subset(TensorDataset(torch.zeros(10_000, 3)), [1, 2])))
    assert looked == [2]


def test_what_has_no_names_goes_by_places_and_what_cannot_be_told_is_left_out() -> None:
    class Endless(IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise AssertionError("nobody asks for its rows")

    assert prints_of((X, Endless())).keys() == {"0"}
    assert prints_of({"train": X, "names": object()}).keys() == {"train"}
    assert prints_of(None) == {}
    assert prints_of(iter([1, 2])) == {}
