"""Loaders over ranks: what all ranks are given together is what one rank would be given, step by step."""

import copy
import pickle
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from torchdata.stateful_dataloader import StatefulDataLoader

from etude.core.data import Data
from etude.core.errors import ConfigError, StateError
from etude.frameworks.sources import Source
from etude.frameworks.torch import generators, prepare_data
from etude.frameworks.torch_cuts import cut_short
from etude.frameworks.torch_divided import undivide
from etude.frameworks.torch_shard import shard
from etude.frameworks.torch_shares import partition, shares_of, whole_again
from etude.frameworks.torch_telling import Drawn, is_shared
from etude.worker.kept import Keeper
from etude.worker.steps import Within

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

N = 23


class Numbers(Dataset[int]):
    """Its examples are their own indices, so that a batch says which it has."""

    def __init__(self, n: int = N) -> None:
        self.n = n
        self.epoch = 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return index

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Noise(Numbers):
    """Draws while it fetches, from every global generator, as augmentations do."""

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([random.random(), np.random.rand(), float(torch.rand(()))], dtype=torch.float64)


class Whole(Dataset[Any]):
    """Takes a list of indices, and gives a ready batch."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: Any) -> torch.Tensor:
        return torch.as_tensor(index)


class Stream(IterableDataset[int]):
    """Each worker of a loader goes through its own part, as the documentation of torch has it."""

    def __init__(self, n: int = N, *, shuffled: bool = False) -> None:
        self.n = n
        self.shuffled = shuffled
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        numbers = list(range(first, self.n, step))
        if self.shuffled:
            random.shuffle(numbers)
        return iter([number + 1000 * self.epoch for number in numbers])

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Sized(Stream):
    def __len__(self) -> int:
        return self.n


class Resumable(Stream):
    """Has a state: how far it was gone through."""

    at = 0

    def __iter__(self) -> Iterator[int]:
        while self.at < self.n:
            self.at += 1
            yield self.at - 1
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Drawing(Sampler[int]):
    """A sampler of the user's own, which draws from every global generator."""

    def __iter__(self) -> Iterator[int]:
        numbers = list(range(N))
        random.shuffle(numbers)
        numbers = [numbers[i] for i in np.random.permutation(N)]
        for i in torch.randperm(N).tolist():
            yield numbers[i]

    def __len__(self) -> int:
        return N


class Buckets(Sampler[list[int]]):
    """A batch sampler of the user's own: batches of many sizes, in another order in each pass."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(6)

    def __iter__(self) -> Iterator[list[int]]:
        batches = [[0, 1, 2, 3, 4, 5, 6], [7], [8, 9, 10, 11], [12, 13], list(range(14, N))]
        for i in torch.randperm(len(batches), generator=self.generator).tolist():
            yield batches[i]

    def __len__(self) -> int:
        return 5


def in_pairs(items: Sequence[Any]) -> dict[str, torch.Tensor]:
    return {"x": torch.as_tensor(items), "twice": 2 * torch.as_tensor(items)}


Make = Callable[[], Any]

MADE: dict[str, Make] = {
    "shuffle": lambda: DataLoader(Numbers(), batch_size=12, shuffle=True),
    "in order": lambda: DataLoader(Numbers(), batch_size=12),
    "drop_last": lambda: DataLoader(Numbers(), batch_size=12, shuffle=True, drop_last=True),
    "weighted": lambda: DataLoader(
        Numbers(), batch_size=12, sampler=WeightedRandomSampler(torch.arange(1.0, N + 1), 40)
    ),
    "subset": lambda: DataLoader(Numbers(), batch_size=12, sampler=SubsetRandomSampler(range(3, N))),
    "with replacement": lambda: DataLoader(Numbers(), batch_size=12, sampler=RandomSampler(Numbers(), True, 70)),
    "batch sampler": lambda: DataLoader(Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), 12, False)),
    "buckets": lambda: DataLoader(Numbers(), batch_sampler=Buckets()),
    "ready batches": lambda: DataLoader(
        Whole(), sampler=BatchSampler(RandomSampler(Whole()), 12, False), batch_size=None
    ),
    "one generator": lambda: DataLoader(
        Numbers(), batch_size=12, shuffle=True, generator=torch.Generator().manual_seed(3)
    ),
    "stateful": lambda: StatefulDataLoader(Numbers(), batch_size=12, shuffle=True),
    "workers": lambda: DataLoader(Numbers(), batch_size=12, shuffle=True, num_workers=1, persistent_workers=True),
    "collate": lambda: DataLoader(Numbers(), batch_size=12, shuffle=True, collate_fn=in_pairs),
}


def made(make: Make, *, ranks: int, rank: int = 0, seed: int = 1, **options: Any) -> tuple[Any, list[Drawn]]:
    """Return a rank's loader, prepared as a trial has it, and what is told of its batches."""
    torch.manual_seed(7)  # what is made with a seed of its own has the same on every rank
    told: list[Drawn] = []
    loader = prepare_data(make(), seed=seed, device="cpu")
    torch.manual_seed(100 + rank)  # training draws other things on each rank
    random.seed(100 + rank)
    np.random.seed(100 + rank)
    itself = weakref.ref(loader)

    def tell(drawn: Drawn) -> None:  # it keeps no loader: worker processes of one that goes in a circle end late
        assert drawn.loader is itself()
        told.append(drawn._replace(loader=None))  # type: ignore[arg-type]

    return shard(loader, rank=rank, ranks=ranks, drawn=tell, **options), told


def numbers(batch: Any) -> list[int]:
    return (batch["x"] if isinstance(batch, dict) else batch).tolist()


def flat(lists: Iterable[Sequence[Any]]) -> list[Any]:
    return [item for one in lists for item in one]


