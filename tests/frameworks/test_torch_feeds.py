"""Loaders that are changed while they are gone through give what they would give if nobody touched them."""

from __future__ import annotations

import gc
import multiprocessing
import random
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)

from etude.core.errors import StateError
from etude.frameworks.torch import generators, give_generator, on_device, prepare_data
from etude.frameworks.torch_bits import alike
from etude.frameworks.torch_drawing import GLOBAL
from etude.frameworks.torch_feeding import Feeding
from etude.frameworks.torch_feeds import hold, release
from etude.frameworks.torch_fetching import TRUSTED_AFTER
from etude.frameworks.torch_samplers import distribute
from etude.frameworks.torch_shard import shard
from etude.frameworks.torch_shares import partition
from etude.frameworks.torch_stretches import Way

N = 41
SIZE = 4


class Rows(Dataset[Any]):
    """Examples that are computed."""

    def __init__(self, n: int = N) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.full((3,), float(index)).sqrt(), "name": f"row {index}"}


class Drawing(Rows):
    """Examples that are drawn, from one of the global generators."""

    def __init__(self, draw: Callable[[], float]) -> None:
        super().__init__()
        self.draw = draw

    def __getitem__(self, index: int) -> Any:
        return index + self.draw()


class SometimesDrawing(Rows):
    """Few examples are drawn."""

    def __getitem__(self, index: int) -> Any:
        return torch.rand(()) if index % 17 == 5 else torch.tensor(float(index))


class Holding(Rows):
    """Examples that are drawn from a generator that the data set holds."""

    def __init__(self) -> None:
        super().__init__()
        own = np.random.default_rng(3)
        self.transforms = [lambda x: x + own.random()]

    def __getitem__(self, index: int) -> Any:
        return self.transforms[0](index)


HIDDEN = random.Random(5)


class Hidden(Rows):
    """Examples that are drawn from a generator which nobody finds in the data set."""

    def __getitem__(self, index: int) -> Any:
        return index + HIDDEN.random()


class Kept:
    own = random.Random(6)


class Deeply(Rows):
    """Examples that are drawn from a generator for which one would have to look at all that there is."""

    def __getitem__(self, index: int) -> Any:
        return index + Kept.own.random()


class Buckets(BatchSampler):
    """Batches of one's own, drawn one by one from a global generator, as many as it likes."""

    def __init__(self, draw: Callable[[int], int]) -> None:
        self.draw = draw

    def __iter__(self) -> Iterator[list[int]]:
        left = list(range(N))
        while left:
            size = min(1 + self.draw(5), len(left))
            yield [left.pop(self.draw(len(left))) for _ in range(size)]

    def __len__(self) -> int:
        return 12


class Counting(BatchSampler):
    """Batches of one's own that are other ones in each pass; eager: all is drawn when a pass begins."""

    def __init__(self) -> None:
        self.passes = 0
        self.own = random.Random(7)

    def __iter__(self) -> Iterator[list[int]]:
        self.passes += 1
        order = list(range(self.passes, N))
        self.own.shuffle(order)
        return iter([order[at : at + 3] for at in range(0, len(order), 3)])

    def __len__(self) -> int:
        return (N - self.passes) // 3


class Locked(RandomSampler):
    """A sampler that cannot be copied."""

    def __init__(self) -> None:
        super().__init__(range(N))
        self.held = sqlite3.connect(":memory:")


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plain(dataset: Any = None, **settings: Any) -> Callable[[int], Any]:
    def make(workers: int) -> Any:
        data = (dataset() if callable(dataset) else dataset) or Rows()
        given = {"batch_size": SIZE, "shuffle": True, **settings}
        persistent = given.pop("persistent", False) and workers > 0
        return DataLoader(
            data,
            num_workers=workers,
            persistent_workers=persistent,
            **{name: value() if callable(value) and name != "collate_fn" else value for name, value in given.items()},
        )

    return make


def given_generators(workers: int) -> Any:
    loader = plain()(workers)
    give_generator(loader, 5)
    return loader


def sampled(sampler: Callable[[], Any], **settings: Any) -> Callable[[int], Any]:
    return plain(shuffle=None, sampler=sampler, **settings)


