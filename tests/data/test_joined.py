"""Two parts of a data set as one."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import etude
from etude.core.errors import ResultError
from etude.data.joined import join, joined
from etude.frameworks.torch import on_device

Pair = namedtuple("Pair", ["x", "y"])


def rows(first: int, n: int) -> TensorDataset:
    return TensorDataset(torch.arange(first, first + n))


def content(loader: Any) -> list[int]:
    return [int(value) for (batch,) in loader for value in batch]


def test_arrays_tensors_tables_and_lists_are_joined_in_order() -> None:
    assert join(np.arange(3), np.arange(2)).tolist() == [0, 1, 2, 0, 1]
    assert join(torch.arange(3), torch.arange(2)).tolist() == [0, 1, 2, 0, 1]
    assert join([1, 2], [3]) == [1, 2, 3]
    assert join([], [3]) == [3]
    tables = join(pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]}))
    assert tables.equals(pd.DataFrame({"a": [1, 2]}))
    series = join(pd.Series([1], index=["p"]), pd.Series([2], index=["q"]))
    assert series.to_dict() == {"p": 1, "q": 2}


def test_containers_keep_their_types_and_what_is_said_of_both() -> None:
    x, y, more = np.zeros((2, 3)), np.ones(2), np.ones(1)
    found = join(Pair(x, y), Pair(x[:1], more))
    assert type(found) is Pair
    assert (found.x.shape, found.y.shape) == ((3, 3), (3,))
    found = join((x, {"y": y, "classes": 10, "names": None}), (x, {"y": y, "classes": 10, "names": None}))
    assert found[0].shape == (4, 3)
    assert found[1]["y"].shape == (4,)
    assert (found[1]["classes"], found[1]["names"]) == (10, None)
    assert type(join(OrderedDict(x=x), OrderedDict(x=x))) is OrderedDict
    columns = join([x, y], [x[:1], more])
    assert [column.shape for column in columns] == [(3, 3), (3,)]
    pictures = join([torch.zeros(3), torch.ones(3)], [torch.zeros(3)])
    assert len(pictures) == 3


def test_what_was_given_stays_as_it_was() -> None:
    x, y, train = np.zeros(2), np.ones(1), [1]
    join({"x": x}, {"x": y})
    join(train, [2])
    assert (x.tolist(), y.tolist(), train) == ([0, 0], [1], [1])


def test_data_sets_are_joined() -> None:
    both = join(rows(0, 3), Subset(rows(10, 3), [2]))
    assert isinstance(both, ConcatDataset)
    assert [int(row[0]) for row in both] == [0, 1, 2, 12]


def test_a_loader_of_both_has_the_settings_of_that_of_the_training_part() -> None:
    own = torch.Generator().manual_seed(7)
    train = DataLoader(rows(0, 6), batch_size=4, shuffle=True, drop_last=True, generator=own, collate_fn=list)
    both = join(train, DataLoader(rows(10, 3), batch_size=100))
    assert (both.batch_size, both.drop_last, both.collate_fn, both.generator) == (4, True, list, own)
    assert isinstance(both.sampler, RandomSampler)
    assert both.sampler.generator is own
    assert len(both) == 2
    plain = join(DataLoader(rows(0, 3), batch_size=2), DataLoader(rows(10, 2), batch_size=2, shuffle=True))
    assert isinstance(plain.sampler, SequentialSampler)
    assert content(plain) == [0, 1, 2, 10, 11]
    shuffled = join(DataLoader(rows(0, 3), batch_size=2, shuffle=True), DataLoader(rows(10, 2)))
    assert sorted(content(shuffled)) == [0, 1, 2, 10, 11]
    split = rows(0, 8)
    of_split = join(
        DataLoader(split, batch_size=2, sampler=SubsetRandomSampler(range(5))),
        DataLoader(split, sampler=SubsetRandomSampler([6])),
    )
    assert sorted(content(of_split)) == [0, 1, 2, 3, 4, 6]
    assert isinstance(of_split.sampler, RandomSampler)
    alone = join(DataLoader(rows(0, 2), batch_size=None), DataLoader(rows(2, 2), batch_size=None))
    assert [int(value) for (value,) in alone] == [0, 1, 2, 3]


def test_a_loader_of_both_that_was_given_a_generator_by_us_gets_one_of_its_own() -> None:
    from etude.frameworks import torch as ours

    train, valid = DataLoader(rows(0, 30), shuffle=True), DataLoader(rows(30, 3))
    ours.prepare_data((train, valid), seed=1, device="cpu")
    both = join(train, valid)
    assert both.generator is None
    assert both.sampler.generator is None
    ours.prepare_data(both, seed=1, device="cpu")
    first = content(both)
    again = join(DataLoader(rows(0, 30), shuffle=True), DataLoader(rows(30, 3)))
    ours.prepare_data(again, seed=1, device="cpu")
    assert content(again) == first


class Streaming(IterableDataset[Any]):
    """Rows that come as they come."""

    def __iter__(self) -> Any:
        return iter([1, 2])


class OwnLoader(DataLoader[Any]):
    """A loader that does more."""


class Other(Dataset[Any]):
    """A data set whose length is asked for."""

    def __len__(self) -> int:
        return 2


WEIGHTED = DataLoader(rows(0, 3), sampler=WeightedRandomSampler([1.0] * 3, 3))
FEW = DataLoader(rows(0, 3), sampler=RandomSampler(rows(0, 3), num_samples=2))
PLAIN = DataLoader(rows(0, 3))


@pytest.mark.parametrize(
    ("train", "valid", "why"),
    [
        (WEIGHTED, PLAIN, "has the sampler WeightedRandomSampler, which does not say which rows it draws"),
        (PLAIN, WEIGHTED, "has the sampler WeightedRandomSampler"),
        (FEW, PLAIN, "draws some of its rows only, or some twice"),
        (OwnLoader(rows(0, 3)), PLAIN, "a loader of a class of its own, OwnLoader"),
        (on_device(OwnLoader(rows(0, 3)), "meta"), PLAIN, "a loader of a class of its own, OwnLoader"),
        (DataLoader(Streaming()), PLAIN, "IterableDataset"),
        (Streaming(), rows(0, 3), "IterableDataset"),
        (PLAIN, rows(0, 3), "nobody knows how to join"),
        ({"x": 1}, {"y": 1}, r"the names are \['x'\] and \['y'\]"),
        ((np.zeros(2), 1), (np.zeros(2),), "one has 2 columns, and the other 1"),
        ((np.zeros(2), 1), (np.zeros(2), 2), r"at \[1\], nobody knows how to join 1 \(int\) and 2 \(int\)"),
        (np.zeros((2, 3)), np.zeros((2, 4)), "must match"),
        (torch.zeros(2, 3), torch.zeros(2, 4), "Sizes of tensors must match"),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]}), r"the columns are \['a'\] and \['b'\]"),
        ([np.zeros(2), np.zeros(2)], [np.zeros(2), np.zeros(2)], "could be rows or columns; make columns a tuple"),
        (np.zeros(2), [0.0], "nobody knows how to join"),
        ("a.csv", "b.csv", "nobody knows how to join 'a.csv'"),
    ],
)
def test_what_cannot_be_joined_is_refused_with_the_mend(train: Any, valid: Any, why: str) -> None:
    with pytest.raises(ResultError, match=why) as refused:
        join(train, valid)
    assert str(refused.value).startswith("on='train+valid' cannot join the two parts: ")
    assert str(refused.value).endswith("Join them yourself, where data() makes them, or train with on='train'.")


def test_parts_that_hold_themselves_are_refused() -> None:
    endless: dict[str, Any] = {}
    endless["more"] = endless
    with pytest.raises(ResultError, match="nested too deep"):
        join(endless, endless)


def test_joined_data_unpacks_so_that_nobody_takes_the_test_part_for_validation() -> None:
    found = joined(etude.Data([1], [2], [3], n_features=4))
    train, valid, test = found
    assert (train, valid, test) == ([1, 2], None, [3])
    assert (found.valid, found.derived) == (None, {"n_features": 4})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (([1], [2]), "nothing says which part of that is which. Return etude.Data(train, valid, test)."),
        (etude.Data([1], test=[2]), "without valid: there is nothing to join."),
        (etude.Data([1], [2]), "without test: nothing would be left to judge the model by."),
        (etude.Data([1]), "without valid and test: there is nothing to join."),
    ],
)
def test_data_without_all_parts_is_refused(given: Any, why: str) -> None:
    with pytest.raises(ResultError) as refused:
        joined(given)
    assert why in str(refused.value)