def passes(loader: Any, n: int = 2) -> list[list[list[int]]]:
    return [[numbers(batch) for batch in loader] for _ in range(n)]


def all_ranks(make: Make, ranks: int, **options: Any) -> list[list[list[int]]]:
    """Return the batches of all ranks together, with what has weight 0 left out, and check what was told of them."""
    each, lengths = [], set()
    for rank in range(ranks):
        loader, told = made(make, ranks=ranks, rank=rank, **options)
        own = [batch for one in passes(loader) for batch in one]
        lengths.add((len(loader), len(own)))
        assert [list(drawn.ids or ()) for drawn in told] == own
        each.append([(batch, drawn.weight, drawn.n) for batch, drawn in zip(own, told, strict=True)])
    assert len(lengths) == 1, f"ranks make different numbers of steps: {lengths}"
    ((length, twice),) = lengths
    assert twice == 2 * length
    steps = []
    for pieces in zip(*each, strict=True):
        parts = [batch if weight else [] for batch, weight, _ in pieces]
        whole = [number for part in parts for number in part]
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert all(batch for batch, _, _ in pieces)
        assert {n for _, _, n in pieces} == {len(whole)}
        assert [weight for _, weight, _ in pieces] == [size * ranks / len(whole) for size in sizes]
        steps.append(whole)
    return [steps[:length], steps[length:]]


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", MADE)
def test_all_ranks_together_are_given_the_batches_of_one(name: str, ranks: int) -> None:
    torch.manual_seed(7)
    alone = passes(prepare_data(MADE[name](), seed=1, device="cpu"))
    assert all_ranks(MADE[name], ranks) == alone
    assert all_ranks(MADE[name], 1) == alone
    assert name in ("in order",) or alone[0] != alone[1]


@pytest.mark.parametrize("name", ["shuffle", "with replacement", "workers", "buckets", "one generator"])
def test_after_a_pass_that_was_broken_off_ranks_go_on_as_one_would(name: str) -> None:
    def second(loader: Any) -> list[list[int]]:
        next(iter(loader))
        return passes(loader, 1)[0]

    torch.manual_seed(7)
    alone = second(prepare_data(MADE[name](), seed=1, device="cpu"))
    first, other = (made(MADE[name], ranks=2, rank=rank) for rank in (0, 1))
    steps = zip(second(first[0]), second(other[0]), strict=True)
    fillers = [drawn.weight == 0 for drawn in other[1][1:]]
    assert [a + (b if not filler else []) for (a, b), filler in zip(steps, fillers, strict=True)] == alone