def batched(sampler: Callable[[], Any]) -> Callable[[int], Any]:
    return plain(shuffle=None, batch_size=1, batch_sampler=sampler)


def divided(workers: int) -> Any:
    loader = given_generators(workers)
    shard(loader, rank=1, ranks=2)
    return loader


def by_importance(workers: int) -> Any:
    """Return a loader of one of two ranks that have parts of their own, as partitions by importance give them."""
    loader = divided(workers)
    partition(loader, [range(0, N, 2), range(1, N, 2)])
    return loader


PURE: dict[str, Callable[[int], Any]] = {
    "in order": plain(shuffle=False),
    "shuffled": plain(),
    "with one generator for all": plain(generator=generator),
    "with generators of ours": given_generators,
    "without the last one": plain(drop_last=True),
    "one by one": plain(batch_size=None),
    "with a collate function": plain(collate_fn=list),
    "of tensors": plain(lambda: TensorDataset(torch.arange(float(N)), torch.arange(N))),
    "of a part": plain(lambda: random_split(Rows(90), [N, 90 - N], generator=generator())[0]),
    "persistent": plain(persistent=True),
    "with replacement": sampled(lambda: RandomSampler(range(N), replacement=True, num_samples=50)),
    "with replacement and a generator": sampled(
        lambda: RandomSampler(range(N), replacement=True, num_samples=50, generator=generator()), generator=generator
    ),
    "several times": sampled(lambda: RandomSampler(range(N), num_samples=2 * N, generator=generator())),
    "weighted": sampled(lambda: WeightedRandomSampler(list(range(1, N)), 50)),
    "of a subset": sampled(lambda: SubsetRandomSampler(range(5, 40))),
    "of batches that count": batched(Counting),
    "of a list of batches": batched(lambda: [[1, 2], [3], [4, 5, 6]] * 5),
    "on a device": lambda workers: on_device(plain()(workers), "meta"),
    "for one of two ranks": divided,
    "by importance": by_importance,
    "distributed": sampled(lambda: distribute(RandomSampler(range(N)), rank=0, ranks=2)),
}

AUGMENTED: dict[str, Callable[[int], Any]] = {
    name: lambda workers, make=make: prepare_data(make(workers), seed=7, device="cpu")
    for name, make in {
        "torch draws": plain(lambda: Drawing(lambda: torch.rand(()).item())),
        "numpy draws": plain(lambda: Drawing(np.random.rand)),
        "random draws": plain(lambda: Drawing(random.random), persistent=True),
        "few are drawn": plain(SometimesDrawing),
        "few are drawn, persistent": plain(SometimesDrawing, persistent=True),
        "one by one": plain(lambda: Drawing(lambda: torch.rand(()).item()), batch_size=None),
    }.items()
}

DRAWN: dict[str, Callable[[int], Any]] = {
    "torch draws": plain(lambda: Drawing(lambda: torch.rand(()).item())),
    "numpy draws": plain(lambda: Drawing(np.random.rand)),
    "random draws": plain(lambda: Drawing(random.random), persistent=True),
    "few are drawn": plain(SometimesDrawing),
    "few are drawn, persistent": plain(SometimesDrawing, persistent=True),
    "the data set's generator draws": plain(Holding),
    "a hidden generator draws": plain(Hidden),
    "a generator draws that is nowhere to be seen": plain(Deeply),
    "the sampler draws from torch": batched(lambda: Buckets(lambda n: int(torch.randint(n, ())))),
    "the sampler draws from random": batched(lambda: Buckets(random.randrange)),
    "the sampler cannot be copied": sampled(Locked),
}


class Changes:
    """Changes the settings of loaders at random moments."""

    def __init__(self, seed: int, *, most: int = 3) -> None:
        self.draws = random.Random(seed)
        self.most = most
        self.feeds: list[Feeding] = []
        self.said: list[str] = []
        self.steps = 0
        self.done = 0

    def hold(self, *loaders: Any) -> None:
        for loader in loaders:
            self.feeds.append(hold(loader, stepped=self.stepped, barred=self.said.append))

    def stepped(self, step_s: float, waited_s: float) -> None:
        assert step_s >= waited_s >= 0
        self.steps += 1

    def __call__(self, share: float = 1.0) -> None:
        draws = self.draws
        if draws.random() < share:
            self.done += 1
            for feed in self.feeds:
                feed.wanted = Way(
                    draws.randint(0, self.most),
                    draws.choice([1, 2, 5]),
                    draws.random() < 0.5,
                    False,
                    draws.random() < 0.4,
                )

    def close(self) -> None:
        for feed in self.feeds:
            release(feed)


