"""The torch adapter: generators for loaders, batches and modules on their device; "meta" stands for a GPU."""

import copy
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from etude.core.data import Data
from etude.frameworks import torch as adapter
from etude.frameworks.torch import on_device, place, prepare_data

EXAMPLES = TensorDataset(torch.arange(20), torch.arange(20.0))


class Numbers(Dataset[int]):
    """Knows nothing of tensors, and can travel to loader workers."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        return index


class Noise(Dataset[float]):
    """Draws while it fetches."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> float:
        return float(torch.rand(()))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(6))


def shuffled(**more: Any) -> DataLoader[Any]:
    return DataLoader(EXAMPLES, batch_size=5, shuffle=True, **more)


def order(loader: DataLoader[Any]) -> list[int]:
    return torch.cat([batch[0] for batch in loader]).tolist()


def epochs(loader: DataLoader[Any], *, seed: int, n: int = 2) -> list[list[int]]:
    prepare_data(loader, seed=seed, device="cpu")
    return [order(loader) for _ in range(n)]


# --- generators -----------------------------------------------------------------------------------


def test_equal_seeds_shuffle_equally_and_epochs_differ() -> None:
    first = epochs(shuffled(), seed=1)
    torch.rand(100)
    assert epochs(shuffled(), seed=1) == first
    assert epochs(shuffled(), seed=2) != first
    assert first[0] != first[1]
    assert sorted(first[0]) == list(range(20))


def test_shuffling_draws_nothing_from_the_global_generator() -> None:
    loader = prepare_data(shuffled(), seed=1, device="cpu")
    before = torch.get_rng_state()
    order(loader)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataLoader(EXAMPLES, batch_size=5, sampler=RandomSampler(EXAMPLES)),
        lambda: DataLoader(EXAMPLES, batch_size=5, sampler=SubsetRandomSampler(range(20))),
        lambda: DataLoader(EXAMPLES, batch_size=5, sampler=WeightedRandomSampler([1.0] * 20, 20)),
        lambda: DataLoader(EXAMPLES, batch_sampler=BatchSampler(RandomSampler(EXAMPLES), 5, drop_last=False)),
    ],
    ids=["random", "subset", "weighted", "in a batch sampler"],
)
def test_every_sampler_of_torch_gets_a_generator_of_its_own(make: Any) -> None:
    first = epochs(make(), seed=1)
    assert epochs(make(), seed=1) == first
    assert epochs(make(), seed=2) != first
    assert first[0] != first[1]


def test_a_generator_of_the_users_is_kept() -> None:
    def by_user() -> DataLoader[Any]:
        return shuffled(generator=torch.Generator().manual_seed(5))

    loader = by_user()
    generator = loader.generator
    assert epochs(loader, seed=1) == epochs(by_user(), seed=2)
    assert loader.generator is generator
    own = DataLoader(EXAMPLES, sampler=RandomSampler(EXAMPLES, generator=generator))
    prepare_data(own, seed=1, device="cpu")
    assert own.sampler.generator is generator  # type: ignore[attr-defined]
    assert own.generator is not None


def test_each_loader_has_another_order() -> None:
    first, second = prepare_data((shuffled(), shuffled()), seed=1, device="cpu")
    assert order(first) != order(second)


def test_a_loader_that_serves_a_second_run_starts_like_a_new_one() -> None:
    loader = shuffled()
    first = epochs(loader, seed=1)
    assert epochs(loader, seed=2) != first
    assert epochs(loader, seed=1) == first


def test_what_loader_workers_draw_depends_on_the_seed_alone() -> None:
    def noise(seed: int) -> list[float]:
        loader = prepare_data(DataLoader(Noise(), batch_size=4, num_workers=2), seed=seed, device="cpu")
        return torch.cat(list(loader)).tolist()

    first = noise(1)
    torch.rand(100)
    assert noise(1) == first
    assert noise(2) != first