@given(
    n=st.integers(1, 40),
    each=st.integers(1, 6),
    ranks=st.integers(1, 8),
    drop_last=st.booleans(),
    batch=st.sampled_from(["global", "per_rank"]),
    kind=st.sampled_from(["shuffle", "in order", "weighted", "buckets"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=300, deadline=None)
@pytest.mark.thorough
def test_any_sampler_is_divided_exactly(
    n: int, each: int, ranks: int, drop_last: bool, batch: str, kind: str, seed: int
) -> None:
    size = each * ranks if batch == "global" else each
    n = max(n, ranks)

    def make() -> DataLoader[int]:
        data = Numbers(n)
        if kind == "buckets":
            cuts = sorted(random.Random(seed).choices(range(n + 1), k=5))
            batches = [list(range(a, b)) for a, b in zip([0, *cuts], [*cuts, n], strict=True) if a < b]
            return DataLoader(data, batch_sampler=batches)  # a list is a batch sampler too
        if kind == "weighted":
            sampler = WeightedRandomSampler(torch.arange(1.0, n + 1), n)
            return DataLoader(data, batch_size=size, drop_last=drop_last, sampler=sampler)
        return DataLoader(data, batch_size=size, drop_last=drop_last, shuffle=kind == "shuffle")

    alone = passes(prepare_data(make(), seed=seed, device="cpu"))
    together = all_ranks(make, ranks, seed=seed, batch=batch)
    if batch == "global":
        assert together == alone
    else:
        assert [flat(one) for one in together] == [flat(one) for one in alone]
        assert [len(one) for one in together] == [-(-len(one) // ranks) for one in alone]


def test_with_a_batch_for_each_rank_steps_have_as_many_as_ranks_are() -> None:
    alone = passes(prepare_data(DataLoader(Numbers(), batch_size=4, shuffle=True), seed=1, device="cpu"), 1)[0]
    for rank in (0, 1):
        loader, _ = made(
            lambda: DataLoader(Numbers(), batch_size=4, shuffle=True), ranks=2, rank=rank, batch="per_rank"
        )
        own = passes(loader, 1)[0]
        assert own == [alone[0 + rank], alone[2 + rank], alone[4 + rank]]
        assert len(loader) == 3


# --- what users read, and what they gave ----------------------------------------------------------


def test_a_loader_stays_the_object_that_it_was_and_says_what_the_whole_is() -> None:
    class Own(DataLoader[Any]):
        pass

    def start(worker: int) -> None:
        pass

    data = Numbers()
    loader = Own(data, batch_size=4, shuffle=True, num_workers=1, worker_init_fn=start, collate_fn=in_pairs)
    before = {name: getattr(loader, name) for name in ("dataset", "sampler", "batch_size", "drop_last", "collate_fn")}
    more = ("generator", "num_workers", "worker_init_fn", "pin_memory", "persistent_workers", "prefetch_factor")
    before |= {name: getattr(loader, name) for name in more}
    divided = shard({"train": loader, "x": torch.ones(2)}, rank=0, ranks=2)
    assert divided["train"] is loader
    assert isinstance(loader, Own)
    assert (type(loader).__name__, type(loader).__qualname__) == ("Own", Own.__qualname__)
    assert {name: getattr(loader, name) for name in before} == before
    assert len(loader) == 6
    assert len(loader.dataset) / loader.batch_size == N / 4  # type: ignore[arg-type, operator]
    assert (loader.batch_sampler.batch_size, loader.batch_sampler.drop_last) == (4, False)  # type: ignore[union-attr]
    assert loader.batch_sampler.sampler is loader.sampler  # type: ignore[union-attr]
    single = shard(DataLoader(data, 4), rank=0, ranks=2)
    next(iter(single))
    for again in (pickle.loads(pickle.dumps(single)), copy.copy(single), copy.deepcopy(single)):
        assert [len(numbers(batch)) for batch in again] == [2, 2, 2, 2, 2, 2]


def test_a_loader_on_a_device_moves_its_batches_and_one_that_is_cut_short_ends_early() -> None:
    told: list[Drawn] = []
    loader = DataLoader(Numbers(), batch_size=4)
    shard(prepare_data(loader, seed=1, device="meta"), rank=0, ranks=2, drawn=told.append)
    cut_short(loader, lambda there: there // 2, lambda: None)
    assert [(batch.device.type, len(batch)) for batch in loader] == [("meta", 2)] * 3
    assert [list(drawn.ids or ()) for drawn in told] == [[0, 1], [4, 5], [8, 9]]
    stream = DataLoader(Stream(), batch_size=4)
    shard(prepare_data(stream, seed=1, device="meta"), rank=0, ranks=2)
    assert [(batch.device.type, len(batch)) for batch in stream][:2] == [("meta", 2)] * 2


def test_copies_of_a_divided_loader_tell_who_is_told_and_pickled_ones_nobody() -> None:
    class Ranks:
        def __init__(self) -> None:
            self.lock = threading.Lock()  # and so nothing can copy them

        def tell(self, drawn: Drawn) -> None:
            heard.append((drawn.loader, list(drawn.ids or ())))

    heard: list[Any] = []
    loader = DataLoader(Numbers(24), batch_size=4)
    data = [prepare_data(loader, seed=1, device="meta"), DataLoader(Numbers())]
    shard(data, rank=1, ranks=2, drawn=Ranks().tell, begins=lambda: heard.append("begins"))
    cut_short(loader, lambda there: 1, lambda: None)
    for again in (copy.copy(loader), copy.deepcopy(loader)):
        assert (is_shared(again), type(again)) == (True, type(loader))
        assert [(batch.device.type, len(batch)) for batch in again] == [("meta", 2)]
        assert heard == ["begins", (again, [2, 3])]
        heard.clear()
    there = pickle.loads(pickle.dumps(loader))
    assert [(batch.device.type, len(batch)) for batch in there] == [("meta", 2)] * 6
    assert (is_shared(there), heard) == (True, [])


def test_a_loader_that_is_whole_again_is_as_it_was() -> None:
    loader = DataLoader(Numbers(), batch_size=4)
    before = dict(vars(loader))
    shard(loader, rank=0, ranks=2, drawn=pytest.fail)
    assert is_shared(loader)
    assert not is_shared(np.zeros(2)), "whoever asks may have no loader at all"
    undivide([loader])
    assert (type(loader), is_shared(loader), vars(loader)) == (DataLoader, False, before)


def test_what_is_told_comes_just_before_its_batch() -> None:
    happened: list[Any] = []
    loader = DataLoader(Numbers(8), batch_size=4, num_workers=2)
    shard(
        prepare_data(loader, seed=1, device="cpu"), rank=1, ranks=2, drawn=lambda d: happened.append(list(d.ids or ()))
    )
    for batch in loader:
        happened.append(batch.tolist())
    assert happened == [[2, 3], [2, 3], [6, 7], [6, 7]]


def test_a_pass_that_was_left_and_one_beside_it_tell_of_their_own_batches() -> None:
    told: list[Drawn] = []
    loader = DataLoader(Numbers(12), batch_size=4, shuffle=True, num_workers=1)
    shard(prepare_data(loader, seed=1, device="cpu"), rank=0, ranks=2, drawn=told.append)
    first, second = iter(loader), iter(loader)
    for found in (first, second, second, first, second):
        assert next(found).tolist() == list(told[-1].ids or ())


def test_a_loader_that_serves_a_second_run_is_divided_anew() -> None:
    loader: Any = DataLoader(Numbers(), batch_size=12, shuffle=True, num_workers=1, persistent_workers=True)
    stream: Any = DataLoader(Stream(), batch_size=4)
    valid: Any = DataLoader(Numbers(), batch_size=4)
    data = (loader, {"train": stream}, valid)
    for ranks in (2, 3, 1, 2):
        prepare_data(data, seed=1, device="cpu")
        shard(data[0], rank=0, ranks=ranks)
        shard(data[1], rank=0, ranks=ranks, batch="per_rank")
        shard([DataLoader(Numbers(9)), valid], rank=0, ranks=ranks, evaluation="divided", batch="per_rank")
        assert len(passes(loader)[0][0]) == 12 // ranks
        assert passes(stream)[0][0] == [0, 1, 2, 3]
        assert len(valid.dataset) == -(-N // ranks)
        assert isinstance(stream.dataset, Stream)
    assert type(loader).__mro__.count(DataLoader) == 1
    once = shard(prepare_data(DataLoader(Numbers(2), 2), seed=1, device="cpu"), rank=0, ranks=2)
    assert len(type(loader).__mro__) == len(type(once).__mro__)


def test_a_sampler_of_the_users_own_hears_of_epochs_where_it_stands() -> None:
    class Told(BatchSampler):
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    own = Told(RandomSampler(Numbers()), 4, False)
    loader: Any = shard(DataLoader(Numbers(), batch_sampler=own), rank=0, ranks=2)
    loader.batch_sampler.set_epoch(3)
    assert own.epoch == 3
    with pytest.raises(AttributeError, match="no attribute 'unknown'"):
        loader.batch_sampler.unknown  # noqa: B018


def test_generators_are_found_where_they_were() -> None:
    inner = BatchSampler(RandomSampler(Numbers(), generator=torch.Generator()), 4, False)
    data = [MADE["shuffle"](), DataLoader(Numbers(), batch_sampler=inner), DataLoader(Numbers(), batch_size=2)]
    data.append(DataLoader(Whole(), batch_size=None, sampler=BatchSampler(RandomSampler(Whole()), 4, False)))
    prepare_data(data, seed=1, device="cpu")
    before = generators(data)
    shard(data, rank=0, ranks=2)
    after = generators(data)
    assert len(before) == 7 + 4, "one for each loader's examples"
    assert [id(generator) for generator in after] == [id(generator) for generator in before]
    prepare_data(data, seed=2, device="cpu")
    assert len(generators(data)) == 7 + 4


def test_states_of_generators_bring_a_pass_back() -> None:
    """So it is at the end of epochs: what a run saves there are the states of generators, and no others."""
    for make in (
        MADE["shuffle"],
        MADE["one generator"],
        lambda: DataLoader(Numbers(), batch_size=6, sampler=Drawing()),
    ):
        loader, _ = made(make, ranks=2)
        passes(loader, 1)
        states = [generator.get_state() for generator in generators(loader)]
        second = passes(loader, 2)
        again, _ = made(make, ranks=2, seed=8)
        for generator, state in zip(generators(again), states, strict=True):
            generator.set_state(state)
        assert passes(again, 2) == second
        assert second[0] != second[1]


def test_what_draws_from_global_generators_draws_alike_and_leaves_them_alone() -> None:
    make = lambda: DataLoader(Numbers(), batch_size=6, sampler=Drawing())  # noqa: E731
    together = all_ranks(make, 3)
    assert all(sorted(flat(one)) == list(range(N)) for one in together)
    assert together[0] != together[1]
    loader, _ = made(make, ranks=3, rank=1)
    before = (random.getstate(), torch.get_rng_state().tolist())
    passes(loader)
    assert (random.getstate(), torch.get_rng_state().tolist()) == before


def test_worker_processes_draw_other_things_on_each_rank_and_on_the_first_what_one_alone_draws() -> None:
    began: list[Any] = []

    def noisy(begin: Any) -> Any:
        return DataLoader(Numbers(), batch_size=4, num_workers=1, worker_init_fn=begin, collate_fn=_with_noise)

    def noise(ranks: int, rank: int) -> list[torch.Tensor]:
        loader, _ = made(lambda: noisy(began.append), ranks=ranks, rank=rank)
        return list(loader)

    alone, first, second = noise(1, 0), noise(2, 0), noise(2, 1)
    assert torch.equal(first[0], alone[0][:2])
    pairs = zip(torch.cat(first)[:11].flatten().tolist(), torch.cat(second).flatten().tolist(), strict=True)
    assert not any(a == b for a, b in pairs)
    assert all(torch.equal(a, b) for a, b in zip(second, noise(2, 1), strict=True))
    own, _ = made(lambda: noisy(_seed_all), ranks=2, rank=1)
    other, _ = made(lambda: noisy(_seed_all), ranks=2)
    assert torch.equal(next(iter(own)), next(iter(other)))  # what the user does comes last


def _with_noise(batch: list[int]) -> torch.Tensor:
    """Make a batch of noise: examples have seeds of their own, and what makes batches draws as the process does."""
    return torch.stack([Noise()[index] for index in batch])


def _seed_all(worker: int) -> None:
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(worker)


# --- training and evaluation ----------------------------------------------------------------------


def sizes(loader: Any) -> list[int]:
    return [len(batch) for batch in loader]


def test_loaders_are_for_training_by_their_part_by_their_place_or_by_their_order() -> None:
    def loaders() -> list[DataLoader[int]]:
        return [DataLoader(Numbers(8), batch_size=4, shuffle=nth == 2) for nth in range(4)]

    parts = loaders()
    shard(Data(parts[1], (parts[0], parts[2]), parts[3]), rank=0, ranks=2)
    assert [sizes(loader)[0] for loader in parts] == [4, 2, 4, 4], "a part for validation may shuffle"
    parts = loaders()
    shard({"valid": parts[0], "train": [parts[1]], "more": parts[2:]}, rank=0, ranks=2)
    assert [sizes(loader)[0] for loader in parts] == [4, 2, 4, 4]
    parts = loaders()
    shard(parts, rank=0, ranks=2)
    assert [sizes(loader)[0] for loader in parts] == [2, 4, 2, 4]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_divided_evaluation_sees_each_example_once(drop_last: bool, workers: int) -> None:
    make = lambda: DataLoader(Numbers(), batch_size=4, drop_last=drop_last, num_workers=workers)  # noqa: E731
    seen: list[int] = []
    for rank in range(3):
        loader: Any = make()
        shard([DataLoader(Numbers(9), 3), loader], rank=rank, ranks=3, evaluation="divided")
        own = [number for batch in loader for number in batch.tolist()]
        assert len(loader.dataset) == len(own)
        assert len(loader) == -(-len(own) // 4)
        seen += own
    assert seen == [number for batch in make() for number in batch.tolist()]


def test_a_divided_data_set_is_the_users_own_but_for_its_length() -> None:
    data = Numbers()
    loader: Any = DataLoader(data, batch_size=4)
    shard([DataLoader(Numbers(8), 2), loader], rank=0, ranks=2, evaluation="divided")
    shown = loader.dataset
    assert isinstance(shown, Numbers)
    assert (len(shown), len(data), shown.n) == (12, N, N)
    assert shown[N - 1] == N - 1  # its own methods see its own length
    shown.set_epoch(3)
    assert (data.epoch, shown.epoch) == (3, 3)
    shown.n = 5
    assert data.n == 5
    assert len(pickle.loads(pickle.dumps(shown))) == 12


def test_a_divided_data_set_of_tensors_or_a_list_is_fine() -> None:
    tensors: Any = DataLoader(TensorDataset(torch.arange(10)), batch_size=3)
    listed: Any = DataLoader(list(range(10)), batch_size=3)
    single: Any = DataLoader(Numbers(10), batch_size=None)
    shard([DataLoader(Numbers(8), 2), tensors, listed, single], rank=1, ranks=2, evaluation="divided")
    assert [batch[0].tolist() for batch in tensors] == [[5, 6, 7], [8, 9]]
    assert tensors.dataset.tensors[0].tolist() == list(range(10))
    assert [batch.tolist() for batch in listed] == [[5, 6, 7], [8, 9]]
    assert list(single) == [5, 6, 7, 8, 9]
    assert [len(loader.dataset) for loader in (tensors, listed, single)] == [5, 5, 5]


def test_a_divided_stream_is_gone_through_by_turns() -> None:
    seen: list[int] = []
    for rank in range(2):
        loader: Any = DataLoader(Sized(), batch_size=4)
        shard([DataLoader(Numbers(8), 2), loader], rank=rank, ranks=2, evaluation="divided")
        own = [number for batch in loader for number in batch.tolist()]
        assert len(loader.dataset) == len(own)
        seen += own
    assert sorted(seen) == list(range(N))


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch", ["global", "per_rank"])
def test_a_stream_is_divided_by_batches(workers: int, drop_last: bool, batch: str) -> None:
    size = 6 if batch == "global" else 2

    def make() -> DataLoader[int]:
        return DataLoader(Sized(shuffled=workers > 0), batch_size=6, num_workers=workers, drop_last=drop_last)

    alone = passes(prepare_data(make(), seed=1, device="cpu"))

    def own() -> DataLoader[int]:
        return DataLoader(Sized(shuffled=workers > 0), batch_size=size, num_workers=workers, drop_last=drop_last)

    each = []
    for rank in range(3):
        loader, told = made(own, ranks=3, rank=rank, batch=batch)
        got = [batch for one in passes(loader) for batch in one]
        assert all(drawn.ids is None for drawn in told)
        assert isinstance(loader.dataset, Sized)
        assert len(loader.dataset) == N
        assert len(loader) == (N // 6 if drop_last else 4)
        each.append([(batch, drawn.weight, drawn.n) for batch, drawn in zip(got, told, strict=True)])
    steps = []
    for pieces in zip(*each, strict=True):
        whole = [number for batch, weight, _ in pieces if weight for number in batch]
        assert [weight for _, weight, _ in pieces] == [
            (len(batch) if weight else 0) * 3 / len(whole) for batch, weight, _ in pieces
        ]
        assert {n for _, _, n in pieces} == {len(whole)}
        steps.append(whole)
    assert steps == [batch for one in alone for batch in one]


def test_a_stream_that_shuffles_in_this_process_is_shuffled_alike_and_hears_of_epochs() -> None:
    loaders = [made(lambda: DataLoader(Stream(shuffled=True), batch_size=4), ranks=2, rank=rank)[0] for rank in (0, 1)]
    before = random.getstate()
    first = [passes(loader, 2) for loader in loaders]
    assert random.getstate() == before
    assert all(sorted(flat(first[0][k] + first[1][k])) == list(range(N)) for k in (0, 1))
    assert first[0][0] != first[0][1]
    for loader in loaders:
        loader.dataset.set_epoch(2)
    assert min(passes(loaders[0], 1)[0][0]) >= 2000


def test_a_stream_of_ready_batches_is_dealt_out() -> None:
    own = []
    for rank in range(2):
        loader, told = made(lambda: DataLoader(Sized(5), batch_size=None), ranks=2, rank=rank, batch="per_rank")
        assert len(loader) == 3
        own.append(list(loader))
        assert [drawn.weight for drawn in told] == [1, 1, 2 if rank == 0 else 0]
    assert own == [[0, 2, 4], [1, 3, 4]]


def test_a_stream_that_divides_itself_is_left_to_it() -> None:
    data = Stream(8)
    data.shards_itself = True  # type: ignore[attr-defined]
    told: list[Drawn] = []
    loader = shard(DataLoader(data, batch_size=4), rank=0, ranks=2, drawn=told.append)
    assert loader.dataset is data
    assert passes(loader, 1)[0] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert {(drawn.ids, drawn.weight, drawn.n) for drawn in told} == {(None, 1.0, 0)}


# --- partitions -----------------------------------------------------------------------------------


def parted(parts: list[Any], rank: int, **options: Any) -> tuple[Any, list[Drawn]]:
    loader, told = made(lambda: DataLoader(Numbers(), batch_size=8, shuffle=True, **options), ranks=2, rank=rank)
    partition(loader, parts)
    return loader, told


@pytest.mark.parametrize("workers", [0, 1])
def test_each_rank_draws_from_its_part_in_another_order_each_time(workers: int) -> None:
    parts = [np.arange(0, N, 2), torch.arange(1, N, 2)]
    runs = [parted(parts, rank, num_workers=workers) for rank in (0, 1)]
    found = [passes(loader) for loader, _ in runs]
    for part, one in zip(parts, found, strict=True):
        assert [sorted(flat(batches)) for batches in one] == [part.tolist()] * 2
        assert one[0] != one[1]
        assert [len(batch) for batch in one[0]][:2] == [4, 4]
    assert [len(loader) for loader, _ in runs] == [3, 3]
    assert passes(parted(parts, 0, num_workers=workers)[0]) == found[0]


def test_parts_of_unequal_sizes_make_equal_steps_and_weights_say_so() -> None:
    parts = [np.arange(10), np.arange(10, 13), np.arange(0)]
    told: list[list[Drawn]] = []
    for rank in range(3):
        loader, own = made(lambda: DataLoader(Numbers(), batch_size=12, shuffle=True), ranks=3, rank=rank)
        partition(loader, parts)
        assert len(passes(loader, 1)[0]) == len(loader) == 3
        told.append(own)
    counted = [[len(drawn.ids or ()) * (drawn.weight > 0) for drawn in own] for own in told]
    assert counted == [[4, 4, 2], [3, 0, 0], [0, 0, 0]]
    for step in range(3):
        n = sum(own[step] for own in counted)
        assert [own[step].n for own in told] == [n] * 3
        assert [own[step].weight for own in told] == [own[step] * 3 / n for own in counted]
    assert set(told[1][2].ids or ()) <= set(range(10, 13))


def test_a_partition_holds_from_the_next_pass_on_and_can_be_undone() -> None:
    loader, _ = made(MADE["shuffle"], ranks=2)
    under_way = iter(loader)
    before = [next(under_way).tolist()]
    partition(loader, [np.arange(4), np.arange(4, 8)])
    before += [batch.tolist() for batch in under_way]
    untouched = passes(made(MADE["shuffle"], ranks=2)[0], 1)[0]
    assert before == untouched
    assert sorted(flat(passes(loader, 1)[0])) == [0, 1, 2, 3]
    whole_again(loader)
    assert len(flat(passes(loader, 1)[0])) == 12
    assert len(loader) == 2


def test_a_partition_with_drop_last_leaves_out_what_does_not_fill_a_batch() -> None:
    loader, _ = parted([np.arange(11), np.arange(11, 17)], 0, drop_last=True)
    assert [len(batch) for batch in passes(loader, 1)[0]] == [4]
    assert len(loader) == 1


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            [np.arange(3)],
            "A partition for 2 ranks is one array of indices for each, and given is [int64 (3,)]. Return a list of "
            "arrays of integers.",
        ),
        (
            [np.arange(3.0), np.arange(2)],
            "A partition for 2 ranks is one array of indices for each, and given is [float64 (3,), int64 (2,)]. Return "
            "a list of arrays of integers.",
        ),
        (
            [np.array([0, 1, 1]), np.arange(2, 4)],
            "A partition has an example twice in one part. Give each to a rank once.",
        ),
        (
            [np.arange(0), np.arange(0)],
            "A partition has no examples. Give at least one to a rank.",
        ),
    ],
)
def test_what_is_no_partition_is_refused(parts: list[Any], message: str) -> None:
    loader, _ = made(MADE["shuffle"], ranks=2)
    with pytest.raises(ConfigError) as refused:
        partition(loader, parts)
    assert str(refused.value) == message


def test_a_partition_needs_indices_and_a_batch_size() -> None:
    loader, _ = made(lambda: DataLoader(Stream(), batch_size=4), ranks=2)
    with pytest.raises(ConfigError) as refused:
        partition(loader, [np.arange(2), np.arange(2, 4)])
    assert str(refused.value) == (
        "A loader of Stream has no indices that could be assigned to ranks, or is none for training. Partitions need a "
        "data set with indices: one that has __getitem__ and __len__."
    )
    loader, _ = made(MADE["buckets"], ranks=2)
    with pytest.raises(ConfigError, match="has a batch sampler of its own, Buckets, that does not say how many"):
        partition(loader, [np.arange(2), np.arange(2, 4)])


# --- state ----------------------------------------------------------------------------------------


def stateful(ranks: int, rank: int, *, workers: int = 0, every: int = 1) -> tuple[Any, list[Drawn]]:
    def make() -> Any:
        return StatefulDataLoader(
            Numbers(120), batch_size=12, num_workers=workers, snapshot_every_n_steps=every, shuffle=True
        )

    return made(make, ranks=ranks, rank=rank)


@pytest.mark.parametrize(("workers", "every"), [(0, 1), (2, 1), (2, 3)])
def test_a_stateful_loader_goes_on_with_another_number_of_ranks(workers: int, every: int) -> None:
    whole = [passes(stateful(2, rank)[0], 2) for rank in (0, 1)]
    first, _ = stateful(2, 0, workers=workers, every=every)
    going = iter(first)
    for _ in range(4):
        next(going)
    state = first.state_dict()
    for _ in going:
        pass
    for rank in (0, 3):
        again, told = stateful(4, rank, workers=workers, every=every)
        again.load_state_dict(state)
        rest, second = passes(again, 2)
        steps = [a + b for a, b in zip(whole[0][0][4:], whole[1][0][4:], strict=True)]
        assert rest == [step[3 * rank : 3 * rank + 3] for step in steps]
        assert [list(drawn.ids or ()) for drawn in told] == [*rest, *second]
        assert second == [(a + b)[3 * rank : 3 * rank + 3] for a, b in zip(whole[0][1], whole[1][1], strict=True)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_state_with_those_of_generators_brings_back_what_follows(
    workers: int, replacement: bool, shared: bool
) -> None:
    """So it is with ``run.steps``: the loader begins from its state, then generators get the states that they had."""

    def make() -> Any:
        generator = torch.Generator().manual_seed(2)
        order = RandomSampler(Numbers(90), replacement, generator=generator)
        own = generator if shared else None
        return StatefulDataLoader(Numbers(90), batch_size=4, sampler=order, generator=own, num_workers=workers)

    loader, _ = made(make, ranks=2)
    going = iter(loader)
    for _ in range(9):
        next(going)
    state, states = loader.state_dict(), [generator.get_state() for generator in generators(loader)]
    rest = [batch.tolist() for batch in going], passes(loader)
    again, _ = made(make, ranks=2)
    passes(again, 1)  # what an epoch did before it came to that state
    again.load_state_dict(state)
    going = iter(again)
    for generator, there in zip(generators(again), states, strict=True):
        generator.set_state(there)
    assert ([batch.tolist() for batch in going], passes(again)) == rest


class Left(NamedTuple):
    """What an attempt left within its first epoch."""

    weights: Any
    rest: Any
    epoch: int = 0
    batch: int = 3


@pytest.mark.parametrize("ranks", [2, 4])
def test_an_attempt_goes_on_within_an_epoch_with_another_number_of_ranks(ranks: int) -> None:
    def attempt(rank: int, of: int, ahead: Left | None) -> tuple[list[list[int]], Left | None]:
        loader, _ = made(lambda: StatefulDataLoader(Numbers(96), batch_size=12, shuffle=True), ranks=of, rank=rank)
        keeper, left = Keeper(), {}
        keeper.keep({"best": 0})
        for number, generator in enumerate(generators(loader)):
            keeper.add_source(f"loader {number}", Source(generator.get_state, generator.set_state))

        def save(done: int, place: Any) -> None:
            left[done] = Left(keeper.weights(), {**keeper.rest(), "within": place})

        within = Within(keeper, save=save, warn=pytest.fail, ahead=ahead)
        return [numbers(batch) for batch in within.batches(loader, 3)] + passes(loader, 1)[0], left.get(3)

    whole, saved = zip(*(attempt(rank, 2, None) for rank in (0, 1)), strict=True)
    rest, _ = zip(*(attempt(rank, ranks, saved[0]) for rank in range(ranks)), strict=True)
    assert [flat(step) for step in zip(*rest, strict=True)] == [flat(step) for step in zip(*whole, strict=True)][3:]
    assert len(rest[0]) == 5 + 8


def test_a_stream_with_a_state_goes_on_with_another_number_of_ranks() -> None:
    make = lambda: StatefulDataLoader(Resumable(40), batch_size=6)  # noqa: E731
    loader, _ = made(make, ranks=2)
    going = iter(loader)
    for _ in range(3):
        next(going)
    rest = []
    for rank in range(3):
        again, told = made(make, ranks=3, rank=rank)
        again.load_state_dict(loader.state_dict())
        rest.append(passes(again, 1)[0])
        assert [drawn.n for drawn in told] == [6, 6, 6, 4]
    assert sorted(flat(flat(rest))) == list(range(18, 40))


def test_a_state_from_within_partitions_has_them() -> None:
    parts = [np.arange(0, 120, 2), np.arange(1, 120, 2)]
    loader, _ = stateful(2, 1)
    partition(loader, parts)
    going = iter(loader)
    for _ in range(4):
        next(going)
    state = loader.state_dict()
    rest = [batch.tolist() for batch in going] + passes(loader, 1)[0]
    again, _ = stateful(2, 1)
    again.load_state_dict(state)
    assert flat(passes(again, 2)) == rest
    other, _ = stateful(3, 0)
    other.load_state_dict(state)
    with pytest.raises(StateError) as refused:
        iter(other)
    assert str(refused.value) == (
        "The state is from within a pass in which each of 2 ranks had a part of its own, and now there are 3. Go on "
        "with 2 ranks, or from a state of a pass over the whole."
    )


def test_a_state_of_something_else_is_refused() -> None:
    shares = shares_of(made(MADE["shuffle"], ranks=2)[0])
    assert shares is not None
    with pytest.raises(StateError) as refused:
        shares.load_state_dict({"samples_yielded": 3})
    assert str(refused.value) == (
        "{'samples_yielded': 3} (dict) is no state of a sampler of Étude: that has an epoch, a position and "
        "generators. Load what its state_dict() gave, or that of a loader which had this sampler."
    )
    other = shares_of(made(MADE["in order"], ranks=2)[0])
    assert other is not None
    with pytest.raises(StateError, match="is that of a sampler with 2 generators, and this one has 1"):
        other.load_state_dict(shares.state_dict())


# --- errors ---------------------------------------------------------------------------------------

NO_INDEX = (
    "Loader 1 of the 2 that data() gave (Stream, batch_size=None) cannot be divided: its data set gives what no index "
    'stands for, and whole batches maybe. Give it a batch_size; or pass batch="per_rank", and each rank takes every '
    "2th of what it gives. If it gives each rank its own part by itself, say so with an attribute of the data set: "
    "dataset.shards_itself = True."
)


@pytest.mark.parametrize(
    ("make", "ranks", "message"),
    [
        (
            lambda: DataLoader(Numbers(), batch_size=7),
            2,
            "Loader 1 of the 2 that data() gave (Numbers, batch_size=7) cannot be divided over 2 ranks: 7 examples in "
            'a batch are no multiple of 2. Use batch_size=6 or 8; or pass batch="per_rank", so that each rank has 7 in '
            "a step and all together 14.",
        ),
        (
            lambda: DataLoader(Numbers(), batch_size=1),
            4,
            "Loader 1 of the 2 that data() gave (Numbers, batch_size=1) cannot be divided over 4 ranks: 1 example in a "
            'batch is no multiple of 4. Use batch_size=4; or pass batch="per_rank", so that each rank has 1 in a step '
            "and all together 4.",
        ),
        (
            lambda: DataLoader(Numbers(3), batch_size=4),
            4,
            "Loader 1 of the 2 that data() gave (Numbers, batch_size=4) has 3 examples, less than there are ranks (4). "
            "Use fewer ranks.",
        ),
        (
            lambda: DataLoader(Numbers(), batch_size=4, sampler=SubsetRandomSampler(range(3))),
            4,
            "Loader 1 of the 2 that data() gave (Numbers, batch_size=4) draws 3 examples in a pass, less than there "
            "are ranks (4). Use fewer ranks.",
        ),
        (
            lambda: DataLoader(Whole(), batch_size=None),
            2,
            "Loader 1 of the 2 that data() gave (Whole, batch_size=None) gives one example at a time, which cannot be "
            'divided over 2 ranks. Give it a batch_size; or pass batch="per_rank", and each rank has one example in a '
            "step.",
        ),
        (
            lambda: DataLoader(Numbers(), batch_size=4, sampler=DistributedSampler(Numbers(), 2, 0)),
            2,
            "Loader 1 of the 2 that data() gave (Numbers, batch_size=4) cannot be divided. The sampler "
            "DistributedSampler gives a rank's part already, and would be divided twice. Leave it out, and pass what "
            "one rank would use: RandomSampler(dataset) where that was shuffled.",
        ),
        (
            lambda: DataLoader(Numbers(), batch_size=4, num_workers=1, in_order=False),
            2,
            "Loader 1 of the 2 that data() gave (Numbers, batch_size=4) has in_order=False, so nobody can tell which "
            "examples a batch has. Leave in_order out.",
        ),
        (lambda: DataLoader(Stream(), batch_size=None), 2, NO_INDEX),
    ],
)
def test_what_cannot_be_divided_is_refused_by_name(make: Make, ranks: int, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        shard((make(), DataLoader(Numbers())), rank=0, ranks=ranks)
    assert str(refused.value) == message


class Wrapped:
    """A loader of another kind, as tutorials have them."""

    def __init__(self, **held: Any) -> None:
        self.inner = DataLoader(Numbers(), batch_size=4, shuffle=True)
        vars(self).update(held)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.inner)


@pytest.mark.parametrize("place", ["alone", "first", "part", "named", "batches"])
def test_loaders_of_other_kinds_are_refused_to_train_on(place: str) -> None:
    foreign, loader = Wrapped(), DataLoader(Numbers(), batch_size=4)
    data: Any = {
        "alone": foreign,
        "first": (foreign, loader),
        "part": Data(foreign, loader),
        "named": {"valid": loader, "train": [loader, foreign]},
        "batches": Wrapped(inner=[], batch_size=4),
    }[place]
    with pytest.raises(ConfigError, match="gave a Wrapped to train on, which gives batches and is no DataLoader"):
        shard(data, rank=0, ranks=2)


def test_loaders_of_other_kinds_are_left_alone_where_nobody_has_to_divide_them() -> None:
    assert list(shard((DataLoader(Numbers(), batch_size=4), Wrapped()), rank=0, ranks=2)[1].inner)
    assert shard(Wrapped(shards_itself=True), rank=0, ranks=2).shards_itself


def test_single_indices_are_dealt_out_and_a_sampler_that_gives_them_unexpectedly_is_refused() -> None:
    own = []
    for rank in range(2):
        loader, told = made(lambda: DataLoader(Numbers(5), batch_size=None), ranks=2, rank=rank, batch="per_rank")
        own.append(list(loader))
        assert [drawn.weight for drawn in told] == [1, 1, 2 if rank == 0 else 0]
        assert [list(drawn.ids or ()) for drawn in told] == [[number] for number in own[-1]]
    assert own == [[0, 2, 4], [1, 3, 4]]
    loader, _ = made(lambda: DataLoader(Numbers(), batch_size=None, sampler=Drawing()), ranks=2)
    with pytest.raises(ConfigError, match="gives one example at a time, which cannot be divided over 2 ranks"):
        list(loader)


def test_options_are_checked() -> None:
    loader = DataLoader(Numbers(), batch_size=4)
    with pytest.raises(ConfigError) as refused:
        shard(loader, rank=0, ranks=2, batch="locally")  # type: ignore[arg-type]
    assert str(refused.value) == "batch='locally' is unknown. Pass one of 'global', 'per_rank'."
    with pytest.raises(ConfigError, match="evaluation='some' is unknown"):
        shard(loader, rank=0, ranks=2, evaluation="some")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="rank=2 cannot be one of ranks=2"):
        shard(loader, rank=2, ranks=2)
    with pytest.raises(ConfigError, match="and evaluation is to be divided"):
        shard([loader, DataLoader(Numbers(1))], rank=0, ranks=2, evaluation="divided")


# --- real processes -------------------------------------------------------------------------------

RANK = """
import json, sys
import torch
from torch.utils.data import DataLoader, WeightedRandomSampler
from etude.frameworks.torch import prepare_data
from etude.frameworks.torch_shard import shard

def loaders():
    data = list(range(50))
    weighted = WeightedRandomSampler(torch.arange(1.0, 51), 50)
    return [DataLoader(data, batch_size=8, shuffle=True, num_workers=2),
            DataLoader(data, batch_size=8, sampler=weighted, num_workers=2, persistent_workers=True)]

rank, ranks = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(rank)
told = []
data = shard(prepare_data(loaders(), seed=3, device="cpu"), rank=rank, ranks=ranks, drawn=told.append)
torch.manual_seed(50 + rank)
found = [batch.tolist() for loader in data for _ in range(2) for batch in loader]
assert found == [drawn.ids for drawn in told]
print(json.dumps([batch if drawn.weight else [] for batch, drawn in zip(found, told)]))
"""


@pytest.mark.thorough
def test_two_processes_with_loader_workers_are_given_what_one_is(tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)

    def run(rank: int, ranks: int) -> list[list[int]]:
        command = [sys.executable, str(script), str(rank), str(ranks)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        found: list[list[int]] = eval(done.stdout)
        return found

    alone, first, second = run(0, 1), run(0, 2), run(1, 2)
    assert [a + b for a, b in zip(first, second, strict=True)] == alone
    assert len(alone) == 28