def nothing(*args: Any) -> None:
    """Change nothing."""


def seed_all() -> None:
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    HIDDEN.seed(4)
    Kept.own.seed(5)


def told(loader: Any, change: Callable[..., None], passes: int = 4) -> list[Any]:
    """Return all that can be seen of a training: its batches, what it draws besides, and where generators end."""
    seen: list[Any] = []
    for nth in range(passes):
        change(0.7)
        for number, batch in enumerate(loader):
            seen.append((nth, number, batch.shape if getattr(batch, "is_meta", False) else batch))
            seen.append((torch.rand(()).item(), random.random(), np.random.rand()))  # as dropout does
            change(0.15)
            if nth == 2 and number == 6:
                break
        seen.append([source.get_state() for source in generators(loader)])
        seen.append([source.get() for source in GLOBAL])
    return seen


@pytest.fixture(autouse=True)
def _no_workers_stay() -> Iterator[None]:
    yield
    gc.collect()
    assert not multiprocessing.active_children()


def compare(make: Callable[[int], Any], workers: int, seeds: range) -> list[Changes]:
    seed_all()
    loader = make(workers)
    expected = told(loader, nothing)
    del loader
    found = []
    for seed in seeds:
        seed_all()
        changes = Changes(seed)
        loader = make(workers)
        changes.hold(loader)
        try:
            got = told(loader, changes)
        finally:
            changes.close()
            del loader
        assert len(got) == len(expected)
        for nth, (one, other) in enumerate(zip(got, expected, strict=True)):
            assert alike(one, other), f"seed {seed}, after {changes.done} changes: {nth}: {one} is not {other}"
        found.append(changes)
    return found


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("name", PURE)
def test_a_change_changes_nothing(name: str, workers: int) -> None:
    for changes in compare(PURE[name], workers, range(2)):
        assert changes.done > 1
        assert changes.steps > 0
        assert not changes.said, "it is taken for one that draws"
        bars = changes.feeds[0].bars
        assert not bars.keys() & {"loader_workers", "prefetch", "persistent_workers"}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", AUGMENTED)
def test_what_draws_under_seeds_of_ours_is_changed_like_anything_else(name: str, workers: int) -> None:
    for changes in compare(AUGMENTED[name], workers, range(2)):
        assert changes.done > 1
        assert not changes.said, "it is left alone"
        assert not changes.feeds[0].bars.keys() & {"loader_workers", "prefetch", "persistent_workers"}


def test_examples_that_are_drawn_are_never_kept() -> None:
    loader = AUGMENTED["few are drawn"](0)
    feeding = hold(loader, stepped=nothing, barred=nothing)
    feeding.wanted = Way(keep=True)
    passes = [list(loader) for _ in range(3)]
    assert feeding.bars == {
        "cache": "its data set draws, so that an example is another one in each pass. Leave it out."
    }
    assert not feeding.kept.examples
    release(feeding)
    untouched = AUGMENTED["few are drawn"](0)
    assert alike(passes, [list(untouched) for _ in range(3)])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", DRAWN)
def test_what_draws_is_left_alone_in_time(name: str, workers: int) -> None:
    for changes in compare(DRAWN[name], workers, range(3)):
        assert len(changes.said) <= 1


# --- what else may happen -------------------------------------------------------------------------


class Failing(Rows):
    """One example cannot be had."""

    def __getitem__(self, index: int) -> Any:
        if index == 9:
            raise ValueError(f"row {index} is broken")
        return super().__getitem__(index)


