"""Data sets and loaders of PyTorch without some of their features."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, SubsetRandomSampler, TensorDataset

import etude
from etude.core.errors import ConfigError
from etude.core.removal import Features
from etude.data.without import without

N = 24


def tensors() -> TensorDataset:
    return TensorDataset(torch.arange(3.0 * N).reshape(N, 3), torch.arange(N))


def shuffled(data_set: Any, **settings: Any) -> DataLoader[Any]:
    return DataLoader(data_set, batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(3), **settings)


def inputs(loader: DataLoader[Any]) -> torch.Tensor:
    return torch.cat([x for x, _ in loader])


class Examples(Dataset):
    """Draws, as augmentation does."""

    classes = ("no", "yes")
    data = "what was taken out would still be here"

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "image": torch.full((3, 2, 2), index) + 0 * torch.rand(()),
            "age": index,
            "noise": torch.rand(()).item(),
            "y": index,
        }


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        return iter([(torch.tensor([float(i), -float(i)]), i) for i in range(N)])


def test_a_loader_keeps_its_order_workers_and_sampler_and_the_users_one_stays() -> None:
    loader = shuffled(tensors(), num_workers=0, drop_last=True)
    found = etude.Data(loader, loader, features=["a", "b", "c"])
    rest = without(found, Features(("b",)), seed=0)
    assert type(rest.train) is DataLoader
    assert rest.train.sampler is loader.sampler
    assert rest.train.generator is loader.generator
    assert rest.train.drop_last
    whole = inputs(shuffled(tensors(), drop_last=True))
    assert inputs(rest.train).equal(whole[:, [0, 2]])
    assert next(iter(loader))[0].shape == (5, 3)


def test_the_tensors_of_a_data_set_are_shuffled_among_its_examples() -> None:
    found = etude.Data(tensors(), features=["a", "b", "c"])
    first, again, other = (without(found, Features(("b",), "permute"), seed=seed).train for seed in (0, 0, 1))
    x, y = first.tensors
    assert x[:, [0, 2]].equal(tensors().tensors[0][:, [0, 2]])
    assert y.equal(torch.arange(N))
    assert x[:, 1].sort().values.equal(tensors().tensors[0][:, 1])
    assert x.equal(again.tensors[0])
    assert not x.equal(other.tensors[0])
    assert (x[:, 1] != tensors().tensors[0][:, 1]).any()


def test_subsets_of_one_data_set_stay_so_and_are_shuffled_each_in_itself() -> None:
    whole = tensors()
    train, valid = Subset(whole, range(20)), Subset(whole, range(20, N))
    found = etude.Data(train, valid, features=["a", "b", "c"])
    rest = without(found, Features(("a",)), seed=0)
    assert rest.train.dataset is rest.valid.dataset
    assert (rest.valid.indices, rest.valid[0][0].tolist()) == (range(20, N), [61.0, 62.0])
    mixed = without(found, Features(("a",), "permute"), seed=0)
    assert sorted(float(x[0]) for x, _ in mixed.train) == [3.0 * i for i in range(20)]
    assert sorted(float(x[0]) for x, _ in mixed.valid) == [3.0 * i for i in range(20, N)]
    assert [float(x[0]) for x, _ in mixed.train] != [3.0 * i for i in range(20)]


def test_rows_that_a_loader_never_draws_give_nothing_away() -> None:
    drawn = list(range(0, N, 2))
    loader = DataLoader(tensors(), sampler=SubsetRandomSampler(drawn), batch_size=4)
    mixed = without(etude.Data(loader, features=["a", "b", "c"]), Features(("a",), "permute"), seed=0).train
    assert inputs(mixed)[:, 0].sort().values.tolist() == [3.0 * i for i in drawn]


def test_examples_of_any_data_set_are_edited_as_they_are_fetched() -> None:
    found = etude.Data(DataLoader(Examples(), batch_size=6), target="y")
    rest = without(found, Features(("age", "channel:2")), seed=0).train
    batch = next(iter(rest))
    assert set(batch) == {"image", "noise", "y"}
    assert batch["image"].shape == (6, 2, 2, 2)
    assert rest.dataset.classes == ("no", "yes")
    with pytest.raises(AttributeError, match="does not tell 'data'"):
        rest.dataset.data  # noqa: B018
    constant = without(found, Features(("age",), "constant", 3), seed=0).train.dataset
    assert [constant[i]["age"] for i in range(4)] == [3] * 4
    mixed = without(found, Features(("image", "age"), "permute"), seed=0).train.dataset
    ages = [mixed[i]["age"] for i in range(N)]
    assert sorted(ages) == list(range(N)) != ages
    assert [int(mixed[i]["image"][0, 0, 0]) for i in range(N)] == ages
    assert [mixed[i]["y"] for i in range(N)] == list(range(N))


def test_fetching_features_of_others_draws_nothing_for_the_example_itself() -> None:
    def noise(data_set: Any) -> list[float]:
        torch.manual_seed(5)
        return [data_set[i]["noise"] for i in range(N)]

    found = etude.Data(Examples(), target="y")
    mixed = without(found, Features(("age",), "permute"), seed=0).train
    assert noise(mixed) == noise(Examples())
    assert noise(without(found, Features(("age",)), seed=0).train) == noise(Examples())


def test_edited_examples_travel_to_loader_workers() -> None:
    found = etude.Data(DataLoader(Examples(), batch_size=6), target="y")
    for how in ("drop", "permute"):
        data_set = without(found, Features(("age",), how), seed=0).train.dataset
        there = pickle.loads(pickle.dumps(data_set))
        assert [there[i].get("age") for i in range(3)] == [data_set[i].get("age") for i in range(3)]


def test_streams_lose_features_and_cannot_be_shuffled() -> None:
    found = etude.Data(DataLoader(Stream(), batch_size=4), features=["a", "b"])
    rest = without(found, Features(("a",)), seed=0).train
    assert inputs(rest).flatten().tolist() == [-float(i) for i in range(N)]
    with pytest.raises(ConfigError, match="gives its examples one after the other"):
        without(found, Features(("a",), "permute"), seed=0)


def test_named_tensors_and_loaders_in_dicts() -> None:
    three = TensorDataset(torch.arange(N), torch.rand(N, 3, 4, 4), torch.arange(N))
    found = etude.Data(shuffled(three), fields=["age", "image", "y"], target="y")
    rest = without(found, Features(("image",)), seed=0)
    assert [tensor.shape for tensor in next(iter(rest.train))] == [(5,), (5,)]
    assert rest.fields == ("age", "y")
    less = without(found, Features(("age", "channel:0")), seed=0)
    assert next(iter(less.train))[0].shape == (5, 2, 4, 4)
    both = etude.Data({"here": shuffled(three), "there": shuffled(three)}, fields=["age", "image", "y"], target="y")
    rest = without(both, Features(("age",)), seed=0).train
    assert [len(next(iter(loader))) for loader in rest.values()] == [2, 2]


def test_workers_that_persist_are_those_of_the_loader_that_has_fewer_features() -> None:
    loader = shuffled(tensors(), num_workers=1, persistent_workers=True)
    assert next(iter(loader))[0].shape == (5, 3)
    rest = without(etude.Data(loader, features=["a", "b", "c"]), Features(("b",)), seed=0).train
    assert next(iter(rest))[0].shape == (5, 2)
    assert rest.persistent_workers


def test_a_constant_fits_the_type_of_a_tensor_or_is_refused() -> None:
    images = TensorDataset(torch.full((N, 3, 4, 4), 9, dtype=torch.uint8), torch.arange(N))
    filled = without(etude.Data(images), Features(("channel:0",), "constant", 4), seed=0).train.tensors[0]
    assert filled.dtype == torch.uint8
    assert filled[0, :, 0, 0].tolist() == [4, 9, 9]
    with pytest.raises(ConfigError, match=r"torch\.uint8 has no 0\.5"):
        without(etude.Data(images), Features(("channel:0",), "constant", 0.5), seed=0)
    double = TensorDataset(torch.zeros(N, 2, dtype=torch.float64), torch.arange(N))
    found = etude.Data(double, features=["a", "b"])
    assert without(found, Features(("a",), "constant", 0.1), seed=0).train.tensors[0][0].tolist() == [0.1, 0.0]