def test_a_loader_without_a_sampler_or_batches_is_fine() -> None:
    for loader in (DataLoader(Stream(), batch_size=2), DataLoader(Numbers(), batch_size=None)):
        assert prepare_data(loader, seed=1, device="cpu") is loader
        assert len(list(loader)) > 0


# --- what data functions return -------------------------------------------------------------------


class Parts(NamedTuple):
    train: Any
    valid: Any


def test_containers_stay_what_they_are_and_their_loaders_are_prepared() -> None:
    nested = {
        "parts": Parts(shuffled(), [shuffled(), "text", 3]),
        "data": Data(shuffled(), (shuffled(),), None, n_features=3),
    }
    prepared = prepare_data(nested, seed=1, device="meta")
    assert prepared is nested
    inner = [nested["parts"].train, nested["parts"].valid[0], nested["data"].train, nested["data"].valid[0]]  # type: ignore[attr-defined]
    assert all(loader.generator is not None for loader in inner)
    assert all(next(iter(loader))[0].device.type == "meta" for loader in inner)
    assert len({tuple(loader.generator.get_state().tolist()) for loader in inner}) == 4


@pytest.mark.parametrize("data", [None, 3, "text", [1, 2], {"x": torch.ones(2)}, [[0.5] * 3] * 5000], ids=repr)
def test_what_holds_no_loader_is_left_as_it_is(data: Any) -> None:
    assert prepare_data(data, seed=1, device="meta") is data


# --- devices --------------------------------------------------------------------------------------


def test_a_loader_on_a_device_is_the_loader_that_it_was() -> None:
    class Own(DataLoader[Any]):
        def half(self) -> int:
            return len(self) // 2

    loader = Own(EXAMPLES, batch_size=5, shuffle=True)
    moved = on_device(loader, "meta")
    assert moved is loader
    assert isinstance(loader, Own)
    assert type(loader).__name__ == "Own"
    assert (len(loader), loader.half(), loader.batch_size) == (4, 2, 5)
    assert loader.dataset is EXAMPLES
    for _ in range(2):
        assert [[t.device.type for t in batch] for batch in loader] == [["meta", "meta"]] * 4


def test_loaders_of_one_type_stay_of_one_type() -> None:
    first, second = on_device(shuffled(), "meta"), on_device(shuffled(), "meta")
    assert type(first) is type(second)
    again = type(first)
    assert type(on_device(first, "meta")) is again


def test_a_loader_that_was_on_a_device_can_go_back() -> None:
    loader = on_device(on_device(shuffled(), "meta"), "cpu")
    assert next(iter(loader))[0].device.type == "cpu"
    plain = shuffled()
    assert type(on_device(plain, "cpu")) is DataLoader


@pytest.mark.parametrize("persistent", [False, True])
def test_loader_workers_are_no_matter(persistent: bool) -> None:
    loader = DataLoader(Numbers(), batch_size=5, num_workers=2, persistent_workers=persistent)
    loader = on_device(loader, "meta")
    for _ in range(2):
        assert [(b.device.type, b.shape) for b in loader] == [("meta", (5,))] * 4


def test_a_loader_on_a_device_can_be_pickled_and_copied() -> None:
    loader = on_device(DataLoader(Numbers(), batch_size=5), "meta")
    for again in (pickle.loads(pickle.dumps(loader)), copy.copy(loader)):
        assert isinstance(again, DataLoader)
        assert [(b.device.type, b.shape) for b in again] == [("meta", (5,))] * 4


class Point(NamedTuple):
    x: torch.Tensor
    name: str


class Bag(list[Any]):
    """A list of the user's own."""


def moved(batch: Any) -> Any:
    loader = on_device(DataLoader(EXAMPLES, batch_size=None, collate_fn=lambda _: batch), "meta")
    return next(iter(loader))