class Moving(Rows):
    """Examples that hang on what the training function sets."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    def __getitem__(self, index: int) -> Any:
        return 1000.0 * self.epoch + index


class Opened(Rows):
    """Examples from a file that is open."""

    def __init__(self, place: Any) -> None:
        super().__init__()
        self.file = open(place, "rb")  # noqa: SIM115 - the test closes it

    def __getitem__(self, index: int) -> Any:
        self.file.seek(index)
        return self.file.read(1)


def held(loader: Any, **settings: Any) -> tuple[Any, Changes]:
    changes = Changes(0)
    changes.hold(loader)
    changes.feeds[0].wanted = Way(**settings)
    return loader, changes


def errors(loader: Any, change: Callable[..., None]) -> list[Any]:
    seen: list[Any] = []
    for _ in range(3):
        change()
        passing = iter(loader)
        while True:
            try:
                seen.append(next(passing))
            except ValueError as error:
                seen.append((type(error), str(error).splitlines()[0], str(error).splitlines()[-1]))
            except StopIteration:
                break
            change(0.2)
    return seen


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_data_set_is_the_one_that_would_come(workers: int) -> None:
    seed_all()
    expected = errors(plain(Failing)(workers), nothing)
    assert any(isinstance(one, tuple) for one in expected)
    for seed in range(3):
        seed_all()
        changes = Changes(seed)
        loader = plain(Failing)(workers)
        changes.hold(loader)
        assert alike(errors(loader, changes), expected)
        changes.close()


def nested(make: Callable[[int], Any], change: Callable[..., None], hold_all: Callable[..., None]) -> list[Any]:
    seed_all()
    train, valid = make(0), plain(shuffle=False)(1)
    hold_all(train, valid)
    seen: list[Any] = []
    for _ in range(2):
        for number, batch in enumerate(train):
            seen.append(batch)
            change(0.2)
            if number % 4 == 1:
                with torch.no_grad():
                    for other in valid:
                        seen.append(other)
                        change(0.05)
    both = zip(train, train, strict=False)
    for one, other in both:
        change(0.2)
        seen.append((one, other))
    return seen


@pytest.mark.parametrize("name", ["with one generator for all", "with replacement and a generator", "shuffled"])
def test_loops_within_loops_and_two_at_once_change_nothing(name: str) -> None:
    expected = nested(PURE[name], nothing, nothing)
    for seed in range(2):
        changes = Changes(seed, most=2)
        assert alike(nested(PURE[name], changes, changes.hold), expected)
        assert changes.done > 3
        assert (
            changes.steps == 2 * 11 + 2 * 11 - 11 * (name == "with replacement and a generator") or changes.steps > 20
        )
        changes.close()


def by_epoch(loader: Any, change: Callable[[], None]) -> list[Any]:
    seen = []
    for epoch in range(4):
        loader.dataset.epoch = epoch // 2
        change()
        seen.append([batch.tolist() for batch in loader])
    return seen


@pytest.mark.parametrize("settings", [{"workers": 2, "persistent": True}, {"keep": True}, {"workers": 1}])
def test_a_data_set_that_changes_between_epochs_is_seen_to(settings: dict[str, Any]) -> None:
    seed_all()
    expected = by_epoch(plain(Moving)(0), lambda: None)
    seed_all()
    loader, changes = held(plain(Moving)(0), **settings)
    assert by_epoch(loader, lambda: None) == expected
    assert not changes.said
    changes.close()


def test_a_data_set_that_changes_in_an_epoch_is_left_alone() -> None:
    def run(loader: Any) -> list[Any]:
        seen = []
        for number, batch in enumerate(loader):
            seen.append(batch.tolist())
            loader.dataset.epoch = number
        return seen

    seed_all()
    expected = run(plain(Moving)(0))
    seed_all()
    loader, changes = held(plain(Moving)(0), workers=2)
    assert run(loader) == expected
    assert changes.said == ["its data set was changed in the middle of an epoch"]
    changes.close()


def test_an_open_file_goes_to_no_other_process(tmp_path: Any) -> None:
    (tmp_path / "rows").write_bytes(bytes(range(N)))
    data = Opened(tmp_path / "rows")
    loader, changes = held(plain(data)(0), workers=2)
    assert "cannot go to other processes" in changes.feeds[0].bars["loader_workers"]
    assert len(list(loader)) == len(loader)
    changes.close()
    data.file.close()


def test_workers_stay_where_they_are_to() -> None:
    loader, changes = held(plain()(0), workers=2, persistent=True)
    pids = set()
    for _ in range(3):
        for _ in loader:
            pids |= {child.pid for child in multiprocessing.active_children()}
    assert len(pids) == 2
    assert len(multiprocessing.active_children()) == 2
    changes.close()
    assert not multiprocessing.active_children()


def test_workers_end_where_a_pass_is_left() -> None:
    loader, changes = held(plain()(0), workers=2)
    for _ in loader:
        assert len(multiprocessing.active_children()) == 2
        break
    gc.collect()
    assert not multiprocessing.active_children()
    changes.close()


ASKED: list[int] = []


class Asked(Rows):
    """Tells what it is asked for."""

    def __getitem__(self, index: int) -> Any:
        ASKED.append(index)
        return float(index)


def test_examples_that_are_kept_are_compared_and_then_fetched_no_more() -> None:
    loader, changes = held(plain(Asked, shuffle=False)(0), keep=True)
    asked = []
    for _ in range(4):
        ASKED.clear()
        assert torch.cat(list(loader)).tolist() == list(range(N))
        asked.append(len(ASKED))
    assert asked == [N, TRUSTED_AFTER, 0, 0]
    changes.close()


def test_examples_that_are_others_each_time_are_not_kept() -> None:
    seed_all()
    expected = told(plain(Deeply)(0), nothing)
    seed_all()
    loader, changes = held(plain(Deeply)(0), keep=True)
    changes.feeds[0].proven = True
    assert alike(told(loader, nothing), expected)
    assert changes.said == ["its data set gave another example when it was asked for the same one again"]
    changes.close()


def test_batches_have_another_size_from_the_next_pass_on() -> None:
    loader, changes = held(plain()(0))
    sizes = []
    for _ in range(2):
        for batch in loader:
            sizes.append(len(batch["name"]))
            changes.feeds[0].batch_size = 20
    assert sizes == [4] * 10 + [1] + [20, 20, 1]
    assert (loader.batch_size, len(loader)) == (20, 3)
    changes.close()
    assert (loader.batch_size, len(loader), type(loader) is DataLoader) == (4, 11, True)


def test_a_worker_finds_the_users_data_set() -> None:
    def begin(worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        vars(info.dataset)["n"] = 1000 + worker

    class Told(Rows):
        def __getitem__(self, index: int) -> Any:
            return vars(self)["n"]

    seed_all()
    expected = [batch.tolist() for batch in plain(Told, worker_init_fn=lambda: begin)(2)]
    seed_all()
    loader, changes = held(plain(Told, worker_init_fn=lambda: begin)(2), workers=2, prefetch=5)
    assert [batch.tolist() for batch in loader] == expected
    changes.close()


def test_ranks_are_told_of_the_same_examples_and_weights() -> None:
    def all_told(changes: Changes | None) -> list[Any]:
        found: list[Any] = []
        for rank in range(2):
            loader = given_generators(0)
            shard(loader, rank=rank, ranks=2, drawn=lambda drawn: found.append((drawn.ids, drawn.weight, drawn.n)))
            if changes is not None:
                changes.hold(loader)
            told(loader, nothing if changes is None else changes)
        return found

    seed_all()
    expected = all_told(None)
    seed_all()
    changes = Changes(1)
    assert all_told(changes) == expected
    assert len(expected) > 2 * N // SIZE
    changes.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sampler_says_how_far_the_training_is_as_it_would_untouched(workers: int) -> None:
    sampler = distribute(RandomSampler(range(N)), rank=0, ranks=2)
    loader, changes = held(
        DataLoader(Rows(), sampler=sampler, batch_size=SIZE, num_workers=workers), workers=2 - workers // 2
    )
    passing = iter(loader)
    for _ in range(2):
        next(passing)
    if workers:
        with pytest.raises(StateError, match="has drawn from the sampler what it has not given out yet"):
            sampler.state_dict()
    assert sampler.state_dict(done=2 * SIZE)["position"] == 2 * 2 * SIZE
    if not workers:
        assert sampler.state_dict()["position"] == 2 * 2 * SIZE
    del passing
    changes.close()
