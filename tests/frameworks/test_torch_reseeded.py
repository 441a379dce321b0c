"""Data sets that draw: what an example draws depends on the seed, the pass and the example, and on nothing else."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Sampler, Subset, TensorDataset

from etude.frameworks.coats import plain_class
from etude.frameworks.torch import generators, prepare_data
from etude.frameworks.torch_bits import alike
from etude.frameworks.torch_drawing import GLOBAL
from etude.frameworks.torch_marks import passes_of
from etude.frameworks.torch_reseeded import RESEEDED, WATCHED, drew
from etude.frameworks.torch_shard import shard

N = 24


class Rows(Dataset[Any]):
    """Examples that are what they are."""

    def __init__(self, n: int = N) -> None:
        self.n = n
        self.asked: list[Any] = []

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        return index, 0.0


class Noisy(Rows):
    """Examples with noise, from one of the global generators."""

    def __init__(self, draw: Callable[[], float], n: int = N) -> None:
        super().__init__(n)
        self.draw = draw

    def __getitem__(self, index: int) -> Any:
        return index, self.draw()


class Seldom(Rows):
    """One example in 24 is drawn, and another from all generators."""

    def __getitem__(self, index: int) -> Any:
        if index == 7:
            return index, torch.rand(()).item()
        if index == 19:
            return index, torch.rand(()).item() + random.random() + np.random.rand()
        return index, 0.0


class Whole(Noisy):
    """Fetches batches as a whole, and draws once for each."""

    def __getitems__(self, index: list[int]) -> Any:
        noise = self.draw()
        return [(one, noise) for one in index]


def of_torch() -> float:
    return torch.rand(()).item()


def of_numpy() -> float:
    return float(np.random.normal())


def of_python() -> float:
    return random.gauss(0, 1)


def of_all() -> float:
    return of_torch() + of_numpy() + of_python()


class Broken(Noisy):
    """One example raises, if it draws that."""

    def __getitem__(self, index: int) -> Any:
        _, noise = super().__getitem__(index)
        if index == 3:
            raise ValueError(f"drawn was {noise}")
        return index, noise


class InBatches(Sampler[Any]):
    def __len__(self) -> int:
        return N // 4

    def __iter__(self) -> Iterator[list[int]]:
        return iter([list(range(at, at + 4)) for at in range(0, N, 4)])


class Listed(Noisy):
    """Is asked for batches itself."""

    def __getitem__(self, index: Any) -> Any:
        return [(one, self.draw()) for one in index]


MADE: dict[str, Callable[..., Any]] = {
    "torch": lambda **more: DataLoader(Noisy(of_torch), batch_size=4, shuffle=True, **more),
    "numpy": lambda **more: DataLoader(Noisy(of_numpy), batch_size=4, shuffle=True, **more),
    "random": lambda **more: DataLoader(Noisy(of_python), batch_size=4, shuffle=True, **more),
    "all": lambda **more: DataLoader(Noisy(of_all), batch_size=4, shuffle=True, **more),
    "seldom": lambda **more: DataLoader(Seldom(), batch_size=4, shuffle=True, **more),
    "a part": lambda **more: DataLoader(Subset(Noisy(of_torch, 40), range(5, 29)), batch_size=4, **more),
    "two": lambda **more: DataLoader(ConcatDataset([Noisy(of_torch, 9), Noisy(of_numpy, 15)]), batch_size=4, **more),
    "batches": lambda **more: DataLoader(Whole(of_torch), batch_size=4, shuffle=True, **more),
    "one by one": lambda **more: DataLoader(Noisy(of_torch), batch_size=None, **more),
    "a sampler of batches": lambda **more: DataLoader(Listed(of_all), batch_size=None, sampler=InBatches(), **more),
}


@pytest.fixture(autouse=True)
def _begins_alike() -> Iterator[None]:
    before = [source.get() for source in GLOBAL]
    yield
    for source, state in zip(GLOBAL, before, strict=True):
        source.set(state)
    gc.collect()
    assert not multiprocessing.active_children()


def prepared(loader: Any, seed: int = 1) -> Any:
    return prepare_data(loader, seed=seed, device="cpu")


def given(batch: Any) -> list[tuple[int, float]]:
    """Return the examples of a batch, each with what it drew."""
    if isinstance(batch, list) and isinstance(batch[0], tuple | list) and not torch.is_tensor(batch[0]):
        return [(int(index), float(noise)) for index, noise in batch]
    index, noise = (torch.as_tensor(part).reshape(-1).tolist() for part in batch)
    return list(zip(index, noise, strict=True))


def passes(loader: Any, times: int = 3) -> list[list[Any]]:
    return [[given(batch) for batch in loader] for _ in range(times)]


def drawn_in(batches: list[Any]) -> dict[int, float]:
    """Return what each example drew in a pass."""
    return {index: noise for batch in batches for index, noise in batch}


WAYS: dict[str, dict[str, Any]] = {
    "one worker": {"num_workers": 1},
    "two workers": {"num_workers": 2, "prefetch_factor": 3},
    "workers that stay": {"num_workers": 2, "persistent_workers": True},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MADE)
def test_what_examples_draw_does_not_depend_on_where_they_are_fetched(name: str, way: str) -> None:
    expected = passes(prepared(MADE[name]()))
    torch.rand(5)
    assert passes(prepared(MADE[name](**WAYS[way]))) == expected
    assert passes(prepared(MADE[name](), seed=2)) != expected


@pytest.mark.parametrize("name", MADE)
def test_each_pass_draws_anew(name: str) -> None:
    first, second, third = (drawn_in(batches) for batches in passes(prepared(MADE[name]())))
    assert first.keys() == second.keys() == third.keys()
    assert first != second != third != first


@pytest.mark.parametrize("draw", [of_torch, of_numpy, of_python])
def test_examples_draw_one_apart_from_the_other(draw: Callable[[], float]) -> None:
    [batches] = passes(prepared(DataLoader(Noisy(draw), batch_size=4)), 1)
    noises = [noise for batch in batches for _, noise in batch]
    assert len(set(noises)) == N


@pytest.mark.parametrize("name", MADE)
def test_the_global_generators_are_left_where_they_are(name: str) -> None:
    loader = prepared(MADE[name]())
    before = [source.get() for source in GLOBAL]
    passes(loader)
    assert alike([source.get() for source in GLOBAL], before)


@pytest.mark.parametrize("workers", [0, 2])
def test_dropout_is_the_same_with_and_without_noise(workers: int) -> None:
    def dropped(dataset: Any) -> list[float]:
        torch.manual_seed(5)
        return [torch.rand(()).item() for _ in prepared(DataLoader(dataset, batch_size=4, num_workers=workers))]

    assert dropped(Noisy(of_all)) == dropped(Rows())


def test_two_ranks_draw_what_one_draws() -> None:
    def loaders() -> Any:
        return DataLoader(Noisy(of_all), batch_size=4, shuffle=True)

    alone = passes(prepared(loaders()))
    ranks = [passes(shard(prepared(loaders()), rank=rank, ranks=2)) for rank in range(2)]
    together = [[one + other for one, other in zip(*both, strict=True)] for both in zip(*ranks, strict=True)]
    assert together == alone


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("after", [0, 2])
def test_a_run_that_goes_on_draws_what_it_would_have_drawn(before: int, after: int) -> None:
    def made(workers: int) -> Any:
        loaders = MADE["all"](num_workers=workers), DataLoader(Noisy(of_torch), batch_size=4)
        return prepared(loaders)

    def epoch(loaders: Any) -> Any:
        return [passes(loader, 1) for loader in loaders]

    whole = made(0)
    expected = [epoch(whole) for _ in range(4)]
    first = made(before)
    assert [epoch(first) for _ in range(2)] == expected[:2]
    states = [generator.get_state() for generator in generators(first)]
    second = made(after)
    for generator, state in zip(generators(second), states, strict=True):
        generator.set_state(state)
    assert [epoch(second) for _ in range(2)] == expected[2:]


def test_loaders_of_one_data_set_draw_apart_whichever_comes_first() -> None:
    def both(first: int) -> list[Any]:
        dataset = Noisy(of_torch)
        loaders = prepared([DataLoader(dataset, batch_size=4), DataLoader(dataset, batch_size=4)])
        found = {nth: passes(loaders[nth], 1) for nth in (first, 1 - first)}
        return [found[0], found[1]]

    train, valid = both(0)
    assert train != valid
    assert both(1) == [train, valid]


def test_two_passes_side_by_side_draw_apart() -> None:
    one, other = passes(prepared(MADE["torch"]()), 2)
    loader = prepared(MADE["torch"]())
    found = [(given(a), given(b)) for a, b in zip(loader, loader, strict=True)]
    assert {index: noise for a, _ in found for index, noise in a} == drawn_in(one)
    assert {index: noise for _, b in found for index, noise in b} == drawn_in(other)


def test_what_is_asked_without_a_loader_draws_as_ever() -> None:
    dataset = Noisy(of_torch)
    prepared(DataLoader(dataset, batch_size=4))
    torch.manual_seed(3)
    expected = [torch.rand(()).item() for _ in range(4)]
    torch.manual_seed(3)
    own = DataLoader(Subset(dataset, range(1, N)), batch_size=2)
    drawn = [dataset[0][1], dataset[0][1]]
    assert drawn == expected[:2]
    assert not drew(dataset)
    assert passes(own, 1) != passes(own, 1)


def test_an_example_that_raises_raises_the_same_everywhere() -> None:
    def raised(workers: int) -> str:
        with pytest.raises(ValueError, match="drawn was") as caught:
            passes(prepared(DataLoader(Broken(of_torch), batch_size=4, num_workers=workers)))
        return str(caught.value).strip().splitlines()[-1].rpartition("drawn was")[2]

    before = [source.get() for source in GLOBAL]
    assert raised(0) == raised(1)
    assert alike([source.get() for source in GLOBAL], before)


# --- what does not draw ---------------------------------------------------------------------------


def test_what_draws_nothing_is_watched_for_some_batches_and_asked_once() -> None:
    dataset = Rows()
    loader = prepared(DataLoader(dataset, batch_size=2))
    assert len(passes(loader, 1)[0]) == N // 2
    assert dataset.asked == list(range(N))
    found = vars(dataset)[f"_etude_{RESEEDED.name}"]
    assert found.unwatched == WATCHED - N // 2
    passes(loader, 6)
    assert found.unwatched == 0
    assert not found.draws


def test_nobody_reads_a_generator_once_enough_was_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = prepared(DataLoader(Rows(), batch_size=2))
    passes(loader, 6)

    def read(*args: Any) -> None:
        raise AssertionError("a generator was read")

    monkeypatch.setattr(random, "getstate", read)
    monkeypatch.setattr("etude.frameworks.torch_reseeded.GLOBAL", [None, None, None])
    assert len(passes(loader, 1)[0]) == N // 2


@pytest.mark.parametrize(
    "dataset",
    [
        TensorDataset(torch.arange(8)),
        Subset(TensorDataset(torch.arange(8)), [1, 2]),
        ConcatDataset([TensorDataset(torch.arange(4)), TensorDataset(torch.arange(4))]),
        torch.arange(8),
        [1, 2, 3],
    ],
)
def test_what_can_draw_nothing_is_left_as_it_is(dataset: Any) -> None:
    cls = type(dataset)
    loader = prepared(DataLoader(dataset, batch_size=2))
    assert type(dataset) is cls
    assert type(loader) is DataLoader
    assert passes_of(loader) is None


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from range(4)


class Slotted:
    __slots__ = ()

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


class OwnIndices(DataLoader[Any]):
    @property
    def _index_sampler(self) -> Any:
        return [[0, 1], [2]]


@pytest.mark.parametrize(
    "loader",
    [DataLoader(Stream(), batch_size=2), DataLoader(Slotted(), batch_size=2), OwnIndices(Noisy(of_torch))],  # type: ignore[arg-type]
)
def test_what_has_no_indices_of_the_usual_kind_is_left_as_it_is(loader: Any) -> None:
    cls = type(loader.dataset)
    assert type(prepared(loader).dataset) is cls
    assert passes_of(loader) is None
    assert len(list(loader)) == 2


# --- what users see -------------------------------------------------------------------------------


def test_data_set_and_loader_are_by_all_appearances_what_they_were() -> None:
    dataset = Noisy(of_torch)
    loader = prepared(DataLoader(dataset, batch_size=5))
    assert loader.dataset is dataset
    assert isinstance(dataset, Noisy)
    assert type(dataset).__name__ == "Noisy"
    assert type(dataset).__module__ == __name__
    assert plain_class(dataset) is Noisy
    assert type(loader).__name__ == "DataLoader"
    assert len(loader) == 5
    assert loader.batch_sampler.batch_size == 5


def test_a_pickled_data_set_is_one_that_draws_the_same() -> None:
    loader = prepared(MADE["torch"]())
    expected = passes(loader, 1)
    copied = pickle.loads(pickle.dumps(loader.dataset))
    assert type(copied).__name__ == "Noisy"
    assert len(copied) == N
    assert not drew(copied), "another process finds that out for itself"
    assert passes(prepared(DataLoader(copied, batch_size=4, shuffle=True)), 1) == expected


def test_a_loader_that_serves_a_second_run_starts_like_a_new_one() -> None:
    loader = MADE["torch"]()
    first = passes(prepared(loader))
    assert passes(prepared(loader, seed=2)) != first
    assert passes(prepared(loader)) == first