def test_batches_keep_their_types_and_everything_in_them_moves() -> None:
    t = torch.ones(2)
    batch = {
        "tuple": (t, [t, 3, "text", None]),
        "named": Point(t, "p"),
        "ordered": OrderedDict(b=t, a=t),
        "default": defaultdict(list, x=t),
        "bag": Bag([t]),
        "data": Data(t, (t,), n=3),
        "size": torch.Size([2, 3]),
    }
    got = moved(batch)
    assert {name: type(value) for name, value in got.items()} == {name: type(value) for name, value in batch.items()}
    assert got["named"].name == "p"
    assert list(got["ordered"]) == ["b", "a"]
    assert got["default"]["missing"] == []
    assert got["data"].derived == {"n": 3}
    assert got["size"] == torch.Size([2, 3])
    assert got["tuple"][1][1:] == [3, "text", None]
    assert all(tensor.device.type == "meta" for tensor in tensors(got))
    assert len(list(tensors(got))) == len(list(tensors(batch))) == 9
    assert all(tensor.device.type == "cpu" for tensor in tensors(batch))  # the user's own batch is as it was


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if torch.is_tensor(value):
        yield value
    elif isinstance(value, Data):
        yield from tensors([value.train, value.valid])
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def test_what_knows_how_to_move_moves_itself() -> None:
    packed = pack_sequence([torch.ones(3), torch.ones(2)])
    got = moved([packed])[0]
    assert isinstance(got, PackedSequence)
    assert got.data.device.type == "meta"
    assert got.batch_sizes.device.type == "cpu"  # where torch wants it


def test_modules_move_wherever_they_lie_and_stay_the_objects_that_they_are() -> None:
    nets = {"a": nn.Linear(2, 2), "pair": (nn.Linear(2, 2), [nn.BatchNorm1d(2)]), "width": 3}
    assert place(nets, device="meta") is nets
    modules = [nets["a"], nets["pair"][0], nets["pair"][1][0]]  # type: ignore[index]
    assert all(p.device.type == "meta" for module in modules for p in module.parameters())  # type: ignore[union-attr]
    net = nn.Linear(2, 2)
    assert place(net, device="cpu") is net
    assert net.weight.device.type == "cpu"


# --- CUDA's generators, without CUDA --------------------------------------------------------------


class FakeCuda:
    """CUDA's generator as torch treats it: seeds are remembered until it is started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started = False
        self.seed: int | None = None
        self.drawn = 0
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: self.started)
        monkeypatch.setattr(torch.cuda, "manual_seed_all", self.manual_seed)
        monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [(self.seed, self.drawn)])
        monkeypatch.setattr(torch.cuda, "set_rng_state_all", self.set_state)

    def manual_seed(self, seed: int) -> None:
        self.seed, self.drawn = seed, 0

    def set_state(self, states: list[tuple[int, int]]) -> None:
        ((self.seed, self.drawn),) = states

    def draw(self) -> tuple[int | None, int]:
        self.started = True
        self.drawn += 1
        return self.seed, self.drawn


@pytest.mark.parametrize("started", [False, True], ids=["started by the run", "started before"])
def test_a_gpu_draws_from_the_streams_whenever_it_was_started(monkeypatch: pytest.MonkeyPatch, started: bool) -> None:
    from etude.worker.seeds import seeded

    cuda = FakeCuda(monkeypatch)
    torch.manual_seed(11)
    if started:
        cuda.draw()
    before = (cuda.seed, cuda.drawn)
    with seeded(0, "train"):
        with seeded(0, "init"):
            init = [cuda.draw(), cuda.draw()]
        train = [cuda.draw(), cuda.draw()]
    assert [n for _, n in init + train] == [1, 2, 1, 2]
    assert len({seed for seed, _ in init + train}) == 2
    assert {seed for seed, _ in train} == {adapter.stream_seed(0, "train", bits=63)}
    assert (cuda.seed, cuda.drawn) == (before if started else (11, 0))
